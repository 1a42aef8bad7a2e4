/*
 * conn_impl.h - a connection from inside.
 *
 *   conn.c        life: create, read, expire, close
 *   conn_setup.c  settings, transport parameters and the table of callbacks
 *   conn_in.c     callbacks for what arrives
 *   conn_out.c    writing packets; callbacks for what was acknowledged
 */
#ifndef NX_QUIC_CONN_IMPL_H
#define NX_QUIC_CONN_IMPL_H

#include "transport/quic/conn.h"

struct nx_conn {
    ngtcp2_conn *ng;
    nx_tls_session tls;
    const nx_random *random;
    const nx_conn_up *up;
    void *ctx;
    uint8_t secret[NX_SECRET_SIZE];
    struct sockaddr_storage local;
    bool server, same_host, has_keys, used, confirmed, completed, reset_by_peer;
    bool expired; /* a timer, and not everything written since */
    bool dry;     /* see nx_conn_is_dry */

    nx_inbox inbox;
    nx_sendq *q; /* NULL: not chosen, or closed */

    uint64_t now_ns, last_ack_ns;

    /* The path, see conn.c: what a datagram may have now and at best; bytes not
     * acknowledged and since when without progress; when to try |datagram| again. */
    size_t limit, datagram;
    uint64_t flight, progress_ns, wide_at_ns, narrow_ns;
    uint64_t bytes_sent, bytes_received, packets_lost;

    nx_conn_state state;
    nexar_err err;
    char why[NX_CONN_WHY];
    char tell[NX_CONN_WHY]; /* the same, as the peer should read it */
    bool silent;            /* there is no CONNECTION_CLOSE to send */
    bool peer_closed;
    uint64_t peer_code; /* application code; UINT64_MAX: another kind of close */
    ngtcp2_ccerr ccerr; /* what to send when dead and not silent */
    int qlog_fd;
};

/* conn.c: the first reason counts. */
void nx_conn_fail(nx_conn *c, nexar_err err, const char *why);
void nx_conn_died(nx_conn *c, int rv); /* of ngtcp2's |rv| */

/* conn_setup.c */
NX_MUST_CHECK nexar_err nx_conn_setup(nx_conn *c, const nx_conn_config *config);

/* conn_in.c: ngtcp2's callbacks */
int nx_conn_on_stream_open(ngtcp2_conn *ng, int64_t stream, void *user);
int nx_conn_on_stream_data(ngtcp2_conn *ng, uint32_t flags, int64_t stream, uint64_t offset,
                           const uint8_t *data, size_t len, void *user, void *stream_user);
int nx_conn_on_stream_reset(ngtcp2_conn *ng, int64_t stream, uint64_t final_size, uint64_t code,
                            void *user, void *stream_user);
int nx_conn_on_stream_close(ngtcp2_conn *ng, uint32_t flags, int64_t stream, uint64_t code,
                            void *user, void *stream_user);

/* conn_out.c: ngtcp2's callbacks */
int nx_conn_on_acked(ngtcp2_conn *ng, int64_t stream, uint64_t offset, uint64_t len, void *user,
                     void *stream_user);
int nx_conn_on_stream_credit(ngtcp2_conn *ng, int64_t stream, uint64_t most, void *user,
                             void *stream_user);
void nx_conn_local_stream_closed(nx_conn *c, void *stream_user);

#endif /* NX_QUIC_CONN_IMPL_H */
