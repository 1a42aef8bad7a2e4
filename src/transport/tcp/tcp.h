/*
 * tcp.h - the tcp transport: an endpoint that listens on one TCP port, and links to members
 * over TLS 1.3 with mutual certificates.
 *
 * Wire format: standard TLS 1.3 (RFC 8446), ALPN NX_ALPN, no resumption. GnuTLS performs the
 * handshake; nexar seals the records where the CPU allows (tls_record.h), otherwise GnuTLS does.
 * The checks of identity are those of QUIC (quic/crypto/tls.h). stream_parser.h defines the
 * contents of the TLS stream.
 *
 * A link is to a *member*, not to an address. All addresses are raced, and the peer may dial at the
 * same time. The member with the lower number decides which connection the link uses: the first
 * that comes up. That member announces the choice by the unit USE, and the peer waits for it. Data
 * queued before is sent then. To a seed, the dialler decides.
 *
 * A part counts as sent when its last byte is sealed: the transport no longer needs its memory. A
 * link closed with drain stays until the peer has confirmed that everything has arrived.
 *
 * Memory per connection is bounded: NX_TCP_OUT bytes of sealed records that the socket has not
 * accepted, and one frame that has arrived in pieces. The kernel holds at most NX_TCP_UNSENT unsent
 * bytes, so that the control lane overtakes queued data.
 */
#ifndef NX_TCP_H
#define NX_TCP_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/random.h"
#include "loop/loop.h"
#include "transport/identity.h"
#include "transport/transport.h"

typedef struct nx_tcp nx_tcp;

typedef struct nx_tcp_config {
    nx_loop *loop;
    struct sockaddr_storage listen; /* family 0: every address, IPv6 and IPv4 */
    uint16_t port;                  /* 0: any */
    uint64_t idle_timeout_ns;       /* a peer that acknowledges nothing is down; 0: 30 s */
    uint64_t handshake_timeout_ns;  /* 0: 10 s */

    /* A seed has |authority|, a member |identity| (both borrowed). A joiner has neither: it can
     * only dial a pinned seed. */
    const nx_authority *authority;
    const nx_identity *identity;
    nx_job_id job; /* of the identity */

    /* A connection has come up that this endpoint did not dial. |member| is the member that its
     * certificate names; 0: it presented none, which only a seed allows. The callee sets link->up
     * and link->up_ctx, or closes the link. */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    /* Optional. Whether |member| may be about to connect over a better transport. If so, a
     * connection to the member that this side may choose waits for twice its own set-up time, at
     * most NX_TCP_HOLD_NS. That time measures how slow both ends and the network are. */
    bool (*may_come_otherwise)(void *ctx, uint64_t member);
    void *ctx;
} nx_tcp_config;

#define NX_TCP_HOLD_NS UINT64_C(1000000000)

/*
 * Opens the listening socket.
 *
 * NEXAR_ESYS The address or the port cannot be bound, or no descriptor is left.
 * NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_tcp_open(nx_tcp **out, const nx_tcp_config *config);
/* Closes all links immediately (without drain) and frees the endpoint. on_sent is called for parts
 * still held. Not from an upcall. NULL is ignored. */
void nx_tcp_close(nx_tcp *t);

/* Sets |done| when no closed link is still sending: call before nx_tcp_close, after links were
 * closed with drain. NULL: cancels the request. */
void nx_tcp_drain(nx_tcp *t, nx_event *done);

/* The bound port. */
uint16_t nx_tcp_port(const nx_tcp *t);

/* A joiner has received its certificate: from now on it is a member. */
NX_MUST_CHECK nexar_err nx_tcp_set_identity(nx_tcp *t, const nx_identity *identity,
                                            const nx_job_id *job);

typedef struct nx_tcp_target {
    uint64_t member; /* the member that the certificate must name; 0: a seed, by |pin| */
    nx_pin pin;
    const struct sockaddr_storage *addresses; /* raced in this order */
    size_t n;
} nx_tcp_target;

/*
 * Creates a link to |target|. The link may be used immediately; on_up or on_down follows. There is
 * at most one link to a member: NEXAR_EINVAL if there is one already.
 */
NX_MUST_CHECK nexar_err nx_tcp_dial(nx_tcp *t, const nx_tcp_target *target, const nx_link_up *up,
                                    void *up_ctx, nx_link **out);

/* Whether |link| is of this transport. */
bool nx_tcp_is(const nx_link *link);
/* Whether a link of |t| to |member| is up, or may come up, and is not being closed. */
bool nx_tcp_has(const nx_tcp *t, uint64_t member);
bool nx_tcp_lives(const nx_tcp *t, uint64_t member);
/* In on_accept: this process already reaches the peer by another transport. The link is closed, and
 * the peer learns that this connection was not chosen. */
void nx_tcp_refuse(nx_link *link);

/* The process behind |link| has exited. The link goes down when everything that the process has
 * sent is delivered. */
void nx_tcp_link_exited(nx_link *link);

/* The peer's address of a link, and 32 bytes of keying material bound to its TLS session (RFC 5705
 * exporter, label |label|). NEXAR_EINVAL before on_up. */
NX_MUST_CHECK nexar_err nx_tcp_link_export(nx_link *link, const char *label, uint8_t out[32]);
void nx_tcp_link_address(const nx_link *link, struct sockaddr_storage *out);

#endif /* NX_TCP_H */
