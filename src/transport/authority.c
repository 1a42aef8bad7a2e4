/* authority.c - the key that signs a cluster's certificates. */
#include <string.h>

#include <gnutls/abstract.h>

#include "base/alloc.h"
#include "transport/cert.h"

struct nx_authority {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t crt;
    nx_der cert;
    nx_job_id job;
    nx_pin pin;
};

void nx_authority_destroy(nx_authority *a)
{
    if (a == NULL) {
        return;
    }
    if (a->crt != NULL) {
        gnutls_x509_crt_deinit(a->crt);
    }
    if (a->key != NULL) {
        gnutls_x509_privkey_deinit(a->key);
    }
    nx_free(a);
}

/* Signs its own certificate: the authority may sign members (and no other authorities) and
 * serve. */
static nexar_err sign_self(nx_authority *a)
{
    int rc = gnutls_x509_crt_init(&a->crt);
    nexar_err err;

    if (rc < 0) {
        return nx_fail_tls("the authority", rc);
    }
    err = nx_crt_begin(a->crt, &a->job, 0);
    if (err != NEXAR_OK) {
        return err;
    }
    rc = gnutls_x509_crt_set_key(a->crt, a->key);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_basic_constraints(a->crt, 1, 0);
    rc = (rc < 0) ? rc
                  : gnutls_x509_crt_set_key_usage(a->crt, GNUTLS_KEY_DIGITAL_SIGNATURE |
                                                              GNUTLS_KEY_KEY_CERT_SIGN);
    rc = (rc < 0) ? rc : gnutls_x509_crt_sign2(a->crt, a->crt, a->key, GNUTLS_DIG_SHA256, 0);
    return (rc < 0) ? nx_fail_tls("the authority", rc) : NEXAR_OK;
}

/* Fills in the fields that follow from key and certificate. */
static nexar_err derive(nx_authority *a)
{
    nexar_err err = nx_cert_encode(a->crt, &a->cert);

    return (err == NEXAR_OK) ? nx_crt_pin(a->crt, &a->pin) : err;
}

/* Only the kind of key that nexar makes is accepted. */
static nexar_err import_key(gnutls_x509_privkey_t *out, const char *text, size_t len)
{
    const gnutls_datum_t datum = {.data = (unsigned char *)(uintptr_t)text,
                                  .size = (unsigned int)len};
    unsigned int bits = 0;

    if (gnutls_x509_privkey_init(out) < 0) {
        return nx_fail_nomem("an authority");
    }
    if ((gnutls_x509_privkey_import2(*out, &datum, GNUTLS_X509_FMT_PEM, NULL, 0) < 0) ||
        (gnutls_x509_privkey_get_pk_algorithm2(*out, &bits) != GNUTLS_PK_ECDSA) || (bits != 256)) {
        return nx_fail(NEXAR_EINVAL, "not an ECDSA P-256 private key in PEM, such as `openssl "
                                     "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256` "
                                     "makes");
    }
    return NEXAR_OK;
}

/* |key| NULL: creates a new key. */
static nexar_err create(nx_authority **out, const nx_job_id *job, const char *key, size_t len)
{
    nx_authority *a = nx_zalloc(sizeof(*a));
    nexar_err err;

    if (a == NULL) {
        return nx_fail_nomem("an authority");
    }
    a->job = *job;
    err = (key == NULL) ? nx_key_generate(&a->key) : import_key(&a->key, key, len);
    if (err == NEXAR_OK) {
        err = sign_self(a);
    }
    if (err == NEXAR_OK) {
        err = derive(a);
    }
    if (err != NEXAR_OK) {
        nx_authority_destroy(a);
        return err;
    }
    *out = a;
    return NEXAR_OK;
}

nexar_err nx_authority_create(nx_authority **out, const nx_job_id *job)
{
    return create(out, job, NULL, 0);
}

nexar_err nx_authority_create_with(nx_authority **out, const nx_job_id *job, const char *key,
                                   size_t len)
{
    return create(out, job, key, len);
}

const nx_job_id *nx_authority_job(const nx_authority *a)
{
    return &a->job;
}

const nx_der *nx_authority_cert(const nx_authority *a)
{
    return &a->cert;
}

void nx_authority_pin(const nx_authority *a, nx_pin *pin)
{
    *pin = a->pin;
}

gnutls_x509_privkey_t nx_authority_key(const nx_authority *a)
{
    return a->key;
}

/* ---- signing ------------------------------------------------------------------------- */

/* Parses a request and checks that its sender has the private key of the public key in it. Only the
 * kind of key that nexar makes is signed. */
static nexar_err parse_request(const nx_der *csr, gnutls_x509_crq_t *out)
{
    gnutls_datum_t datum = {.data = (unsigned char *)csr->data, .size = (unsigned int)csr->len};
    gnutls_x509_crq_t crq;
    unsigned int bits = 0;
    nexar_err err = NEXAR_OK;
    int rc;

    if ((csr->len == 0) || (csr->len > sizeof(csr->data))) {
        return nx_fail(NEXAR_EPROTO, "a certificate request of %zu bytes", csr->len);
    }
    rc = gnutls_x509_crq_init(&crq);
    if (rc < 0) {
        return nx_fail_tls("a certificate request", rc);
    }
    rc = gnutls_x509_crq_import(crq, &datum, GNUTLS_X509_FMT_DER);
    if (rc < 0) {
        err = nx_fail(NEXAR_EPROTO, "a malformed certificate request: %s", gnutls_strerror(rc));
    } else if ((gnutls_x509_crq_get_pk_algorithm(crq, &bits) != GNUTLS_PK_ECDSA) || (bits != 256)) {
        err = nx_fail(NEXAR_EPROTO, "a certificate request for a key that is not ECDSA P-256");
    } else if (gnutls_x509_crq_verify(crq, 0) < 0) {
        err = nx_fail(NEXAR_EPROTO, "a certificate request whose signature is wrong");
    }
    if (err != NEXAR_OK) {
        gnutls_x509_crq_deinit(crq);
        return err;
    }
    *out = crq;
    return NEXAR_OK;
}

