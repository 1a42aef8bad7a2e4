/* tls_verify.c - authenticates the peer: certificates, pins, protocol versions. */
#include "tls_verify.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/containers/list.h"
#include "base/text/sentence.h"
#include "transport/cert.h"

enum { EXT_ALPN = 16 }; /* RFC 7301 */

static nx_tls_session *session_of(gnutls_session_t session)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);

    return nx_list_entry(ref, nx_tls_session, ref);
}

/* Keeps the first reason, which is the cause. */
static void refuse(nx_tls_session *s, nexar_err err, const char *why)
{
    if (s->err == NEXAR_OK) {
        s->err = err;
        (void)nx_sentence(s->why, sizeof(s->why), "%s", why);
    }
}

/* ---- certificates -------------------------------------------------------------------- */

/* The certificate that the peer has presented; false: none. */
static bool shown(gnutls_session_t session, nx_der *der)
{
    unsigned int n = 0;
    const gnutls_datum_t *list = gnutls_certificate_get_peers(session, &n);

    if ((list == NULL) || (n == 0) || (list[0].size > sizeof(der->data))) {
        return false;
    }
    memcpy(der->data, list[0].data, list[0].size);
    der->len = list[0].size;
    return true;
}

static nexar_err check_signature(const nx_tls_session *s, const nx_der *der)
{
    gnutls_x509_crt_t crt = NULL;
    nexar_err err;

    if (s->tls->authority == NULL) {
        return nx_fail(NEXAR_EAUTH, "this process has no certificate yet and believes no member's");
    }
    if (nx_cert_parse(der, &crt) != NEXAR_OK) {
        return NEXAR_EAUTH;
    }
    err = nx_crt_check(crt, s->tls->authority);
    gnutls_x509_crt_deinit(crt);
    return err;
}

static nexar_err verify_member(nx_tls_session *s, const nx_der *der)
{
    uint64_t member = 0;
    nx_job_id job;
    nexar_err err = check_signature(s, der);

    err = (err == NEXAR_OK) ? nx_cert_names(der, &job, &member) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    if (memcmp(&job, &s->tls->job, sizeof(job)) != 0) {
        return nx_fail(NEXAR_EAUTH, "the certificate is of another job");
    }
    if (member == 0) {
        return nx_fail(NEXAR_EAUTH, "the certificate is the authority's, not a member's");
    }
    if (!s->server && (member != s->target.member)) {
        return nx_fail(NEXAR_EAUTH, "the certificate is of member %" PRIu64 ", wanted was %" PRIu64,
                       member, s->target.member);
    }
    s->member = member;
    return NEXAR_OK;
}

static nexar_err verify_pin(const nx_tls_session *s, const nx_der *der)
{
    nx_pin pin;
    nexar_err err = nx_cert_pin(der, &pin);

    if (err != NEXAR_OK) {
        return err;
    }
    if (memcmp(&pin, &s->target.pin, sizeof(pin)) != 0) {
        return nx_fail(NEXAR_EAUTH, "the seed's key differs from the pinned key");
    }
    return NEXAR_OK;
}

static nexar_err verify(nx_tls_session *s)
{
    bool pinned = !s->server && (s->target.member == 0);
    nx_der der;

    if (!shown(s->session, &der)) {
        return (s->server && s->tls->seed)
                   ? NEXAR_OK
                   : nx_fail(NEXAR_EAUTH, "no certificate was shown, or too large a one");
    }
    return pinned ? verify_pin(s, &der) : verify_member(s, &der);
}

int nx_tls_on_certificate(gnutls_session_t session)
{
    nx_tls_session *s = session_of(session);
    nexar_err err = verify(s);

    if (err != NEXAR_OK) {
        refuse(s, err, nexar_last_error());
        return GNUTLS_E_CERTIFICATE_ERROR;
    }
    s->verified = true;
    return 0;
}

