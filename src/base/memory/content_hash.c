/* content_hash.c - NH over blocks, and a polynomial modulo 2^127 - 1 over their results. */
#include "base/memory/content_hash.h"

#include <string.h>

#include "base/random.h"

enum { WORD = sizeof(uint64_t), BLOCK_WORDS = NX_CONTENT_BLOCK / WORD };

#define TOP_BIT (UINT64_C(1) << 63)

static inline uint64_t load(const uint8_t *from)
{
    uint64_t word;

    memcpy(&word, from, sizeof(word));
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* ---- two halves -------------------------------------------------------------------------- */

typedef struct halves {
    uint64_t hi, lo;
} halves;

static inline halves halves_make(uint64_t hi, uint64_t lo)
{
    return (halves){.hi = hi, .lo = lo};
}

static inline halves halves_add(halves a, halves b)
{
    const uint64_t lo = a.lo + b.lo;

    return halves_make(a.hi + b.hi + (lo < b.lo), lo);
}

static inline halves halves_multiply(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t low = a0 * b0, cross = a1 * b0 + (low >> 32);
    const uint64_t middle = a0 * b1 + (uint32_t)cross;

    return halves_make(a1 * b1 + (cross >> 32) + (middle >> 32), (middle << 32) | (uint32_t)low);
}

#define WIDE           halves
#define MAKE(hi, lo)   halves_make((hi), (lo))
#define LO(x)          ((x).lo)
#define HI(x)          ((x).hi)
#define ADD(a, b)      halves_add((a), (b))
#define MULTIPLY(a, b) halves_multiply((a), (b))
#define NAME(stem)     halves_##stem
#include "base/memory/content_hash.inc.h"
#undef WIDE
#undef MAKE
#undef LO
#undef HI
#undef ADD
#undef MULTIPLY
#undef NAME

/* ---- 128-bit integers of the compiler ------------------------------------------------------- */

#ifdef __SIZEOF_INT128__
__extension__ typedef unsigned __int128 native;

#define WIDE           native
#define MAKE(hi, lo)   (((native)(hi) << 64) | (lo))
#define LO(x)          ((uint64_t)(x))
#define HI(x)          ((uint64_t)((x) >> 64))
#define ADD(a, b)      ((a) + (b))
#define MULTIPLY(a, b) ((native)(a) * (b))
#define NAME(stem)     native_##stem
#include "base/memory/content_hash.inc.h"
#else
#define native_hash halves_hash
#endif

nx_digest nx_content_hash(const nx_content_key *key, const void *data, size_t bytes)
{
    return native_hash(key, data, bytes);
}

nx_digest nx_content_hash_portable(const nx_content_key *key, const void *data, size_t bytes)
{
    return halves_hash(key, data, bytes);
}

void nx_content_key_init(nx_content_key *key, const uint64_t seed[NX_CONTENT_SEED])
{
    nx_random_seeded r;

    nx_random_seeded_init(&r, 0);
    for (size_t i = 0; i < NX_CONTENT_SEED; i++) {
        r.s[i] ^= seed[i];
    }
    r.s[0] |= 1; /* never all zero */
    for (size_t i = 0; i < sizeof(key->nh) / sizeof(key->nh[0]); i++) {
        key->nh[i] = nx_random_seeded_next(&r);
    }
    key->point[0] = nx_random_seeded_next(&r);
    key->point[1] = nx_random_seeded_next(&r) >> 2;
    key->mask[0] = nx_random_seeded_next(&r);
    key->mask[1] = nx_random_seeded_next(&r);
}
