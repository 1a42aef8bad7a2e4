/*
 * join_string.h - nexar://TOKEN@host:port/?pin=SHA256, all that a joiner needs.
 *
 * TOKEN is 32 random bytes as base64url without padding. Several addresses of a seed are separated
 * by commas (host:port,[v6]:port). pin is base64url of the SHA-256 of the seed's public key. The
 * token is a secret: it is never logged and never sent, only proven.
 */
#ifndef NX_JOIN_STRING_H
#define NX_JOIN_STRING_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/identity.h"

enum { NX_TOKEN_SIZE = 32, NX_JOIN_STRING_MAX = 1024, NX_SEED_ADDRESSES_MAX = 8 };

/* What nx_quic_link_export is asked for. */
#define NX_JOIN_EXPORTER "EXPORTER-nexar-join"

typedef struct nx_token {
    uint8_t bytes[NX_TOKEN_SIZE];
} nx_token;

typedef struct nx_join_string {
    nx_token token;
    nx_pin pin;
    bool bare; /* nx_join_string_format omits the token: joiners get it elsewhere */
    struct sockaddr_storage addresses[NX_SEED_ADDRESSES_MAX];
    size_t naddresses;
} nx_join_string;

/* NEXAR_EINVAL: the message says which part is wrong and what is accepted, without the token. Host
 * names are resolved (which may block); NEXAR_ECONNECT if no address resolves. */
NX_MUST_CHECK nexar_err nx_join_string_parse(const char *text, nx_join_string *out);
/* Parses a token alone, of 43 characters; false: malformed. */
NX_MUST_CHECK bool nx_token_parse(const char *text, nx_token *out);
/* NEXAR_ETRUNC when |size| is too small. */
NX_MUST_CHECK nexar_err nx_join_string_format(const nx_join_string *j, char *buf, size_t size);

/* The proof of possession of the token, bound to one TLS session: HMAC-SHA256(token, "nexar join 1"
 * | exporter | certificate request). NEXAR_EINTERNAL: GnuTLS failed, with its message. */
NX_MUST_CHECK nexar_err nx_join_proof(const nx_token *token, const uint8_t exporter[32],
                                      const void *csr, size_t csr_len, uint8_t proof[32]);

/* Compares two proofs in constant time. */
bool nx_join_proof_equal(const uint8_t a[32], const uint8_t b[32]);

#endif /* NX_JOIN_STRING_H */