nexar_err nx_tls_session_check(nx_tls_session *s)
{
    gnutls_datum_t chosen;
    nx_der der;

    if ((gnutls_alpn_get_selected_protocol(s->session, &chosen) < 0) ||
        (chosen.size != strlen(s->tls->alpn)) ||
        (memcmp(chosen.data, s->tls->alpn, chosen.size) != 0)) {
        refuse(s, NEXAR_EPROTO, "no protocol was agreed on");
    }
    if (!s->verified && !(s->server && s->tls->seed && !shown(s->session, &der))) {
        refuse(s, NEXAR_EAUTH, "the certificate was not verified");
    }
    return (s->err == NEXAR_OK) ? NEXAR_OK : nx_fail(s->err, "%s", s->why);
}

/* ---- protocol versions --------------------------------------------------------------- */

void nx_tls_first_protocol(const uint8_t *data, size_t size, char *out, size_t room)
{
    size_t len;

    if (size < 3) {
        return;
    }
    len = data[2];
    if ((len == 0) || (len > size - 3)) {
        return;
    }
    len = (len < room) ? len : room - 1;
    for (size_t i = 0; i < len; i++) {
        const char c = (char)data[3 + i];

        out[i] = c;
        if ((c <= ' ') || (c > '~')) {
            out[i] = '?';
        }
    }
    out[len] = '\0';
}

/* gnutls_ext_raw_process_func */
static int on_extension(void *ctx, unsigned int id, const unsigned char *data, unsigned int size)
{
    nx_tls_session *s = ctx;

    if (id == EXT_ALPN) {
        nx_tls_first_protocol(data, size, s->offered, sizeof(s->offered));
    }
    return 0;
}

int nx_tls_on_client_hello(gnutls_session_t session, unsigned int type, unsigned int when,
                           unsigned int incoming, const gnutls_datum_t *msg)
{
    nx_tls_session *s = session_of(session);

    (void)type;
    (void)when;
    (void)incoming;
    (void)gnutls_ext_raw_parse(s, on_extension, msg, GNUTLS_EXT_RAW_FLAG_TLS_CLIENT_HELLO);
    return (s->offered[0] == '\0') ? GNUTLS_E_NO_APPLICATION_PROTOCOL : 0;
}

/* ---- alerts -------------------------------------------------------------------------- */

static bool is_about_certificate(uint8_t alert)
{
    switch (alert) {
    case GNUTLS_A_BAD_CERTIFICATE:
    case GNUTLS_A_UNSUPPORTED_CERTIFICATE:
    case GNUTLS_A_CERTIFICATE_REVOKED:
    case GNUTLS_A_CERTIFICATE_EXPIRED:
    case GNUTLS_A_CERTIFICATE_UNKNOWN:
    case GNUTLS_A_UNKNOWN_CA:
    case GNUTLS_A_ACCESS_DENIED:
    case GNUTLS_A_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

static const char *alert_words(uint8_t alert)
{
    const char *name = gnutls_alert_get_name((gnutls_alert_description_t)alert);

    return (name == NULL) ? "an unknown alert" : name;
}

void nx_tls_session_failed(nx_tls_session *s, uint8_t alert)
{
    char words[NX_TLS_WHY];

    if (alert == GNUTLS_A_NO_APPLICATION_PROTOCOL) {
        (void)snprintf(words, sizeof(words), "the versions differ: %s here, %s there", s->tls->alpn,
                       (s->offered[0] == '\0') ? "none" : s->offered);
        refuse(s, NEXAR_EPROTO, words);
    } else if (alert == GNUTLS_A_CERTIFICATE_REQUIRED) {
        refuse(s, NEXAR_EAUTH, "no certificate was shown");
    } else {
        (void)snprintf(words, sizeof(words), "TLS: %s", alert_words(alert));
        refuse(s, is_about_certificate(alert) ? NEXAR_EAUTH : NEXAR_EPROTO, words);
    }
}

nexar_err nx_tls_alert(const nx_tls_session *s, uint8_t alert, char *why, size_t room)
{
    if (alert == GNUTLS_A_NO_APPLICATION_PROTOCOL) {
        (void)snprintf(why, room, "it speaks another version than %s", s->tls->alpn);
        return NEXAR_EPROTO;
    }
    (void)snprintf(why, room, "TLS: %s", alert_words(alert));
    return is_about_certificate(alert) ? NEXAR_EAUTH : NEXAR_EPROTO;
}
