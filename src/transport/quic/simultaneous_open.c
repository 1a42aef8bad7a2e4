/*
 * simultaneous_open.c - which of several connections a link uses.
 *
 * Between two members the member with the lower number decides. It takes the first connection that
 * comes up, dialled by either side, and announces it by sending on it (the control lane begins with
 * a byte that has no other meaning). The other side uses the connection on which this byte arrives.
 * To a seed, the dialler decides.
 *
 * A connection may come up for a member to which the decider already has a link. Either the
 * connection is an attempt that the peer has not given up yet, or the peer has lost the old
 * connection and dials anew. So the connection waits as a rival while the decider sends on the old
 * one. If the peer answers there, it will close the rival. If it does not, though it answers on the
 * rival, the link goes down and the rival becomes the next link. A peer that answers on neither is
 * busy, or stopped: the failure detector judges that.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/log.h"
#include "base/text/sentence.h"
#include "endpoint.h"
#include "transport/quic/udp/address.h"

enum {
    RIVAL_PTOS = 6 /* two probes may be lost */
};

/* A live peer that reads both connections may be this late on one of them, after a loss perhaps. */
static const uint64_t RIVAL_LEAST_NS = UINT64_C(2000000000);
static const uint64_t RIVAL_ASK_NS =
    UINT64_C(250000000); /* interval between questions to a rival */

static bool we_decide(const nx_conn_io *k)
{
    uint64_t us = nx_tls_member(k->q->tls), them = nx_conn_member(k->conn);

    if ((us == 0) || (them == 0)) {
        return k->dialled;
    }
    return us < them;
}

static nx_quic_link *link_to(const nx_conn_io *k)
{
    if (k->link != NULL) {
        return k->link;
    }
    return nx_tls_is_seed(k->q->tls) ? NULL : nx_map_get(&k->q->by_member, nx_conn_member(k->conn));
}

static void join(nx_quic_link *link, nx_conn_io *k)
{
    k->link = link;
    nx_list_remove(&k->in_link);
    nx_list_push_back(&link->conn_ios, &k->in_link);
}

/* |link| uses |k| from now on. */
static void use(nx_quic_link *link, nx_conn_io *k)
{
    nx_list *at;

    k->link = link;
    nx_list_remove(&k->in_link);
    link->used = k;
    link->base.frame_best = k->same_host ? NX_QUIC_FRAME_BEST : 0;
    link->state = NX_LINK_UP;
    nx_conn_attach(k->conn, &link->sendq);
    nx_conn_keep_alive(k->conn, link->q->config.idle_timeout_ns / 3);
    while ((at = nx_list_pop(&link->conn_ios)) != NULL) {
        nx_conn_io_close(nx_list_entry(at, nx_conn_io, in_link), NX_CLOSE_OTHER,
                         "another connection is used");
    }
    if (!link->closing) {
        nx_loop_timer_cancel(link->q->config.loop, &link->timer);
        link->told_up = true;
        link->base.up->on_up(link->base.up_ctx, &link->base);
    }
    nx_conn_io_wake(k);
}

/* Creates the link that the peer asked for. */
static void accept_link(nx_conn_io *k)
{
    nx_quic *q = k->q;
    nx_tls_target target = {.member = nx_conn_member(k->conn)};
    nx_quic_link *link = NULL;

    if (nx_quic_link_create(&link, q, &target) != NEXAR_OK) {
        k->doomed = true;
        return;
    }
    k->link = link;
    q->config.on_accept(q->config.ctx, &link->base, target.member);
    if (!link->closing && (link->base.up == NULL)) {
        nx_link_close(&link->base, false); /* this side wants no link */
    }
    if (link->unwanted) { /* nothing is sent on it: otherwise the peer would use it */
        k->link = NULL;
        k->unwanted = true;
        return;
    }
    use(link, k);
}

/* Asks the peer on both connections, and checks again when it should have answered. */
static void ask_both(nx_quic_link *link)
{
    nx_loop *loop = link->q->config.loop;
    const uint64_t wait = RIVAL_PTOS * nx_conn_pto(link->used->conn);

    link->asked_ns = nx_loop_now(loop);
    nx_conn_keep_alive(link->rival->conn, RIVAL_ASK_NS);
    nx_conn_io_wake(link->rival);
    if (nx_sendq_word(&link->sendq) == NEXAR_OK) {
        nx_conn_io_wake(link->used);
    }
    if (!link->closing) {
        /* Without memory for the timer the idle time-out decides. */
        (void)!nx_loop_timer_set(
            loop, &link->timer, link->asked_ns + ((wait < RIVAL_LEAST_NS) ? RIVAL_LEAST_NS : wait));
    }
}

static void become_rival(nx_quic_link *link, nx_conn_io *k)
{
    if (link->rival != NULL) {
        nx_conn_io *old = link->rival;

        link->rival = NULL;
        nx_conn_io_close(old, NX_CLOSE_OTHER, "a newer connection has come");
    }
    link->rival = k;
    link->rival_ns = nx_loop_now(link->q->config.loop);
    link->asked_again = false;
    k->link = link;
    ask_both(link);
}

static bool is_rivalled(const nx_quic_link *link)
{
    return (link->rival != NULL) && (link->state == NX_LINK_UP) &&
           (nx_conn_last_ack(link->used->conn) < link->rival_ns);
}

