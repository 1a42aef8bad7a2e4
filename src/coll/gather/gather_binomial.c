/*
 * gather_binomial.c - gather for short blocks: a binomial tree whose inner ranks collect the blocks
 * of their subtree in scratch.
 *
 *     rounds: ceil(log2 size)      sent by an inner rank: up to size / 2 blocks
 *
 * Best when latency counts more than bandwidth, and when direct messages from all ranks would reach
 * the root at the same time.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/binomial.h"

/* Receives the blocks of places [first, end) at the root, where the places from |wrap| on are ranks
 * 0, 1, ...: in two pieces if the range wraps. */
static void recv_at_root(nx_sched *s, const nx_coll *c, const nx_binomial *tree, uint32_t first,
                         uint32_t end)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const uint32_t from = nx_binomial_rank(tree, first);
    const uint32_t wrap = c->size - c->root;
    const size_t len = (end - first) * c->count;

    if ((first >= wrap) || (end <= wrap)) {
        nx_recv(s, from, 0, nx_ref_plus(out, from * c->count), len);
        return;
    }
    const nx_ref both = nx_sched_scratch(s, len);
    const size_t upper = (wrap - first) * c->count;

    nx_recv(s, from, 0, both, len);
    nx_copy(s, nx_ref_plus(out, from * c->count), both, upper);
    nx_copy(s, out, nx_ref_plus(both, upper), len - upper);
}

static void root(nx_sched *s, const nx_coll *c, const nx_binomial *tree)
{
    for (uint64_t far = 1; far < tree->span; far *= 2) {
        if (nx_binomial_child(tree, far)) {
            recv_at_root(s, c, tree, (uint32_t)far, nx_binomial_end(tree, far, far));
        }
    }
    if (!c->in_place) {
        nx_copy(s, nx_at(NX_SPACE_RECV, c->rank * c->count), nx_at(NX_SPACE_SEND, 0), c->count);
    }
}

nexar_err nx_gather_binomial(nx_sched *s, const nx_coll *c)
{
    const nx_binomial tree = nx_binomial_make(c->rank, c->size, c->root);
    const uint32_t places = nx_binomial_end(&tree, tree.place, tree.span) - tree.place;
    nx_ref all = nx_at(NX_SPACE_SEND, 0);

    if (tree.place == 0) {
        root(s, c, &tree);
        return nx_sched_seal(s);
    }
    if (places > 1) {
        all = nx_sched_scratch(s, places * c->count);
        nx_copy(s, all, nx_at(NX_SPACE_SEND, 0), c->count);
    }
    for (uint64_t far = 1; far < tree.span; far *= 2) {
        if (nx_binomial_child(&tree, far)) {
            const uint32_t child = tree.place + (uint32_t)far;
            const uint32_t n = nx_binomial_end(&tree, child, far) - child;

            nx_recv(s, nx_binomial_rank(&tree, child), 0, nx_ref_plus(all, far * c->count),
                    n * c->count);
        }
    }
    nx_send(s, nx_binomial_parent(&tree), 0, all, places * c->count);
    return nx_sched_seal(s);
}

void nx_gather_binomial_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_tree tree = {
        .net = f->net, .root = c->root, .places = c->size, .len = c->count, .by_place = true};
    uint64_t largest = 0; /* subtree but the root's, in places */

    (void)segment;
    f->messages = (c->size > 1);
    f->rounds = (c->count > 0) ? nx_log2_floor(c->size) : f->messages;
    f->time_s = nx_tree_up(&tree);
    for (uint64_t far = 1; far < c->size; far *= 2) {
        const uint64_t places = (c->size - far < far) ? c->size - far : far;

        largest = (places > largest) ? places : largest;
    }
    f->sent = largest * c->count;
}
