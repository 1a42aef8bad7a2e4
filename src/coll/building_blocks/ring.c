/* ring.c - the two halves of every ring. */
#include "ring.h"

nx_ring nx_ring_make(uint32_t rank, uint32_t size, uint32_t first, nx_split blocks)
{
    return (nx_ring){
        .place = (rank + size - first) % size,
        .size = size,
        .next = (rank + 1) % size,
        .prev = (rank + size - 1) % size,
        .blocks = blocks,
    };
}

nx_span nx_ring_block(const nx_ring *ring, uint32_t back)
{
    return nx_split_at(&ring->blocks, (ring->place + 2 * ring->size - back) % ring->size);
}

/* Block b leaves rank b + 1, gains one contribution at each hop, and ends complete at rank b. */
void nx_ring_reduce_scatter(nx_sched *s, const nx_ring *ring, uint32_t round, nx_ref in, nx_ref out)
{
    for (uint32_t k = 0; k + 1 < ring->size; k++) {
        const nx_span tx = nx_ring_block(ring, k + 1);
        const nx_span rx = nx_ring_block(ring, k + 2);

        nx_send(s, ring->next, round + k, nx_ref_plus((k == 0) ? in : out, tx.off), tx.len);
        nx_recv_reduce(s, ring->prev, round + k, nx_ref_plus(out, rx.off), nx_ref_plus(in, rx.off),
                       rx.len);
    }
}

void nx_ring_allgather(nx_sched *s, const nx_ring *ring, uint32_t round, nx_ref own, nx_ref out)
{
    for (uint32_t k = 0; k + 1 < ring->size; k++) {
        const nx_span tx = nx_ring_block(ring, k);
        const nx_span rx = nx_ring_block(ring, k + 1);

        nx_send(s, ring->next, round + k, (k == 0) ? own : nx_ref_plus(out, tx.off), tx.len);
        nx_recv(s, ring->prev, round + k, nx_ref_plus(out, rx.off), rx.len);
    }
}
