/*
 * halving.h - recursive halving and doubling among a power of two of places.
 *
 * Halving: in each round two places that are |mask| apart share a range of
 * blocks; each keeps the half with its own block and sends the other.  Doubling
 * runs the same rounds backwards.  log2(even) rounds each.
 *
 * The blocks of place p are [first(p), first(p + 1)): one each when the vector
 * is cut in |even| blocks, or those of the host and its guest when it is cut in
 * one block per rank (|by_rank|).
 */
#ifndef NX_HALVING_H
#define NX_HALVING_H

#include "coll/sched.h"
#include "coll/split.h"
#include "fold.h"

/* A vector of which only a part has memory: element i lies at base + i - from. */
typedef struct nx_vec {
    nx_ref base;
    size_t from;
} nx_vec;

static inline nx_ref nx_vec_at(nx_vec v, size_t i)
{
    return nx_ref_plus(v.base, i - v.from);
}

typedef struct nx_halving {
    nx_fold fold;
    uint32_t place;
    uint32_t size, first; /* rank of place p: (fold's rank of p + first) % size */
    nx_split blocks;
    bool by_rank;
} nx_halving;

/* The rank that has |place|. */
uint32_t nx_halving_rank(const nx_halving *h, uint32_t place);

/* The elements of the blocks of places [lo, hi). */
nx_span nx_halving_span(const nx_halving *h, uint32_t lo, uint32_t hi);

/* What |place| keeps in the first round: the part of |work| that halving uses. */
nx_span nx_halving_kept(const nx_halving *h);

/*
 * Reduces the blocks of our place into |last|; on the way |work| holds partial
 * results.  |in| is our vector and may be |work|.  |last| is where the blocks
 * of our place go, and may be their place in |work|.  Rounds
 * [round, round + log2(even)); with one place it is a copy.
 */
void nx_halving_reduce_scatter(nx_sched *s, const nx_halving *h, uint32_t round, nx_vec in,
                               nx_vec work, nx_ref last);

/* Spreads the blocks of all places in |vec|.  Rounds as above. */
void nx_halving_allgather(nx_sched *s, const nx_halving *h, uint32_t round, nx_ref vec);

#endif /* NX_HALVING_H */
