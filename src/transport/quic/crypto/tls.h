/*
 * tls.h - TLS 1.3 for QUIC and TCP: who we are, and whom we accept.
 *
 * nx_tls is the credentials of an endpoint: of a seed (the authority: clients
 * without a certificate may come), of a member (everybody must show one of the
 * same authority and job), or of a joiner (none: it can only dial a pinned key).
 * A session is the handshake of one connection.
 *
 * The peer's certificate is checked inside the handshake, before we send anything
 * but our hello; what is wrong is kept in words for both sides.
 */
#ifndef NX_TLS_H
#define NX_TLS_H

#include <gnutls/gnutls.h>

#include "transport/identity.h"
#include "transport/quic/ngtcp2_compat.h"

enum { NX_TLS_WHY = 160, NX_TLS_SECRET = 32, NX_TLS_TRAFFIC = 48 };

typedef struct nx_tls nx_tls;

typedef struct nx_tls_config {
    const nx_authority *authority; /* a seed's; or NULL */
    const nx_identity *identity;   /* a member's; or NULL */
    nx_job_id job;                 /* of |identity| */
    const char *alpn;              /* borrowed permanently */
} nx_tls_config;

/* Key and certificates are copied.  NEXAR_ENOMEM, NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_tls_create(nx_tls **out, const nx_tls_config *config);
/* Sessions hold it too: an endpoint may exchange its own for another. */
nx_tls *nx_tls_hold(nx_tls *tls);
void nx_tls_release(nx_tls *tls);

bool nx_tls_can_accept(const nx_tls *tls); /* not a joiner */
uint64_t nx_tls_member(const nx_tls *tls); /* 0: not a member */
bool nx_tls_is_seed(const nx_tls *tls);

/* Whom a dialler wants: a member by its number, or (0) the holder of a key. */
typedef struct nx_tls_target {
    uint64_t member;
    nx_pin pin;
} nx_tls_target;

typedef struct nx_tls_session {
    gnutls_session_t session;
    ngtcp2_crypto_conn_ref ref; /* what GnuTLS hands to ngtcp2's helpers */
    nx_tls *tls;
    bool server, verified;
    bool own_aead;         /* protect.h: ours may protect its packets */
    unsigned int own_keys; /* that ours has made: one each way, and with every update */
    /* Of TLS over a stream, if own_aead: what the application's traffic is sealed with, |tx| by
     * this side.  32 or 48 bytes. */
    uint8_t rx[NX_TLS_TRAFFIC], tx[NX_TLS_TRAFFIC];
    size_t traffic_len;
    nx_tls_target target; /* of a dialler */
    uint64_t member;      /* whom the peer's certificate names; 0: none */
    char offered[32];     /* the first protocol that a client offered */
    nexar_err err;        /* why the peer was refused */
    char why[NX_TLS_WHY];
} nx_tls_session;

/*
 * |get_conn| and |conn| lead GnuTLS to the ngtcp2_conn.  |get_conn| NULL: the session is
 * standard TLS over a byte stream, whose transport functions the caller sets.  |target|
 * is NULL for a server.  |s| must stay where it is.
 *
 * NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_tls_session_init(nx_tls_session *s, nx_tls *tls,
                                            const nx_tls_target *target,
                                            ngtcp2_crypto_get_conn get_conn, void *conn);
void nx_tls_session_fini(nx_tls_session *s);

/* Whether the finished handshake leaves nothing open; NEXAR_EAUTH or NEXAR_EPROTO
 * and s->why if not. */
NX_MUST_CHECK nexar_err nx_tls_session_check(nx_tls_session *s);

/* After a handshake that failed here with |alert|: sets s->err and s->why unless
 * the check of the certificate already has. */
void nx_tls_session_failed(nx_tls_session *s, uint8_t alert);

/* The error and the words for |alert| that the peer sent. */
nexar_err nx_tls_alert(const nx_tls_session *s, uint8_t alert, char *why, size_t room);

/* Of TLS over a stream, when the handshake is done: the length of the AES-GCM key with which
 * nexar may seal its records; 0: it may not. */
size_t nx_tls_own_key_len(const nx_tls_session *s);
/* The traffic secrets are not needed any more. */
void nx_tls_forget_traffic(nx_tls_session *s);

/* RFC 5705 with label |label| and no context.  NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_tls_export(const nx_tls_session *s, const char *label,
                                      uint8_t out[NX_TLS_SECRET]);

#endif /* NX_TLS_H */
