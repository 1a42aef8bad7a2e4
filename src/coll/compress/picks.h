/*
 * picks.h - selects k elements of a tensor at random, identically on every rank.
 *
 * The tensor, rotated by a random offset, is cut into k spans of nearly equal length, and one
 * element of each is selected. The result is k distinct indexes, nearly sorted, all elements
 * equally likely. Each index is computed independently, without memory.
 */
#ifndef NX_PICKS_H
#define NX_PICKS_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_picks {
    size_t count;
    size_t each, longer; /* the first |longer| spans have |each| + 1 elements */
    size_t turn;
    uint64_t seed;
} nx_picks;

/* 0 < k <= count. Ranks with equal arguments select the same elements. */
nx_picks nx_picks_of(size_t count, size_t k, uint64_t seed);

/* The index of selection |i| < k: below count, distinct. */
size_t nx_picks_at(const nx_picks *p, size_t i);

#endif /* NX_PICKS_H */
