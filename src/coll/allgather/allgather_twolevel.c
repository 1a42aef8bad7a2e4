/*
 * allgather_twolevel.c - allgather for short blocks: the leader of each host gathers the blocks of
 * its host, the leaders exchange them, and each leader distributes all blocks inside its host.
 *
 *     rounds: 1 inside the hosts, ceil(log2 hosts) between them, a tree inside
 *     sent by a leader: all blocks but those of its host, and all log2 of its host
 *
 * Best for short blocks on hosts with several ranks. Where the ranks of a host are not consecutive,
 * the blocks are put in order at the end.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

/* Gathers the blocks of this rank's host at their positions in |all|, which is in the order of
 * hosts. */
static void collect(nx_sched *s, const nx_coll *c, const nx_levels *v, nx_ref in, nx_ref all)
{
    const uint32_t first = nx_hosts_before(v->hosts, v->host);

    if (!nx_levels_leads(v)) {
        nx_send(s, nx_levels_leader(v), 0, in, c->count);
        return;
    }
    nx_copy(s, nx_ref_plus(all, (first + v->place) * c->count), in, c->count);
    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t from = nx_levels_up(v, i);

        nx_recv(s, nx_levels_rank(v, from), 0, nx_ref_plus(all, (first + from) * c->count),
                c->count);
    }
}

nexar_err nx_allgather_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref in = c->in_place ? nx_ref_plus(out, c->rank * c->count) : nx_at(NX_SPACE_SEND, 0);
    const size_t total = c->size * c->count;
    const nx_ref all = nx_hosts_in_order(c->hosts) ? out : nx_sched_scratch(s, total);
    const nx_split blocks = nx_levels_blocks(&v, c->count);
    const nx_sched_frame frame = {.send = all, .recv = all};

    collect(s, c, &v, in, all);
    if (nx_levels_leads(&v)) {
        const nx_coll between = {.kind = NX_ALLGATHERV,
                                 .count = nx_split_at(&blocks, v.host).len,
                                 .parts = blocks,
                                 .in_place = true};

        nx_levels_across(s, &v, nx_allgather_bruck, between, frame);
    }
    nx_levels_inside(s, &v, nx_broadcast_binomial, (nx_coll){.kind = NX_BROADCAST, .count = total},
                     frame);
    if (!nx_hosts_in_order(c->hosts)) {
        nx_levels_to_ranks(s, &v, out, all, c->count);
    }
    return nx_sched_seal(s);
}

void nx_allgather_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1), inside = nx_net_inside(f->net);
    const uint64_t all = (uint64_t)c->size * c->count;
    nx_forecast between = {.net = &across}, within = {.net = &inside};
    nx_coll sub = {.kind = NX_ALLGATHERV, .size = across.ranks, .count = c->count * inside.ranks};

    sub.parts = nx_split_each((size_t)inside.ranks * c->count, across.ranks);
    nx_allgather_bruck_forecast(&sub, segment, &between);
    sub = (nx_coll){.kind = NX_BROADCAST, .size = inside.ranks, .count = (size_t)all};
    nx_broadcast_binomial_forecast(&sub, segment, &within);
    f->messages = between.messages + within.messages;
    f->sent = between.sent + within.sent;
    f->rounds = between.rounds + within.rounds + (inside.ranks > 1);
    f->rounds = (all > 0) ? f->rounds : (c->size > 1);
    f->time_s = between.time_s + within.time_s + nx_net_collect(f->net, c->count, false);
}
