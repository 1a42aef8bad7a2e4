/*
 * choose.c - the two legs of a pending link: when each is dialled, and which one is used.
 *
 * Time to a link when UDP is dropped: the head start, and three times the duration of TCP and TLS
 * (tcp.h, may_come_otherwise), at most a second more than that duration. So a peer that is slow
 * because its host is busy is not mistaken for one that UDP does not reach.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text/sentence.h"
#include "transport/inet/pending_link.h"
#include "transport/quic/udp/address.h"

/* A peer heard over UDP this recently is about to be up over QUIC. */
#define RECENT_NS (2 * NX_INET_HEAD_START_NS)

static const nx_link_up leg_up;

/* ---- packets heard ------------------------------------------------------------------------- */

/* When |leg| last received something; 0: never. */
static uint64_t heard_ns(const nx_inet_leg *leg)
{
    nx_link_info info = {0};

    if (leg->link != NULL) {
        leg->link->ops->info(leg->link, &info);
    }
    return info.heard_ns;
}

static bool is_possible(const nx_inet_link *p, int leg)
{
    return (leg == NX_LEG_QUIC) ? (p->net->quic != NULL) : (p->net->tcp != NULL);
}

/* Whether no host has answered on any leg. */
static bool is_silent(const nx_inet_link *p)
{
    for (int i = 0; i < NX_INET_LEGS; i++) {
        if (p->legs[i].refused || (heard_ns(&p->legs[i]) != 0) ||
            ((p->legs[i].err != NEXAR_OK) && (p->legs[i].err != NEXAR_ECONNECT))) {
            return false;
        }
    }
    return true;
}

/* ---- going down ----------------------------------------------------------------------------- */

static nexar_err pick_error(const nx_inet_link *p)
{
    nexar_err err = NEXAR_ECONNECT;

    for (int i = 0; i < NX_INET_LEGS; i++) {
        if ((p->legs[i].err != NEXAR_OK) && (err == NEXAR_ECONNECT)) {
            err = p->legs[i].err;
        }
    }
    return err;
}

/* Both legs have failed, each for its own reason. */
static void fail_both(nx_inet_link *p)
{
    const nx_inet_leg *quic = &p->legs[NX_LEG_QUIC], *tcp = &p->legs[NX_LEG_TCP];
    char why[NX_INET_WHY];

    if (!is_possible(p, NX_LEG_TCP) || !tcp->tried) {
        nx_inet_link_down(p, pick_error(p), quic->why);
    } else if (!is_possible(p, NX_LEG_QUIC)) {
        nx_inet_link_down(p, pick_error(p), tcp->why);
    } else if (quic->refused && tcp->refused && (strcmp(quic->why, tcp->why) == 0)) {
        nx_inet_link_down(p, pick_error(p), quic->why);
    } else {
        (void)nx_sentence(why, sizeof(why), "UDP: %.400s; TCP: %.400s%s", quic->why, tcp->why,
                          p->unreached ? "; a firewall may block both" : "");
        nx_inet_link_down(p, pick_error(p), why);
    }
}

static void fail_unreached(nx_inet_link *p)
{
    char text[NX_ADDRESS_TEXT], more[48] = "", why[NX_INET_WHY];

    p->unreached = true;
    if (p->n > 1) {
        (void)snprintf(more, sizeof(more), " and %zu more addresses", p->n - 1);
    }
    (void)nx_sentence(why, sizeof(why),
                      "no answer over UDP or TCP from %s%s: a firewall may block the port, or the "
                      "host is down",
                      nx_address_text(&p->addresses[0], text), more);
    nx_inet_link_down(p, NEXAR_ECONNECT, why);
}

/* ---- dialling -------------------------------------------------------------------------------- */

static void note_failure(nx_inet_leg *leg, nexar_err err, const char *why)
{
    leg->link = NULL;
    leg->err = (err == NEXAR_OK) ? NEXAR_ECONNECT : err;
    (void)nx_sentence(leg->why, sizeof(leg->why), "%s", why);
}

