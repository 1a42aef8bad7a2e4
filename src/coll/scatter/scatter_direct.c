/*
 * scatter_direct.c - scatter and scatterv: the root sends each rank its block.
 *
 *     rounds: 1      sent by the root: all blocks but its own
 *
 * Best for long blocks, since each byte travels once; the only method for scatterv, where an inner
 * rank of a tree would not know the lengths. With nx_coll.heard no rank completes before all have
 * joined, or in a scatterv before all have received their blocks.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/star.h"

nexar_err nx_scatter_direct(nx_sched *s, const nx_coll *c)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);

    if (c->kind == NX_SCATTER) {
        nx_star_come(s, c, 0);
    }
    if (c->rank != c->root) {
        nx_recv(s, c->root, 0, out, c->count);
        nx_await_blocks(s, c, 1);
        return nx_sched_seal(s);
    }

    const nx_split blocks = nx_coll_blocks(c);
    const nx_ref in = nx_at(NX_SPACE_SEND, 0);
    const nx_span own = nx_split_at(&blocks, c->rank);

    for (uint32_t i = 1; i < c->size; i++) {
        const uint32_t to = nx_star_rank(c, i);
        const nx_span at = nx_split_at(&blocks, to);

        nx_send(s, to, 0, nx_ref_plus(in, at.off), at.len);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    nx_copy(s, out, nx_ref_plus(in, own.off), own.len);
    nx_await_blocks(s, c, 1);
    return nx_sched_seal(s);
}

void nx_scatter_direct_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_coll_blocks(c);
    const uint64_t all = nx_split_sum(&blocks);

    (void)segment;
    f->rounds = (c->size > 1);
    f->messages = c->size - 1;
    f->sent = all - nx_split_at(&blocks, c->root).len;
    f->time_s = nx_net_star(f->net, all / c->size);
}
