/* identity.c - a process's own key and the certificate issued for it. */
#include "transport/identity.h"

#include <string.h>

#include "base/alloc.h"
#include "transport/cert.h"

struct nx_identity {
    gnutls_x509_privkey_t key;
    nx_der cert, authority; /* len 0 before nx_identity_adopt */
    uint64_t member;
};

nexar_err nx_identity_create(nx_identity **out)
{
    nx_identity *id = nx_zalloc(sizeof(*id));
    nexar_err err;

    if (id == NULL) {
        return nx_fail_nomem("an identity");
    }
    err = nx_key_generate(&id->key);
    if (err != NEXAR_OK) {
        nx_free(id);
        return err;
    }
    *out = id;
    return NEXAR_OK;
}

void nx_identity_destroy(nx_identity *id)
{
    if (id == NULL) {
        return;
    }
    gnutls_x509_privkey_deinit(id->key);
    nx_free(id);
}

nexar_err nx_identity_request(const nx_identity *id, nx_der *csr)
{
    gnutls_x509_crq_t crq;
    size_t len = sizeof(csr->data);
    int rc = gnutls_x509_crq_init(&crq);

    if (rc < 0) {
        return nx_fail_tls("a certificate request", rc);
    }
    rc = gnutls_x509_crq_set_version(crq, 1);
    rc = (rc < 0) ? rc : gnutls_x509_crq_set_key(crq, id->key);
    rc = (rc < 0) ? rc : gnutls_x509_crq_sign2(crq, id->key, GNUTLS_DIG_SHA256, 0);
    rc = (rc < 0) ? rc : gnutls_x509_crq_export(crq, GNUTLS_X509_FMT_DER, csr->data, &len);
    gnutls_x509_crq_deinit(crq);
    if (rc < 0) {
        return nx_fail_tls("a certificate request", rc);
    }
    csr->len = len;
    return NEXAR_OK;
}

/* Whether |crt| is for |key|, signed by |by|, and both are of one job; then |*member| is the member
 * that |crt| names. */
static nexar_err check_pair(gnutls_x509_privkey_t key, gnutls_x509_crt_t crt, gnutls_x509_crt_t by,
                            uint64_t *member)
{
    uint64_t who = 0, issuer = 0;
    nx_job_id job, of_issuer;
    nexar_err err;

    if (!nx_crt_is_for(crt, key)) {
        return nx_fail(NEXAR_EAUTH, "the certificate is for another key");
    }
    err = nx_crt_check(crt, by);
    if (err == NEXAR_OK) {
        err = nx_crt_names(crt, &job, &who);
    }
    if (err == NEXAR_OK) {
        err = nx_crt_names(by, &of_issuer, &issuer);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if ((who == 0) || (issuer != 0) || (memcmp(&job, &of_issuer, sizeof(job)) != 0)) {
        return nx_fail(NEXAR_EAUTH, "the certificate is not one of a member of its job");
    }
    *member = who;
    return NEXAR_OK;
}

nexar_err nx_identity_adopt(nx_identity *id, const nx_der *cert, const nx_der *authority)
{
    gnutls_x509_crt_t crt, by;
    uint64_t member = 0;
    nexar_err err = NEXAR_EAUTH;

    if (nx_cert_parse(cert, &crt) != NEXAR_OK) {
        return NEXAR_EAUTH;
    }
    if (nx_cert_parse(authority, &by) == NEXAR_OK) {
        err = check_pair(id->key, crt, by, &member);
        gnutls_x509_crt_deinit(by);
    }
    gnutls_x509_crt_deinit(crt);
    if (err == NEXAR_OK) {
        id->cert = *cert;
        id->authority = *authority;
        id->member = member;
    }
    return err;
}

uint64_t nx_identity_member(const nx_identity *id)
{
    return id->member;
}

gnutls_x509_privkey_t nx_identity_key(const nx_identity *id)
{
    return id->key;
}

const nx_der *nx_identity_cert(const nx_identity *id)
{
    return &id->cert;
}

const nx_der *nx_identity_authority(const nx_identity *id)
{
    return &id->authority;
}
