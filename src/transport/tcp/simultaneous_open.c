/*
 * simultaneous_open.c - which of several connections a link uses.
 *
 * Between two members the member with the lower number decides: it takes the first connection that
 * comes up, dialled by either side, and announces it (USE). The peer uses the connection on which
 * USE arrives. To a seed, the dialler decides. If the decider already has a link to the member, a
 * connection that comes up is an attempt that the peer has not given up yet: the decider closes it.
 */
#include <string.h>

#include "base/text/sentence.h"
#include "tcp_inner.h"
#include "transport/quic/udp/address.h"

static const char NOT_CHOSEN[] = "another connection is used";

static bool we_decide(const nx_tcp_conn *c)
{
    const uint64_t us = nx_tls_member(c->t->tls), them = nx_tcp_conn_member(c);

    return ((us == 0) || (them == 0)) ? c->dialled : (us < them);
}

static nx_tcp_link *link_to(const nx_tcp_conn *c)
{
    if (c->link != NULL) {
        return c->link;
    }
    return nx_tls_is_seed(c->t->tls) ? NULL : nx_map_get(&c->t->by_member, nx_tcp_conn_member(c));
}

static void close_unused(nx_tcp_conn *c)
{
    nx_tcp_conn_close(c, NX_CLOSE_OTHER, NOT_CHOSEN, sizeof(NOT_CHOSEN) - 1);
}

/* |link| uses |c| from now on. */
static void use(nx_tcp_link *link, nx_tcp_conn *c)
{
    nx_list *at;

    c->link = link;
    nx_list_remove(&c->in_link);
    nx_tcp_conn_keep(c);
    link->used = c;
    link->state = NX_TCP_LINK_UP;
    while ((at = nx_list_pop(&link->conns)) != NULL) {
        close_unused(nx_list_entry(at, nx_tcp_conn, in_link));
    }
    if (!link->closing) {
        nx_loop_timer_cancel(link->t->config.loop, &link->timer);
        link->told_up = true;
        link->base.up->on_up(link->base.up_ctx, &link->base);
    } else {
        nx_loop_defer(link->t->config.loop, &link->task);
    }
    nx_tcp_conn_wake(c);
}

/* This side decides for |c|, and announces it. */
static void choose(nx_tcp_link *link, nx_tcp_conn *c)
{
    static const uint8_t unit = NX_UNIT_USE;

    c->used = true;
    if (nx_tcp_conn_put(c, &unit, 1)) {
        use(link, c);
    }
}

/* A link that the peer asked for; NULL: this side wants none, and |c| is closed. */
static nx_tcp_link *accept_link(nx_tcp_conn *c)
{
    nx_tcp *t = c->t;
    const nx_tls_target target = {.member = nx_tcp_conn_member(c)};
    nx_tcp_link *link = NULL;

    if (nx_tcp_link_create(&link, t, &target) != NEXAR_OK) {
        c->doomed = true;
        nx_loop_defer(t->config.loop, &c->task);
        return NULL;
    }
    t->config.on_accept(t->config.ctx, &link->base, target.member);
    if (!link->closing && (link->base.up == NULL)) {
        nx_link_close(&link->base, false);
    }
    if (link->closing && !link->drain) {
        static const char unwanted[] = "the link was closed";

        c->link = link; /* for its last frame */
        if (link->unwanted) {
            close_unused(c);
        } else if (link->last_len > 0) {
            nx_tcp_conn_close(c, NX_CLOSE_LAST, link->last, link->last_len);
        } else {
            nx_tcp_conn_close(c, NX_CLOSE_DONE, unwanted, sizeof(unwanted) - 1);
        }
        return NULL;
    }
    return link;
}

static void join(nx_tcp_link *link, nx_tcp_conn *c)
{
    if ((link != NULL) && (link->state == NX_TCP_LINK_SETTLING) && (c->link == NULL)) {
        c->link = link;
        nx_list_push_back(&link->conns, &c->in_link);
    }
}

