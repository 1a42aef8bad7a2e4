/* cert.c - reading and making certificates: names, pins, validity. */
#include "transport/cert.h"

#include <gnutls/crypto.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    NAME_ROOM = 80,   /* "nexar://" + 32 + "/" + 20 + 0, with a reserve */
    SERIAL_SIZE = 16, /* random, so no two certificates share one */
    JOB_DIGITS = 2 * NX_JOB_SIZE,
};

static const char SCHEME[] = "nexar://";

nexar_err nx_fail_tls(const char *what, int rc)
{
    return nx_fail((rc == GNUTLS_E_MEMORY_ERROR) ? NEXAR_ENOMEM : NEXAR_EINTERNAL, "%s: %s", what,
                   gnutls_strerror(rc));
}

nexar_err nx_key_generate(gnutls_x509_privkey_t *out)
{
    gnutls_x509_privkey_t key;
    int rc = gnutls_x509_privkey_init(&key);

    if (rc < 0) {
        return nx_fail_tls("a key", rc);
    }
    rc = gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc < 0) {
        gnutls_x509_privkey_deinit(key);
        return nx_fail_tls("a key", rc);
    }
    *out = key;
    return NEXAR_OK;
}

nexar_err nx_cert_parse(const nx_der *der, gnutls_x509_crt_t *out)
{
    gnutls_datum_t datum = {.data = (unsigned char *)der->data, .size = (unsigned int)der->len};
    gnutls_x509_crt_t crt;
    int rc;

    if ((der->len == 0) || (der->len > sizeof(der->data))) {
        return nx_fail(NEXAR_EPROTO, "a certificate of %zu bytes", der->len);
    }
    rc = gnutls_x509_crt_init(&crt);
    if (rc < 0) {
        return nx_fail_tls("a certificate", rc);
    }
    rc = gnutls_x509_crt_import(crt, &datum, GNUTLS_X509_FMT_DER);
    if (rc < 0) {
        gnutls_x509_crt_deinit(crt);
        return nx_fail(NEXAR_EPROTO, "a malformed certificate: %s", gnutls_strerror(rc));
    }
    *out = crt;
    return NEXAR_OK;
}

nexar_err nx_cert_encode(gnutls_x509_crt_t crt, nx_der *out)
{
    size_t len = sizeof(out->data);
    int rc = gnutls_x509_crt_export(crt, GNUTLS_X509_FMT_DER, out->data, &len);

    if (rc < 0) {
        return nx_fail_tls("a certificate", rc);
    }
    out->len = len;
    return NEXAR_OK;
}

static int hex_digit(char c)
{
    if ((c >= '0') && (c <= '9')) {
        return c - '0';
    }
    return ((c >= 'a') && (c <= 'f')) ? c - 'a' + 10 : -1;
}

static bool parse_job(const char *text, nx_job_id *job)
{
    for (size_t i = 0; i < NX_JOB_SIZE; i++) {
        int high = hex_digit(text[2 * i]), low = (high < 0) ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0) {
            return false;
        }
        job->bytes[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

/* Accepts only the form that nx_crt_begin writes: no sign, no leading 0. */
static bool parse_member(const char *text, uint64_t *member)
{
    uint64_t value = 0;

    if ((text[0] == '\0') || ((text[0] == '0') && (text[1] != '\0'))) {
        return false;
    }
    for (; *text != '\0'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if ((*text < '0') || (*text > '9') || (value > (UINT64_MAX - digit) / 10)) {
            return false;
        }
        value = value * 10 + digit;
    }
    *member = value;
    return true;
}

nexar_err nx_crt_names(gnutls_x509_crt_t crt, nx_job_id *job, uint64_t *member)
{
    char name[NAME_ROOM] = "", more[NAME_ROOM];
    size_t size = sizeof(name) - 1, more_size = sizeof(more), scheme = strlen(SCHEME);
    int type = gnutls_x509_crt_get_subject_alt_name(crt, 0, name, &size, NULL);
    nx_job_id found;
    uint64_t who;

    if ((type != GNUTLS_SAN_URI) ||
        (gnutls_x509_crt_get_subject_alt_name(crt, 1, more, &more_size, NULL) !=
         GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)) {
        return nx_fail(NEXAR_EAUTH, "the certificate does not name one job and member");
    }
    name[size] = '\0';
    if ((strlen(name) != size) || (size < scheme + JOB_DIGITS + 2) ||
        (memcmp(name, SCHEME, scheme) != 0) || !parse_job(name + scheme, &found) ||
        (name[scheme + JOB_DIGITS] != '/') || !parse_member(name + scheme + JOB_DIGITS + 1, &who)) {
        return nx_fail(NEXAR_EAUTH, "the certificate's name is not nexar://JOB/MEMBER");
    }
    *job = found;
    *member = who;
    return NEXAR_OK;
}

nexar_err nx_cert_names(const nx_der *cert, nx_job_id *job, uint64_t *member)
{
    gnutls_x509_crt_t crt = NULL;
    nexar_err err;

    if (nx_cert_parse(cert, &crt) != NEXAR_OK) {
        return NEXAR_EAUTH;
    }
    err = nx_crt_names(crt, job, member);
    gnutls_x509_crt_deinit(crt);
    return err;
}

nexar_err nx_crt_pin(gnutls_x509_crt_t crt, nx_pin *pin)
{
    nx_pin made;
    size_t size = sizeof(made.bytes);
    int rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, made.bytes, &size);

    if ((rc < 0) || (size != sizeof(made.bytes))) {
        return nx_fail(NEXAR_EAUTH, "the certificate's key cannot be read: %s",
                       gnutls_strerror(rc));
    }
    *pin = made;
    return NEXAR_OK;
}

nexar_err nx_cert_pin(const nx_der *cert, nx_pin *pin)
{
    gnutls_x509_crt_t crt = NULL;
    nexar_err err;

    if (nx_cert_parse(cert, &crt) != NEXAR_OK) {
        return NEXAR_EAUTH;
    }
    err = nx_crt_pin(crt, pin);
    gnutls_x509_crt_deinit(crt);
    return err;
}

static size_t write_name(char *name, size_t room, const nx_job_id *job, uint64_t member)
{
    char hex[JOB_DIGITS + 1];

    for (size_t i = 0; i < NX_JOB_SIZE; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", job->bytes[i]);
    }
    return (size_t)snprintf(name, room, "%s%s/%" PRIu64, SCHEME, hex, member);
}

static int set_subject(gnutls_x509_crt_t crt, uint64_t member)
{
    char text[NAME_ROOM];
    int len = (member == 0) ? snprintf(text, sizeof(text), "nexar authority")
                            : snprintf(text, sizeof(text), "nexar member %" PRIu64, member);

    return gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, text,
                                         (unsigned int)len);
}

