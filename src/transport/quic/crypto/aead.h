/*
 * aead.h - nexar's own AES-GCM for the packets of an established connection.
 *
 * GnuTLS's AES-GCM took two fifths of the time of a large transfer on the loopback. On an x86-64
 * CPU with VAES and VPCLMULQDQ nexar's own takes half of its cycles per byte (see aead_vaes.c).
 * GnuTLS protects packets on other CPUs, with other suites, and during the handshake.
 *
 * AES with 128 or 256 bits, nonces of 96 bits, tags of 128 bits: what QUIC uses (RFC
 * 9001).  No branch and no address depends on a key or on a plain text.  One thread at
 * a time per key.
 */
#ifndef NX_AEAD_H
#define NX_AEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/memory/prefetch_hint.h"

enum { NX_AEAD_TAG = 16, NX_AEAD_NONCE = 12, NX_AEAD_BLOCK = 16 };

/* ---- choice of the implementation ---------------------------------------------------- */

typedef enum nx_aead_choice { NX_AEAD_AUTO, NX_AEAD_GNUTLS } nx_aead_choice;

/* Whether this build and this CPU support nexar's own AES-GCM. */
bool nx_aead_usable(void);
/* Applies to connections that come up from now on; the setting `aead`. */
void nx_aead_choose(nx_aead_choice choice);
/* Whether connections with AES-GCM use nexar's own now; and its name or "gnutls". */
bool nx_aead_in_use(void);
const char *nx_aead_name(void);

/* ---- a key --------------------------------------------------------------------------- */

/*
 * Blocks of 16 bytes, heads included, that one key seals; RFC 9001, B.1.1: beyond it an attacker's
 * advantage exceeds 2^-57. It equals 2^23 packets of 64 KiB. ngtcp2 changes the key after that many
 * packets of any size, so this limit only catches errors.
 */
#define NX_AEAD_BLOCKS_MAX (UINT64_C(1) << 35)
/* Bytes of one text: its block counters have 32 bits, and two values are reserved. */
#define NX_AEAD_TEXT_MAX ((UINT64_C(1) << 36) - 32)

typedef struct nx_aead nx_aead;

/* |len| is 16 or 32; the key is copied. NULL: no memory. Requires nx_aead_usable(). */
nx_aead *nx_aead_create(const uint8_t *key, size_t len);
void nx_aead_destroy(nx_aead *a); /* wipes it; NULL is allowed */

/* A destination for some bytes of an opened text, instead of |out|: [from, to) go to |at|, which
 * overlaps neither |in| nor |out|. |at| is NULL: none. */
typedef struct nx_aead_place {
    uint8_t *at;
    size_t from, to;
} nx_aead_place;

typedef struct nx_aead_text {
    const uint8_t *nonce; /* NX_AEAD_NONCE bytes; never twice with one key for seal */
    const uint8_t *head;  /* authenticated but not encrypted */
    size_t head_len;
    const uint8_t *in;
    size_t len; /* of |in| */
    /* The memory that the caller will read after a seal, or write after an open: prefetched during
     * the call. A hint (base/memory/prefetch_hint.h). */
    nx_prefetch next;
    nx_aead_place place; /* used by open only */
} nx_aead_text;

/*
 * Writes text->len bytes and the tag to |out|, which is text->in or does not overlap it. False: the
 * key has reached its limit, or the text is too long; |out| is untouched then.
 */
NX_MUST_CHECK bool nx_aead_seal(nx_aead *a, const nx_aead_text *text, uint8_t *out);

/*
 * The reverse: the tag is the last NX_AEAD_TAG bytes of |in|; writes text->len - NX_AEAD_TAG bytes
 * to |out|, as above. False: the authentication failed; |out| is zero then, and so is text->place
 * (untouched if there is no room for a tag). The bytes of |out| that belong to the place are
 * undefined.
 */
NX_MUST_CHECK bool nx_aead_open(nx_aead *a, const nx_aead_text *text, uint8_t *out);

/*
 * Bytes [from, to) of a sealed text, its tag excluded, as they would be decrypted, without
 * authentication: untrusted, unless the text was opened before.
 */
void nx_aead_peek(const nx_aead *a, const nx_aead_text *text, size_t from, size_t to, uint8_t *out);

/* One block by AES alone: the mask of a packet's header (RFC 9001, 5.4.3). */
void nx_aead_block(const nx_aead *a, const uint8_t in[NX_AEAD_BLOCK], uint8_t out[NX_AEAD_BLOCK]);

/* The used part of NX_AEAD_BLOCKS_MAX; and, for tests, sets it. */
uint64_t nx_aead_used(const nx_aead *a);
void nx_aead_set_used(nx_aead *a, uint64_t blocks);

#endif /* NX_AEAD_H */
