/*
 * barrier_dissemination.c - a barrier in which no rank leaves before all ranks have entered.
 *
 * In round k each rank notifies the rank at distance 2^k and waits for the rank at distance -2^k.
 * After round k a rank knows that 2^(k+1) ranks have entered, since each notification is from a
 * rank that has finished the previous rounds.
 *
 *     rounds: ceil(log2 size)      sent by each rank: as many empty messages
 *
 * Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
 * 1988.
 */
#include "coll/algorithms.h"

void nx_disseminate(nx_sched *s, const nx_coll *c, uint32_t round)
{
    const nx_ref nothing = nx_at(NX_SPACE_RECV, 0);

    for (uint64_t far = 1; far < c->size; far *= 2, round++) {
        const uint32_t to = (uint32_t)((c->rank + far) % c->size);
        const uint32_t from = (uint32_t)((c->rank + c->size - far) % c->size);

        nx_send(s, to, round, nothing, 0);
        nx_recv(s, from, round, nothing, 0);
        /* Empty messages share no memory: only the order matters. */
        nx_sched_gate(s, nx_sched_last(s), NX_NO_STEP);
    }
}

void nx_await_hooks(nx_sched *s, const nx_coll *c, nx_step_id call, uint32_t round)
{
    if (c->hook && (c->count < c->size)) {
        nx_sched_gate(s, call, NX_NO_STEP);
        nx_disseminate(s, c, round);
    }
}

void nx_await_blocks(nx_sched *s, const nx_coll *c, uint32_t round)
{
    if (c->heard && nx_coll_private(c->kind)) {
        nx_sched_gate_received(s, 0);
        nx_disseminate(s, c, round);
    }
}

nexar_err nx_barrier_dissemination(nx_sched *s, const nx_coll *c)
{
    nx_disseminate(s, c, 0);
    return nx_sched_seal(s);
}

void nx_barrier_dissemination_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    nx_path path = {.net = f->net};

    (void)segment;
    for (uint64_t far = 1; far < c->size; far *= 2) {
        nx_path_shift(&path, (uint32_t)far, 0, 0);
    }
    f->rounds = f->messages = nx_log2_ceil(c->size);
    f->sent = 0;
    f->time_s = nx_path_time(&path);
}
