/*
 * reduce_binomial.c - reduce for short vectors: a tree in which the number of
 * partial results halves each round.
 *
 *     rounds: ceil(log2 size)      sent by each rank but the root: count
 *
 * Best when latency counts more than bandwidth. With nx_coll.heard the tree uses the messages of a
 * dissemination (piggyback.h) that runs down the ranks.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/binomial.h"
#include "coll/building_blocks/piggyback.h"

/* The final location of this subtree's sum; |sum| may hold it during the reduction. */
static nx_ref ride(nx_sched *s, const nx_coll *c, const nx_binomial *tree, nx_ref sum)
{
    nx_ref now = nx_coll_input(c);
    nx_piggyback r = nx_piggyback_make(s);
    uint32_t round = 0;

    for (uint64_t far = 1; far < c->size; far *= 2, round++) {
        const bool up = (far == tree->span) && (tree->place != 0);
        const bool down = (far < tree->span) && nx_binomial_child(tree, far);
        const uint32_t from = nx_binomial_rank(tree, tree->place + far);

        nx_piggyback_send(&r, nx_binomial_rank(tree, tree->place + c->size - far), round, now,
                          up ? c->count : 0);
        if (down) {
            nx_recv_reduce(s, from, round, sum, now, c->count);
            now = sum;
        } else {
            nx_recv(s, from, round, sum, 0);
        }
        nx_piggyback_received(&r);
    }
    return now;
}

/* The same without empty messages: up the tree. */
static nx_ref climb(nx_sched *s, const nx_coll *c, const nx_binomial *tree, nx_ref sum)
{
    nx_ref now = nx_coll_input(c);

    for (uint64_t far = 1; far < tree->span; far *= 2) {
        if (nx_binomial_child(tree, far)) {
            nx_recv_reduce(s, nx_binomial_rank(tree, tree->place + far), 0, sum, now, c->count);
            now = sum;
        }
    }
    if (tree->place != 0) {
        nx_send(s, nx_binomial_parent(tree), 0, now, c->count);
    }
    return now;
}

nexar_err nx_reduce_binomial(nx_sched *s, const nx_coll *c)
{
    const nx_binomial tree = nx_binomial_make(c->rank, c->size, c->root);
    const bool leaf = (tree.span == 1) || !nx_binomial_child(&tree, 1);
    nx_ref sum = nx_at(NX_SPACE_RECV, 0), now;

    if ((tree.place != 0) && !leaf) {
        sum = nx_sched_scratch(s, c->count);
    }
    now = c->heard ? ride(s, c, &tree, sum) : climb(s, c, &tree, sum);
    if (tree.place != 0) {
        return nx_sched_seal(s);
    }
    nx_copy(s, sum, now, c->count);
    if (c->average) {
        nx_divide(s, sum, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_binomial_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_tree tree = {
        .net = f->net, .root = c->root, .places = c->size, .len = c->count, .reduce = true};

    (void)segment;
    f->messages = (c->size > 1);
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? nx_log2_floor(c->size) : f->messages;
    f->time_s = nx_tree_up(&tree);
}