/* Takes nothing from the request but its key: the authority assigns names and rights. */
static nexar_err sign(const nx_authority *a, gnutls_x509_crq_t crq, gnutls_x509_crt_t crt)
{
    gnutls_pubkey_t key;
    int rc = gnutls_pubkey_init(&key);

    if (rc < 0) {
        return nx_fail_tls("a certificate", rc);
    }
    rc = gnutls_pubkey_import_x509_crq(key, crq, 0);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_pubkey(crt, key);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_basic_constraints(crt, 0, -1);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_key_usage(crt, GNUTLS_KEY_DIGITAL_SIGNATURE);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    rc = (rc < 0) ? rc : gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    rc = (rc < 0) ? rc : gnutls_x509_crt_sign2(crt, a->crt, a->key, GNUTLS_DIG_SHA256, 0);
    gnutls_pubkey_deinit(key);
    return (rc < 0) ? nx_fail_tls("a certificate", rc) : NEXAR_OK;
}

nexar_err nx_authority_sign(const nx_authority *a, const nx_der *csr, uint64_t member, nx_der *cert)
{
    gnutls_x509_crq_t crq = NULL;
    gnutls_x509_crt_t crt;
    nexar_err err;
    int rc;

    if (member == 0) {
        return nx_fail(NEXAR_EINVAL, "member 0 is the authority itself");
    }
    err = parse_request(csr, &crq);
    if (err != NEXAR_OK) {
        return err;
    }
    rc = gnutls_x509_crt_init(&crt);
    if (rc < 0) {
        gnutls_x509_crq_deinit(crq);
        return nx_fail_tls("a certificate", rc);
    }
    err = nx_crt_begin(crt, &a->job, member);
    if (err == NEXAR_OK) {
        err = sign(a, crq, crt);
    }
    if (err == NEXAR_OK) {
        err = nx_cert_encode(crt, cert);
    }
    gnutls_x509_crt_deinit(crt);
    gnutls_x509_crq_deinit(crq);
    return err;
}

/* ---- export and import --------------------------------------------------------------- */

/* Adds |part| to the text. */
static nexar_err add(const gnutls_datum_t *part, char *text, size_t *len)
{
    if (part->size > NX_AUTHORITY_TEXT - *len) {
        return nx_fail(NEXAR_EINTERNAL, "the authority's key is too long");
    }
    memcpy(text + *len, part->data, part->size);
    *len += part->size;
    return NEXAR_OK;
}

nexar_err nx_authority_export(const nx_authority *a, char text[NX_AUTHORITY_TEXT], size_t *len)
{
    gnutls_datum_t key = {0}, crt = {0};
    nexar_err err;
    int rc = gnutls_x509_privkey_export2(a->key, GNUTLS_X509_FMT_PEM, &key);

    if (rc < 0) {
        return nx_fail_tls("the authority's key", rc);
    }
    *len = 0;
    rc = gnutls_x509_crt_export2(a->crt, GNUTLS_X509_FMT_PEM, &crt);
    err = (rc < 0) ? nx_fail_tls("the authority's certificate", rc) : add(&key, text, len);
    err = (err == NEXAR_OK) ? add(&crt, text, len) : err;
    gnutls_memset(key.data, 0, key.size);
    gnutls_free(key.data);
    gnutls_free(crt.data);
    return err;
}

static nexar_err parse(nx_authority *a, const gnutls_datum_t *text)
{
    uint64_t member = 0;

    if ((gnutls_x509_privkey_init(&a->key) < 0) || (gnutls_x509_crt_init(&a->crt) < 0)) {
        return nx_fail_nomem("an authority");
    }
    if ((gnutls_x509_privkey_import(a->key, text, GNUTLS_X509_FMT_PEM) < 0) ||
        (gnutls_x509_crt_import(a->crt, text, GNUTLS_X509_FMT_PEM) < 0) ||
        !nx_crt_is_for(a->crt, a->key) || (nx_crt_check(a->crt, a->crt) != NEXAR_OK) ||
        (nx_crt_names(a->crt, &a->job, &member) != NEXAR_OK) || (member != 0)) {
        return nx_fail(NEXAR_EPROTO, "not the key of a nexar authority");
    }
    return derive(a);
}

nexar_err nx_authority_import(nx_authority **out, const char *text, size_t len)
{
    const gnutls_datum_t datum = {.data = (unsigned char *)(uintptr_t)text,
                                  .size = (unsigned int)len};
    nx_authority *a = nx_zalloc(sizeof(*a));
    nexar_err err;

    if (a == NULL) {
        return nx_fail_nomem("an authority");
    }
    err = parse(a, &datum);
    if (err != NEXAR_OK) {
        nx_authority_destroy(a);
        return err;
    }
    *out = a;
    return NEXAR_OK;
}
