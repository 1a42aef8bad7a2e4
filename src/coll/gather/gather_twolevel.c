/*
 * gather_twolevel.c - gather for short blocks: the first rank of each host gathers the host's
 * blocks and sends them to the root, which gathers the blocks of its own host.
 *
 *     rounds: 2      sent by each leader: the blocks of its host
 *
 * Best for short blocks on many ranks: the root receives one message from each host.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

/* Receives the blocks of |host|, which are contiguous, at the root. */
static void take(nx_sched *s, const nx_coll *c, const nx_levels *v, uint32_t host)
{
    const uint32_t n = nx_hosts_count(v->hosts, host);
    const uint32_t first = nx_hosts_rank(v->hosts, host, 0);
    const bool in_a_row = (nx_hosts_rank(v->hosts, host, n - 1) == first + n - 1);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref at =
        in_a_row ? nx_ref_plus(out, first * c->count) : nx_sched_scratch(s, n * c->count);

    nx_recv(s, first, 0, at, n * c->count);
    for (uint32_t i = 0; (i < n) && !in_a_row; i++) {
        nx_copy(s, nx_ref_plus(out, nx_hosts_rank(v->hosts, host, i) * c->count),
                nx_ref_plus(at, i * c->count), c->count);
    }
}

static void root(nx_sched *s, const nx_coll *c, const nx_levels *v)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);

    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t from = nx_levels_rank(v, nx_levels_up(v, i));

        nx_recv(s, from, 0, nx_ref_plus(out, from * c->count), c->count);
    }
    for (uint32_t i = 1; i < v->n; i++) {
        take(s, c, v, (v->host + i) % v->n);
    }
    if (!c->in_place) {
        nx_copy(s, nx_ref_plus(out, c->rank * c->count), nx_at(NX_SPACE_SEND, 0), c->count);
    }
}

/* The leader of a host without the root. */
static void lead(nx_sched *s, const nx_coll *c, const nx_levels *v)
{
    const nx_ref in = nx_at(NX_SPACE_SEND, 0);
    const nx_ref all = (v->count == 1) ? in : nx_sched_scratch(s, v->count * c->count);

    nx_copy(s, all, in, c->count);
    for (uint32_t i = 1; i < v->count; i++) {
        nx_recv(s, nx_levels_rank(v, i), 0, nx_ref_plus(all, i * c->count), c->count);
    }
    nx_send(s, c->root, 0, all, v->count * c->count);
}

nexar_err nx_gather_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);

    if (c->rank == c->root) {
        root(s, c, &v);
    } else if (nx_levels_leads(&v)) {
        lead(s, c, &v);
    } else {
        nx_send(s, nx_levels_leader(&v), 0, nx_at(NX_SPACE_SEND, 0), c->count);
    }
    return nx_sched_seal(s);
}

void nx_gather_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const uint32_t per_host = nx_net_per_host(f->net);
    const uint64_t each = (across.ranks > 1) ? per_host : 1; /* the most that a rank sends */

    (void)segment;
    f->messages = (c->size > 1);
    f->sent = f->messages * each * c->count;
    f->rounds = ((across.ranks > 1) && (per_host > 1) && (c->count > 0)) ? 2 : f->messages;
    f->time_s = nx_net_collect(f->net, c->count, false);
    f->time_s += (across.ranks > 1) ? nx_net_star(&across, (uint64_t)per_host * c->count) : 0;
}
