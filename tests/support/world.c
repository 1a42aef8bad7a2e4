/* world.c - builds a collective on all ranks. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#include "sched_plan.h"

void nxt_case_text(const nxt_case *c, char *text, size_t room)
{
    static const char *const places[NXT_PLACES] = {"apart", "in place", "mixed"};

    snprintf(text, room,
             "%s %s: %u ranks, root %u, count %zu, segment %zu, %s%s%s, cut %zu, seed %llu",
             nx_coll_name(c->row->kind), c->row->name, c->size, c->root, c->count, c->segment,
             places[c->place], c->average ? ", average" : "", c->hook ? ", hook" : "", c->cut,
             (unsigned long long)c->seed);
}

/* What a rank calls its own count. */
static size_t own_count(const nxt_call *call, uint32_t rank)
{
    if ((call->kind == NX_GATHERV) || (call->kind == NX_SCATTERV)) {
        return nxt_call_block(call, call->root, rank).len;
    }
    if ((call->kind == NX_ALLGATHERV) || (call->kind == NX_REDUCE_SCATTERV)) {
        return nxt_call_block(call, rank, rank).len;
    }
    return call->count;
}

nx_coll nxt_world_coll(const nxt_world *w, uint32_t rank)
{
    const nxt_call *call = &w->call;
    nx_coll c = {.kind = call->kind,
                 .rank = rank,
                 .size = call->size,
                 .root = call->root,
                 .count = own_count(call, rank),
                 .in_place = call->in_place[rank],
                 .average = w->what.average,
                 .hook = w->what.hook};
    size_t row = (size_t)rank * call->size;

    if (call->counts != NULL) {
        c.parts = nx_split_counts(call->counts + row, call->displs + row, call->size);
    }
    if ((call->send_counts != NULL) && !call->in_place[rank]) {
        c.send_parts =
            nx_split_counts(call->send_counts + row, call->send_displs + row, call->size);
    }
    return c;
}

static bool build(nxt_world *w, uint32_t rank, nxt_verdict *v)
{
    nx_coll c = nxt_world_coll(w, rank);
    nx_sched tally;

    nx_sched_init(&w->scheds[rank], w->what.segment);
    nexar_err err = w->what.row->build(&w->scheds[rank], &c);

    if (err != NEXAR_OK) {
        return nxt_find(v, NXT_BAD_TALLY, rank, 0, "rank %u: the builder returns %s", rank,
                        nexar_err_name(err));
    }
    if (!nxt_tally_right(&w->scheds[rank], rank, v)) {
        return false;
    }
    nx_sched_init_tally(&tally, w->what.segment);
    err = w->what.row->build(&tally, &c);
    bool same = (err == NEXAR_OK) && (tally.scratch == w->scheds[rank].scratch) &&
                nxt_tally_equal(&tally.tally, &w->scheds[rank].tally);

    nx_sched_fini(&tally);
    return same || nxt_find(v, NXT_BAD_TALLY, rank, 0,
                            "rank %u: built only to count, the schedule counts otherwise", rank);
}

bool nxt_world_plan(nxt_world *w, nxt_verdict *v)
{
    uint32_t size = w->call.size;
    nxt_member *members = nxt_calloc(size, sizeof(*members));

    for (uint32_t r = 0; r < size; r++) {
        members[r].sched = &w->scheds[r];
        members[r].room[NX_SPACE_SEND] = w->call.send_len[r];
        members[r].room[NX_SPACE_RECV] = w->call.recv_len[r];
        members[r].room[NX_SPACE_SCRATCH] = w->scheds[r].scratch;
        members[r].recv_is_input =
            w->call.in_place[r] || ((w->call.kind == NX_BROADCAST) && (r == w->call.root));
    }
    nxt_plan_destroy(w->plan);
    w->plan = nxt_plan_create(members, size, v);
    free(members);
    return w->plan != NULL;
}

bool nxt_world_init(nxt_world *w, const nxt_case *what, nxt_verdict *v)
{
    *w = (nxt_world){.what = *what};
    *v = (nxt_verdict){.finding = NXT_FINE};
    nxt_call_init(&w->call, what->row->kind, what->size, what->root, what->count, what->place,
                  what->seed);
    w->scheds = nxt_calloc(what->size, sizeof(*w->scheds));
    for (uint32_t r = 0; r < what->size; r++) {
        if (!build(w, r, v)) {
            nxt_world_fini(w);
            return false;
        }
    }
    if (!nxt_world_plan(w, v)) {
        nxt_world_fini(w);
        return false;
    }
    return true;
}

void nxt_world_fini(nxt_world *w)
{
    for (uint32_t r = 0; (r < w->call.size) && (w->scheds != NULL); r++) {
        nx_sched_fini(&w->scheds[r]);
    }
    nxt_plan_destroy(w->plan);
    nxt_call_fini(&w->call);
    free(w->scheds);
    *w = (nxt_world){0};
}
