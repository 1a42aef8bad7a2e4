/*
 * alltoall_star.c - alltoall for few ranks: the first rank collects all blocks of the others, sorts
 * them, and sends each rank its blocks.
 *
 *     rounds: 2      sent by each rank: its whole vector, by the first one size - 1 such
 *
 * Best for short blocks where ranks outnumber cores: then the total number of messages counts, 2
 * (size - 1) instead of size (size - 1), and not the longest chain.
 */
#include "coll/algorithms.h"

/* At the first rank: the data of rank |i| is at |got| + i vectors, except its own. */
static void sort(nx_sched *s, const nx_coll *c, nx_ref got, nx_ref going)
{
    const nx_ref in = nx_coll_input(c);
    const size_t all = c->size * c->count;

    for (uint32_t to = 1; to < c->size; to++) {
        for (uint32_t from = 0; from < c->size; from++) {
            const nx_ref vector = (from == 0) ? in : nx_ref_plus(got, from * all);

            nx_copy(s, nx_ref_plus(going, to * all + from * c->count),
                    nx_ref_plus(vector, to * c->count), c->count);
        }
    }
    nx_copy(s, nx_at(NX_SPACE_RECV, 0), in, c->count);
    for (uint32_t from = 1; from < c->size; from++) {
        nx_copy(s, nx_at(NX_SPACE_RECV, from * c->count), nx_ref_plus(got, from * all), c->count);
    }
}

nexar_err nx_alltoall_star(nx_sched *s, const nx_coll *c)
{
    const size_t all = c->size * c->count;

    if (c->rank != 0) {
        nx_send(s, 0, 0, nx_coll_input(c), all);
        nx_recv(s, 0, 0, nx_at(NX_SPACE_RECV, 0), all);
        return nx_sched_seal(s);
    }

    const nx_step_id first = s->nsteps;
    const nx_ref got = nx_sched_scratch(s, c->size * all);
    const nx_ref going = nx_sched_scratch(s, c->size * all);

    for (uint32_t from = 1; from < c->size; from++) {
        nx_recv(s, from, 0, nx_ref_plus(got, from * all), all);
    }
    sort(s, c, got, going);
    if (c->count == 0) { /* otherwise nothing makes the sends wait */
        nx_sched_gate_since(s, first);
    }
    for (uint32_t to = 1; to < c->size; to++) {
        nx_send(s, to, 0, nx_ref_plus(going, to * all), all);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    return nx_sched_seal(s);
}

void nx_alltoall_star_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint64_t all = (uint64_t)c->size * c->count;

    (void)segment;
    f->rounds = (c->size > 1) ? 2 : 0;
    f->messages = c->size - 1;
    f->sent = f->messages * all;
    f->time_s = 2 * nx_net_star(f->net, all) + nx_net_reduce(f->net, c->size * all);
}
