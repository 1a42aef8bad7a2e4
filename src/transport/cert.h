/*
 * cert.h - certificate functions shared by identity, authority and TLS, with GnuTLS's types, which
 * identity.h hides.
 */
#ifndef NX_CERT_H
#define NX_CERT_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "transport/identity.h"

/* The error for GnuTLS's |rc| (negative) of |what|: NEXAR_ENOMEM, or NEXAR_EINTERNAL with GnuTLS's
 * message. */
nexar_err nx_fail_tls(const char *what, int rc);

/* Makes an ECDSA P-256 key; free it with gnutls_x509_privkey_deinit. */
NX_MUST_CHECK nexar_err nx_key_generate(gnutls_x509_privkey_t *out);

/* Parses one certificate; free it with gnutls_x509_crt_deinit.  NEXAR_EPROTO: malformed. */
NX_MUST_CHECK nexar_err nx_cert_parse(const nx_der *der, gnutls_x509_crt_t *out);
NX_MUST_CHECK nexar_err nx_cert_encode(gnutls_x509_crt_t crt, nx_der *out);

/* nx_cert_names and nx_cert_pin for a parsed certificate. */
NX_MUST_CHECK nexar_err nx_crt_names(gnutls_x509_crt_t crt, nx_job_id *job, uint64_t *member);
NX_MUST_CHECK nexar_err nx_crt_pin(gnutls_x509_crt_t crt, nx_pin *pin);

/* Begins a certificate for |member| of |job|: version, random serial number, names, unlimited
 * validity. The caller sets key and usage and signs. */
NX_MUST_CHECK nexar_err nx_crt_begin(gnutls_x509_crt_t crt, const nx_job_id *job, uint64_t member);

/* Verifies that the authority |by| has signed |crt|. The only place where certificates are
 * verified. Ignores the dates: see identity.h.  NEXAR_EAUTH: the message says why. */
NX_MUST_CHECK nexar_err nx_crt_check(gnutls_x509_crt_t crt, gnutls_x509_crt_t by);

/* Whether |crt| is for |key|. */
bool nx_crt_is_for(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key);

/* For TLS; borrowed, valid as long as the identity. */
gnutls_x509_privkey_t nx_identity_key(const nx_identity *id);
const nx_der *nx_identity_cert(const nx_identity *id);      /* len 0: none yet */
const nx_der *nx_identity_authority(const nx_identity *id); /* len 0: none yet */
gnutls_x509_privkey_t nx_authority_key(const nx_authority *a);

#endif /* NX_CERT_H */
