/*
 * ring.h - the two halves of every ring: reduce-scatter and allgather.
 *
 * Each has size - 1 rounds. In each round every rank sends one block to the next rank and receives
 * one from the previous.
 */
#ifndef NX_RING_H
#define NX_RING_H

#include "coll/sched.h"
#include "coll/split.h"

typedef struct nx_ring {
    uint32_t place, size; /* position of this rank on the ring; it owns block |place| */
    uint32_t next, prev;  /* ranks */
    nx_split blocks;
} nx_ring;

/* The ring in order of rank, where rank |first| has position 0. */
nx_ring nx_ring_make(uint32_t rank, uint32_t size, uint32_t first, nx_split blocks);

/* The block |back| positions before this rank's. */
nx_span nx_ring_block(const nx_ring *ring, uint32_t back);

/*
 * Reduces block |place| of all ranks into |out|, at its offset in the vector; |in| is this rank's
 * vector. |out| also holds intermediate results: it has room for the whole vector, and may be |in|.
 * Rounds [round, round + size - 1).
 */
void nx_ring_reduce_scatter(nx_sched *s, const nx_ring *ring, uint32_t round, nx_ref in,
                            nx_ref out);

/* Distributes block |place| of every rank, which is at |own|, into the vector |out| of all ranks.
 * |own| may be inside |out|; this rank's block is not copied there. Rounds [round, round + size -
 * 1). */
void nx_ring_allgather(nx_sched *s, const nx_ring *ring, uint32_t round, nx_ref own, nx_ref out);

#endif /* NX_RING_H */
