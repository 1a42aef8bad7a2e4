/*
 * allreduce_ring.c - allreduce for long vectors: reduce-scatter, then
 * allgather, around the same ring.
 *
 * In the first half block b leaves rank b + 1 and gains one contribution at
 * each hop, so that after size - 1 hops rank b holds its final value; in the
 * second half it goes once more around.
 *
 *     rounds: 2 (size - 1)      sent by each rank: 2 count (size - 1) / size
 *
 * Best when bandwidth counts more than latency; cut in segments (the pipelined
 * ring) a rank receives, reduces and sends at once.  Works for any size and
 * count; with count < size some blocks are empty.  The order of the reduction
 * differs from block to block but not from rank to rank: all ranks end with the
 * same bits.  Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
 * 2009.
 */
#include "coll/algorithms.h"
#include "coll/phase/ring.h"

nexar_err nx_allreduce_ring(nx_sched *s, const nx_coll *c)
{
    const nx_ring ring = nx_ring_make(c->rank, c->size, 0, nx_split_even(c->count, c->size));
    const nx_span own = nx_ring_block(&ring, 0);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref shard = nx_ref_plus(out, own.off);

    if (c->size == 1) {
        nx_copy(s, out, in, c->count);
    }
    nx_ring_reduce_scatter(s, &ring, 0, in, out);
    if (c->average) {
        nx_divide(s, shard, own.len);
    }
    if (c->hook) {
        nx_call(s, shard, own.len);
    }
    nx_ring_allgather(s, &ring, c->size - 1, shard, out);
    return nx_sched_seal(s);
}
