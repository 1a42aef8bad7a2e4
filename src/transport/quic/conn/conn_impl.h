/*
 * conn_impl.h - shared by the files of a connection.
 *
 *   conn.c                 life: create, read, expire, close
 *   conn_setup.c           settings, transport parameters and the table of callbacks
 *   conn_in.c              callbacks for received data
 *   conn_direct_decrypt.c  decrypts packets into their destination
 *   conn_out.c             writing packets; callbacks for acknowledgements
 *   conn_probe.c           probing a peer that does not answer
 */
#ifndef NX_CONN_IMPL_H
#define NX_CONN_IMPL_H

#include "conn.h"
#include "transport/quic/crypto/protect.h"
#include "transport/quic/udp/peek.h"

enum { NX_CALL_MOST = 1500 }; /* largest datagram that is kept: fits most networks */

/* Data of the current packet that was decrypted into its destination: conn_direct_decrypt.c. */
typedef struct nx_direct_decrypt {
    nx_peek frame;       /* its stream, and all of its bytes in the packet */
    nx_aead_place place; /* |at| is NULL: there are none */
    nx_protect_packet packet;
    ngtcp2_crypto_aead_ctx key; /* its */
    uint8_t nonce[NX_AEAD_NONCE];
} nx_direct_decrypt;

struct nx_conn {
    ngtcp2_conn *ng;
    nx_tls_session tls;
    const nx_random *random;
    const nx_conn_up *up;
    void *ctx;
    uint8_t secret[NX_SECRET_SIZE];
    struct sockaddr_storage local, remote; /* what ngtcp2 knows: see nx_conn_read */
    bool to_member;                        /* dialled, and not to a seed */
    bool server, same_host, has_keys, used, confirmed, completed, reset_by_peer;
    bool expired; /* a timer has expired, and not everything was written since */
    bool dry;     /* see nx_conn_is_dry */
    bool opened;  /* see nx_conn_opened */

    nx_direct_decrypt straight;
    nx_lane_parser inbox;
    nx_sendq *q; /* NULL: not chosen, or closed */

    uint64_t now_ns, last_ack_ns;

    /* The path, see conn.c: current and best datagram size; unacknowledged bytes, and since when
     * without progress; when to try |datagram| again. */
    size_t limit, datagram;
    uint64_t flight, progress_ns, wide_at_ns, narrow_ns;
    uint64_t bytes_sent, bytes_received, packets_lost;

    /* Probing, see conn_probe.c: the datagram and its time; a spare probe, and whether it is due;
     * probes since the last timer. */
    uint64_t min_rtt_ns, called_ns;
    uint8_t call[NX_CALL_MOST], spare[NX_CALL_MOST];
    size_t call_len, spare_len;
    bool spare_due;
    unsigned int probes;

    nx_conn_state state;
    nexar_err err;
    char why[NX_CONN_WHY];
    char tell[NX_CONN_WHY];    /* the same, as text for the peer */
    uint8_t last[NX_LAST_MAX]; /* the last frame: this side's, then the peer's */
    size_t last_len;
    bool silent; /* no CONNECTION_CLOSE is sent */
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
/* The connection being read: ngtcp2 passes no user pointer to its decrypt callback. Set around one
 * ngtcp2_conn_read_pkt. */
extern _Thread_local nx_conn *nx_conn_reading;
NX_MUST_CHECK nexar_err nx_conn_setup(nx_conn *c, const nx_conn_config *config);

/* conn_probe.c */
/* When nx_conn_call is due; UINT64_MAX: not in this state. */
uint64_t nx_conn_call_due(const nx_conn *c);
/* Whether the current output answers a timer, and the peer does not answer. */
bool nx_conn_is_probing(const nx_conn *c);
/* An ack-eliciting datagram was written. */
void nx_conn_keep_call(nx_conn *c, const uint8_t *data, size_t len);
/* The same, when probing: one of two is kept for later. |data| becomes what to send; returns its
 * length. */
size_t nx_conn_keep_back(nx_conn *c, uint8_t *data, size_t len);
/* The kept datagram, if it is due: its length, otherwise 0. */
size_t nx_conn_take_spare(nx_conn *c, uint8_t *buf, size_t room);

/* conn_direct_decrypt.c: ngtcp2's callback */
int nx_conn_on_decrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                       const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *sealed, size_t len,
                       const uint8_t *nonce, size_t nonce_len, const uint8_t *head,
                       size_t head_len);
/* Where the bytes at |off| of |stream| were decrypted to, which ngtcp2 reports as |data|, without
 * the part's head; NULL: they are at |data|. */
const uint8_t *nx_conn_straight(nx_conn *c, int64_t stream, uint64_t off, const uint8_t *data);

/* conn_in.c: ngtcp2's callbacks */
/* The number of a stream among those of its kind and direction. */
static inline uint64_t nx_stream_number(int64_t stream)
{
    return (uint64_t)stream >> 2;
}
/* Lanes are the first unidirectional streams; every other stream is a part. */
static inline bool nx_stream_is_lane(int64_t stream)
{
    return (((uint64_t)stream & 2) != 0) && (nx_stream_number(stream) < NX_LANES);
}
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

#endif /* NX_CONN_IMPL_H */
