/*
 * broadcast_scatter_allgather.c - broadcast for long vectors on many ranks: a binomial tree sends
 * block b to place b, then a ring distributes the blocks.
 *
 *     rounds: ceil(log2 size) + size - 1
 *     sent by the root: about 2 count, whatever the size
 *
 * Best where a chain would take too long to fill, and in a tree the root would send the whole
 * vector log2 size times. Barnett et al., "Interprocessor collective communication library", 1994.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/binomial.h"
#include "coll/building_blocks/ring.h"

/* Each place receives the blocks of its subtree and forwards its children's blocks. */
static void scatter(nx_sched *s, const nx_binomial *tree, const nx_split *blocks)
{
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);

    if (tree->place != 0) {
        const nx_span all =
            nx_split_range(blocks, tree->place, nx_binomial_end(tree, tree->place, tree->span));

        nx_recv(s, nx_binomial_parent(tree), 0, nx_ref_plus(buf, all.off), all.len);
    }
    for (uint64_t far = tree->span / 2; far >= 1; far /= 2) {
        if (nx_binomial_child(tree, far)) {
            const uint32_t child = tree->place + (uint32_t)far;
            const nx_span part = nx_split_range(blocks, child, nx_binomial_end(tree, child, far));

            nx_send(s, nx_binomial_rank(tree, child), 0, nx_ref_plus(buf, part.off), part.len);
        }
    }
}

nexar_err nx_broadcast_scatter_allgather(nx_sched *s, const nx_coll *c)
{
    const nx_binomial tree = nx_binomial_make(c->rank, c->size, c->root);
    const nx_ring ring = nx_ring_make(c->rank, c->size, c->root, nx_split_even(c->count, c->size));
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);

    scatter(s, &tree, &ring.blocks);
    nx_ring_allgather(s, &ring, 1, nx_ref_plus(buf, nx_ring_block(&ring, 0).off), buf);
    return nx_sched_seal(s);
}

void nx_broadcast_scatter_allgather_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_split_even(c->count, c->size);
    const uint64_t most = nx_split_max(&blocks);
    const size_t filled = (c->count < c->size) ? c->count : c->size; /* blocks not empty */

    (void)segment;
    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (c->size == 1) {
        return;
    }
    /* The root: its children's blocks, then all except the next rank's. */
    f->messages = nx_log2_ceil(c->size) + c->size - 1;
    f->sent = 2 * (uint64_t)c->count - most - nx_split_at(&blocks, 1).len;
    f->rounds = (filled > 0) ? nx_log2_floor(filled) + c->size - 1 : 1;
    f->time_s = nx_tree_down(&(nx_tree){
        .net = f->net, .root = c->root, .places = (uint32_t)filled, .len = most, .by_place = true});
    f->time_s += nx_net_ring(f->net, nx_cost_stream_of(most, 0), c->size - 1);
}
