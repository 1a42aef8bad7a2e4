/*
 * allgather_ring.c - allgather and allgatherv for long blocks: each block travels once around the
 * ring.
 *
 *     rounds: size - 1      sent by each rank: all blocks but one
 *
 * Best when bandwidth counts more than latency: neighbours only, no scratch.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/ring.h"

nexar_err nx_allgather_ring(nx_sched *s, const nx_coll *c)
{
    const nx_ring ring = nx_ring_make(c->rank, c->size, 0, nx_coll_blocks(c));
    const nx_span own = nx_ring_block(&ring, 0);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref home = nx_ref_plus(out, own.off);
    const nx_ref in = c->in_place ? home : nx_at(NX_SPACE_SEND, 0);

    nx_ring_allgather(s, &ring, 0, in, out);
    nx_copy(s, home, in, own.len);
    return nx_sched_seal(s);
}

void nx_allgather_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_coll_blocks(c);
    const nx_split_cost cost = nx_split_cost_of(&blocks, segment);
    const nx_cost_stream stream = nx_cost_stream_of((size_t)cost.most, segment);
    const uint32_t hops = c->size - 1;

    /* All blocks except the next rank's. */
    f->messages = (hops > 0) ? cost.segments - cost.least_segments : 0;
    f->sent = (hops > 0) ? nx_split_sum(&blocks) - cost.least : 0;
    f->rounds = (cost.most > 0) ? hops : (hops > 0);
    f->time_s = nx_net_ring(f->net, stream, hops);
}
