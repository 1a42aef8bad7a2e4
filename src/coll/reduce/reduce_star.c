/*
 * reduce_star.c - reduce for few ranks: each rank sends to the root, which adds up the vectors.
 *
 *     rounds: 1      sent by each rank but the root: count
 *
 * Best where ranks outnumber cores: then the total number of messages counts, and not the longest
 * chain. With nx_coll.heard there are 2 (size - 1) messages, the minimum.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/star.h"

nexar_err nx_reduce_star(nx_sched *s, const nx_coll *c)
{
    const nx_step_id first = s->nsteps;
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);

    if (c->rank != c->root) {
        nx_send(s, c->root, 0, in, c->count);
        nx_star_go(s, c, 0, first);
        return nx_sched_seal(s);
    }
    nx_star_sum(s, c, 0, in, out);
    nx_star_go(s, c, 0, first);
    if (c->average) {
        nx_divide(s, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_star_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    (void)segment;
    f->rounds = f->messages = (c->size > 1);
    f->sent = f->messages * c->count;
    f->time_s = nx_net_star(f->net, c->count) + (c->size - 1) * nx_net_reduce(f->net, c->count);
}
