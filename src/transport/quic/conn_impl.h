/*
 * conn_impl.h - a connection from inside.
 *
 *   conn.c        life: create, read, expire, close
 *   conn_setup.c  settings, transport parameters and the table of callbacks
 *   conn_in.c     callbacks for what arrives
 *   conn_out.c    writing packets; callbacks for what was acknowledged
 *   conn_call.c   calling a peer that does not answer
 */
#ifndef NX_QUIC_CONN_IMPL_H
#define NX_QUIC_CONN_IMPL_H

#include "transport/quic/conn.h"

enum { NX_CALL_MOST = 1500 }; /* bytes of a datagram that is kept: as most networks have them */

struct nx_conn {
    ngtcp2_conn *ng;
    nx_tls_session tls;
    const nx_random *random;
    const nx_conn_up *up;
    void *ctx;
    uint8_t secret[NX_SECRET_SIZE];
    struct sockaddr_storage local, remote; /* what ngtcp2 knows: see nx_conn_read */
    bool server, same_host, has_keys, used, confirmed, completed, reset_by_peer;
    bool expired; /* a timer, and not everything written since */
    bool dry;     /* see nx_conn_is_dry */
    bool opened;  /* see nx_conn_opened */

    nx_inbox inbox;
    nx_sendq *q; /* NULL: not chosen, or closed */

    uint64_t now_ns, last_ack_ns;

    /* The path, see conn.c: what a datagram may have now and at best; bytes not
     * acknowledged and since when without progress; when to try |datagram| again. */
    size_t limit, datagram;
    uint64_t flight, progress_ns, wide_at_ns, narrow_ns;
    uint64_t bytes_sent, bytes_received, packets_lost;

    /* Calling, see conn_call.c: what is said again, when it was; a probe that has not been
     * sent, and whether it should be now; probes since the last timer. */
    uint64_t min_rtt_ns, called_ns;
    uint8_t call[NX_CALL_MOST], spare[NX_CALL_MOST];
    size_t call_len, spare_len;
    bool spare_due;
    unsigned int probes;

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
uint64_t nx_conn_in_flight(nx_conn *c);

/* conn_setup.c */
/* Set when a packet was opened with its key: ngtcp2 does not tell, and gives its decrypt
 * callback no pointer of ours.  Valid around one ngtcp2_conn_read_pkt. */
extern _Thread_local bool nx_conn_opening;
NX_MUST_CHECK nexar_err nx_conn_setup(nx_conn *c, const nx_conn_config *config);

/* conn_call.c */
/* When nx_conn_call is due; UINT64_MAX: not as things are. */
uint64_t nx_conn_call_due(const nx_conn *c);
/* Whether what is written now answers a timer, and the peer does not. */
bool nx_conn_is_probing(const nx_conn *c);
/* A datagram that asks for an acknowledgement was written. */
void nx_conn_keep_call(nx_conn *c, const uint8_t *data, size_t len);
/* The same, when probing: one of each two is kept back.  |data| becomes what is to be sent;
 * returns its length. */
size_t nx_conn_keep_back(nx_conn *c, uint8_t *data, size_t len);
/* What was kept back, if it is due: its length, else 0. */
size_t nx_conn_take_spare(nx_conn *c, uint8_t *buf, size_t room);

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