static void dial(nx_inet_link *p, int which)
{
    nx_inet_leg *leg = &p->legs[which];
    const nx_quic_target quic = {
        .member = p->member, .pin = p->pin, .addresses = p->addresses, .n = p->n};
    const nx_tcp_target tcp = {
        .member = p->member, .pin = p->pin, .addresses = p->addresses, .n = p->n};
    nexar_err err;

    leg->tried = true;
    err = (which == NX_LEG_QUIC) ? nx_quic_dial(p->net->quic, &quic, &leg_up, p, &leg->link)
                                 : nx_tcp_dial(p->net->tcp, &tcp, &leg_up, p, &leg->link);
    if (err != NEXAR_OK) {
        note_failure(leg, err, nexar_last_error());
    }
}

/* Dials |which| if it is possible and was not tried; returns whether it dialled. */
static bool try_leg(nx_inet_link *p, int which)
{
    if (!is_possible(p, which) || p->legs[which].tried) {
        return false;
    }
    dial(p, which);
    return true;
}

static void dial_due(nx_inet_link *p, uint64_t now_ns)
{
    const uint64_t heard = heard_ns(&p->legs[NX_LEG_QUIC]);

    (void)try_leg(p, NX_LEG_QUIC);
    if (p->legs[NX_LEG_QUIC].link == NULL) {
        (void)try_leg(p, NX_LEG_TCP);
    } else if (now_ns >= p->tcp_at_ns) {
        if ((heard != 0) && (now_ns - heard < RECENT_NS)) {
            p->tcp_at_ns = now_ns + NX_INET_HEAD_START_NS;
        } else {
            (void)try_leg(p, NX_LEG_TCP);
        }
    }
}

static bool is_over(const nx_inet_link *p)
{
    for (int i = 0; i < NX_INET_LEGS; i++) {
        if (p->legs[i].link != NULL) {
            return false;
        }
    }
    return true;
}

static void set_timer(nx_inet_link *p)
{
    const bool waits = is_possible(p, NX_LEG_TCP) && !p->legs[NX_LEG_TCP].tried;
    uint64_t at = waits ? p->tcp_at_ns : p->begun_ns + NX_INET_UNREACHED_NS;

    if (p->closing && (at > p->give_up_ns)) {
        at = p->give_up_ns;
    }
    if (at > nx_loop_now(p->net->config.quic.loop)) {
        /* Without memory for the timer, the time-outs of QUIC and TCP decide. */
        (void)!nx_loop_timer_set(p->net->config.quic.loop, &p->timer, at);
    }
}

void nx_inet_choose(nx_inet_link *p)
{
    const uint64_t now = nx_loop_now(p->net->config.quic.loop);

    if (p->down || p->moved) {
        return;
    }
    if (!p->exited) {
        dial_due(p, now);
    }
    if (is_over(p)) {
        p->unreached = is_silent(p);
        fail_both(p);
    } else if ((p->net->quic != NULL) && p->legs[NX_LEG_TCP].tried &&
               (now >= p->begun_ns + NX_INET_UNREACHED_NS) && is_silent(p)) {
        fail_unreached(p);
    } else {
        set_timer(p);
    }
}

/* Removes an existing link that no caller waits for; NEXAR_EINVAL: another link exists. */
static nexar_err check(nx_inet *net, const nx_quic_target *target)
{
    nx_inet_link *p = (target->member == 0) ? NULL : nx_map_get(&net->by_member, target->member);

    if (target->n == 0) {
        return nx_fail(NEXAR_EINVAL, "no address to dial");
    }
    if ((p != NULL) && p->closing) {
        nx_inet_link_leave_map(p);
        nx_inet_close_legs(p);
        p->drain = false;
        nx_loop_defer(net->config.quic.loop, &p->task);
        p = NULL;
    }
    if ((p != NULL) || ((target->member != 0) &&
                        (((net->quic != NULL) && nx_quic_lives(net->quic, target->member)) ||
                         ((net->tcp != NULL) && nx_tcp_lives(net->tcp, target->member))))) {
        return nx_fail(NEXAR_EINVAL, "there is a link to member %llu already",
                       (unsigned long long)target->member);
    }
    return NEXAR_OK;
}

