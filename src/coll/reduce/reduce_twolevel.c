/*
 * reduce_twolevel.c - reduce inside each host, then between hosts.
 *
 * The root is the leader of its host; the first rank leads every other host. Short vectors go up
 * binomial trees, one inside each host and one of the hosts; long vectors go through chains, a
 * segment at a time.
 *
 *     rounds: those inside the hosts, then those between them
 *     sent by each rank but the root: count
 *
 * Best where hosts have several ranks: one vector leaves each host.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"
#include "coll/building_blocks/window.h"

nexar_err nx_reduce_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const bool at_root = (c->rank == c->root), leads = nx_levels_leads(&v);
    const nx_ref sum = at_root ? out : nx_sched_scratch(s, (leads && (v.count > 1)) ? c->count : 0);
    const bool alone = (v.count == 1);
    const nx_coll within = {
        .kind = NX_REDUCE, .count = c->count, .in_place = at_root && c->in_place};

    if (!alone) {
        nx_levels_inside(s, &v, nx_reduce_binomial, within,
                         (nx_sched_frame){.send = in, .recv = sum});
    }
    if (leads) {
        const nx_coll sub = {.kind = NX_REDUCE,
                             .count = c->count,
                             .average = c->average,
                             .in_place = at_root && ((v.count > 1) || c->in_place)};

        nx_levels_across(s, &v, nx_reduce_binomial, sub,
                         (nx_sched_frame){.send = alone ? in : sum, .recv = out});
    }
    return nx_sched_seal(s);
}

void nx_reduce_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1), inside = nx_net_inside(f->net);
    nx_forecast between = {.net = &across}, within = {.net = &inside};
    nx_coll sub = *c;

    sub.size = across.ranks;
    sub.root = nx_net_host(f->net, c->root);
    nx_reduce_binomial_forecast(&sub, segment, &between);
    sub.size = inside.ranks;
    sub.root = 0;
    nx_reduce_binomial_forecast(&sub, segment, &within);
    f->messages = (c->size > 1);
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? between.rounds + within.rounds : f->messages;
    f->time_s = between.time_s + within.time_s;
}

/* This rank's position in the two chains. */
typedef struct link {
    bool inside_last;     /* no rank is behind this one inside its host ... */
    uint32_t behind;      /* ... otherwise that rank */
    bool across_last;     /* a leader: no host is behind its own ... */
    uint32_t behind_host; /* ... otherwise that host */
    uint32_t ahead;       /* the rank that receives the sum, except at the root */
} link;

static link link_of(const nx_levels *v)
{
    const uint32_t far = (v->place + v->count - v->lead) % v->count; /* from this rank's leader */
    const uint32_t host = (v->host + v->n - v->root) % v->n;         /* from the root's */
    link l = {.inside_last = (far + 1 == v->count), .across_last = true};

    l.behind = nx_levels_rank(v, nx_levels_up(v, 1));
    l.ahead = nx_levels_rank(v, nx_levels_down(v, 1));
    if (far == 0) {
        l.across_last = (host + 1 == v->n);
        l.behind_host = nx_team_rank(&v->across, (v->host + 1) % v->n);
        l.ahead = nx_team_rank(&v->across, (v->host + v->n - 1) % v->n);
    }
    return l;
}

nexar_err nx_reduce_twolevel_chain(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const link l = link_of(&v);
    const bool at_root = (c->rank == c->root);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    nx_window w = nx_window_first(s, c->count, !at_root && !(l.inside_last && l.across_last));

    do {
        const nx_ref own = nx_ref_plus(in, w.off);
        const nx_ref sum = at_root ? nx_ref_plus(out, w.off) : nx_window_scratch(&w);
        nx_ref now = own;

        if (!l.inside_last) {
            nx_recv_reduce(s, l.behind, w.number, sum, now, w.len);
            now = sum;
        }
        if (!l.across_last) {
            nx_recv_reduce(s, l.behind_host, w.number, sum, now, w.len);
            now = sum;
        }
        if (!at_root) {
            nx_send(s, l.ahead, w.number, now, w.len);
        }
    } while (nx_window_next(&w));

    if (c->size == 1) {
        nx_copy(s, out, in, c->count);
    }
    if (c->average && at_root) {
        nx_divide(s, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_twolevel_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1), inside = nx_net_inside(f->net);
    const nx_window_cost cost = nx_window_cost_of(c->count, segment);
    const uint32_t others = nx_net_per_host(f->net) - 1;
    const uint32_t hops = f->net->hosts - 1;
    nx_forecast between = {.net = &across}, within = {.net = &inside};
    nx_coll sub = *c;
    double slow, fast;

    sub.size = across.ranks;
    sub.root = nx_net_host(f->net, c->root);
    nx_reduce_chain_forecast(&sub, segment, &between);
    sub.size = inside.ranks;
    sub.root = 0;
    nx_reduce_chain_forecast(&sub, segment, &within);
    f->messages = (c->size > 1) ? cost.segments : 0;
    f->sent = (c->size > 1) ? c->count : 0;
    f->rounds = hops + others;
    if (c->count == 0) {
        f->rounds = (c->size > 1);
    } else if (f->rounds > 1) {
        f->rounds += (cost.windows - 1) / 2; /* as in the chain */
    }
    /* Both levels work concurrently, except on the first segment. */
    slow = (between.time_s > within.time_s) ? between.time_s : within.time_s;
    fast = between.time_s + within.time_s - slow;
    f->time_s = slow + fast / (double)cost.segments;
}
