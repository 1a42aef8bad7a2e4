/*
 * reduce_scatter_twolevel.c - reduce-scatter for short vectors, by one leader per host. Each leader
 * adds up the vectors of its host, the leaders run recursive halving between them, and each leader
 * distributes the blocks of its host.
 *
 *     rounds: 2 inside the hosts, log2 hosts between them (two more when there are not
 *             a power of two)
 *     sent over the network by a host: half the vector, a quarter, ...
 *
 * Best for short vectors on hosts with several ranks. Where the ranks of a host are not
 * consecutive, the blocks are first put in the order of hosts.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

/* Distributes the blocks of this rank's host, which are at |sums|: the own block to the output, the
 * others to their ranks. */
static void hand_out(nx_sched *s, const nx_coll *c, const nx_levels *v, nx_ref sums)
{
    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t to = nx_levels_up(v, i);

        nx_send(s, nx_levels_rank(v, to), 1, nx_ref_plus(sums, to * c->count), c->count);
    }
    nx_copy(s, nx_at(NX_SPACE_RECV, 0), nx_ref_plus(sums, v->place * c->count), c->count);
}

static void lead(nx_sched *s, const nx_coll *c, const nx_levels *v, nx_ref all)
{
    const bool alone = (v->count == 1) && !c->in_place;
    const nx_ref sums = alone ? nx_at(NX_SPACE_RECV, 0) : nx_sched_scratch(s, v->count * c->count);
    const nx_coll between = {.kind = NX_REDUCE_SCATTERV,
                             .count = v->count * c->count,
                             .parts = nx_levels_blocks(v, c->count)};

    nx_levels_across(s, v, nx_reduce_scatter_halving, between,
                     (nx_sched_frame){.send = all, .recv = sums});
    hand_out(s, c, v, sums);
}

nexar_err nx_reduce_scatter_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const size_t total = c->size * c->count;
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    nx_ref all = nx_coll_input(c);

    if (!nx_hosts_in_order(c->hosts)) {
        all = nx_sched_scratch(s, total);
        nx_levels_to_hosts(s, &v, all, nx_coll_input(c), c->count);
    }
    if (nx_levels_leads(&v)) {
        const nx_ref sum = nx_sched_scratch(s, (v.count > 1) ? total : 0);

        lead(s, c, &v, nx_levels_reduce(s, &v, 0, all, sum, total));
    } else {
        (void)nx_levels_reduce(s, &v, 0, all, all, total);
        nx_recv(s, nx_levels_leader(&v), 1, out, c->count);
    }
    if (c->average) {
        nx_divide(s, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_scatter_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const uint32_t per_host = nx_net_per_host(f->net), others = per_host - 1;
    const uint64_t all = (uint64_t)c->size * c->count;
    nx_forecast between = {.net = &across};
    nx_coll sub = {.kind = NX_REDUCE_SCATTERV, .size = across.ranks, .count = c->count * per_host};

    sub.parts = nx_split_even(all, across.ranks);
    nx_reduce_scatter_halving_forecast(&sub, segment, &between);
    f->messages = between.messages + others;
    f->sent = between.sent + others * (uint64_t)c->count;
    f->sent =
        ((others > 0) && (all > f->sent)) ? all : f->sent; /* of a rank that is not a leader */
    f->rounds = (all > 0) ? between.rounds + ((others > 0) ? 2 : 0) : (c->size > 1);
    f->time_s = between.time_s + nx_net_collect(f->net, all, true) +
                nx_net_collect(f->net, c->count, false);
}
