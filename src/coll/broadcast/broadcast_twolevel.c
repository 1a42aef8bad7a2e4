/*
 * broadcast_twolevel.c - broadcast between hosts, and inside each host.
 *
 * The root is the leader of its host; the first rank leads every other host. Binomial trees for
 * short vectors. For long vectors chains, in which a leader forwards each segment to the next host
 * and to its own host at the same time.
 *
 *     rounds: those of both levels, one after the other
 *     sent by a leader: what it would send in each of the two
 *
 * Best where hosts have several ranks: the vector reaches each host once, whatever the numbering of
 * the ranks.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

static nexar_err both(nx_sched *s, const nx_coll *c, nx_builder build)
{
    const nx_levels v = nx_levels_make(c);
    const nx_coll sub = {.kind = NX_BROADCAST, .count = c->count};
    const nx_sched_frame frame = {.recv = nx_at(NX_SPACE_RECV, 0)};

    if (nx_levels_leads(&v)) {
        nx_levels_across(s, &v, build, sub, frame);
    }
    nx_levels_inside(s, &v, build, sub, frame);
    return nx_sched_seal(s);
}

nexar_err nx_broadcast_twolevel(nx_sched *s, const nx_coll *c)
{
    return both(s, c, nx_broadcast_binomial);
}

nexar_err nx_broadcast_twolevel_chain(nx_sched *s, const nx_coll *c)
{
    return both(s, c, nx_broadcast_chain);
}

/* Adds up the two levels of |f|, each forecast by |one|. */
static void forecast_levels(const nx_coll *c, size_t segment, nx_forecast *f, nx_forecaster one,
                            nx_forecast *between, nx_forecast *within)
{
    const nx_net across = nx_net_across(f->net, 1), inside = nx_net_inside(f->net);
    nx_coll sub = *c;

    *between = (nx_forecast){.net = &across};
    *within = (nx_forecast){.net = &inside};
    sub.root = nx_net_host(f->net, c->root);
    sub.size = across.ranks;
    one(&sub, segment, between);
    sub.root = 0;
    sub.size = inside.ranks;
    one(&sub, segment, within);
    between->net = within->net = f->net;
    f->messages = between->messages + within->messages;
    f->sent = between->sent + within->sent;
    f->rounds = between->rounds + within->rounds;
}

void nx_broadcast_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    nx_forecast between, within;

    forecast_levels(c, segment, f, nx_broadcast_binomial_forecast, &between, &within);
    f->rounds = (c->count > 0) ? f->rounds : (c->size > 1);
    f->time_s = between.time_s + within.time_s;
}

void nx_broadcast_twolevel_chain_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    nx_forecast between, within;

    forecast_levels(c, segment, f, nx_broadcast_chain_forecast, &between, &within);
    f->rounds = (c->count > 0) ? f->rounds : (c->size > 1);
    /* The faster level follows the slower one a segment behind. */
    f->time_s = (between.time_s > within.time_s) ? between.time_s : within.time_s;
    f->time_s += ((between.time_s > within.time_s) ? within.time_s : between.time_s) /
                 (double)nx_segments(c->count, segment);
}