static int set_serial(gnutls_x509_crt_t crt)
{
    uint8_t serial[SERIAL_SIZE];
    int rc = gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof(serial));

    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive and not 0 */
    return (rc < 0) ? rc : gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
}

/* From 1970 without an end (RFC 5280, 4.1.2.5): for readers that check dates. */
static int set_dates(gnutls_x509_crt_t crt)
{
    const int rc = gnutls_x509_crt_set_activation_time(crt, 0);

    return (rc < 0)
               ? rc
               : gnutls_x509_crt_set_expiration_time(crt, GNUTLS_X509_NO_WELL_DEFINED_EXPIRATION);
}

nexar_err nx_crt_begin(gnutls_x509_crt_t crt, const nx_job_id *job, uint64_t member)
{
    char name[NAME_ROOM];
    size_t size = write_name(name, sizeof(name), job, member);
    int rc = gnutls_x509_crt_set_version(crt, 3);

    rc = (rc < 0) ? rc : set_serial(crt);
    rc = (rc < 0) ? rc : set_subject(crt, member);
    rc = (rc < 0) ? rc
                  : gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_URI, name,
                                                         (unsigned int)size, GNUTLS_FSAN_SET);
    rc = (rc < 0) ? rc : set_dates(crt);
    return (rc < 0) ? nx_fail_tls("a certificate", rc) : NEXAR_OK;
}

bool nx_crt_is_for(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key)
{
    uint8_t of_crt[NX_PIN_SIZE], of_key[NX_PIN_SIZE];
    size_t crt_size = sizeof(of_crt), key_size = sizeof(of_key);

    return (gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, of_crt, &crt_size) == 0) &&
           (gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size) == 0) &&
           (crt_size == key_size) && (memcmp(of_crt, of_key, crt_size) == 0);
}

/* ---- verifying ----------------------------------------------------------------------- */

/* Reports, in GnuTLS's text, the fault in |status|, bits of gnutls_certificate_status_t. */
static nexar_err refuse(unsigned int status)
{
    gnutls_datum_t words = {0};
    nexar_err err;

    if ((status & (GNUTLS_CERT_SIGNER_NOT_FOUND | GNUTLS_CERT_SIGNATURE_FAILURE)) != 0) {
        return nx_fail(NEXAR_EAUTH, "the certificate was not signed by this cluster's authority");
    }
    if (gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &words, 0) < 0) {
        return nx_fail(NEXAR_EAUTH, "the certificate is refused (status 0x%x)", status);
    }
    err = nx_fail(NEXAR_EAUTH, "the certificate is refused: %s", (const char *)words.data);
    gnutls_free(words.data);
    return err;
}

nexar_err nx_crt_check(gnutls_x509_crt_t crt, gnutls_x509_crt_t by)
{
    const unsigned int flags =
        GNUTLS_VERIFY_DISABLE_TIME_CHECKS | GNUTLS_VERIFY_DISABLE_TRUSTED_TIME_CHECKS;
    unsigned int status = 0;
    const int rc = gnutls_x509_crt_verify(crt, &by, 1, flags, &status);

    if (rc < 0) {
        return nx_fail(NEXAR_EAUTH, "the certificate cannot be verified: %s", gnutls_strerror(rc));
    }
    return (status == 0) ? NEXAR_OK : refuse(status);
}
