/* tls_verify.h - the checks that GnuTLS calls for a session of tls.h. */
#ifndef NX_TLS_VERIFY_H
#define NX_TLS_VERIFY_H

#include "tls.h"

struct nx_tls {
    gnutls_certificate_credentials_t credentials; /* what we show */
    gnutls_x509_crt_t authority;                  /* whom we believe; NULL: a joiner, nobody yet */
    const char *alpn;
    nx_job_id job;
    uint64_t member; /* ours; 0: not a member */
    bool seed;
    size_t holders;
};

/* gnutls_certificate_verify_function: refuses with the reason in the session. */
int nx_tls_on_certificate(gnutls_session_t session);

/* gnutls_handshake_hook_func before a client's hello is read: notes what it
 * offers; refuses one that offers nothing. */
int nx_tls_on_client_hello(gnutls_session_t session, unsigned int type, unsigned int when,
                           unsigned int incoming, const gnutls_datum_t *msg);

/* The first name in the body of an ALPN extension, as text of less than |room| bytes, with '?' for
 * all that cannot be printed; |out| is as it was if there is none. */
void nx_tls_first_protocol(const uint8_t *data, size_t size, char *out, size_t room);

#endif /* NX_TLS_VERIFY_H */
