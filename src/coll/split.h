/* split.h - a vector cut in blocks, one per rank. */
#ifndef NX_SPLIT_H
#define NX_SPLIT_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_span {
    size_t off; /* elements from the start of the vector */
    size_t len;
} nx_span;

/*
 * Four ways to cut:
 *  - counts and displs, borrowed: block b is counts[b] elements at displs[b];
 *  - each: every block has |each| elements;
 *  - total: blocks of equal size, the first ones larger by one element if it does not divide;
 *  - groups, borrowed: block b has |each| elements for each of the numbers from
 *    firsts[b] to firsts[b + 1].
 */
typedef struct nx_split {
    uint32_t n;
    size_t total, each;
    const size_t *counts, *displs;
    const uint32_t *firsts; /* n + 1 */
    enum { NX_SPLIT_EVEN, NX_SPLIT_EACH, NX_SPLIT_COUNTS, NX_SPLIT_GROUPS } how;
} nx_split;

nx_split nx_split_even(size_t total, uint32_t n);
nx_split nx_split_each(size_t each, uint32_t n);
nx_split nx_split_counts(const size_t *counts, const size_t *displs, uint32_t n);
nx_split nx_split_groups(size_t each, const uint32_t *firsts, uint32_t n);

/* Block |b|. */
nx_span nx_split_at(const nx_split *split, uint32_t b);

/* Blocks [first, last) as one span. They must be contiguous: any split except one with
 * non-contiguous displs. */
nx_span nx_split_range(const nx_split *split, uint32_t first, uint32_t last);

/* Number of elements of all blocks, and of the largest block. */
size_t nx_split_sum(const nx_split *split);
size_t nx_split_max(const nx_split *split);

#endif /* NX_SPLIT_H */
