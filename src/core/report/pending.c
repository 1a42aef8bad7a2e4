/* pending.c - running collectives and waiting threads, as operations of reports. */
#include "core/report/pending.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "coll/host/host_coll.h"
#include "coll/run/run.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "core/p2p/p2p_op.h"

/* ---- single operations --------------------------------------------------------------- */

static nx_pending of_run(const nx_run *run)
{
    return (nx_pending){
        .what = {.comm = run->group->comm, .number = run->number, .mark = run->mark},
        .begun_ns = run->begun_ns,
        .first = (run->group->rank == 0)};
}

/* The collective of |inc| that runs on its board (host_boards.h); false: none. */
static bool of_board(const nx_incarnation *inc, nx_pending *out, uint64_t *missing)
{
    nx_host_coll_now now = {0};

    if (inc->group.direct != NULL) {
        nx_host_coll_look(inc->group.direct, &now);
    }
    *out = (nx_pending){.what = {.comm = inc->id, .number = now.number, .mark = now.mark},
                        .begun_ns = now.begun_ns,
                        .first = (inc->rank == 0)};
    *missing = now.missing;
    return now.number != 0;
}

/* |what| with the rank of its peer, which |what| names by slot. */
static nx_what with_rank(const nx_world *world, const nx_what *what)
{
    nx_what w = *what;

    w.peer = (w.peer == NX_ANY_PEER) ? NX_ANY_PEER : nx_world_rank(world, w.peer);
    return w;
}

static nx_pending of_blocked(const nx_world *world, const nx_blocked *b)
{
    return (nx_pending){.what = with_rank(world, &b->what), .begun_ns = b->begun_ns, .first = true};
}

static const nx_run *find_run(const nx_world *world, uint32_t comm_id, uint32_t number)
{
    const nx_incarnation *inc = nx_incarnation_find(world, comm_id);

    if (inc != NULL) {
        for (const nx_list *at = inc->group.runs.next; at != &inc->group.runs; at = at->next) {
            const nx_run *run = nx_list_entry(at, nx_run, link);

            if (run->number == number) {
                return run;
            }
        }
    }
    return NULL;
}

/* ---- all operations ------------------------------------------------------------------ */

static void each_of(const nx_incarnation *inc, bool all,
                    void (*each)(void *ctx, const nx_pending *p), void *ctx)
{
    nx_pending board;
    uint64_t missing;

    if (of_board(inc, &board, &missing)) {
        each(ctx, &board);
    }
    for (const nx_list *at = inc->group.runs.next; at != &inc->group.runs; at = at->next) {
        const nx_pending p = of_run(nx_list_entry(at, nx_run, link));

        each(ctx, &p);
        if (!all) {
            return;
        }
    }
}

/* All operations with |all|; otherwise only the oldest of a communicator's collectives. */
static void walk(const nx_world *world, bool all, void (*each)(void *ctx, const nx_pending *p),
                 void *ctx)
{
    for (const nx_list *at = world->incarnations.next; at != &world->incarnations; at = at->next) {
        each_of(nx_list_entry(at, nx_incarnation, link), all, each, ctx);
    }
    for (const nx_list *at = world->log.blocked.next; at != &world->log.blocked; at = at->next) {
        const nx_pending p = of_blocked(world, nx_list_entry(at, nx_blocked, link));

        each(ctx, &p);
    }
}

void nx_pending_each(const nx_world *world, void (*each)(void *ctx, const nx_pending *p), void *ctx)
{
    walk(world, true, each, ctx);
}

typedef struct search {
    uint64_t since_ns;
    nx_pending *out;
    bool found;
} search;

static void consider(void *ctx, const nx_pending *p)
{
    search *s = ctx;

    if ((p->begun_ns > s->since_ns) && (!s->found || (p->begun_ns < s->out->begun_ns))) {
        *s->out = *p;
        s->found = true;
    }
}

bool nx_pending_oldest(void *ctx, uint64_t since_ns, nx_pending *out)
{
    search s = {.since_ns = since_ns, .out = out};

    walk(ctx, false, consider, &s);
    return s.found;
}

/* ---- local waits --------------------------------------------------------------------- */

/* What delays an operation on this rank, for which peer, and on which device. */
typedef struct obstacle {
    nx_local_wait snag;
    uint32_t rank; /* of the world */
    const nx_device *device;
} obstacle;

static const nx_blocked *find_blocked(const nx_world *world, const nx_pending *p)
{
    for (const nx_list *at = world->log.blocked.next; at != &world->log.blocked; at = at->next) {
        const nx_blocked *b = nx_list_entry(at, nx_blocked, link);

        if ((b->begun_ns == p->begun_ns) && (b->what.kind == p->what.kind) &&
            (b->what.comm == p->what.comm) && (b->what.tag == p->what.tag)) {
            return b;
        }
    }
    return NULL;
}

