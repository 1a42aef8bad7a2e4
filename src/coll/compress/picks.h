/*
 * picks.h - k elements of a tensor at random, the same on every rank.
 *
 * The tensor, turned by a random number of places, is cut in k spans as even as it
 * goes, and one element is picked of each: k distinct indexes, near to sorted, each
 * element equally likely.  Any of them can be computed alone, in no memory.
 */
#ifndef NX_PICKS_H
#define NX_PICKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_picks {
    size_t count;
    size_t each, longer; /* the first |longer| spans have an element more than |each| */
    size_t turn;
    uint64_t seed;
} nx_picks;

/* 0 < k <= count.  Ranks with the same three numbers pick the same. */
nx_picks nx_picks_of(size_t count, size_t k, uint64_t seed);

/* The index of pick |i| < k: below count, no other pick has it. */
size_t nx_picks_at(const nx_picks *p, size_t i);

#endif /* NX_PICKS_H */
