/* world_fixture.c - builds a collective on all ranks. */
#include "world_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "rand.h"
#include "sched_plan.h"

nxt_layout nxt_case_layout(const nxt_case *c)
{
    return (nxt_layout)(nxt_hash(c->seed, c->size, 31) % NXT_LAYOUTS);
}

static nx_hosts *draw_hosts(const nxt_case *c)
{
    nxt_rand rand = {nxt_hash(c->seed, c->size, 32)};
    const nxt_layout layout = nxt_case_layout(c);
    const uint32_t n = (layout == NXT_ONE) ? 1 : 1 + nxt_below(&rand, c->size);
    uint32_t *labels = nxt_calloc(c->size, sizeof(*labels));
    nx_hosts *hosts = NULL;

    for (uint32_t r = 0; r < c->size; r++) {
        const bool next = (r > 0) && (labels[r - 1] + 1 < n) && nxt_one_in(&rand, c->size / n);

        switch (layout) {
        case NXT_BLOCKS:
            labels[r] = (uint32_t)((uint64_t)r * n / c->size);
            break;
        case NXT_TURNS:
            labels[r] = r % n;
            break;
        case NXT_UNEVEN:
            labels[r] = (r == 0) ? 0 : labels[r - 1] + next;
            break;
        case NXT_SHUFFLED:
            labels[r] = nxt_below(&rand, n);
            break;
        case NXT_ALONE:
        case NXT_ONE:
        case NXT_LAYOUTS:
            break;
        }
    }
    if ((layout != NXT_ALONE) && (nx_hosts_create(&hosts, labels, c->size) != NEXAR_OK)) {
        abort();
    }
    free(labels);
    return hosts;
}

void nxt_case_text(const nxt_case *c, char *text, size_t room)
{
    static const char *const places[NXT_PLACES] = {"apart", "in place", "mixed"};
    static const char *const layouts[NXT_LAYOUTS] = {"alone", "one host", "blocks",
                                                     "turns", "uneven",   "shuffled"};

    snprintf(text, room,
             "%s %s: %u ranks (%s), root %u, count %zu, segment %zu, %s%s%s%s, cut %zu, seed %llu",
             nx_coll_name(c->row->kind), c->row->name, c->size, layouts[nxt_case_layout(c)],
             c->root, c->count, c->segment, places[c->place], c->average ? ", average" : "",
             c->hook ? ", hook" : "", c->heard ? ", heard" : "", c->cut,
             (unsigned long long)c->seed);
}

/* The count argument of |rank|. */
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
                 .hosts = w->hosts,
                 .root = call->root,
                 .count = own_count(call, rank),
                 .in_place = call->in_place[rank],
                 .average = w->what.average,
                 .hook = w->what.hook,
                 .heard = w->what.heard};
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
    w->hosts = draw_hosts(what);
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
    nx_hosts_destroy(w->hosts);
    free(w->scheds);
    *w = (nxt_world){0};
}