static obstacle of_message(const nx_world *world, const nx_pending *p)
{
    const nx_blocked *b = find_blocked(world, p);
    obstacle o = {0};
    const nx_op *op;

    if ((b == NULL) || (b->op == NULL) || ((op = nx_op_device_wait(b->op, &o.snag)) == NULL)) {
        return o;
    }
    o.device = op->mem.device;
    /* A receive from any source knows its sender when the message has arrived. */
    o.rank = nx_world_rank(world, (op->to == NX_ANY_PEER) ? op->req.peer : op->to);
    return o;
}

static obstacle of_collective(const nx_world *world, const nx_pending *p)
{
    const nx_run *run = find_run(world, p->what.comm, p->what.number);
    obstacle o = {0};

    if (run != NULL) {
        o.snag = nx_run_error(run);
        o.device = run->mem.device;
        o.rank = nx_world_rank(world, nx_group_peer(run->group, o.snag.rank));
    }
    return o;
}

/* The operation that has waited long enough to be reported; NX_LOCAL_WAIT_NONE: none. */
static obstacle find_obstacle(const nx_world *world, const nx_pending *p)
{
    const obstacle o =
        (p->what.kind == NX_WHAT_COLL) ? of_collective(world, p) : of_message(world, p);

    return (o.snag.begun_ns + NX_OPLOG_WORTH_NS <= nx_loop_now(world->loop)) ? o : (obstacle){0};
}

void nx_pending_here(void *ctx, const nx_pending *p, char *out)
{
    static const char *const does[] = {
        [NX_LOCAL_WAIT_SEND] = "copy",
        [NX_LOCAL_WAIT_RECV] = "take",
        [NX_LOCAL_WAIT_STEP] = "work on",
        [NX_LOCAL_WAIT_GATHER] = "gather tensors of",
        [NX_LOCAL_WAIT_SCATTER] = "spread tensors of",
    };
    const nx_world *world = ctx;
    const obstacle o = find_obstacle(world, p);
    const uint64_t tenths = (nx_loop_now(world->loop) - o.snag.begun_ns) / 100000000;
    const bool named = (o.snag.kind == NX_LOCAL_WAIT_SEND) || (o.snag.kind == NX_LOCAL_WAIT_RECV);
    char age[32], rank[32] = "", more[32] = "";

    out[0] = '\0';
    if (o.snag.kind == NX_LOCAL_WAIT_NONE) {
        return;
    }
    (void)snprintf(age, sizeof(age), "%" PRIu64 ".%u s", tenths / 10, (unsigned)(tenths % 10));
    if (o.snag.kind == NX_LOCAL_WAIT_HOOK) {
        (void)snprintf(out, NX_DOING_HERE, "its on_shard (%s)", age);
        return;
    }
    if (named) {
        (void)snprintf(rank, sizeof(rank), " %s rank %" PRIu32,
                       (o.snag.kind == NX_LOCAL_WAIT_SEND) ? "for" : "from", o.rank);
    }
    if (o.snag.more != 0) {
        (void)snprintf(more, sizeof(more), ", and %" PRIu32 " more", o.snag.more);
    }
    (void)snprintf(out, NX_DOING_HERE, "device %.40s to %s %" PRIu64 " bytes%s (%s%s)",
                   nx_device_name(o.device), does[o.snag.kind], o.snag.bytes, rank, age, more);
}

void nx_pending_note(void *ctx, const nx_pending *p, char *out)
{
    const nx_world *world = ctx;
    const nx_incarnation *inc = nx_incarnation_find(world, p->what.comm);
    uint64_t tag;

    out[0] = '\0';
    if ((p->what.kind == NX_WHAT_RECV) && (p->what.peer != NX_ANY_PEER) &&
        (p->what.tag != NX_ANY_TAG) && (inc != NULL) &&
        nx_msg_unmatched(world->msg, nx_incarnation_user(inc), nx_world_slot(world, p->what.peer),
                         &tag)) {
        (void)snprintf(out, NX_NOTE_TEXT,
                       "a message from rank %" PRIu32 " with tag %" PRIu64 NX_UNMATCHED,
                       p->what.peer, tag);
    }
}

uint64_t nx_pending_served(void *ctx)
{
    const nx_world *world = ctx;
    nx_rpc_stats s = {0};

    if (world->rpc != NULL) {
        nx_rpc_stats_get(world->rpc, &s);
    }
    return s.served;
}

/* ---- ranks that operations wait for -------------------------------------------------- */

static void mark_rank(void *ctx, uint32_t rank, bool receiving, uint64_t bytes)
{
    bool *wanted = ctx;

    (void)receiving;
    (void)bytes;
    wanted[rank] = true;
}

