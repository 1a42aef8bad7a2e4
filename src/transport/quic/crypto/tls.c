/* tls.c - credentials and sessions of GnuTLS, for ngtcp2. */
#include "tls.h"

#include <stdio.h>
#include <string.h>

#include "aead.h"
#include "base/alloc.h"
#include "base/containers/list.h"
#include "protect.h"
#include "tls_verify.h"
#include "transport/cert.h"

/* AES-128-GCM first: by GnuTLS five times as fast as ChaCha20 where the CPU has AES (measured on
 * loopback). No tickets, no resumption: each handshake presents a certificate. */
static const char PRIORITY[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:"
    "-GROUP-ALL:+GROUP-X25519:+GROUP-SECP256R1:%DISABLE_TLS13_COMPAT_MODE";

static nexar_err set_key(nx_tls *tls, const nx_der *der, gnutls_x509_privkey_t key)
{
    gnutls_x509_crt_t crt = NULL;
    nexar_err err = nx_cert_parse(der, &crt);
    int rc;

    if (err != NEXAR_OK) {
        return err;
    }
    rc = gnutls_certificate_set_x509_key(tls->credentials, &crt, 1, key);
    gnutls_x509_crt_deinit(crt);
    return (rc < 0) ? nx_fail_tls("credentials", rc) : NEXAR_OK;
}

static nexar_err fill(nx_tls *tls, const nx_tls_config *config)
{
    nexar_err err;

    if (config->authority != NULL) {
        tls->seed = true;
        tls->job = *nx_authority_job(config->authority);
        err =
            set_key(tls, nx_authority_cert(config->authority), nx_authority_key(config->authority));
        return (err != NEXAR_OK)
                   ? err
                   : nx_cert_parse(nx_authority_cert(config->authority), &tls->authority);
    }
    if ((config->identity != NULL) && (nx_identity_member(config->identity) != 0)) {
        tls->member = nx_identity_member(config->identity);
        tls->job = config->job;
        err = set_key(tls, nx_identity_cert(config->identity), nx_identity_key(config->identity));
        return (err != NEXAR_OK)
                   ? err
                   : nx_cert_parse(nx_identity_authority(config->identity), &tls->authority);
    }
    return NEXAR_OK;
}

nexar_err nx_tls_create(nx_tls **out, const nx_tls_config *config)
{
    nx_tls *tls = nx_zalloc(sizeof(*tls));
    nexar_err err;
    int rc;

    if (tls == NULL) {
        return nx_fail_nomem("credentials");
    }
    tls->holders = 1;
    tls->alpn = config->alpn;
    rc = gnutls_certificate_allocate_credentials(&tls->credentials);
    if (rc < 0) {
        nx_free(tls);
        return nx_fail_tls("credentials", rc);
    }
    err = fill(tls, config);
    if (err != NEXAR_OK) {
        nx_tls_release(tls);
        return err;
    }
    *out = tls;
    return NEXAR_OK;
}

nx_tls *nx_tls_hold(nx_tls *tls)
{
    tls->holders++;
    return tls;
}

void nx_tls_release(nx_tls *tls)
{
    if ((tls == NULL) || (--tls->holders > 0)) {
        return;
    }
    gnutls_certificate_free_credentials(tls->credentials);
    if (tls->authority != NULL) {
        gnutls_x509_crt_deinit(tls->authority);
    }
    nx_free(tls);
}

bool nx_tls_can_accept(const nx_tls *tls)
{
    return tls->seed || (tls->member != 0);
}

uint64_t nx_tls_member(const nx_tls *tls)
{
    return tls->member;
}

bool nx_tls_is_seed(const nx_tls *tls)
{
    return tls->seed;
}

/* ---- sessions ------------------------------------------------------------------------ */

static int configure_server(nx_tls_session *s)
{
    gnutls_handshake_set_hook_function(s->session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_PRE,
                                       nx_tls_on_client_hello);
    gnutls_certificate_server_set_request(s->session,
                                          s->tls->seed ? GNUTLS_CERT_REQUEST : GNUTLS_CERT_REQUIRE);
    /* Clients have at most one certificate, so they need no list of authorities. */
    gnutls_certificate_send_x509_rdn_sequence(s->session, 1);
    return (s->ref.get_conn == NULL) ? 0
                                     : ngtcp2_crypto_gnutls_configure_server_session(s->session);
}

static int configure_client(nx_tls_session *s)
{
    return (s->ref.get_conn == NULL) ? 0
                                     : ngtcp2_crypto_gnutls_configure_client_session(s->session);
}

/* For a session over a stream: keeps the secrets for tls_record.h. */
static int on_stream_secret(gnutls_session_t session, gnutls_record_encryption_level_t level,
                            const void *rx, const void *tx, size_t len)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);
    nx_tls_session *s = nx_list_entry(ref, nx_tls_session, ref);

    if ((level != GNUTLS_ENCRYPTION_LEVEL_APPLICATION) || (len > sizeof(s->rx))) {
        return 0;
    }
    s->traffic_len = len;
    if (rx != NULL) {
        memcpy(s->rx, rx, len);
    }
    if (tx != NULL) {
        memcpy(s->tx, tx, len);
    }
    return 0;
}

