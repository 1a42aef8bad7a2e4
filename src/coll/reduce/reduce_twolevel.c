/*
 * reduce_twolevel.c - reduce inside each host, then from host to host.
 *
 * The root stands for its host, the first rank for every other one.  The others send it
 * their vectors, which it adds up; between the hosts the sums go up a binomial tree, or,
 * long ones, through a chain, a segment at a time.
 *
 *     rounds: 1 inside the hosts, then those between them
 *     sent by each rank but the root: count
 *
 * Best where hosts have several ranks: one vector leaves each host.
 */
#include "coll/algorithms.h"
#include "coll/phase/levels.h"
#include "coll/phase/window.h"

nexar_err nx_reduce_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    const bool at_root = (c->rank == c->root), leads = nx_levels_leads(&v);
    const nx_ref sum = at_root ? out : nx_sched_scratch(s, (leads && (v.count > 1)) ? c->count : 0);
    const nx_ref now = nx_levels_reduce(s, &v, 0, in, sum, c->count);

    if (leads) {
        const nx_coll sub = {.kind = NX_REDUCE,
                             .count = c->count,
                             .average = c->average,
                             .in_place = at_root && ((v.count > 1) || c->in_place)};

        nx_levels_across(s, &v, nx_reduce_binomial, sub, (nx_frame){.send = now, .recv = out});
    }
    return nx_sched_seal(s);
}

void nx_reduce_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const uint32_t others = nx_net_per_host(f->net) - 1;
    nx_forecast between = {.net = &across};
    nx_coll sub = *c;

    sub.size = f->net->hosts;
    sub.root = nx_net_host(f->net, c->root);
    nx_reduce_binomial_forecast(&sub, segment, &between);
    f->messages = (c->size > 1);
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? between.rounds + (others > 0) : f->messages;
    f->time_s = between.time_s + nx_net_collect(f->net, c->count, true);
}

nexar_err nx_reduce_twolevel_chain(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const uint32_t place = (v.host + v.n - v.root) % v.n;
    const bool last = (place + 1 == v.n), leads = nx_levels_leads(&v);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);
    nx_window w = nx_window_first(s, c->count, leads && (place != 0) && (!last || (v.count > 1)));

    do {
        const nx_ref own = nx_ref_plus(in, w.off);
        const nx_ref sum = (place == 0) ? nx_ref_plus(out, w.off) : nx_window_scratch(&w);
        nx_ref now = nx_levels_reduce(s, &v, w.number, own, sum, w.len);

        if (leads && !last) {
            nx_recv_reduce(s, nx_team_rank(&v.across, (v.host + 1) % v.n), w.number, sum, now,
                           w.len);
            now = sum;
        }
        if (leads && (place != 0)) {
            nx_send(s, nx_team_rank(&v.across, (v.host + v.n - 1) % v.n), w.number, now, w.len);
        }
    } while (nx_window_next(&w));

    if (c->size == 1) {
        nx_copy(s, out, in, c->count);
    }
    if (c->average && (c->rank == c->root)) {
        nx_divide(s, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_twolevel_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const nx_window_cost cost = nx_window_cost_of(c->count, segment);
    const uint32_t others = nx_net_per_host(f->net) - 1;
    const uint32_t hops = f->net->hosts - 1;
    const double inside = nx_net_collect(f->net, c->count, true);
    nx_forecast between = {.net = &across};
    nx_coll sub = *c;

    sub.size = f->net->hosts;
    sub.root = nx_net_host(f->net, c->root);
    nx_reduce_chain_forecast(&sub, segment, &between);
    f->messages = (c->size > 1) ? cost.segments : 0;
    f->sent = (c->size > 1) ? c->count : 0;
    f->rounds = hops + (others > 0);
    if (c->count == 0) {
        f->rounds = (c->size > 1);
    } else if ((hops > 0) && (f->rounds > 1)) {
        f->rounds += (cost.windows - 1) / 2; /* as in the chain */
    }
    /* Both levels work at once, the first segment apart. */
    f->time_s = (between.time_s > inside) ? between.time_s : inside;
    f->time_s += ((between.time_s > inside) ? inside : between.time_s) / (double)cost.segments;
}
