/*
 * identity.h - the identity of a process: keys, certificates, the cluster's authority.
 *
 * A key never leaves the process that made it. The authority (held by the seed) signs certificates
 * whose subject alternative name is the URI nexar://JOB/MEMBER: JOB 32 hex digits, MEMBER decimal.
 * Members accept each other if the authority has signed and the job is the same. A dialler also
 * checks that it reached the intended member.
 *
 * A certificate has unlimited validity. It binds a key to a member number, and that remains true,
 * since no number is assigned twice. The view decides whether a member may take part, not a clock
 * (docs/internals/joining.md). So differing or changed clocks have no effect.
 *
 * Keys are ECDSA P-256 (GnuTLS). Nothing blocks except random number generation.
 */
#ifndef NX_IDENTITY_H
#define NX_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_JOB_SIZE = 16, NX_PIN_SIZE = 32, NX_CERT_MAX = 4096 };

typedef struct nx_job_id {
    uint8_t bytes[NX_JOB_SIZE];
} nx_job_id;

/* SHA-256 of a certificate's public key (its SubjectPublicKeyInfo). */
typedef struct nx_pin {
    uint8_t bytes[NX_PIN_SIZE];
} nx_pin;

/* A DER encoding in the caller's memory. */
typedef struct nx_der {
    uint8_t data[NX_CERT_MAX];
    size_t len;
} nx_der;

/* A private key, and later the certificate for it. */
typedef struct nx_identity nx_identity;

/* Makes a key.  NEXAR_ENOMEM, or NEXAR_EINTERNAL with GnuTLS's message. */
NX_MUST_CHECK nexar_err nx_identity_create(nx_identity **out);
void nx_identity_destroy(nx_identity *id);

/* A certificate request (PKCS#10) signed by the key. */
NX_MUST_CHECK nexar_err nx_identity_request(const nx_identity *id, nx_der *csr);

/* Stores the certificate that the authority issued for this key, and the authority's own.
 * NEXAR_EAUTH: it is for another key, or not signed by the authority. */
NX_MUST_CHECK nexar_err nx_identity_adopt(nx_identity *id, const nx_der *cert,
                                          const nx_der *authority);

/* The member that the certificate names; 0 before nx_identity_adopt. */
uint64_t nx_identity_member(const nx_identity *id);

/* The authority of a cluster: an identity with a self-signed certificate. The seed also serves with
 * it. */
typedef struct nx_authority nx_authority;
NX_MUST_CHECK nexar_err nx_authority_create(nx_authority **out, const nx_job_id *job);
/* The same with a key from elsewhere, as PEM.  NEXAR_EINVAL: it is no ECDSA P-256 private key. */
NX_MUST_CHECK nexar_err nx_authority_create_with(nx_authority **out, const nx_job_id *job,
                                                 const char *key, size_t len);
void nx_authority_destroy(nx_authority *a);
const nx_job_id *nx_authority_job(const nx_authority *a);
const nx_der *nx_authority_cert(const nx_authority *a);
void nx_authority_pin(const nx_authority *a, nx_pin *pin);

/* Signs a request for |member| (not 0; each number is signed for one key only).  NEXAR_EPROTO: the
 * request is malformed or its signature is wrong. */
NX_MUST_CHECK nexar_err nx_authority_sign(const nx_authority *a, const nx_der *csr, uint64_t member,
                                          nx_der *cert);

/* The authority's key and certificate as text (PEM), a secret, for a restarted seed. At most
 * NX_AUTHORITY_TEXT bytes, without a terminating 0.  NEXAR_EINTERNAL. */
enum { NX_AUTHORITY_TEXT = 8192 };
NX_MUST_CHECK nexar_err nx_authority_export(const nx_authority *a, char text[NX_AUTHORITY_TEXT],
                                            size_t *len);
/* NEXAR_EPROTO: malformed text; NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_authority_import(nx_authority **out, const char *text, size_t len);

/* Reads job and member from a verified certificate; member 0 is the authority.  NEXAR_EAUTH: it has
 * no such name. */
NX_MUST_CHECK nexar_err nx_cert_names(const nx_der *cert, nx_job_id *job, uint64_t *member);
NX_MUST_CHECK nexar_err nx_cert_pin(const nx_der *cert, nx_pin *pin);

#endif /* NX_IDENTITY_H */