/* The rival's time is up. Packets in the socket count: perhaps this process did not run. */
void nx_open_resolve_rival(nx_quic_link *link)
{
    if (is_rivalled(link)) {
        nx_quic_read_all(link->q);
    }
    if (!is_rivalled(link)) {
        return;
    }
    if (link->asked_again && (link->rival->heard_ns > link->asked_ns)) {
        nx_quic_link_down(link, NEXAR_EPEER, "the peer has made a new connection");
        return;
    }
    link->asked_again = (link->rival->heard_ns > link->asked_ns);
    ask_both(link);
}

void nx_open_resolve_up(nx_conn_io *k)
{
    nx_quic_link *link = link_to(k);

    if (!we_decide(k)) {
        if ((link != NULL) && (link->state == NX_LINK_SETTLING) && (k->link == NULL)) {
            join(link, k);
        }
        return; /* the other side's byte puts it in use, or the other side closes it */
    }
    if (link == NULL) {
        accept_link(k);
    } else if (link->closing && !link->drain) {
        return; /* another transport is in use, and this one is silent; it is closed soon */
    } else if (link->state == NX_LINK_SETTLING) {
        use(link, k);
    } else if (link->used != k) {
        become_rival(link, k);
    }
}

void nx_open_resolve_used(nx_conn_io *k)
{
    nx_quic_link *link = link_to(k);

    if ((link != NULL) && (link->used == k)) {
        return;
    }
    if (we_decide(k)) {
        return; /* this side does not decide: data that arrives is dropped */
    }
    if ((link != NULL) && (link->state == NX_LINK_SETTLING)) {
        use(link, k);
        return;
    }
    if ((link != NULL) && (link->state == NX_LINK_UP)) {
        nx_quic_link_down(link, NEXAR_EPEER, "the peer has made a new connection");
    }
    accept_link(k);
}

/* Logs each refused unknown peer, at a limited rate, so that attackers cannot fill the disk. */
static void log_refusal(const nx_conn_io *k, nexar_err err, const char *why)
{
    const nx_log_level level =
        ((err == NEXAR_EAUTH) || (err == NEXAR_EPROTO)) ? NX_LOG_WARN : NX_LOG_INFO;
    char text[NX_ADDRESS_TEXT];

    if (k->dialled || k->up) {
        return;
    }
    nx_log_limited(&k->q->refusals, nx_loop_now(k->q->config.loop), level,
                   "quic: no connection from %s: %s", nx_address_text(&k->path.remote, text), why);
}

/* What the end of |k| reveals about the peer. */
static nx_end end_of(const nx_conn_io *k, nexar_err err)
{
    if ((k->link != NULL) && k->link->peer_bye) {
        return NX_END_LEFT;
    }
    return (k->refused || ((err == NEXAR_EPEER) && nx_conn_gone(k->conn))) ? NX_END_GONE
                                                                           : NX_END_LOST;
}

/* Delivers the last frame of the peer, which has ended |k|, if the frame is for |link|; returns
 * whether there was one. */
static bool hand_last(const nx_conn_io *k, nx_quic_link *link)
{
    size_t len;
    const void *frame = nx_conn_last(k->conn, &len);

    if ((frame == NULL) || (link == NULL) || (link->rival == k) || link->closing ||
        (link->state == NX_LINK_DOWN)) {
        return false;
    }
    if (!link->told_up) { /* the peer has accepted this side, and refused it later */
        link->told_up = true;
        link->base.up->on_up(link->base.up_ctx, &link->base);
    }
    link->base.up->on_frame(link->base.up_ctx, &link->base, NX_LANE_CONTROL, frame, len);
    return true;
}

void nx_open_resolve_failed(nx_conn_io *k)
{
    nx_quic_link *link = k->link;
    struct sockaddr_storage remote = k->path.remote;
    nx_close_code code;
    bool not_chosen = nx_conn_closed_by_peer(k->conn, &code) && (code == NX_CLOSE_OTHER);
    bool was_used = (link != NULL) && (link->used == k), dialled = k->dialled;
    char text[NX_ADDRESS_TEXT], why[NX_QUIC_WHY];
    const char *words;
    nexar_err err = nx_conn_error(k->conn, &words);
    const bool last = hand_last(k, link);

    (void)nx_sentence(why, sizeof(why), "%s: %s", nx_address_text(&remote, text), words);
    log_refusal(k, err, words);
    if ((link != NULL) &&
        (was_used || (dialled && !not_chosen && (link->state == NX_LINK_SETTLING)))) {
        const nx_end end = end_of(k, err);

        /* An address that refuses reveals more than a silent one. */
        link->base.ended = (end == NX_END_LOST) ? link->base.ended : end;
    }
    if ((link != NULL) && (link->rival == k)) {
        link->rival = NULL;
        link = NULL;
    }
    nx_conn_io_close(k, NX_CLOSE_FAILED, "");
    if (was_used || last) {
        nx_quic_link_down(link, err, why);
    } else if ((link != NULL) && dialled) {
        nx_dial_failed(link, not_chosen ? NULL : &remote, err, why);
    } else if (link != NULL) {
        nx_dial_failed(link, NULL, err, why);
    }
}
