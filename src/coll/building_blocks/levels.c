/* levels.c - the common part of all two-level algorithms. */
#include "levels.h"

nx_levels nx_levels_make(const nx_coll *c)
{
    const uint32_t host = nx_hosts_of(c->hosts, c->rank);
    nx_levels v = {
        .hosts = c->hosts,
        .n = nx_hosts_n(c->hosts, c->size),
        .host = host,
        .place = nx_hosts_place(c->hosts, c->rank),
        .count = nx_hosts_count(c->hosts, host),
        .inside = {.hosts = c->hosts, .which = host},
        .across = {.hosts = c->hosts, .across = true, .chief_host = NX_NO_HOST},
    };

    if (nx_coll_rooted(c->kind)) {
        v.root = nx_hosts_of(c->hosts, c->root);
        v.lead = (v.root == host) ? nx_hosts_place(c->hosts, c->root) : 0;
        v.across.chief_host = v.root;
        v.across.chief = c->root;
    }
    return v;
}

static void within(nx_sched *s, nx_builder build, const nx_coll *sub, const nx_sched_frame *frame)
{
    nx_sched_enter(s, frame);
    (void)build(s, sub); /* the schedule keeps the error */
    nx_sched_leave(s);
}

void nx_levels_across(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame)
{
    sub.rank = v->host;
    sub.size = v->n;
    sub.root = v->root;
    frame.team = &v->across;
    within(s, build, &sub, &frame);
}

void nx_levels_inside(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                      nx_sched_frame frame)
{
    sub.rank = v->place;
    sub.size = v->count;
    sub.root = v->lead;
    frame.team = &v->inside;
    within(s, build, &sub, &frame);
}

void nx_levels_among(nx_sched *s, const nx_levels *v, nx_builder build, nx_coll sub,
                     nx_sched_frame frame)
{
    const nx_team team = {
        .hosts = v->hosts, .across = true, .which = v->place, .chief_host = NX_NO_HOST};

    sub.rank = v->host;
    sub.size = v->n;
    frame.team = &team;
    within(s, build, &sub, &frame);
}

nx_ref nx_levels_reduce(nx_sched *s, const nx_levels *v, uint32_t round, nx_ref in, nx_ref sum,
                        size_t len)
{
    nx_ref now = in;

    if (!nx_levels_leads(v)) {
        nx_send(s, nx_levels_leader(v), round, in, len);
        return in;
    }
    for (uint32_t i = 1; i < v->count; i++) {
        nx_recv_reduce(s, nx_levels_rank(v, nx_levels_up(v, i)), round, sum, now, len);
        now = sum;
    }
    return now;
}

nx_split nx_levels_blocks(const nx_levels *v, size_t each)
{
    return (v->hosts == NULL) ? nx_split_each(each, v->n)
                              : nx_split_groups(each, v->hosts->first, v->n);
}

/* The number of consecutive ranks from |i| on, in the order of hosts. */
static uint32_t run_from(const nx_levels *v, uint32_t ranks, uint32_t i)
{
    uint32_t n = 1;

    while ((i + n < ranks) &&
           (nx_hosts_order(v->hosts, i + n) == nx_hosts_order(v->hosts, i) + n)) {
        n++;
    }
    return n;
}

static void reorder(nx_sched *s, const nx_levels *v, nx_ref ranks, nx_ref hosts, size_t each,
                    bool to_ranks)
{
    const uint32_t all = nx_hosts_before(v->hosts, v->n);
    uint32_t n;

    for (uint32_t i = 0; i < all; i += n) {
        const nx_ref by_host = nx_ref_plus(hosts, i * each);
        const nx_ref by_rank = nx_ref_plus(ranks, nx_hosts_order(v->hosts, i) * each);

        n = run_from(v, all, i);
        nx_copy(s, to_ranks ? by_rank : by_host, to_ranks ? by_host : by_rank, n * each);
    }
}

void nx_levels_to_ranks(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each)
{
    reorder(s, v, to, from, each, true);
}

void nx_levels_to_hosts(nx_sched *s, const nx_levels *v, nx_ref to, nx_ref from, size_t each)
{
    reorder(s, v, from, to, each, false);
}

/* ---- costs --------------------------------------------------------------------------- */

nx_net nx_net_across(const nx_net *net, uint32_t leaders)
{
    nx_net across = *net;

    across.ranks = net->hosts;
    across.bandwidth /= leaders;
    return across;
}

nx_net nx_net_inside(const nx_net *net)
{
    nx_net inside = *net;

    inside.ranks = nx_net_per_host(net);
    inside.hosts = 1;
    return inside;
}

double nx_net_collect(const nx_net *net, uint64_t len, bool work)
{
    const nx_net inside = nx_net_inside(net);
    const uint32_t others = inside.ranks - 1;

    if (others == 0) {
        return 0;
    }
    return nx_net_star(&inside, len) + (work ? nx_net_reduce(net, len) * others : 0);
}
