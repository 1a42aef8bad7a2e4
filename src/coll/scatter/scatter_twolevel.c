/*
 * scatter_twolevel.c - scatter for short blocks: the root sends the first rank of each host all
 * blocks of the host, and sends the ranks of its own host their blocks directly.
 *
 *     rounds: 2      sent by the root: hosts - 1 messages, and those inside its host
 *
 * Best for short blocks on many ranks.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

/* Sends the blocks of |host|, contiguous, to the host's first rank. */
static void give(nx_sched *s, const nx_coll *c, const nx_levels *v, uint32_t host)
{
    const uint32_t n = nx_hosts_count(v->hosts, host);
    const uint32_t first = nx_hosts_rank(v->hosts, host, 0);
    const bool in_a_row = (nx_hosts_rank(v->hosts, host, n - 1) == first + n - 1);
    const nx_ref in = nx_at(NX_SPACE_SEND, 0);
    const nx_ref at =
        in_a_row ? nx_ref_plus(in, first * c->count) : nx_sched_scratch(s, n * c->count);

    for (uint32_t i = 0; (i < n) && !in_a_row; i++) {
        nx_copy(s, nx_ref_plus(at, i * c->count),
                nx_ref_plus(in, nx_hosts_rank(v->hosts, host, i) * c->count), c->count);
    }
    nx_send(s, first, 0, at, n * c->count);
}

static void root(nx_sched *s, const nx_coll *c, const nx_levels *v)
{
    const nx_ref in = nx_at(NX_SPACE_SEND, 0);

    for (uint32_t i = 1; i < v->n; i++) {
        give(s, c, v, (v->host + i) % v->n);
    }
    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t to = nx_levels_rank(v, nx_levels_up(v, i));

        nx_send(s, to, 0, nx_ref_plus(in, to * c->count), c->count);
    }
    nx_copy(s, nx_at(NX_SPACE_RECV, 0), nx_ref_plus(in, c->rank * c->count), c->count);
}

/* The leader of a host without the root. */
static void lead(nx_sched *s, const nx_coll *c, const nx_levels *v)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref all = (v->count == 1) ? out : nx_sched_scratch(s, v->count * c->count);

    nx_recv(s, c->root, 0, all, v->count * c->count);
    for (uint32_t i = 1; i < v->count; i++) {
        nx_send(s, nx_levels_rank(v, i), 0, nx_ref_plus(all, i * c->count), c->count);
    }
    nx_copy(s, out, all, c->count);
}

nexar_err nx_scatter_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);

    if (c->rank == c->root) {
        root(s, c, &v);
    } else if (nx_levels_leads(&v)) {
        lead(s, c, &v);
    } else {
        nx_recv(s, nx_levels_leader(&v), 0, nx_at(NX_SPACE_RECV, 0), c->count);
    }
    return nx_sched_seal(s);
}

void nx_scatter_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const uint32_t per_host = nx_net_per_host(f->net);

    (void)segment;
    f->messages = f->net->hosts - 1 + per_host - 1;
    f->sent = (uint64_t)(c->size - 1) * c->count;
    f->rounds = ((across.ranks > 1) && (per_host > 1) && (c->count > 0)) ? 2 : (c->size > 1);
    f->time_s = nx_net_collect(f->net, c->count, false);
    f->time_s += (across.ranks > 1) ? nx_net_star(&across, (uint64_t)per_host * c->count) : 0;
}
