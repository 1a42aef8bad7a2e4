/*
 * reduce_scatter_ring.c - reduce-scatter and reduce-scatterv for long vectors:
 * block b leaves rank b + 1, gains one contribution at each hop, and ends at
 * rank b.
 *
 *     rounds: size - 1      sent by each rank: all blocks but its own
 *
 * Best when bandwidth counts more than latency. Out of place the partial results alternate between
 * two blocks of scratch. In place they stay where the input was, and the result is moved to the
 * start at the end.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/ring.h"

static void out_of_place(nx_sched *s, const nx_ring *ring)
{
    const size_t room = nx_split_max(&ring->blocks);
    const uint32_t spares = (ring->size > 3) ? 2 : ((ring->size == 3) ? 1 : 0);
    const nx_ref in = nx_at(NX_SPACE_SEND, 0), out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref spare = nx_sched_scratch(s, spares * room);
    nx_ref sum = nx_ref_plus(in, nx_ring_block(ring, 1).off);

    for (uint32_t k = 0; k + 1 < ring->size; k++) {
        const nx_span tx = nx_ring_block(ring, k + 1);
        const nx_span rx = nx_ring_block(ring, k + 2);
        const nx_ref to = (k + 2 == ring->size) ? out : nx_ref_plus(spare, (k % 2) * room);

        nx_send(s, ring->next, k, sum, tx.len);
        nx_recv_reduce(s, ring->prev, k, to, nx_ref_plus(in, rx.off), rx.len);
        sum = to;
    }
    if (ring->size == 1) {
        nx_copy(s, out, in, nx_ring_block(ring, 0).len);
    }
}

nexar_err nx_reduce_scatter_ring(nx_sched *s, const nx_coll *c)
{
    const nx_ring ring = nx_ring_make(c->rank, c->size, 0, nx_coll_blocks(c));
    const nx_span own = nx_ring_block(&ring, 0);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);

    if (c->in_place) {
        nx_ring_reduce_scatter(s, &ring, 0, out, out);
        nx_copy(s, out, nx_ref_plus(out, own.off), own.len);
    } else {
        out_of_place(s, &ring);
    }
    if (c->average) {
        nx_divide(s, out, own.len);
    }
    return nx_sched_seal(s);
}

void nx_reduce_scatter_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_coll_blocks(c);
    const nx_split_cost cost = nx_split_cost_of(&blocks, segment);
    const uint32_t hops = c->size - 1;
    nx_cost_stream stream = nx_cost_stream_of((size_t)cost.most, segment);

    stream.work = 1;
    stream.window = 2 * stream.segments; /* the two blocks of scratch */
    /* All blocks except this rank's own. */
    f->messages = (hops > 0) ? cost.segments - cost.least_segments : 0;
    f->sent = (hops > 0) ? nx_split_sum(&blocks) - cost.least : 0;
    f->rounds = (cost.most > 0) ? hops : (hops > 0);
    f->time_s = nx_net_ring(f->net, stream, hops);
}