static int configure(nx_tls_session *s)
{
    gnutls_datum_t alpn = {.data = (unsigned char *)s->tls->alpn,
                           .size = (unsigned int)strlen(s->tls->alpn)};
    int rc = gnutls_priority_set_direct(s->session, PRIORITY, NULL);

    if (rc < 0) {
        return rc;
    }
    gnutls_session_set_ptr(s->session, &s->ref);
    gnutls_session_set_verify_function(s->session, nx_tls_on_certificate);
    rc = gnutls_alpn_set_protocols(s->session, &alpn, 1, GNUTLS_ALPN_MANDATORY);
    rc = (rc < 0) ? rc
                  : gnutls_credentials_set(s->session, GNUTLS_CRD_CERTIFICATE, s->tls->credentials);
    if (rc < 0) {
        return rc;
    }
    if ((s->server ? configure_server(s) : configure_client(s)) != 0) {
        return GNUTLS_E_INTERNAL_ERROR;
    }
    if (s->ref.get_conn != NULL) {
        nx_protect_session(s->session);
    } else if (s->own_aead) {
        gnutls_handshake_set_secret_function(s->session, on_stream_secret);
    }
    return 0;
}

nexar_err nx_tls_session_init(nx_tls_session *s, nx_tls *tls, const nx_tls_target *target,
                              ngtcp2_crypto_get_conn get_conn, void *conn)
{
    const unsigned int flags =
        GNUTLS_NO_TICKETS | GNUTLS_NO_AUTO_SEND_TICKET | ((get_conn == NULL) ? GNUTLS_NONBLOCK : 0);
    int rc;

    *s = (nx_tls_session){.tls = tls, .server = (target == NULL), .own_aead = nx_aead_in_use()};
    s->ref = (ngtcp2_crypto_conn_ref){.get_conn = get_conn, .user_data = conn};
    if (target != NULL) {
        s->target = *target;
    }
    rc = gnutls_init(&s->session, flags | (s->server ? GNUTLS_SERVER : GNUTLS_CLIENT));
    if (rc < 0) {
        s->session = NULL;
        return nx_fail_tls("a TLS session", rc);
    }
    rc = configure(s);
    if (rc < 0) {
        gnutls_deinit(s->session);
        s->session = NULL;
        return nx_fail_tls("a TLS session", rc);
    }
    (void)nx_tls_hold(tls);
    return NEXAR_OK;
}

void nx_tls_session_fini(nx_tls_session *s)
{
    if (s->session == NULL) {
        return;
    }
    gnutls_deinit(s->session);
    s->session = NULL;
    nx_tls_forget_traffic(s);
    nx_tls_release(s->tls);
}

size_t nx_tls_own_key_len(const nx_tls_session *s)
{
    if (!s->own_aead || (s->traffic_len == 0)) {
        return 0;
    }
    switch ((int)gnutls_cipher_get(s->session)) {
    case GNUTLS_CIPHER_AES_128_GCM:
        return 16;
    case GNUTLS_CIPHER_AES_256_GCM:
        return 32;
    default:
        return 0;
    }
}

void nx_tls_forget_traffic(nx_tls_session *s)
{
    explicit_bzero(s->rx, sizeof(s->rx));
    explicit_bzero(s->tx, sizeof(s->tx));
    s->traffic_len = 0;
}

nexar_err nx_tls_export(const nx_tls_session *s, const char *label, uint8_t out[NX_TLS_SECRET])
{
    uint8_t made[NX_TLS_SECRET];
    int rc =
        gnutls_prf_rfc5705(s->session, strlen(label), label, 0, NULL, sizeof(made), (char *)made);

    if (rc < 0) {
        return nx_fail_tls("keying material", rc);
    }
    memcpy(out, made, sizeof(made));
    return NEXAR_OK;
}
