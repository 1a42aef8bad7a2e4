/*
 * gather_direct.c - gather and gatherv: every rank sends its block to the root.
 *
 *     rounds: 1      sent by each rank but the root: its block
 *
 * Best for long blocks, since each byte travels once; the only method for gatherv, where an inner
 * rank of a tree would not know the lengths. With nx_coll.heard the root releases the other ranks
 * when it has all blocks; in a gatherv all lengths have then been verified.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/star.h"

nexar_err nx_gather_direct(nx_sched *s, const nx_coll *c)
{
    if (c->rank != c->root) {
        nx_send(s, c->root, 0, nx_at(NX_SPACE_SEND, 0), c->count);
        nx_star_go(s, c, 0, 0);
        return nx_sched_seal(s);
    }

    const nx_split blocks = nx_coll_blocks(c);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_step_id first = s->nsteps;

    for (uint32_t i = 1; i < c->size; i++) {
        const uint32_t from = nx_star_rank(c, i);
        const nx_span at = nx_split_at(&blocks, from);

        nx_recv(s, from, 0, nx_ref_plus(out, at.off), at.len);
    }
    nx_star_go(s, c, 0, first);
    if (!c->in_place) {
        const nx_span own = nx_split_at(&blocks, c->rank);

        nx_copy(s, nx_ref_plus(out, own.off), nx_at(NX_SPACE_SEND, 0), own.len);
    }
    return nx_sched_seal(s);
}

void nx_gather_direct_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_coll_blocks(c);

    (void)segment;
    f->rounds = f->messages = (c->size > 1);
    f->sent = 0;
    for (uint32_t i = 1; i < c->size; i++) {
        const uint64_t len = nx_split_at(&blocks, (c->root + i) % c->size).len;

        f->sent = (len > f->sent) ? len : f->sent;
    }
    f->time_s = nx_net_star(f->net, nx_split_sum(&blocks) / c->size);
}
