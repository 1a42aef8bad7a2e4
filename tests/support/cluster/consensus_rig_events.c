/* consensus_rig_events.c - the event queue: frames and failure notifications in flight.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "consensus_rig_inner.h"

event *nxt_consensus_post(rig *g, event_kind kind, uint64_t after, uint32_t to, uint32_t rank)
{
    event *e = nx_zalloc(sizeof(*e));

    if ((e == NULL) || (nx_heap_push(&g->events, &e->item, g->now + after) != NEXAR_OK)) {
        abort();
    }
    e->kind = kind;
    e->to = to;
    e->rank = rank;
    return e;
}

uint64_t nxt_consensus_some_delay(rig *g)
{
    const uint64_t d = 1 + nxt_below(&g->rand, g->plan.delay);

    return nxt_one_in(&g->rand, 20) ? 10 * d : d;
}

static uint64_t detection_delay(rig *g)
{
    return 1 + nxt_below(&g->rand, nxt_one_in(&g->rand, 2) ? 5 : g->plan.detection);
}

bool nxt_consensus_cut_between(const rig *g, uint32_t a, uint32_t b)
{
    return g->cut && (g->ranks[a].side != g->ranks[b].side);
}

/* ---- failures and departures --------------------------------------------------- */

void nxt_consensus_crash(rig *g, uint32_t who)
{
    rank_state *r = &g->ranks[who];

    if (!r->alive) {
        return;
    }
    nxt_consensus_say(g, "%u dies", who);
    r->alive = false;
    g->result->crashed++;
    g->accused |= 1U << who;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if (i != who) {
            (void)nxt_consensus_post(g, EV_DETECT, detection_delay(g), i, who);
        }
    }
}

/* The farewell of a rank arrives after all its earlier frames; a notification by another rank
 * may arrive sooner. */
void nxt_consensus_depart(rig *g, uint32_t who)
{
    rank_state *r = &g->ranks[who];

    r->alive = false;
    g->leavers_gone |= 1U << who;
    g->result->leavers_gone++;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        const uint64_t at = g->now + detection_delay(g);

        if (i != who) {
            event *e = nxt_consensus_post(g, EV_GONE, 0, i, who);

            nx_heap_move(&g->events, &e->item, (at < g->last[who][i]) ? g->last[who][i] : at);
            e->from = who;
        }
    }
}

void nxt_consensus_partition(rig *g)
{
    g->cut = true;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        for (uint32_t k = 0; k < g->plan.size; k++) {
            if (nxt_consensus_cut_between(g, i, k)) {
                (void)nxt_consensus_post(g, EV_DETECT, detection_delay(g), i, k);
            }
        }
    }
}

/* ---- frames between ranks ------------------------------------------------------ */

bool nxt_consensus_may_send(rig *g, uint32_t from)
{
    rank_state *r = &g->ranks[from];

    if (r->alive && (r->sends_left != NEVER) && (r->sends_left-- == 0)) {
        nxt_consensus_crash(g, from);
    }
    return r->alive;
}

event *nxt_consensus_send_event(rig *g, event_kind kind, uint32_t from, uint32_t to, uint32_t rank)
{
    uint64_t at = g->now + nxt_consensus_some_delay(g);
    event *e;

    if (g->plan.ordered && (at < g->last[from][to])) {
        at = g->last[from][to];
    }
    g->last[from][to] = (at > g->last[from][to]) ? at : g->last[from][to];
    e = nxt_consensus_post(g, kind, at - g->now, to, rank);
    e->from = from;
    return e;
}

void nxt_consensus_note_dead(rig *g, uint32_t who, uint32_t rank, bool tell_machine)
{
    rank_state *r = &g->ranks[who];

    if (!r->alive || ((r->known >> rank) & 1)) {
        return;
    }
    r->known |= 1U << rank;
    g->accused |= 1U << rank;
    for (uint32_t i = 0; i < g->plan.size; i++) {
        if ((i != who) && nxt_consensus_may_send(g, who) && !nxt_consensus_cut_between(g, who, i)) {
            (void)nxt_consensus_send_event(g, EV_FLOOD, who, i, rank);
        }
    }
    if (tell_machine && r->alive && (r->machine != NULL)) {
        nx_consensus_failed(r->machine, rank);
    }
}

/* Irrelevant to a machine that waits for no rank. */
void nxt_consensus_note_gone(rig *g, uint32_t who, uint32_t rank)
{
    rank_state *r = &g->ranks[who];

    r->gone |= 1U << rank;
    if ((r->machine != NULL) && (r->starts > 0) && !r->decisions[r->starts - 1].have) {
        nx_consensus_left(r->machine, rank);
    }
}

void nxt_consensus_spread_indirectly(rig *g, uint32_t by, uint32_t leavers)
{
    const uint32_t to = nxt_below(&g->rand, g->plan.size), rank = nxt_below(&g->rand, g->plan.size);

    if (((leavers >> rank) & 1) && (to != rank) && (to != by)) {
        event *e = nxt_consensus_post(g, EV_GONE, nxt_consensus_some_delay(g), to, rank);

        e->from = by;
        for (uint32_t i = 0; i < g->plan.size; i++) {
            (void)nxt_consensus_post(g, EV_REMIND, LONG, i, 0);
        }
    }
}
