/* cost.c - counts, simulates, or evaluates the closed form. */
#include "coll/cost/cost.h"

typedef struct call {
    const nx_algorithm *algorithm;
    nx_coll coll;
} call;

static nexar_err build_rank(void *ctx, uint32_t rank, nx_sched *s)
{
    const call *k = ctx;
    nx_coll c = k->coll;

    c.rank = rank;
    return k->algorithm->build(s, &c);
}

nexar_err nx_cost_count(const nx_algorithm *a, const nx_coll *c, size_t segment, uint64_t limit,
                        nx_forecast *f, uint64_t *steps)
{
    call k = {.algorithm = a, .coll = *c};
    uint64_t messages = 0, sent = 0, all = 0;

    for (uint32_t r = 0; (r < c->size) && (all <= limit); r++) {
        nx_sched s;
        nexar_err err;

        nx_sched_init_tally(&s, segment);
        err = build_rank(&k, r, &s);
        messages = (s.tally.messages_sent > messages) ? s.tally.messages_sent : messages;
        sent = (s.tally.sent > sent) ? s.tally.sent : sent;
        all += s.tally.steps;
        nx_sched_fini(&s);
        if (err != NEXAR_OK) {
            return err;
        }
    }
    f->messages = messages;
    f->sent = sent;
    *steps = all;
    return NEXAR_OK;
}

/* Fills |cost| from the schedules, within |limits|. */
static nexar_err measure(call *k, size_t segment, nx_cost_limits limits, nx_cost *cost)
{
    nx_forecast count = {.net = cost->is.net};
    uint64_t steps = 0;
    nexar_err err = nx_cost_count(k->algorithm, &k->coll, segment,
                                  limits.count ? UINT64_MAX : limits.steps, &count, &steps);

    if (err != NEXAR_OK) {
        return err;
    }
    if (steps <= limits.steps) {
        err = nx_cost_simulate(build_rank, k, segment, &cost->is);
        cost->simulated = true;
        cost->counted = true;
    } else if (limits.count) {
        cost->is.messages = count.messages;
        cost->is.sent = count.sent;
        cost->counted = true;
    }
    return err;
}

nexar_err nx_cost_of(const nx_algorithm *a, const nx_coll *c, size_t segment, const nx_net *net,
                     nx_cost_limits limits, nx_cost *out)
{
    nx_cost cost = {.is = {.net = net}};
    call k = {.algorithm = a, .coll = *c};
    nx_hosts *hosts = NULL;
    nexar_err err = NEXAR_OK;

    a->forecast(c, segment, &cost.is);
    if (c->size <= NX_COST_MAX_RANKS) {
        err = nx_net_hosts(net, &hosts);
        k.coll.hosts = hosts;
        if (err == NEXAR_OK) {
            err = measure(&k, segment, limits, &cost);
        }
        nx_hosts_destroy(hosts);
    }
    if (err == NEXAR_OK) {
        *out = cost;
    }
    return err;
}
