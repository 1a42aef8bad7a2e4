/*
 * scatter_binomial.c - scatter for short blocks: a binomial tree whose inner ranks receive the
 * blocks of their subtree and forward them.
 *
 *     rounds: ceil(log2 size)      sent by the root: all blocks but its own
 *
 * Best when latency counts more than bandwidth: the root sends log2 size
 * messages instead of size - 1.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/binomial.h"

/* The blocks of places [first, end) at the root, in order: directly from the send buffer, or packed
 * where the places from size - root on are ranks 0 ... */
static nx_ref blocks_at_root(nx_sched *s, const nx_coll *c, uint32_t first, uint32_t end)
{
    const nx_ref in = nx_at(NX_SPACE_SEND, 0);
    const uint32_t rank = (first + c->root) % c->size;
    const uint32_t wrap = c->size - c->root;
    const size_t len = (end - first) * c->count;

    if ((first >= wrap) || (end <= wrap)) {
        return nx_ref_plus(in, rank * c->count);
    }
    const nx_ref both = nx_sched_scratch(s, len);
    const size_t upper = (wrap - first) * c->count;

    nx_copy(s, both, nx_ref_plus(in, rank * c->count), upper);
    nx_copy(s, nx_ref_plus(both, upper), in, len - upper);
    return both;
}

nexar_err nx_scatter_binomial(nx_sched *s, const nx_coll *c)
{
    const nx_binomial tree = nx_binomial_make(c->rank, c->size, c->root);
    const uint32_t places = nx_binomial_end(&tree, tree.place, tree.span) - tree.place;
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    nx_ref all = out;

    if (tree.place != 0) {
        all = (places > 1) ? nx_sched_scratch(s, places * c->count) : out;
        nx_recv(s, nx_binomial_parent(&tree), 0, all, places * c->count);
    }
    for (uint64_t far = tree.span / 2; far >= 1; far /= 2) {
        if (nx_binomial_child(&tree, far)) {
            const uint32_t child = tree.place + (uint32_t)far;
            const uint32_t end = nx_binomial_end(&tree, child, far);
            const nx_ref part = (tree.place == 0) ? blocks_at_root(s, c, child, end)
                                                  : nx_ref_plus(all, far * c->count);

            nx_send(s, nx_binomial_rank(&tree, child), 0, part, (end - child) * c->count);
        }
    }
    nx_copy(s, out, (tree.place == 0) ? nx_at(NX_SPACE_SEND, c->rank * c->count) : all, c->count);
    return nx_sched_seal(s);
}

void nx_scatter_binomial_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_tree tree = {
        .net = f->net, .root = c->root, .places = c->size, .len = c->count, .by_place = true};

    (void)segment;
    f->messages = nx_log2_ceil(c->size);
    f->sent = (uint64_t)(c->size - 1) * c->count;
    f->rounds = (c->count > 0) ? nx_log2_floor(c->size) : (c->size > 1);
    f->time_s = nx_tree_down(&tree);
}
