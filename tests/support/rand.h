/*
 * rand.h - random numbers of the tests: the same for the same seed on every machine, and cheap
 * enough to choose every event of a simulation.
 */
#ifndef NXT_RAND_H
#define NXT_RAND_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nxt_rand {
    uint64_t state;
} nxt_rand;

/* The finisher of splitmix64: maps neighbouring numbers to unrelated ones. */
static inline uint64_t nxt_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t nxt_next(nxt_rand *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    return nxt_mix(r->state);
}

/* A number in [0, limit), 0 < limit < 2^32. */
static inline uint32_t nxt_below(nxt_rand *r, uint64_t limit)
{
    return (uint32_t)(((nxt_next(r) >> 32) * limit) >> 32);
}

static inline bool nxt_one_in(nxt_rand *r, uint32_t n)
{
    return nxt_below(r, n) == 0;
}

/* The number that belongs to the pair (a, b) under |seed|. */
static inline uint64_t nxt_hash(uint64_t seed, uint64_t a, uint64_t b)
{
    return nxt_mix(seed + nxt_mix(a * UINT64_C(0x9e3779b97f4a7c15) + nxt_mix(b + 1)));
}

#endif /* NXT_RAND_H */