static uint32_t whom_run(const nx_world *world, const nx_run *run, uint32_t *out, uint32_t room)
{
    const nx_group *g = run->group;
    bool *wanted = nx_calloc(g->size, sizeof(*wanted));
    uint32_t n = 0;

    if (wanted == NULL) {
        return 0;
    }
    nx_run_waiting(run, mark_rank, wanted);
    for (uint32_t rank = 0; rank < g->size; rank++) {
        if (wanted[rank] && (n++ < room)) {
            out[n - 1] = nx_world_rank(world, nx_group_peer(g, rank));
        }
    }
    nx_free(wanted);
    return n;
}

static uint32_t whom_board(const nx_incarnation *inc, uint64_t missing, uint32_t *out,
                           uint32_t room)
{
    uint32_t n = 0;

    for (uint32_t rank = 0; rank < inc->size; rank++) {
        if (((missing >> rank & 1) != 0) && (n++ < room)) {
            out[n - 1] = nx_world_rank(inc->world, nx_incarnation_peer(inc, rank));
        }
    }
    return n;
}

static uint32_t whom_accord(const nx_incarnation *inc, uint32_t *out, uint32_t room)
{
    const uint32_t n = nx_agreement_waits_for(inc, out, room);

    for (uint32_t i = 0; i < n; i++) {
        out[i] = nx_world_rank(inc->world, nx_incarnation_peer(inc, out[i]));
    }
    return n;
}

uint32_t nx_pending_whom(void *ctx, const nx_pending *p, uint32_t *out, uint32_t room)
{
    const nx_world *world = ctx;
    const nx_incarnation *inc = nx_incarnation_find(world, p->what.comm);
    const nx_run *run;
    nx_pending board;
    uint64_t missing;
    uint32_t n = 0;

    if ((p->what.kind == NX_WHAT_COLL) && (inc != NULL) && of_board(inc, &board, &missing) &&
        (board.what.number == p->what.number)) {
        return whom_board(inc, missing, out, room);
    }
    if (p->what.kind == NX_WHAT_COLL) {
        run = find_run(world, p->what.comm, p->what.number);
        return (run == NULL) ? 0 : whom_run(world, run, out, room);
    }
    if (find_obstacle(world, p).snag.kind != NX_LOCAL_WAIT_NONE) {
        return 0; /* the peer is not involved */
    }
    if (p->what.peer != NX_ANY_PEER) {
        out[0] = p->what.peer;
        return 1;
    }
    if ((p->what.kind == NX_WHAT_OTHER) && (inc != NULL) &&
        ((n = whom_accord(inc, out, room)) > 0)) {
        return n;
    }
    for (uint32_t rank = 0; (inc != NULL) && (rank < inc->size); rank++) {
        if ((rank != inc->rank) && (n++ < room)) {
            out[n - 1] = nx_world_rank(inc->world, nx_incarnation_peer(inc, rank));
        }
    }
    return n;
}

/* ---- answers ------------------------------------------------------------------------- */

const char *nx_pending_text(const nx_world *world, const nx_what *what, char *buf)
{
    const nx_what w = with_rank(world, what);

    return nx_what_text(&w, buf);
}

static void tell_op(nx_doing_op *op, const nx_what *what, uint64_t age_ns)
{
    (void)nx_what_text(what, op->text);
    op->comm = what->comm;
    op->number = what->number;
    op->age_ns = age_ns;
}

/* Details of the operation for other ranks follow its name. */
static void tell_note(nx_world *world, const nx_pending *p, nx_doing_op *op)
{
    const size_t len = strlen(op->text);
    char note[NX_NOTE_TEXT];

    nx_pending_note(world, p, note);
    if ((note[0] != '\0') && (len + strlen(note) + 4 <= sizeof(op->text))) {
        (void)snprintf(op->text + len, sizeof(op->text) - len, " (%s)", note);
    }
}

void nx_pending_tell(nx_world *world, const nx_ask *ask, nx_doing *out)
{
    const uint64_t now = nx_loop_now(world->loop);
    const nx_run *run = find_run(world, ask->comm, ask->number);
    const nx_op_entry *last = nx_oplog_last(&world->log, ask->comm);
    const nx_incarnation *inc = nx_incarnation_find(world, ask->comm);
    nx_pending p;
    uint64_t missing;
    bool asked = (inc != NULL) && of_board(inc, &p, &missing) && (p.what.number == ask->number);

    *out = (nx_doing){
        .question = ask->question, .waits = (world->log.waiting != 0), .closing = world->closing};
    if (run != NULL) {
        p = of_run(run);
        asked = true;
    }
    if (asked || nx_pending_oldest(world, 0, &p)) {
        tell_op(&out->now, &p.what, now - p.begun_ns);
        out->nfor = nx_pending_whom(world, &p, out->who, NX_DOING_LISTED);
        out->listed = (out->nfor < NX_DOING_LISTED) ? out->nfor : NX_DOING_LISTED;
        nx_pending_here(world, &p, out->here);
        tell_note(world, &p, &out->now);
    }
    if (last != NULL) {
        const nx_what what = with_rank(world, &last->what);

        tell_op(&out->last, &what, now - last->ended_ns);
    }
}
