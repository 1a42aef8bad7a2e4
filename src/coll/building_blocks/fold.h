/*
 * fold.h - reduces any number of ranks to a power of two.
 *
 * Halving and doubling need a power of two. With |rest| ranks more than that, the first 2 rest
 * ranks form pairs of neighbours. The odd rank is a *guest*: it sends its data to the even rank,
 * its *host*, and receives the result from it. Hosts and ranks without a guest have positions 0 ..
 * even - 1, in order of rank, so a range of positions is a range of ranks.
 */
#ifndef NX_FOLD_H
#define NX_FOLD_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nx_fold {
    uint32_t even; /* the largest power of two <= size */
    uint32_t rest; /* size - even */
} nx_fold;

static inline nx_fold nx_fold_make(uint32_t size)
{
    uint32_t even = 1;

    while (even <= size / 2) {
        even *= 2;
    }
    return (nx_fold){.even = even, .rest = size - even};
}

static inline bool nx_fold_is_guest(nx_fold f, uint32_t rank)
{
    return (rank < 2 * f.rest) && (rank % 2 == 1);
}

static inline bool nx_fold_is_host(nx_fold f, uint32_t rank)
{
    return (rank < 2 * f.rest) && (rank % 2 == 0);
}

/* The position of a rank that is no guest. */
static inline uint32_t nx_fold_place(nx_fold f, uint32_t rank)
{
    return (rank < 2 * f.rest) ? rank / 2 : rank - f.rest;
}

/* The rank at position |place|; also the first rank of positions >= |place|. The ranks of positions
 * [p, q) are [nx_fold_rank(p), nx_fold_rank(q)). */
static inline uint32_t nx_fold_rank(nx_fold f, uint32_t place)
{
    return (place < f.rest) ? 2 * place : place + f.rest;
}

/* log2 of |even|: the number of halvings. */
static inline uint32_t nx_fold_rounds(nx_fold f)
{
    uint32_t rounds = 0;

    while ((f.even >> rounds) > 1) {
        rounds++;
    }
    return rounds;
}

#endif /* NX_FOLD_H */
