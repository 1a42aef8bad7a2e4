/*
 * quic.h - the quic transport: an endpoint with one UDP socket for all peers, and links to members
 * over QUIC with mutual TLS 1.3.
 *
 * A link is to a *member*, not to an address. Below it there may be several attempts to connect:
 * all addresses are raced, and the other side may dial at the same time. The member with the lower
 * number decides, before anything is sent: it uses the first connection that comes up and announces
 * it in the first control frame. The other side waits for that frame. Then queued data is sent.
 *
 * A link lives as long as its connection, and the connection lives as long as the peer is heard on
 * any path within idle_timeout_ns. If its first addresses stop working, or the peer's change, it
 * migrates to others (roam.c).
 *
 * Inside: tls.h has credentials and verification; conn.h has one ngtcp2 connection without sockets
 * and clock (bytes and time are arguments, so it runs in simulation); udp.h has the socket (GSO,
 * GRO, recvmmsg where available); endpoint and links are here.
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

/* The protocol named by ALPN; a peer with another protocol is rejected with a message. */
#define NX_ALPN "nexar/1"

typedef struct nx_quic nx_quic;

/* Congestion control of links to other hosts. Links inside a host always use CUBIC: their limit is
 * the receiver's socket buffer, which flow control protects. */
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
    uint64_t idle_timeout_ns;       /* a silent connection fails after this; 0: 30 s */
    uint64_t handshake_timeout_ns;  /* 0: 10 s */
    size_t peers;                   /* expected number of links: see nx_quic_set_peers */
    const char *qlog_dir;           /* NULL or "": none */
    nx_congestion congestion;

    /* A seed has |authority|, a member |identity| (both borrowed). A joiner has neither and can
     * only dial a pinned seed. */
    const nx_authority *authority;
    const nx_identity *identity;
    nx_job_id job; /* of the identity */

    /* A connection opened by a peer is up. |member| is the name in its certificate; 0: no
     * certificate, which only a seed allows. The callee sets link->up and link->up_ctx, or closes
     * the link. (Not called for a member that this process is dialling too: its connection joins
     * the existing link.) */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    void *ctx;
} nx_quic_config;

/*
 * Opens the socket.
 *
 * NEXAR_ESYS
 *     The address cannot be bound; the message names it, or the whole range.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_quic_open(nx_quic **out, const nx_quic_config *config);
/* Closes all links immediately (without drain) and frees the endpoint. Calls on_sent for held
 * parts. Not from an upcall. */
void nx_quic_close(nx_quic *q);

/* Sets |done| when no closed link is still sending: before nx_quic_close, after links were closed
 * with drain. NULL: cancels that. */
void nx_quic_drain(nx_quic *q, nx_event *done);

/* The bound port. */
uint16_t nx_quic_port(const nx_quic *q);

/*
 * Sets the expected number of links (0 counts as 1). Connections made from now on grant their peer
 * a window of this share of the socket's buffer: on one host, nothing else throttles senders. A
 * dialled seed sends very little and gets the minimum.
 *
 * A granted window is never reduced, and existing connections keep theirs. So the windows of links
 * made for one number fit into the buffer together (up to 128 links of 16 MiB: the minimum window
 * is 128 KiB), also after the number has fallen. When it rises from n to m, existing links hold up
 * to the whole buffer and the new ones (m - n) / m on top. When it rises one by one, they hold ln(m
 * / n) on top: 0.7 buffers for a world that doubles, 2.1 for one of eight times the size. Data is
 * dropped, and retransmitted as on any network, only if all peers send at the same time. A
 * reconnected link has its proper share.
 */
void nx_quic_set_peers(nx_quic *q, size_t peers);

/* A joiner has received its certificate: from now on it is a member. */
NX_MUST_CHECK nexar_err nx_quic_set_identity(nx_quic *q, const nx_identity *identity,
                                             const nx_job_id *job);

typedef struct nx_quic_target {
    uint64_t member; /* the expected member; 0: a seed, identified by |pin| */
    nx_pin pin;
    const struct sockaddr_storage *addresses; /* raced in this order */
    size_t n;
} nx_quic_target;

/*
 * Opens a link to |target|, usable immediately; on_up or on_down follows. There is at most one link
 * to a member: NEXAR_EINVAL if one exists.
 */
NX_MUST_CHECK nexar_err nx_quic_dial(nx_quic *q, const nx_quic_target *target, const nx_link_up *up,
                                     void *up_ctx, nx_link **out);

/* Whether |link| is of this transport. */
bool nx_quic_is(const nx_link *link);
/* Whether a link of |q| to |member| is up, or may come up, and is not being closed. */
bool nx_quic_has(const nx_quic *q, uint64_t member);
bool nx_quic_lives(const nx_quic *q, uint64_t member);
/* In on_accept: the peer is connected to this process otherwise.  The link is closed, and the peer
 * learns that this connection was not chosen. */
void nx_quic_refuse(nx_link *link);

/* Further addresses of the peer of |link|, for migration. For accepted links: diallers know them.
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_quic_link_know(nx_link *link, const struct sockaddr_storage *addresses,
                                          size_t n);

/* The process behind |link| has exited; the caller knows it from the kernel of its host. The link
 * soon goes down with NX_END_GONE, or NX_END_LEFT after a goodbye. Everything that it has sent is
 * delivered before: between processes of one host it is in the socket when the sender's call
 * returns. */
void nx_quic_link_exited(nx_link *link);

/* The address a link talks to, and 32 bytes of keying material bound to its TLS
 * session (RFC 5705 exporter, label |label|).  NEXAR_EINVAL before on_up. */
NX_MUST_CHECK nexar_err nx_quic_link_export(nx_link *link, const char *label, uint8_t out[32]);
void nx_quic_link_address(const nx_link *link, struct sockaddr_storage *out);

/* What the kernel supports, probed when a socket is opened; missing features are not used. For
 * `nexar info`. */
typedef struct nx_quic_features {
    bool gso, gro, recvmmsg, ipv6;
    size_t rcvbuf, sndbuf; /* granted */
    bool small;            /* the kernel granted less than requested */
    const char *ngtcp2;    /* the version of the library that runs; static */
} nx_quic_features;
void nx_quic_features_probe(nx_quic_features *out);

#endif /* NX_QUIC_H */
