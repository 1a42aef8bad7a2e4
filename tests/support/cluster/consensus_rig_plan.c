/* consensus_rig_plan.c - derives a plan and its faults from a seed. */
#include <inttypes.h>
#include <stdio.h>

#include "consensus_rig_inner.h"

nxt_consensus_plan nxt_consensus_plan_of(uint64_t seed)
{
    static const uint32_t fanouts[] = {2, 2, 3, 4, 0};
    static const uint32_t delays[] = {1, 5, 50};
    nxt_rand r = {nxt_mix(seed)};
    nxt_consensus_plan p = {.seed = seed};

    p.size = 2 + nxt_below(&r, NXT_CONSENSUS_RANKS - 1);
    p.fanout = fanouts[nxt_below(&r, 5)];
    p.instances = 1 + nxt_below(&r, NXT_CONSENSUS_INSTANCES);
    p.quorum = nxt_one_in(&r, 2) ? NX_QUORUM_MAJORITY : NX_QUORUM_NONE;
    p.early = (p.quorum == NX_QUORUM_NONE) && nxt_one_in(&r, 2);
    p.ordered = nxt_one_in(&r, 2);
    p.twice = nxt_one_in(&r, 4);
    p.delay = delays[nxt_below(&r, 3)];
    p.detection = 1 + nxt_below(&r, 300);
    p.crashes = nxt_one_in(&r, 8) ? 0 : nxt_below(&r, 1 + (nxt_one_in(&r, 3) ? p.size : 3));
    p.pauses = nxt_below(&r, 3);
    p.suspicions = nxt_one_in(&r, 4) ? 1 + nxt_below(&r, 4) : 0;
    p.partition = nxt_one_in(&r, 5);
    p.uniform = (p.quorum == NX_QUORUM_MAJORITY) || (!p.early && (p.suspicions == 0));
    p.departs = !p.early && nxt_one_in(&r, 2);
    p.indirect = p.departs && p.uniform && nxt_one_in(&r, 4);
    p.quits = nxt_one_in(&r, 6);
    return p;
}

void nxt_consensus_plan_print(const nxt_consensus_plan *p)
{
    printf("seed %" PRIu64 ": %u ranks, fan-out %u, %u instances, quorum %s%s%s%s, delay %u, "
           "detection %u, %u crashes, %u pauses, %u suspicions%s%s%s%s, fault %d\n",
           p->seed, p->size, p->fanout, p->instances,
           (p->quorum == NX_QUORUM_NONE) ? "none" : "majority", p->early ? ", early" : "",
           p->ordered ? ", ordered" : "", p->twice ? ", twice" : "", p->delay, p->detection,
           p->crashes, p->pauses, p->suspicions, p->partition ? ", a partition" : "",
           p->departs ? ", leavers go" : "", p->indirect ? ", indirect news" : "",
           p->quits ? ", some go on their own" : "", (int)p->fault);
}

void nxt_consensus_plan_troubles(rig *g)
{
    const nxt_consensus_plan *p = &g->plan;
    const uint32_t span = 8 * p->delay * p->instances;
    const uint32_t accuser = nxt_below(&g->rand, p->size);

    for (uint32_t i = 0; i < p->crashes; i++) {
        const uint32_t who = nxt_below(&g->rand, p->size);

        if (nxt_one_in(&g->rand, 3)) {
            (void)nxt_consensus_post(g, EV_CRASH, nxt_below(&g->rand, span), who, 0);
        } else {
            g->ranks[who].sends_left = nxt_below(&g->rand, 16 * p->instances);
        }
    }
    for (uint32_t i = 0; i < p->pauses; i++) {
        const uint64_t after = nxt_below(&g->rand, span);

        (void)nxt_consensus_post(g, EV_PAUSE, after, nxt_below(&g->rand, p->size), 0);
    }
    for (uint32_t i = 0; i < p->suspicions; i++) {
        /* Without a quorum two ranks that declare each other failed may both continue. */
        const uint32_t by = (p->quorum == NX_QUORUM_NONE) ? accuser : nxt_below(&g->rand, p->size);
        const uint32_t who = nxt_below(&g->rand, p->size);

        if (by != who) {
            (void)nxt_consensus_post(g, EV_SUSPECT, nxt_below(&g->rand, span), by, who);
        }
    }
    if (p->partition) {
        (void)nxt_consensus_post(g, EV_PARTITION, nxt_below(&g->rand, span), 0, 0);
    }
}
