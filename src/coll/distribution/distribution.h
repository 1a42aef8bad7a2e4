/*
 * distribution.h - contents that some ranks hold go to the ranks that lack them: the schedule of
 * nexar_state_sync().
 *
 * NX_SPACE_RECV holds, on every rank, all contents that go anywhere, in the same layout. They are
 * cut into pieces. Each piece has one holder, which sends it, and the ranks that receive it; every
 * byte reaches every receiver once. A piece that is longer than a segment flows through its
 * receivers in a line, segment by segment, each receiver sending one segment on while it receives
 * the next. A shorter piece takes a binomial tree. The pieces of one content have different
 * holders, and start at different receivers, so that all links are used at the same time.
 *
 *     received by each receiver: the bytes that it lacks
 *     sent: by a holder its pieces; in lines of two or more, by a receiver what it passes on
 */
#ifndef NX_DISTRIBUTION_H
#define NX_DISTRIBUTION_H

#include "coll/algorithms.h"

/* One piece.  |receivers| is in rank order, ascending. */
typedef struct nx_distribution_piece {
    size_t off, len; /* of NX_SPACE_RECV */
    uint32_t holder;
    uint32_t nreceivers;
    const uint32_t *receivers; /* borrowed */
    uint32_t first;            /* index of the receiver that the holder sends to first */
} nx_distribution_piece;

struct nx_distribution {
    size_t n;
    const nx_distribution_piece *pieces; /* borrowed */
};

/* The builder; |c->distribution| defines the pieces and their receivers. */
extern const nx_algorithm nx_distribution_algorithm;

/* The most pieces that a distribution may have: each has a round of its own. */
enum { NX_DISTRIBUTION_PIECES = NX_MAX_ROUNDS / 2 };

/* Whether |rank| is among the receivers of |p|. */
bool nx_distribution_receives(const nx_distribution_piece *p, uint32_t rank);

/* What |rank| receives and sends, in elements. */
typedef struct nx_distribution_load {
    uint64_t received, sent;
} nx_distribution_load;
nx_distribution_load nx_distribution_load_of(const nx_distribution *t, uint32_t rank,
                                             size_t segment);

#endif /* NX_DISTRIBUTION_H */
