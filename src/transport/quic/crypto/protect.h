/*
 * protect.h - who protects the packets of a connection: GnuTLS through ngtcp2's
 * helpers or, from the handshake's end on, our own AES-GCM (aead.h).
 *
 * Both look the same to the peer.  A session takes ours if session->own_aead says so
 * when its keys come, the suite is AES-GCM and the version QUIC 1; what cannot be had
 * for want of memory GnuTLS does.  When and how often keys change is ngtcp2's
 * business: it takes the next pair after 2^23 packets, and ends a connection that
 * refused 2^52.
 *
 * ngtcp2 hands a key to its callbacks as one pointer.  Ours have the lowest bit set,
 * which no pointer from an allocator has: so each callback knows whose a key is.
 */
#ifndef NX_PROTECT_H
#define NX_PROTECT_H

#include "aead.h"
#include "tls.h"

/* After ngtcp2's own configuration of |session|. */
void nx_protect_session(gnutls_session_t session);

/* Sets the callbacks for keys and packets; the session is a nx_tls_session's. */
void nx_protect_callbacks(ngtcp2_callbacks *cb); /* that for opening is the caller's */

/* A packet to open, as ngtcp2 hands it to its callback. */
typedef struct nx_protect_packet {
    const ngtcp2_crypto_aead *aead;
    const ngtcp2_crypto_aead_ctx *ctx;
    const uint8_t *sealed, *nonce, *head;
    size_t len, nonce_len, head_len;
} nx_protect_packet;

/* What the callback for opening a packet returns; some of its bytes go to |place|, if there is
 * one, which must not be unless the key is ours. */
int nx_protect_open(const nx_protect_packet *p, uint8_t *dest, const nx_aead_place *place);
bool nx_protect_is_ours(const nx_protect_packet *p);
/* Bytes [from, to) of it, by who knows whose word: see nx_aead_peek.  If the key is ours. */
void nx_protect_peek(const nx_protect_packet *p, size_t from, size_t to, uint8_t *out);

enum { NX_PROTECT_KEY_MAX = 32, NX_PROTECT_IV = 12 };

typedef struct nx_protect_keys {
    uint8_t key[NX_PROTECT_KEY_MAX], hp[NX_PROTECT_KEY_MAX]; /* of packets, of their headers */
    uint8_t iv[NX_PROTECT_IV];
} nx_protect_keys;

/* The keys of |key_len| bytes that follow from a traffic secret by hash |md|: RFC
 * 9001, 5.1.  Wipe them after use. */
NX_MUST_CHECK bool nx_protect_derive(const ngtcp2_crypto_md *md, const uint8_t *secret, size_t len,
                                     size_t key_len, nx_protect_keys *out);

#endif /* NX_PROTECT_H */
