/* inet.c - the endpoint: a UDP and a TCP socket with one port number, and incoming links. */
#include "transport/inet/inet.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "transport/inet/pending_link.h"
#include "transport/quic/udp/address.h"

enum { PORT_TRIES = 16 /* ports of the kernel's choice that are tried for both sockets */ };

/* ---- incoming links ------------------------------------------------------------------- */

/* Handles a connection over |leg|'s transport that this endpoint did not dial. */
static void on_accept(nx_inet *net, int leg, nx_link *link, uint64_t member)
{
    const bool seed = (net->config.quic.authority != NULL);
    nx_inet_link *p = seed ? NULL : nx_map_get(&net->by_member, member);
    const bool other = (leg == NX_LEG_QUIC) ? (net->tcp != NULL) && nx_tcp_has(net->tcp, member)
                                            : (net->quic != NULL) && nx_quic_has(net->quic, member);

    if (p != NULL) {
        nx_inet_adopt(p, leg, link);
        return;
    }
    if (!seed && other) { /* I1: an attempt that the peer has not given up yet */
        if (leg == NX_LEG_QUIC) {
            nx_quic_refuse(link);
        } else {
            nx_tcp_refuse(link);
        }
        return;
    }
    link->chosen = (net->config.allowed != NX_INET_BOTH) ? "setting transports"
                   : (leg == NX_LEG_QUIC)                ? "UDP works"
                                                         : "the peer came over TCP";
    net->config.quic.on_accept(net->config.quic.ctx, link, member);
}

static void on_accept_quic(void *ctx, nx_link *link, uint64_t member)
{
    on_accept(ctx, NX_LEG_QUIC, link, member);
}

static void on_accept_tcp(void *ctx, nx_link *link, uint64_t member)
{
    on_accept(ctx, NX_LEG_TCP, link, member);
}

/* Whether UDP from |member| may arrive: not known to be blocked. */
static bool may_come_otherwise(void *ctx, uint64_t member)
{
    const nx_inet *net = ctx;
    const nx_inet_link *p = (member == 0) ? NULL : nx_map_get(&net->by_member, member);

    return (net->quic != NULL) && !net->udp_blocked &&
           ((p == NULL) || (p->legs[NX_LEG_QUIC].link != NULL));
}

/* ---- opening ---------------------------------------------------------------------------- */

static nexar_err open_quic(nx_inet *net, uint16_t first, uint16_t last)
{
    nx_quic_config config = net->config.quic;

    config.on_accept = on_accept_quic;
    config.ctx = net;
    config.port_first = first;
    config.port_last = last;
    return nx_quic_open(&net->quic, &config);
}

static nexar_err open_tcp(nx_inet *net, uint16_t port)
{
    const nx_quic_config *q = &net->config.quic;
    const nx_tcp_config config = {.loop = q->loop,
                                  .listen = q->listen,
                                  .port = port,
                                  .idle_timeout_ns = q->idle_timeout_ns,
                                  .handshake_timeout_ns = q->handshake_timeout_ns,
                                  .authority = q->authority,
                                  .identity = q->identity,
                                  .job = q->job,
                                  .on_accept = on_accept_tcp,
                                  .may_come_otherwise = may_come_otherwise,
                                  .ctx = net};

    return nx_tcp_open(&net->tcp, &config);
}

/* Binds both at a port of [first, last]; with |first| 0 at a port of the kernel's choice. NEXAR_OK
 * with UDP alone: TCP cannot have that port. */
static nexar_err open_pair(nx_inet *net, uint16_t first, uint16_t last)
{
    nexar_err err = open_quic(net, first, last);

    if (err == NEXAR_OK) {
        err = open_tcp(net, nx_quic_port(net->quic));
        if (err == NEXAR_ESYS) {
            return NEXAR_OK;
        }
        if (err != NEXAR_OK) {
            nx_quic_close(net->quic);
            net->quic = NULL;
        }
    }
    return err;
}

static void shut_quic(nx_inet *net)
{
    nx_quic_close(net->quic);
    net->quic = NULL;
}

