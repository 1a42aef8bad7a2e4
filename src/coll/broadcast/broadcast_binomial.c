/*
 * broadcast_binomial.c - broadcast for short vectors: a tree in which the
 * number of ranks that have the vector doubles each round.
 *
 *     rounds: ceil(log2 size)      sent by the root: count ceil(log2 size)
 *
 * Best when latency counts more than bandwidth. With nx_coll.heard it uses the messages of a
 * dissemination (piggyback.h), the longest distance first as without.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/binomial.h"
#include "coll/building_blocks/piggyback.h"

static void ride(nx_sched *s, const nx_coll *c, const nx_binomial *tree)
{
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);
    nx_piggyback r = nx_piggyback_make(s);
    uint32_t round = 0;
    uint64_t far = 1;

    while (far < c->size) {
        far *= 2;
    }
    for (far /= 2; far >= 1; far /= 2, round++) {
        const bool down = (far < tree->span) && nx_binomial_child(tree, far);
        const bool up = (far == tree->span) && (tree->place != 0);

        nx_piggyback_send(&r, nx_binomial_rank(tree, tree->place + far), round, buf,
                          down ? c->count : 0);
        nx_recv(s, nx_binomial_rank(tree, tree->place + c->size - far), round, buf,
                up ? c->count : 0);
        nx_piggyback_received(&r);
    }
}

nexar_err nx_broadcast_binomial(nx_sched *s, const nx_coll *c)
{
    const nx_binomial tree = nx_binomial_make(c->rank, c->size, c->root);
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);

    if (c->heard) {
        ride(s, c, &tree);
        return nx_sched_seal(s);
    }
    if (tree.place != 0) {
        nx_recv(s, nx_binomial_parent(&tree), 0, buf, c->count);
    }
    /* The child with the largest subtree first: its data has the longest path. */
    for (uint64_t far = tree.span / 2; far >= 1; far /= 2) {
        if (nx_binomial_child(&tree, far)) {
            nx_send(s, nx_binomial_rank(&tree, tree.place + far), 0, buf, c->count);
        }
    }
    return nx_sched_seal(s);
}

void nx_broadcast_binomial_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_tree tree = {.net = f->net, .root = c->root, .places = c->size, .len = c->count};

    (void)segment;
    f->messages = nx_log2_ceil(c->size);
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? nx_log2_floor(c->size) : (c->size > 1);
    f->time_s = nx_tree_down(&tree);
}
