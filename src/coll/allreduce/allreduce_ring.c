/*
 * allreduce_ring.c - allreduce for long vectors: reduce-scatter, then allgather, around the same
 * ring.
 *
 * In the first half block b leaves rank b + 1 and gains one contribution at each hop. After size -
 * 1 hops rank b holds its final value. In the second half the final block travels around the ring
 * once more.
 *
 *     rounds: 2 (size - 1)      sent by each rank: 2 count (size - 1) / size
 *
 * Best when bandwidth counts more than latency; with segments (the pipelined ring) a rank receives,
 * reduces and sends concurrently. Works for any size and count; with count < size some blocks are
 * empty. The order of the reduction differs between blocks but not between ranks: all ranks end
 * with the same bits. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", 2009.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/ring.h"

nexar_err nx_allreduce_ring(nx_sched *s, const nx_coll *c)
{
    const nx_ring ring = nx_ring_make(c->rank, c->size, 0, nx_split_even(c->count, c->size));
    const nx_span own = nx_ring_block(&ring, 0);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref shard = nx_ref_plus(out, own.off);
    nx_step_id call = NX_NO_STEP;

    if (c->size == 1) {
        nx_copy(s, out, in, c->count);
    }
    nx_ring_reduce_scatter(s, &ring, 0, in, out);
    if (c->average) {
        nx_divide(s, shard, own.len);
    }
    if (c->hook) {
        nx_call(s, shard, own.len);
        call = nx_sched_last(s);
    }
    nx_ring_allgather(s, &ring, c->size - 1, shard, out);
    nx_await_hooks(s, c, call, 2 * (c->size - 1));
    return nx_sched_seal(s);
}

void nx_allreduce_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_split_even(c->count, c->size);
    const nx_split_cost cost = nx_split_cost_of(&blocks, segment);
    const uint32_t hops = c->size - 1;
    nx_cost_stream stream = nx_cost_stream_of((size_t)cost.most, segment);

    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (hops == 0) {
        return;
    }
    /* Twice all blocks except this rank's own and the next rank's; small blocks are at the end. */
    const uint64_t a = nx_split_at(&blocks, hops - 1).len, b = nx_split_at(&blocks, hops).len;

    f->sent = 2 * (uint64_t)c->count - a - b;
    f->messages =
        2 * cost.segments - nx_segments((size_t)a, segment) - nx_segments((size_t)b, segment);
    f->rounds = (c->count > 0) ? 2 * (uint64_t)hops : 1;
    stream.work = 0.5; /* only in the first half of the rounds */
    f->time_s = nx_net_ring(f->net, stream, 2 * hops);
}