/* Like open_pair, at the first port that is free for both, otherwise at a port for UDP alone. */
static nexar_err open_both(nx_inet *net, uint16_t first, uint16_t last)
{
    const unsigned int tries = (first == 0) ? PORT_TRIES : 1U + last - first;
    nexar_err err = NEXAR_OK;

    for (unsigned int i = 0; i < tries; i++) {
        const uint16_t port = (first == 0) ? 0 : (uint16_t)(first + i);

        err = open_pair(net, port, port);
        if ((err != NEXAR_OK) && (err != NEXAR_ESYS)) {
            return err;
        }
        if ((err == NEXAR_OK) && (net->tcp != NULL)) {
            return NEXAR_OK;
        }
        if (err == NEXAR_OK) {
            shut_quic(net);
        }
    }
    err = open_quic(net, first, last);
    if (err == NEXAR_OK) {
        nx_log(NX_LOG_WARN,
               "port %u: another process has its TCP port: peers reach this process over UDP alone",
               (unsigned int)nx_quic_port(net->quic));
    }
    return err;
}

static nexar_err open_tcp_alone(nx_inet *net, uint16_t first, uint16_t last)
{
    nexar_err err = open_tcp(net, first);

    for (uint16_t port = first; (err == NEXAR_ESYS) && (port < last);) {
        err = open_tcp(net, ++port);
    }
    return err;
}

static nexar_err open_sockets(nx_inet *net)
{
    const nx_quic_config *q = &net->config.quic;
    const uint16_t last = (q->port_last < q->port_first) ? q->port_first : q->port_last;

    switch (net->config.allowed) {
    case NX_INET_QUIC:
        return open_quic(net, q->port_first, last);
    case NX_INET_TCP:
        return open_tcp_alone(net, q->port_first, last);
    default:
        return open_both(net, q->port_first, last);
    }
}

nexar_err nx_inet_open(nx_inet **out, const nx_inet_config *config)
{
    nx_inet *net = nx_zalloc(sizeof(*net));
    nexar_err err;

    if (net == NULL) {
        return nx_fail_nomem("an endpoint");
    }
    net->config = *config;
    net->config.allowed = (config->allowed == 0) ? NX_INET_BOTH : config->allowed;
    nx_list_init(&net->links);
    err = open_sockets(net);
    if (err != NEXAR_OK) {
        nx_free(net);
        return err;
    }
    *out = net;
    return NEXAR_OK;
}

void nx_inet_close(nx_inet *net)
{
    if (net == NULL) {
        return;
    }
    while (!nx_list_empty(&net->links)) {
        nx_inet_link_end(nx_list_entry(net->links.next, nx_inet_link, in_all));
    }
    if (net->quic != NULL) {
        nx_quic_close(net->quic);
    }
    nx_tcp_close(net->tcp);
    nx_map_fini(&net->by_member);
    nx_free(net);
}

/* ---- the endpoint's properties ------------------------------------------------------------ */

void nx_inet_drain(nx_inet *net, int stage, nx_event *done)
{
    if (stage == 0) { /* pending links become links of QUIC or TCP, so they come first */
        net->drained = done;
    } else if ((stage == 1) && (net->quic != NULL)) {
        nx_quic_drain(net->quic, done);
        return;
    } else if ((stage == 2) && (net->tcp != NULL)) {
        nx_tcp_drain(net->tcp, done);
        return;
    }
    if ((done != NULL) && ((stage != 0) || (net->closing == 0))) {
        nx_event_set(net->config.quic.loop, done);
    }
}

uint16_t nx_inet_port(const nx_inet *net)
{
    return (net->quic != NULL) ? nx_quic_port(net->quic) : nx_tcp_port(net->tcp);
}

void nx_inet_set_peers(nx_inet *net, size_t peers)
{
    if (net->quic != NULL) {
        nx_quic_set_peers(net->quic, peers);
    }
}

nexar_err nx_inet_set_identity(nx_inet *net, const nx_identity *identity, const nx_job_id *job)
{
    nexar_err err = NEXAR_OK;

    net->config.quic.identity = identity;
    net->config.quic.job = *job;
    if (net->quic != NULL) {
        err = nx_quic_set_identity(net->quic, identity, job);
    }
    if ((err == NEXAR_OK) && (net->tcp != NULL)) {
        err = nx_tcp_set_identity(net->tcp, identity, job);
    }
    return err;
}

nx_quic *nx_inet_quic(const nx_inet *net)
{
    return net->quic;
}
