/*
 * inet.h - the network transport of a process: QUIC, and TCP where UDP is blocked.
 *
 * An endpoint has a UDP port for QUIC and a TCP port of the same number.  Both carry the same
 * lanes, over TLS 1.3 with the same certificates (quic/quic.h, tcp/tcp.h).
 *
 * nx_inet_dial returns a *pending* link, which queues what is sent. The pending link dials QUIC
 * first, and TCP after NX_INET_HEAD_START_NS unless the peer has answered over UDP by then. It
 * dials TCP immediately when QUIC has failed, or when another link of this endpoint has found UDP
 * blocked. The first connection that comes up replaces the pending link (nx_link_up.on_moved) and
 * gets the queued data; on_up follows. So no layer is left between the owner and the chosen
 * transport.
 *
 * The choice: between two members the member with the lower number decides, by the rules of QUIC
 * and TCP (simultaneous_open.c of both). Invariants:
 *
 *  I1. The member that chooses has at most one link to a peer, pending or up, over both transports
 *      together. It sends USE on one connection only. As soon as one is up, it closes the attempts
 *      over the other transport without USE, and refuses later connections over the other transport
 *      without USE.
 *  I2. The other member uses the connection on which USE arrives.  A refused attempt ends
 *      nothing there while the other transport's attempt lives.
 *  I3. Queued data goes to the chosen connection in the order in which it was queued, and nothing
 *      was sent before: nothing is lost or sent twice.
 *
 * To a seed, the dialler chooses.
 */
#ifndef NX_INET_H
#define NX_INET_H

#include "transport/quic/quic.h"

typedef struct nx_inet nx_inet;

/* The transports that a network link may use. */
enum { NX_INET_QUIC = 1, NX_INET_TCP = 2, NX_INET_BOTH = 3 };

#define NX_INET_HEAD_START_NS UINT64_C(300000000)
/* Neither a packet over UDP nor a connection over TCP for this long: no path works. TCP has sent
 * its first packet three times by then (0, 1 and 3 s after the head start). */
#define NX_INET_UNREACHED_NS UINT64_C(3500000000)

typedef struct nx_inet_config {
    nx_quic_config quic;  /* with the loop, credentials, on_accept and time-outs of both */
    unsigned int allowed; /* NX_INET_...; 0: both */
} nx_inet_config;

/*
 * Opens both sockets. Where both are allowed and the TCP port is not available, the endpoint has
 * UDP alone, and logs it.
 *
 * NEXAR_ESYS
 *     The address or the port cannot be bound.
 * NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_inet_open(nx_inet **out, const nx_inet_config *config);
/* As nx_quic_close.  NULL is ignored. */
void nx_inet_close(nx_inet *net);

/* Sets |done| when no link of stage |stage| that was closed is still sending: before nx_inet_close,
 * for each of the NX_INET_STAGES in order. |done| NULL: cancels the request. */
enum { NX_INET_STAGES = 3 };
void nx_inet_drain(nx_inet *net, int stage, nx_event *done);

uint16_t nx_inet_port(const nx_inet *net);
void nx_inet_set_peers(nx_inet *net, size_t peers);
NX_MUST_CHECK nexar_err nx_inet_set_identity(nx_inet *net, const nx_identity *identity,
                                             const nx_job_id *job);
/* The QUIC endpoint; NULL where QUIC is not allowed. */
nx_quic *nx_inet_quic(const nx_inet *net);

/* As nx_quic_dial.  |up| must have on_moved. */
NX_MUST_CHECK nexar_err nx_inet_dial(nx_inet *net, const nx_quic_target *target,
                                     const nx_link_up *up, void *up_ctx, nx_link **out);

/* For links of this transport, of QUIC and of TCP; see quic.h. */
NX_MUST_CHECK nexar_err nx_inet_link_know(nx_link *link, const struct sockaddr_storage *addresses,
                                          size_t n);
void nx_inet_link_exited(nx_link *link);
NX_MUST_CHECK nexar_err nx_inet_link_export(nx_link *link, const char *label, uint8_t out[32]);
void nx_inet_link_address(const nx_link *link, struct sockaddr_storage *out);

/* In on_down: |link| never came up, and no host has answered at any of its addresses. */
bool nx_inet_link_unreached(const nx_link *link);

#endif /* NX_INET_H */
