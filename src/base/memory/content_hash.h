/*
 * content_hash.h - a keyed 128-bit hash of memory contents, for comparing them without moving them.
 *
 * Blocks of NX_CONTENT_BLOCK bytes are hashed by NH over 64-bit words, twice with shifted keys
 * (UMAC, RFC 4418, section 5.2).  The results are the coefficients of a polynomial modulo 2^127 -
 * 1, evaluated at a secret point.  For a random key, two different contents of equal length have
 * the same digest with a probability of about 2^-100 for 1 GiB.  A caller that does not know the
 * key cannot choose contents that collide.  The hash is not a MAC.
 *
 * The result does not depend on the machine: words are read as little-endian.
 */
#ifndef NX_CONTENT_HASH_H
#define NX_CONTENT_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NX_CONTENT_BLOCK = 1024, NX_CONTENT_SEED = 4 };

typedef struct nx_content_key {
    uint64_t nh[NX_CONTENT_BLOCK / sizeof(uint64_t) + 2];
    uint64_t point[2], mask[2];
} nx_content_key;

typedef struct nx_digest {
    uint64_t word[2];
} nx_digest;

/* Expands a random |seed|: the same key everywhere for the same seed. */
void nx_content_key_init(nx_content_key *key, const uint64_t seed[NX_CONTENT_SEED]);

/* The digest of |bytes| bytes at |data|, with any alignment. */
nx_digest nx_content_hash(const nx_content_key *key, const void *data, size_t bytes);
/* The same without 128-bit integers of the compiler: for other compilers, and for tests. */
nx_digest nx_content_hash_portable(const nx_content_key *key, const void *data, size_t bytes);

static inline bool nx_digest_equal(const nx_digest *a, const nx_digest *b)
{
    return (a->word[0] == b->word[0]) && (a->word[1] == b->word[1]);
}

#endif /* NX_CONTENT_HASH_H */
