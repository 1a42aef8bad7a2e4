/*
 * halving.h - recursive halving and doubling among a power of two of positions.
 *
 * Halving: in each round two positions at distance |mask| share a range of blocks. Each keeps the
 * half with its own block and sends the other. Doubling runs the same rounds in reverse. log2(even)
 * rounds each.
 *
 * The blocks of position p are [first(p), first(p + 1)). That is one block if the vector is cut
 * into |even| blocks, or the blocks of the host and its guest if it is cut into one block per rank
 * (|by_rank|).
 */
#ifndef NX_HALVING_H
#define NX_HALVING_H

#include "coll/sched.h"
#include "coll/split.h"
#include "fold.h"

/* A vector of which only a part has memory: element i is at base + i - from. */
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

/* The rank at |place|. */
uint32_t nx_halving_rank(const nx_halving *h, uint32_t place);

/* The elements of the blocks of positions [lo, hi). */
nx_span nx_halving_span(const nx_halving *h, uint32_t lo, uint32_t hi);

/* What this rank keeps in the first round: the part of |work| that halving uses. */
nx_span nx_halving_kept(const nx_halving *h);

/*
 * Reduces the blocks of this position into |last|. |work| holds intermediate results. |in| is this
 * rank's vector and may be |work|. |last| may be the position of these blocks in |work|. Uses
 * rounds [round, round + log2(even)). With one position it is a copy.
 */
void nx_halving_reduce_scatter(nx_sched *s, const nx_halving *h, uint32_t round, nx_vec in,
                               nx_vec work, nx_ref last);

/* Distributes the blocks of all positions in |vec|. Rounds as above. */
void nx_halving_allgather(nx_sched *s, const nx_halving *h, uint32_t round, nx_ref vec);

#endif /* NX_HALVING_H */
