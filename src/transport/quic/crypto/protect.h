/*
 * protect.h - protects the packets of a connection: by GnuTLS through ngtcp2's helpers or, from the
 * handshake's end on, by nexar's own AES-GCM (aead.h).
 *
 * The peer cannot tell the difference. A session uses nexar's own if session->own_aead says so when
 * its keys arrive, the suite is AES-GCM and the version QUIC 1. Without memory for it, GnuTLS
 * protects the packets. ngtcp2 decides when keys change: it installs the next pair after 2^23
 * packets, and ends a connection that refused 2^52.
 *
 * ngtcp2 passes a key to its callbacks as one pointer. Pointers to nexar's own keys have the lowest
 * bit set, which no pointer from an allocator has: so each callback knows the owner of a key.
 */
#ifndef NX_PROTECT_H
#define NX_PROTECT_H

#include "aead.h"
#include "tls.h"

/* Call after ngtcp2's own configuration of |session|. */
void nx_protect_session(gnutls_session_t session);

/* Sets the callbacks for keys and packets; the session is a nx_tls_session's. */
void nx_protect_callbacks(ngtcp2_callbacks *cb); /* the callback for opening is the caller's */

/* A packet to open, as ngtcp2 passes it to its callback. */
typedef struct nx_protect_packet {
    const ngtcp2_crypto_aead *aead;
    const ngtcp2_crypto_aead_ctx *ctx;
    const uint8_t *sealed, *nonce, *head;
    size_t len, nonce_len, head_len;
} nx_protect_packet;

/* Returns the result of the callback for opening a packet. Some bytes of the packet go to |place|,
 * if there is one; a place requires nexar's own key. */
int nx_protect_open(const nx_protect_packet *p, uint8_t *dest, const nx_aead_place *place);
bool nx_protect_is_ours(const nx_protect_packet *p);
/* Bytes [from, to) of the packet, without authentication: see nx_aead_peek. Requires nexar's own
 * key. */
void nx_protect_peek(const nx_protect_packet *p, size_t from, size_t to, uint8_t *out);

enum { NX_PROTECT_KEY_MAX = 32, NX_PROTECT_IV = 12 };

typedef struct nx_protect_keys {
    uint8_t key[NX_PROTECT_KEY_MAX], hp[NX_PROTECT_KEY_MAX]; /* of packets, of their headers */
    uint8_t iv[NX_PROTECT_IV];
} nx_protect_keys;

/* Derives the keys of |key_len| bytes from a traffic secret by hash |md|: RFC 9001, 5.1. Wipe them
 * after use. */
NX_MUST_CHECK bool nx_protect_derive(const ngtcp2_crypto_md *md, const uint8_t *secret, size_t len,
                                     size_t key_len, nx_protect_keys *out);

#endif /* NX_PROTECT_H */
