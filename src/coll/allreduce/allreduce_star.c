/*
 * allreduce_star.c - allreduce for few ranks: the first rank receives all vectors, adds them in the
 * order of ranks, and sends the sum to each rank.
 *
 *     rounds: 2      sent by the first rank: count (size - 1), by the others: count
 *
 * Best for short vectors where ranks outnumber cores: then the total number of messages counts, 2
 * (size - 1), and not the longest chain.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/star.h"

nexar_err nx_allreduce_star(nx_sched *s, const nx_coll *c)
{
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const nx_step_id first = s->nsteps;

    if (c->rank != 0) {
        nx_send(s, 0, 0, in, c->count);
        nx_recv(s, 0, 0, out, c->count);
        return nx_sched_seal(s);
    }
    nx_star_sum(s, c, 0, in, out);
    if (c->average) {
        nx_divide(s, out, c->count);
    }
    nx_sched_gate_since(s, first); /* empty vectors wait for each other, too */
    for (uint32_t i = 1; i < c->size; i++) {
        nx_send(s, i, 0, out, c->count);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    return nx_sched_seal(s);
}

void nx_allreduce_star_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    (void)segment;
    f->rounds = (c->size > 1) ? 2 : 0;
    f->messages = c->size - 1;
    f->sent = f->messages * c->count;
    /* Except for the last vector, additions overlap the arrival of the next vectors. */
    f->time_s = 2 * nx_net_star(f->net, c->count) + nx_net_reduce(f->net, c->count);
}
