/*
 * random.h - randomness as an interface: the kernel's for keys and tokens, a seeded one for
 * simulations.
 */
#ifndef NX_RANDOM_H
#define NX_RANDOM_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_random {
    void (*fill)(void *ctx, void *out, size_t bytes);
    void *ctx;
} nx_random;

static inline void nx_random_fill(const nx_random *r, void *out, size_t bytes)
{
    r->fill(r->ctx, out, bytes);
}

/* A number in [0, limit), limit > 0, each equally likely. */
uint64_t nx_random_below(const nx_random *r, uint64_t limit);

/* getrandom(2): fit for keys. A sandbox may deny it: see nx_random_check. If it is denied only
 * later, the process logs that and aborts. */
extern const nx_random nx_random_system;

/* Whether nx_random_system works here: NEXAR_ESYS with a message if not. Every entry to the library
 * calls it first. */
NX_MUST_CHECK nexar_err nx_random_check(void);

/* xoshiro256**, seeded by splitmix64: the same numbers for the same seed on every machine. Not
 * fit for keys. */
typedef struct nx_random_seeded {
    nx_random random; /* use this; ctx points to its owner */
    uint64_t s[4];
} nx_random_seeded;
void nx_random_seeded_init(nx_random_seeded *r, uint64_t seed);
uint64_t nx_random_seeded_next(nx_random_seeded *r);

#endif /* NX_RANDOM_H */
