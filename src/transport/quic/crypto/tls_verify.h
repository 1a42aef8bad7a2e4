/* tls_verify.h - the checks that GnuTLS calls for a session of tls.h. */
#ifndef NX_TLS_VERIFY_H
#define NX_TLS_VERIFY_H

#include "tls.h"

struct nx_tls {
    gnutls_certificate_credentials_t credentials; /* this side's certificate and key */
    gnutls_x509_crt_t authority; /* the trusted authority; NULL: a joiner, which has none yet */
    const char *alpn;
    nx_job_id job;
    uint64_t member; /* this process; 0: not a member */
    bool seed;
    size_t holders;
};

/* gnutls_certificate_verify_function: a refusal leaves its reason in the session. */
int nx_tls_on_certificate(gnutls_session_t session);

/* gnutls_handshake_hook_func before a client's hello is read: records the protocols it offers;
 * refuses a hello that offers none. */
int nx_tls_on_client_hello(gnutls_session_t session, unsigned int type, unsigned int when,
                           unsigned int incoming, const gnutls_datum_t *msg);

/* The first name in the body of an ALPN extension, as text of less than |room| bytes, with '?' for
 * unprintable bytes; |out| is unchanged if there is none. */
void nx_tls_first_protocol(const uint8_t *data, size_t size, char *out, size_t room);

#endif /* NX_TLS_VERIFY_H */