nexar_err nx_inet_dial(nx_inet *net, const nx_quic_target *target, const nx_link_up *up,
                       void *up_ctx, nx_link **out)
{
    nx_inet_link *p = NULL;
    nexar_err err = check(net, target);

    err = (err == NEXAR_OK) ? nx_inet_link_create(&p, net, target) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    p->base.up = up;
    p->base.up_ctx = up_ctx;
    p->begun_ns = nx_loop_refresh(net->config.quic.loop);
    p->tcp_at_ns = p->begun_ns + (net->udp_blocked ? 0 : NX_INET_HEAD_START_NS);
    nx_inet_choose(p);
    if (p->down && (p->err != NEXAR_ECONNECT) && (p->err != NEXAR_ENOMEM)) {
        err = nx_fail(p->err, "%s",
                      p->why); /* the transport that the caller asked for is impossible */
        nx_inet_link_end(p);
        return err;
    }
    *out = &p->base;
    return NEXAR_OK;
}

void nx_inet_close_legs(nx_inet_link *p)
{
    for (int i = 0; i < NX_INET_LEGS; i++) {
        nx_link *link = p->legs[i].link;

        p->legs[i].link = NULL;
        if (link != NULL) {
            nx_link_close(link, false);
        }
    }
}

void nx_inet_adopt(nx_inet_link *p, int leg, nx_link *link)
{
    nx_link *old = p->legs[leg].link;

    p->legs[leg].link = link;
    p->legs[leg].tried = true;
    link->up = &leg_up;
    link->up_ctx = p;
    if (old != NULL) {
        nx_link_close(old, false);
    }
    /* Without memory for them, the peer is reached by the address that it dialled from. */
    (void)!nx_inet_link_know(link, p->addresses, p->n);
}

/* ---- calls of the legs ------------------------------------------------------------------------
 */

/* The reason for using |which|; and what it reveals about UDP. */
static const char *judge(nx_inet_link *p, int which)
{
    nx_inet *net = p->net;
    const nx_inet_leg *quic = &p->legs[NX_LEG_QUIC];
    char text[NX_ADDRESS_TEXT];

    if (which == NX_LEG_QUIC) {
        net->udp_blocked = false;
        return (net->config.allowed == NX_INET_BOTH) ? "UDP works" : "setting transports";
    }
    if (net->config.allowed != NX_INET_BOTH) {
        return "setting transports";
    }
    if (heard_ns(quic) != 0) {
        return "TCP was faster to connect";
    }
    if ((quic->err != NEXAR_OK) && (quic->err != NEXAR_ECONNECT)) {
        return "QUIC has failed"; /* for a reason other than a silent path */
    }
    net->udp_blocked = true;
    if (!net->told) {
        net->told = true;
        nx_log(NX_LOG_WARN,
               "no answer over UDP from %s%s%s: links use TCP; opening the port for UDP would make "
               "them faster",
               nx_address_text(&p->addresses[0], text), (quic->why[0] == '\0') ? "" : ": ",
               quic->why);
    }
    return "no answer over UDP";
}

static void on_up(void *ctx, nx_link *link)
{
    nx_inet_link *p = ctx;
    const int which = (p->legs[NX_LEG_TCP].link == link) ? NX_LEG_TCP : NX_LEG_QUIC;

    link->chosen = judge(p, which);
    p->legs[which].link = NULL;
    nx_inet_link_move(p, link);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    nx_inet_link *p = ctx;
    const int which = (p->legs[NX_LEG_TCP].link == link) ? NX_LEG_TCP : NX_LEG_QUIC;

    note_failure(&p->legs[which], err, why);
    p->legs[which].refused = (link->ended == NX_END_GONE);
    if (link->ended != NX_END_LOST) { /* a leg that refuses reveals more than a silent one */
        p->base.ended = link->ended;
    }
    nx_link_close(link, false);
    nx_inet_choose(p);
}

/* A leg carries nothing before it is used; from then on its callbacks are the owner's. */
static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)ctx;
    (void)link;
    (void)lane;
    (void)data;
    (void)len;
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    (void)ctx;
    (void)link;
    (void)id;
    (void)off;
    (void)data;
    (void)len;
}

static const nx_link_up leg_up = {.on_up = on_up,
                                  .on_frame = on_frame,
                                  .on_data = on_data,
                                  .on_sent = nx_link_sent_ignored,
                                  .on_down = on_down};
