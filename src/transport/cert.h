/*
 * cert.h - what identity, authority and TLS share about certificates: GnuTLS's
 * objects, which identity.h keeps from everybody else.
 */
#ifndef NX_CERT_H
#define NX_CERT_H

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "transport/identity.h"

/* The error for GnuTLS's |rc| (negative) of |what|: NEXAR_ENOMEM, or
 * NEXAR_EINTERNAL with GnuTLS's words. */
nexar_err nx_fail_tls(const char *what, int rc);

/* An ECDSA P-256 key, given back with gnutls_x509_privkey_deinit. */
NX_MUST_CHECK nexar_err nx_key_generate(gnutls_x509_privkey_t *out);

/* Parses one certificate, given back with gnutls_x509_crt_deinit.  NEXAR_EPROTO:
 * it is none. */
NX_MUST_CHECK nexar_err nx_cert_parse(const nx_der *der, gnutls_x509_crt_t *out);
NX_MUST_CHECK nexar_err nx_cert_encode(gnutls_x509_crt_t crt, nx_der *out);

/* nx_cert_names and nx_cert_pin for a parsed certificate. */
NX_MUST_CHECK nexar_err nx_crt_names(gnutls_x509_crt_t crt, nx_job_id *job, uint64_t *member);
NX_MUST_CHECK nexar_err nx_crt_pin(gnutls_x509_crt_t crt, nx_pin *pin);

/* Starts a certificate for |member| of |job|: version, a random serial number, names, no limits in
 * time.  The caller sets key and use and signs. */
NX_MUST_CHECK nexar_err nx_crt_begin(gnutls_x509_crt_t crt, const nx_job_id *job, uint64_t member);

/* Whether the authority |by| has signed |crt|; the only place where certificates are verified.  The
 * dates in it are not read: see identity.h.  NEXAR_EAUTH: the sentence says why not. */
NX_MUST_CHECK nexar_err nx_crt_check(gnutls_x509_crt_t crt, gnutls_x509_crt_t by);

/* Whether |crt| is for |key|. */
bool nx_crt_is_for(gnutls_x509_crt_t crt, gnutls_x509_privkey_t key);

/* What TLS needs to act as one of these; borrowed, valid as long as it is. */
gnutls_x509_privkey_t nx_identity_key(const nx_identity *id);
const nx_der *nx_identity_cert(const nx_identity *id);      /* len 0: none yet */
const nx_der *nx_identity_authority(const nx_identity *id); /* len 0: none yet */
gnutls_x509_privkey_t nx_authority_key(const nx_authority *a);

#endif /* NX_CERT_H */
