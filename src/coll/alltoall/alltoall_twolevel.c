/*
 * alltoall_twolevel.c - alltoall for short blocks: the data from one host to another travels in as
 * many messages as a host has ranks, instead of one for each pair of ranks.
 *
 * Inside a host each rank gives the rank with number k all blocks for ranks with number k on their
 * hosts. Ranks with equal numbers then exchange, between the hosts, the blocks for each other: one
 * block from each rank of their host.
 *
 *     rounds: 1 inside the hosts, 1 between them
 *     sent by each rank: per_host - 1 messages inside, hosts - 1 between
 *
 * Best for short blocks, since most of them travel twice and are packed in between. Hosts with
 * unequal numbers of ranks exchange pairwise.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

typedef struct job {
    const nx_coll *c;
    nx_levels v;
    nx_ref in, out;
} job;

/* Collects at |to| the blocks for the ranks with number |place|, host by host. */
static void pack(nx_sched *s, const job *j, uint32_t place, nx_ref to)
{
    const size_t count = j->c->count;

    for (uint32_t host = 0; host < j->v.n; host++) {
        nx_copy(s, nx_ref_plus(to, host * count),
                nx_ref_plus(j->in, nx_hosts_rank(j->c->hosts, host, place) * count), count);
    }
}

/* Sorts the data of number |place| of this host, host by host, into |going|: for each host the
 * blocks of all ranks of this host. */
static void sort(nx_sched *s, const job *j, uint32_t place, nx_ref from, nx_ref going)
{
    const size_t count = j->c->count;

    for (uint32_t host = 0; host < j->v.n; host++) {
        nx_copy(s, nx_ref_plus(going, (host * j->v.count + place) * count),
                nx_ref_plus(from, host * count), count);
    }
}

static void inside(nx_sched *s, const job *j, nx_ref going)
{
    const size_t len = j->v.n * j->c->count;
    const nx_ref own = nx_sched_scratch(s, len);

    for (uint32_t i = 1; i < j->v.count; i++) {
        const uint32_t to = nx_levels_up(&j->v, i);
        const nx_ref packed = nx_sched_scratch(s, len);

        pack(s, j, to, packed);
        nx_send(s, nx_levels_rank(&j->v, to), 0, packed, len);
    }
    pack(s, j, j->v.place, own);
    sort(s, j, j->v.place, own, going);
    for (uint32_t i = 1; i < j->v.count; i++) {
        const uint32_t from = nx_levels_down(&j->v, i);
        const nx_ref packed = nx_sched_scratch(s, len);

        nx_recv(s, nx_levels_rank(&j->v, from), 0, packed, len);
        sort(s, j, from, packed, going);
    }
}

nexar_err nx_alltoall_twolevel(nx_sched *s, const nx_coll *c)
{
    const job j = {
        .c = c, .v = nx_levels_make(c), .in = nx_coll_input(c), .out = nx_at(NX_SPACE_RECV, 0)};
    const size_t total = c->size * c->count;
    const bool in_order = nx_hosts_in_order(c->hosts);

    if (!nx_hosts_equal(c->hosts)) {
        return nx_alltoall_pairwise(s, c);
    }

    const nx_ref going = nx_sched_scratch(s, total);
    const nx_ref coming = in_order ? j.out : nx_sched_scratch(s, total);

    inside(s, &j, going);
    nx_levels_among(s, &j.v, nx_alltoall_pairwise,
                    (nx_coll){.kind = NX_ALLTOALL, .count = j.v.count * c->count},
                    (nx_sched_frame){.send = going, .recv = coming});
    if (!in_order) {
        nx_levels_to_ranks(s, &j.v, j.out, coming, c->count);
    }
    return nx_sched_seal(s);
}

void nx_alltoall_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t per_host = nx_net_per_host(f->net), others = per_host - 1;
    const nx_net across = nx_net_across(f->net, per_host), within = nx_net_inside(f->net);
    const uint64_t all = (uint64_t)c->size * c->count;
    const uint64_t each = (uint64_t)f->net->hosts * c->count;
    nx_forecast between = {.net = &across};
    nx_coll sub = {.kind = NX_ALLTOALL, .size = across.ranks, .count = per_host * c->count};

    if (c->size % f->net->hosts != 0) {
        nx_alltoall_pairwise_forecast(c, segment, f);
        return;
    }
    nx_alltoall_pairwise_forecast(&sub, segment, &between);
    f->messages = between.messages + others;
    f->sent = between.sent + others * each;
    f->rounds = between.rounds + (((all > 0) || (between.rounds == 0)) && (others > 0));
    /* All data is copied for packing and for sorting, and the own outgoing blocks once more. */
    f->time_s = between.time_s + nx_net_reduce(f->net, 2 * all + (uint64_t)sub.count);
    f->time_s += (others > 0) ? nx_net_all(&within, each, per_host) : 0;
}
