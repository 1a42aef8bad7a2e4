/*
 * ngtcp2_compat.h - ngtcp2 1.4 and later, and 0.12 (Debian 12, Ubuntu 24.04).
 *
 * The rest of the transport includes ngtcp2 through this header only, and uses the names of 1.x.
 * For 0.12 this header defines them. Where the versions differ in more than names, an nx_ng_
 * function hides the difference.
 *
 * Limits of 0.12:
 *  - It probes the path MTU at built-in sizes, 1444 bytes at most, so a
 *    connection to another host does not use jumbo frames.  Connections on one host do not
 *    probe, and have datagrams as large with either.
 *  - It never closes a unidirectional stream that the peer has opened, and allows no new one in its
 *    place (fixed in 0.14). So an endpoint with 0.12 allows such streams for the lanes only, and
 *    bidirectional ones for parts, whose own direction it resets immediately. The sender, whatever
 *    its version, opens for parts what the peer's transport parameters allow.
 */
#ifndef NX_QUIC_NGTCP2_COMPAT_H
#define NX_QUIC_NGTCP2_COMPAT_H

#include <ngtcp2/ngtcp2_crypto.h>
#include <ngtcp2/ngtcp2_crypto_gnutls.h>

#define NX_NG_IS_0_12 (NGTCP2_VERSION_NUM < 0x010000)

/* Whether the peer must open bidirectional streams for parts. */
enum { NX_NG_BIDI_PARTS = NX_NG_IS_0_12 };

#if NX_NG_IS_0_12

typedef ngtcp2_crypto_level ngtcp2_encryption_level;
#define NGTCP2_ENCRYPTION_LEVEL_1RTT NGTCP2_CRYPTO_LEVEL_APPLICATION

typedef ngtcp2_connection_close_error ngtcp2_ccerr;
#define NGTCP2_CCERR_TYPE_APPLICATION      NGTCP2_CONNECTION_CLOSE_ERROR_CODE_TYPE_APPLICATION
#define ngtcp2_ccerr_default               ngtcp2_connection_close_error_default
#define ngtcp2_ccerr_set_liberr            ngtcp2_connection_close_error_set_transport_error_liberr
#define ngtcp2_ccerr_set_tls_alert         ngtcp2_connection_close_error_set_transport_error_tls_alert
#define ngtcp2_ccerr_set_application_error ngtcp2_connection_close_error_set_application_error

typedef ngtcp2_conn_stat ngtcp2_conn_info;
#define ngtcp2_conn_get_conn_info ngtcp2_conn_get_conn_stat

#define NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN2   NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN
#define NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY2    NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY
#define ngtcp2_crypto_generate_retry_token2 ngtcp2_crypto_generate_retry_token
#define ngtcp2_crypto_verify_retry_token2   ngtcp2_crypto_verify_retry_token

#endif

/* Why the peer has closed; |e->reason| is |ng|'s. */
static inline ngtcp2_ccerr nx_ng_close_reason(ngtcp2_conn *ng)
{
#if NX_NG_IS_0_12
    ngtcp2_ccerr e;

    ngtcp2_conn_get_connection_close_error(ng, &e);
    return e;
#else
    return *ngtcp2_conn_get_ccerr(ng);
#endif
}

/* The token of a first packet; |base| is the packet's. */
static inline ngtcp2_vec nx_ng_token(const ngtcp2_pkt_hd *hd)
{
#if NX_NG_IS_0_12
    return hd->token;
#else
    return (ngtcp2_vec){.base = (uint8_t *)hd->token, .len = hd->tokenlen};
#endif
}

/* An acceptor has verified the token of a Retry in |hd|, whose bytes |s| borrows. */
static inline void nx_ng_set_token(ngtcp2_settings *s, const ngtcp2_pkt_hd *hd)
{
#if NX_NG_IS_0_12
    s->token = hd->token;
#else
    s->token = hd->token;
    s->tokenlen = hd->tokenlen;
    s->token_type = NGTCP2_TOKEN_TYPE_RETRY;
#endif
}

/* The id that the first packet of the connection was sent to. */
static inline void nx_ng_set_original_dcid(ngtcp2_transport_params *p, const ngtcp2_cid *cid)
{
    p->original_dcid = *cid;
#if !NX_NG_IS_0_12
    p->original_dcid_present = 1;
#endif
}

static inline void nx_ng_set_qlog(ngtcp2_settings *s, ngtcp2_qlog_write on_qlog)
{
#if NX_NG_IS_0_12
    s->qlog.write = on_qlog;
#else
    s->qlog_write = on_qlog;
#endif
}

/* The sizes to probe the path MTU with, in this order; |s| borrows them.  0.12 has its own. */
static inline void nx_ng_set_probes(ngtcp2_settings *s, const uint16_t *sizes, size_t n)
{
#if NX_NG_IS_0_12
    (void)sizes;
#else
    s->pmtud_probes = sizes;
    s->pmtud_probeslen = n;
#endif
    s->no_pmtud = (n == 0);
}

/* Resets this side's direction of |stream|. NGTCP2_ERR_NOMEM. */
static inline int nx_ng_reset_stream(ngtcp2_conn *ng, int64_t stream, uint64_t code)
{
#if NX_NG_IS_0_12
    return ngtcp2_conn_shutdown_stream_write(ng, stream, code);
#else
    return ngtcp2_conn_shutdown_stream_write(ng, 0, stream, code);
#endif
}

/* Cancels the unsent data of an own |stream|. Of a bidirectional stream the peer is first asked to
 * close its direction: it may not know the stream yet, and it never opens a stream that begins with
 * a reset. (ngtcp2 sends the frame requested last first.) */
static inline int nx_ng_cancel_stream(ngtcp2_conn *ng, int64_t stream, uint64_t code)
{
    int rv = nx_ng_reset_stream(ng, stream, code);

    if ((rv == 0) && (ngtcp2_is_bidi_stream(stream) != 0)) {
#if NX_NG_IS_0_12
        rv = ngtcp2_conn_shutdown_stream_read(ng, stream, code);
#else
        rv = ngtcp2_conn_shutdown_stream_read(ng, 0, stream, code);
#endif
    }
    return rv;
}

#endif /* NX_QUIC_NGTCP2_COMPAT_H */