/* Whether |c|, which this side may choose, must wait for a better transport; it waits only once. */
static bool hold(nx_tcp_link *link, nx_tcp_conn *c)
{
    const nx_tcp_config *config = &c->t->config;
    const uint64_t now = nx_loop_refresh(config->loop), slow = 2 * (now - c->since_ns);

    if (c->held || (config->may_come_otherwise == NULL) ||
        !config->may_come_otherwise(config->ctx, nx_tcp_conn_member(c)) ||
        (nx_loop_timer_set(config->loop, &c->timer,
                           now + ((slow < NX_TCP_HOLD_NS) ? slow : NX_TCP_HOLD_NS)) != NEXAR_OK)) {
        return false;
    }
    join(link, c);
    c->held = c->holding = true;
    return true;
}

void nx_tcp_open_resolve_up(nx_tcp_conn *c)
{
    nx_tcp_link *link = link_to(c);

    if (!we_decide(c)) {
        join(link, c);
        return; /* the peer puts it in use by USE, or closes it */
    }
    if (((link == NULL) || (link->state == NX_TCP_LINK_SETTLING)) && hold(link, c)) {
        return;
    }
    if (link == NULL) {
        link = accept_link(c);
        if (link != NULL) {
            choose(link, c);
        }
    } else if (link->closing && !link->drain) {
        return; /* another transport is in use: this one is closed soon */
    } else if (link->state == NX_TCP_LINK_SETTLING) {
        choose(link, c);
    } else if (link->used != c) {
        close_unused(c);
    }
}

void nx_tcp_open_resolve_used(nx_tcp_conn *c)
{
    nx_tcp_link *link = link_to(c);

    if (we_decide(c)) {
        nx_tcp_conn_fail(c, NEXAR_EPROTO, "USE from the side that does not decide");
        return;
    }
    if ((link != NULL) && (link->state == NX_TCP_LINK_UP)) {
        nx_tcp_link_down(link, NEXAR_EPEER, "the peer has made a new connection");
        link = NULL;
    }
    if (link == NULL) {
        link = accept_link(c);
    }
    if (link != NULL) {
        use(link, c);
    }
}

/* Logs each refused unknown peer, at a limited rate, so that attackers cannot fill the disk. */
static void log_refusal(const nx_tcp_conn *c)
{
    const nx_log_level level =
        ((c->err == NEXAR_EAUTH) || (c->err == NEXAR_EPROTO)) ? NX_LOG_WARN : NX_LOG_INFO;
    char text[NX_ADDRESS_TEXT];

    if (!c->dialled && (c->state != NX_TCP_UP)) {
        nx_log_limited(&c->t->refusals, nx_loop_now(c->t->config.loop), level,
                       "tcp: no connection from %s: %s", nx_address_text(&c->remote, text), c->why);
    }
}

/* What the end of |c| reveals about the peer. */
static nx_end end_of(const nx_tcp_conn *c)
{
    if ((c->link != NULL) && c->link->peer_bye) {
        return NX_END_LEFT;
    }
    return (c->refused || ((c->err == NEXAR_EPEER) && c->gone)) ? NX_END_GONE : NX_END_LOST;
}

void nx_tcp_open_resolve_failed(nx_tcp_conn *c)
{
    nx_tcp_link *link = c->link;
    const bool not_chosen = c->peer_closed && (c->peer_code == NX_CLOSE_OTHER);
    const bool last = c->peer_closed && (c->peer_code == NX_CLOSE_LAST);
    char text[NX_ADDRESS_TEXT], why[NX_TCP_WHY];

    log_refusal(c);
    if (link == NULL) {
        return;
    }
    (void)nx_sentence(why, sizeof(why), "%s: %s", nx_address_text(&c->remote, text), c->why);
    if ((link->used == c) || (c->dialled && !not_chosen && (link->state == NX_TCP_LINK_SETTLING))) {
        const nx_end end = end_of(c);

        /* An address that refuses reveals more than a silent one. */
        link->base.ended = (end == NX_END_LOST) ? link->base.ended : end;
    }
    if ((link->used == c) || last) {
        nx_tcp_link_down(link, c->err, why);
        return;
    }
    c->link = NULL;
    nx_list_remove(&c->in_link);
    nx_tcp_dial_failed(link, c->dialled && !not_chosen, c->err, why);
}
