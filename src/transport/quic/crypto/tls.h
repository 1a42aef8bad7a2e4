/*
 * tls.h - TLS 1.3 for QUIC and TCP: this process's credentials, and the peers it accepts.
 *
 * nx_tls holds the credentials of an endpoint. A seed has the authority: it accepts clients without
 * a certificate. A member has a certificate: every peer must present one of the same authority and
 * job. A joiner has none: it can only dial a pinned key. A session is the handshake of one
 * connection.
 *
 * The peer's certificate is verified inside the handshake, before this side sends anything but its
 * hello; the reason of a refusal is kept as text for both sides.
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
/* Sessions hold a reference too: an endpoint may replace its nx_tls. */
nx_tls *nx_tls_hold(nx_tls *tls);
void nx_tls_release(nx_tls *tls);

bool nx_tls_can_accept(const nx_tls *tls); /* not a joiner */
uint64_t nx_tls_member(const nx_tls *tls); /* 0: not a member */
bool nx_tls_is_seed(const nx_tls *tls);

/* The peer that a dialler expects: a member by its number, or (0) the holder of a key. */
typedef struct nx_tls_target {
    uint64_t member;
    nx_pin pin;
} nx_tls_target;

typedef struct nx_tls_session {
    gnutls_session_t session;
    ngtcp2_crypto_conn_ref ref; /* passed by GnuTLS to ngtcp2's helpers */
    nx_tls *tls;
    bool server, verified;
    bool own_aead;         /* protect.h: nexar's own AES-GCM may protect its packets */
    unsigned int own_keys; /* number of keys of nexar's own: one each way, and with every update */
    /* TLS over a stream, if own_aead: the application's traffic secrets, |tx| for this side. 32 or
     * 48 bytes. */
    uint8_t rx[NX_TLS_TRAFFIC], tx[NX_TLS_TRAFFIC];
    size_t traffic_len;
    nx_tls_target target; /* of a dialler */
    uint64_t member;      /* the member that the peer's certificate names; 0: none */
    char offered[32];     /* the first protocol that a client offered */
    nexar_err err;        /* why this side refused the peer */
    char why[NX_TLS_WHY];
} nx_tls_session;

/*
 * |get_conn| and |conn| give GnuTLS the ngtcp2_conn. |get_conn| NULL: the session is standard TLS
 * over a byte stream, whose transport functions the caller sets. |target| is NULL for a server. |s|
 * must not move.
 *
 * NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_tls_session_init(nx_tls_session *s, nx_tls *tls,
                                            const nx_tls_target *target,
                                            ngtcp2_crypto_get_conn get_conn, void *conn);
void nx_tls_session_fini(nx_tls_session *s);

/* Checks that the finished handshake is complete; NEXAR_EAUTH or NEXAR_EPROTO and s->why if not. */
NX_MUST_CHECK nexar_err nx_tls_session_check(nx_tls_session *s);

/* After a handshake that failed on this side with |alert|: sets s->err and s->why unless the check
 * of the certificate already has. */
void nx_tls_session_failed(nx_tls_session *s, uint8_t alert);

/* The error and the text for |alert|, sent by the peer. */
nexar_err nx_tls_alert(const nx_tls_session *s, uint8_t alert, char *why, size_t room);

/* TLS over a stream, after the handshake: the length of the AES-GCM key with which nexar may seal
 * its records; 0: it may not. */
size_t nx_tls_own_key_len(const nx_tls_session *s);
/* Wipes the traffic secrets, which are no longer needed. */
void nx_tls_forget_traffic(nx_tls_session *s);

/* RFC 5705 with label |label| and no context.  NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_tls_export(const nx_tls_session *s, const char *label,
                                      uint8_t out[NX_TLS_SECRET]);

#endif /* NX_TLS_H */
