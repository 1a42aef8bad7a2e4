/*
 * allgather_star.c - allgather for few ranks: the first rank collects all blocks and sends all of
 * them to each rank.
 *
 *     rounds: 2      sent by the first rank: size - 1 times all blocks
 *
 * Best for short blocks where ranks outnumber cores: then the total number of messages counts, 2
 * (size - 1), and not the longest chain.
 */
#include "coll/algorithms.h"

nexar_err nx_allgather_star(nx_sched *s, const nx_coll *c)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref in = c->in_place ? nx_ref_plus(out, c->rank * c->count) : nx_at(NX_SPACE_SEND, 0);
    const size_t all = c->size * c->count;

    if (c->rank != 0) {
        nx_send(s, 0, 0, in, c->count);
        nx_recv(s, 0, 0, out, all);
        return nx_sched_seal(s);
    }
    nx_copy(s, out, in, c->count);
    for (uint32_t i = 1; i < c->size; i++) {
        nx_recv(s, i, 0, nx_ref_plus(out, i * c->count), c->count);
    }
    nx_sched_gate_since(s, 0); /* empty blocks wait for each other, too */
    for (uint32_t i = 1; i < c->size; i++) {
        nx_send(s, i, 0, out, all);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    return nx_sched_seal(s);
}

void nx_allgather_star_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint64_t all = (uint64_t)c->size * c->count;

    (void)segment;
    f->rounds = (c->size > 1) ? 2 : 0;
    f->messages = c->size - 1;
    f->sent = f->messages * all;
    f->time_s = nx_net_star(f->net, c->count) + nx_net_star(f->net, all);
}
