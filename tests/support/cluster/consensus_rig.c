/* consensus_rig.c - a run: ranks that reach consensus in virtual time, from the first event to
 * the last. */
#include "consensus_rig.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "consensus_rig_inner.h"

static const char *const event_names[] = {
    [EV_FRAME] = "frame",  [EV_FLOOD] = "told of",    [EV_DETECT] = "detects",
    [EV_START] = "starts", [EV_CLOSE] = "closes",     [EV_CRASH] = "crashes",
    [EV_PAUSE] = "stops",  [EV_SUSPECT] = "suspects", [EV_PARTITION] = "partition",
    [EV_DEPART] = "goes",  [EV_GONE] = "finds gone",  [EV_REMIND] = "reminds"};

void nxt_consensus_say(const rig *g, const char *format, ...)
{
    va_list args;

    if (g->trace) {
        va_start(args, format);
        printf("%6" PRIu64 "  ", g->now);
        (void)vprintf(format, args);
        printf("\n");
        va_end(args);
    }
}

void nxt_consensus_wrong(rig *g, const char *format, ...)
{
    va_list args;

    if (g->result->good) {
        g->result->good = false;
        va_start(args, format);
        (void)vsnprintf(g->result->text, sizeof(g->result->text), format, args);
        va_end(args);
        nxt_consensus_say(g, "WRONG: %s", g->result->text);
    }
}

/* ---- events -------------------------------------------------------------------- */

static void happen(rig *g, event *e)
{
    rank_state *r = &g->ranks[e->to];

    if ((e->kind != EV_FRAME) && r->alive) {
        nxt_consensus_say(g, "%u %s %u", e->to, event_names[e->kind], e->rank);
    }
    switch (e->kind) {
    case EV_FRAME:
        if (nxt_consensus_spoil(g, e) && g->ranks[e->to].alive) {
            nxt_consensus_rank_deliver(g, e);
        }
        break;
    case EV_FLOOD:
        if (!nxt_consensus_cut_between(g, e->from, e->to)) {
            nxt_consensus_note_dead(g, e->to, e->rank, true);
        }
        break;
    case EV_DETECT:
    case EV_SUSPECT:
        nxt_consensus_note_dead(g, e->to, e->rank, true);
        break;
    case EV_START:
        nxt_consensus_rank_start(g, r);
        break;
    case EV_CLOSE:
        nxt_consensus_rank_close(r);
        break;
    case EV_CRASH:
        nxt_consensus_crash(g, e->to);
        break;
    case EV_PAUSE:
        r->resumes = g->now + 1 + nxt_below(&g->rand, 200);
        break;
    case EV_PARTITION:
        nxt_consensus_partition(g);
        break;
    case EV_DEPART:
        nxt_consensus_depart(g, e->to);
        break;
    case EV_REMIND:
        if ((r->machine != NULL) && !r->ended) {
            nx_consensus_remind(r->machine);
        }
        break;
    case EV_GONE:
        if (!nxt_consensus_cut_between(g, e->from, e->to)) {
            nxt_consensus_note_gone(g, e->to, e->rank);
        }
        break;
    }
    nxt_consensus_rank_bury(r);
}

static void run_events(rig *g)
{
    nx_heap_item *top;
    uint32_t n = 0;

    while (((top = nx_heap_top(&g->events)) != NULL) && g->result->good) {
        event *e = (event *)(void *)top;
        rank_state *r = &g->ranks[e->to];

        g->now = top->key;
        if (r->alive && (r->resumes > g->now) && (e->kind != EV_CRASH) &&
            (e->kind != EV_PARTITION)) {
            nx_heap_move(&g->events, top, r->resumes);
            continue;
        }
        nx_heap_remove(&g->events, top);
        if (r->alive || (e->kind == EV_PARTITION)) {
            happen(g, e);
        }
        nx_free(e);
        if (++n > EVENTS_MAX) {
            nxt_consensus_wrong(g, "it does not end");
        }
    }
}

/* ---- a run --------------------------------------------------------------------- */

static void rig_init(rig *g)
{
    const nxt_consensus_plan *p = &g->plan;

    if ((nx_rankset_init(&g->dead, p->size) != NEXAR_OK) ||
        (nx_rankset_init(&g->left, p->size) != NEXAR_OK) ||
        (nx_consensus_value_init(&g->value, p->size, PAYLOAD) != NEXAR_OK)) {
        abort();
    }
    for (uint32_t i = 0; i < p->size; i++) {
        rank_state *r = &g->ranks[i];

        if (nx_consensus_value_init(&g->old[i].value, p->size, PAYLOAD) != NEXAR_OK) {
            abort();
        }
        r->rig = g;
        r->self = i;
        r->alive = true;
        r->side = nxt_one_in(&g->rand, 2);
        r->sends_left = NEVER;
        (void)nxt_consensus_post(g, EV_START, nxt_consensus_some_delay(g), i, 0);
    }
    nxt_consensus_plan_troubles(g);
}

static void rig_fini(rig *g)
{
    nx_heap_item *top;

    while ((top = nx_heap_top(&g->events)) != NULL) {
        nx_heap_remove(&g->events, top);
        nx_free(top);
    }
    nx_heap_fini(&g->events);
    for (uint32_t i = 0; i < g->plan.size; i++) {
        nx_consensus_destroy(g->ranks[i].machine);
        for (uint32_t k = 0; k < g->ranks[i].nheld; k++) {
            nx_free(g->ranks[i].held[k]);
        }
        nx_consensus_value_fini(&g->old[i].value);
    }
    nx_rankset_fini(&g->dead);
    nx_rankset_fini(&g->left);
    nx_consensus_value_fini(&g->value);
    nx_free(g);
}

void nxt_consensus_run(const nxt_consensus_plan *plan, bool trace, nxt_consensus_result *result)
{
    rig *g = nx_zalloc(sizeof(*g));

    if (g == NULL) {
        abort();
    }
    *result = (nxt_consensus_result){.good = true};
    g->plan = *plan;
    g->rand.state = nxt_mix(plan->seed + 1);
    g->fault_rand.state = nxt_mix(plan->seed + 2);
    g->trace = trace;
    g->result = result;
    rig_init(g);
    run_events(g);
    if (result->good) {
        nxt_consensus_check(g);
    }
    rig_fini(g);
}
