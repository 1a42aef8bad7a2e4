/*
 * barrier_twolevel.c - a barrier through one leader per host: the other ranks notify the leader,
 * the leaders notify each other, and each leader releases its host.
 *
 *     rounds: ceil(log2 hosts) between hosts, and two inside
 *
 * Best where hosts have several ranks: fewer messages cross the network.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

nexar_err nx_barrier_twolevel(nx_sched *s, const nx_coll *c)
{
    const nx_levels v = nx_levels_make(c);
    const nx_ref nothing = nx_at(NX_SPACE_RECV, 0);
    const nx_coll between = {.kind = NX_BARRIER, .rank = v.host, .size = v.n};
    const nx_sched_frame frame = {.team = &v.across, .send = nothing, .recv = nothing};
    const nx_step_id first = s->nsteps;

    if (!nx_levels_leads(&v)) {
        nx_send(s, nx_levels_leader(&v), 0, nothing, 0);
        nx_recv(s, nx_levels_leader(&v), 0, nothing, 0);
        return nx_sched_seal(s);
    }
    for (uint32_t i = 1; i < v.count; i++) {
        nx_recv(s, nx_levels_rank(&v, nx_levels_up(&v, i)), 0, nothing, 0);
    }
    /* Empty messages share no memory: only the order matters. */
    nx_sched_gate_since(s, first);
    nx_sched_enter(s, &frame);
    nx_disseminate(s, &between, 0);
    nx_sched_leave(s);
    nx_sched_gate_since(s, first);
    for (uint32_t i = 1; i < v.count; i++) {
        nx_send(s, nx_levels_rank(&v, nx_levels_up(&v, i)), 0, nothing, 0);
    }
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    return nx_sched_seal(s);
}

void nx_barrier_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_net across = nx_net_across(f->net, 1);
    const uint32_t others = nx_net_per_host(f->net) - 1;
    nx_forecast between = {.net = &across};
    nx_coll sub = *c;

    sub.size = f->net->hosts;
    nx_barrier_dissemination_forecast(&sub, segment, &between);
    f->messages = between.messages + others;
    f->rounds = between.rounds + ((others > 0) ? 2 : 0);
    f->sent = 0;
    f->time_s = between.time_s + 2 * nx_net_collect(f->net, 0, false);
}
