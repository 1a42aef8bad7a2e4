/*
 * quic.h - the quic transport: an endpoint with one UDP socket for all peers,
 * and links to members over QUIC with mutual TLS 1.3.
 *
 * A link is to a *member*, not to an address: below it there may be several
 * attempts to connect (all addresses are raced, and the other side may dial at
 * the same time); one of them is settled on, before anything is sent, by the
 * member with the lower number: it uses the first connection that comes up and
 * says so in the first control frame; the other side waits for that word.  What
 * was queued before goes then.
 *
 * A link lives as long as its connection, and that as long as the peer is heard by any
 * path within idle_timeout_ns: if the addresses that it began with cease to work, or the
 * peer's change, it goes on by others (roam.c).
 *
 * Inside: tls.h credentials and verification; conn.h one ngtcp2 connection
 * without sockets and clock (bytes and time are arguments, so that it runs in
 * simulation); udp.h the socket (GSO, GRO, recvmmsg where the kernel has them);
 * endpoint and links here.
 */
#ifndef NX_QUIC_H
#define NX_QUIC_H

#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/random.h"
#include "loop/loop.h"
#include "transport/identity.h"
#include "transport/transport.h"

/* The protocol that ALPN names; a peer that speaks another is refused and told
 * so. */
#define NX_ALPN "nexar/1"

typedef struct nx_quic nx_quic;

/* Congestion control of links to other hosts.  Links inside a host always use CUBIC: their limit
 * is the receiver's socket buffer, which the flow-control window protects. */
typedef enum nx_congestion {
    NX_CONGESTION_AUTO,
    NX_CONGESTION_BBR,
    NX_CONGESTION_CUBIC
} nx_congestion;

typedef struct nx_quic_config {
    nx_loop *loop;
    const nx_random *random;
    struct sockaddr_storage listen; /* family 0: every address, IPv6 and IPv4 */
    uint16_t port_first, port_last; /* 0: any */
    uint64_t idle_timeout_ns;       /* a silent connection is down after this; 0: 30 s */
    uint64_t handshake_timeout_ns;  /* 0: 10 s */
    size_t peers;                   /* links that are expected: see nx_quic_set_peers */
    const char *qlog_dir;           /* NULL or "": none */
    nx_congestion congestion;

    /* A seed has |authority|, a member |identity| (borrowed both).  A joiner has
     * neither: it can only dial a pinned seed. */
    const nx_authority *authority;
    const nx_identity *identity;
    nx_job_id job; /* of the identity */

    /* A connection that we did not ask for has come up.  |member| is what its
     * certificate names; 0: it showed none, which only a seed allows.  The
     * callee sets link->up and link->up_ctx, or closes the link.  (A member whom
     * we are dialling too makes no call: it joins the link that is there.) */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    void *ctx;
} nx_quic_config;

/*
 * Opens the socket.
 *
 * NEXAR_ESYS
 *     The address cannot be bound; the sentence names it, or the whole range.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_quic_open(nx_quic **out, const nx_quic_config *config);
/* Closes all links at once (without drain) and frees the endpoint.  on_sent is
 * called for what was still held.  Not from an up-call. */
void nx_quic_close(nx_quic *q);

/* Sets |done| when no link that was closed is still sending: before nx_quic_close,
 * after links were closed with drain.  NULL: no longer. */
void nx_quic_drain(nx_quic *q, nx_event *done);

/* The port that was bound. */
uint16_t nx_quic_port(const nx_quic *q);

/*
 * |peers| links are expected (0 counts as 1): connections made from now on, dialled or accepted,
 * grant their peer a window of that share of the socket's buffer, which holds back the senders of
 * one host, as nothing else does.  A seed that is dialled sends next to nothing and gets the least.
 *
 * A window that was granted is never taken back, and connections that are up keep theirs.  So the
 * windows of links made for one number fit into the buffer together (up to 128 links of 16 MiB:
 * no window is below 128 KiB), also after the number has fallen.  When it rises from n to m, those
 * that are up hold up to all of it and the new ones (m - n) / m of it on top; when it rises one by
 * one, ln(m / n) of it: 0.7 buffers too much for a world that doubles, 2.1 for one of eight times
 * the size.  Only if all of them send at once is something dropped then, and sent again, as on any
 * network; a link that is made anew has its share.
 */
void nx_quic_set_peers(nx_quic *q, size_t peers);

/* A joiner has got its certificate: from now on it is a member. */
NX_MUST_CHECK nexar_err nx_quic_set_identity(nx_quic *q, const nx_identity *identity,
                                             const nx_job_id *job);

typedef struct nx_quic_target {
    uint64_t member; /* whom the certificate must name; 0: a seed, by |pin| */
    nx_pin pin;
    const struct sockaddr_storage *addresses; /* raced, the first ones first */
    size_t n;
} nx_quic_target;

/*
 * A link to |target|.  It may be used at once; on_up or on_down follows.  There
 * is at most one link to a member: NEXAR_EINVAL if there is one already.
 */
NX_MUST_CHECK nexar_err nx_quic_dial(nx_quic *q, const nx_quic_target *target, const nx_link_up *up,
                                     void *up_ctx, nx_link **out);

/* Whether |link| is of this transport. */
bool nx_quic_is(const nx_link *link);
/* Whether a link of |q| to |member| is up, or may come up; and whether it is not being closed. */
bool nx_quic_has(const nx_quic *q, uint64_t member);
bool nx_quic_lives(const nx_quic *q, uint64_t member);
/* In on_accept: the peer is connected to this process otherwise.  The link is closed, and the peer
 * learns that this connection was not chosen. */
void nx_quic_refuse(nx_link *link);

/* Where else the peer of |link| may be reached, if the address that it uses ceases to work.
 * For links that were accepted: those that were dialled know it.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_quic_link_know(nx_link *link, const struct sockaddr_storage *addresses,
                                          size_t n);

/* The process behind |link| has ended, as the caller is sure, who has it from the kernel of its
 * host.  Soon the link goes down: with NX_END_GONE, or NX_END_LEFT if it had said good-bye.  All
 * that it has sent is delivered before: between processes of one host it is in the socket when
 * the sender's call returns. */
void nx_quic_link_exited(nx_link *link);

/* The address a link talks to, and 32 bytes of keying material bound to its TLS
 * session (RFC 5705 exporter, label |label|).  NEXAR_EINVAL before on_up. */
NX_MUST_CHECK nexar_err nx_quic_link_export(nx_link *link, const char *label, uint8_t out[32]);
void nx_quic_link_address(const nx_link *link, struct sockaddr_storage *out);

/* What the kernel offers, probed when a socket is opened, which does without the rest: for
 * `nexar info`. */
typedef struct nx_quic_features {
    bool gso, gro, recvmmsg, ipv6;
    size_t rcvbuf, sndbuf; /* granted */
    bool small;            /* the kernel granted less than was asked for */
    const char *ngtcp2;    /* the version of the library that runs; static */
} nx_quic_features;
void nx_quic_features_probe(nx_quic_features *out);

#endif /* NX_QUIC_H */
