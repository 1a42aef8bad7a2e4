/*
 * broadcast_star.c - broadcast for few ranks: the root sends to each rank.
 *
 *     rounds: 1      sent by the root: count (size - 1)
 *
 * Best where ranks outnumber cores: then the total number of messages counts, and not the longest
 * chain. With nx_coll.heard there are 2 (size - 1) messages, the minimum.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/star.h"

nexar_err nx_broadcast_star(nx_sched *s, const nx_coll *c)
{
    const nx_ref buf = nx_at(NX_SPACE_RECV, 0);

    nx_star_come(s, c, 0);
    if (c->rank != c->root) {
        nx_recv(s, c->root, 0, buf, c->count);
    }
    for (uint32_t i = 1; (i < c->size) && (c->rank == c->root); i++) {
        nx_send(s, nx_star_rank(c, i), 0, buf, c->count);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    return nx_sched_seal(s);
}

void nx_broadcast_star_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    (void)segment;
    f->rounds = (c->size > 1);
    f->messages = c->size - 1;
    f->sent = f->messages * c->count;
    f->time_s = nx_net_star(f->net, c->count);
}
