/* group.c - numbers of operations, fingerprints, and the word that one has failed. */
#include "coll/group.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "coll/direct/direct.h"
#include "coll/run.h"
#include "msg/control.h"
#include "wire/wire.h"

/* What peers may make us remember of operations that have not begun here.  A rank
 * that runs ahead is held by its credit long before. */
enum { EARLY_MAX = 65536 };
/* Ids of communicators that are gone: late messages for them are dropped. */
enum { TOMBS = 1024 };
enum { ABORT_ROOM = 16 + NX_RUN_WHY, CALLED_ROOM = 32 };

/* What was heard of an operation before it began here. */
typedef struct early {
    uint64_t key;
    nx_mark mark[2]; /* the first, and the first that differs from it */
    uint32_t peer[2];
    unsigned marks;
    nexar_err err; /* it was ended by another rank already */
    char why[NX_RUN_WHY];
} early;

struct nx_hub {
    nx_hub_config config;
    nx_map groups; /* by id + 1 */
    nx_map early;  /* by early_key */
    nx_task task;  /* ends runs of which a fingerprint differs, when msg is at rest */
    nx_timer tick; /* while there are runs */
    bool ticking;
    uint32_t tombs[TOMBS]; /* ids + 1 */
    size_t ntombs;
    bool stopped; /* msg is gone, or about to go */
};

/* ---- small things --------------------------------------------------------------- */

static uint64_t early_key(uint32_t comm, uint32_t number)
{
    return (((uint64_t)comm << NX_NUMBER_BITS) | (number & NX_NUMBER_MASK)) + 1;
}

static nx_group *find_group(const nx_hub *hub, uint32_t comm)
{
    return nx_map_get(&hub->groups, (uint64_t)comm + 1);
}

static nx_run *find_run(const nx_group *g, uint32_t number)
{
    return nx_map_get(&g->active, (number & NX_NUMBER_MASK) + UINT64_C(1));
}

/* The rank of |peer| in |g|; the size if it is not in it. */
static uint32_t rank_of(const nx_group *g, uint32_t peer)
{
    uint32_t rank = 0;

    if (g->peers == NULL) {
        return (peer < g->size) ? peer : g->size;
    }
    while ((rank < g->size) && (g->peers[rank] != peer)) {
        rank++;
    }
    return rank;
}

/* Whether the operation |number|, which does not run, is still to begin. */
static bool to_come(const nx_group *g, uint32_t number)
{
    const uint32_t behind = (g->next - number) & NX_NUMBER_MASK;

    return (behind == 0) || (behind > NX_NUMBER_MASK / 2) ||
           ((g->direct != NULL) && nx_direct_has(g->direct, number)) ||
           (nx_map_get(&g->reserved, (number & NX_NUMBER_MASK) + UINT64_C(1)) != NULL);
}

static bool is_buried(const nx_hub *hub, uint32_t comm)
{
    for (size_t i = 0; i < TOMBS; i++) {
        if (hub->tombs[i] == comm + 1) {
            return true;
        }
    }
    return false;
}

/* ---- what comes too early -------------------------------------------------------- */

static early *note(nx_hub *hub, uint32_t comm, uint32_t number)
{
    const uint64_t key = early_key(comm, number);
    early *e = nx_map_get(&hub->early, key);

    if ((e != NULL) || (hub->early.n >= EARLY_MAX)) {
        return e;
    }
    e = nx_zalloc(sizeof(*e));
    if ((e != NULL) && (nx_map_put(&hub->early, key, e) != NEXAR_OK)) {
        nx_free(e);
        e = NULL;
    }
    if (e != NULL) {
        e->key = key;
    }
    return e;
}

static void note_mark(nx_hub *hub, uint32_t comm, uint32_t number, uint32_t peer,
                      const nx_mark *mark)
{
    early *e = note(hub, comm, number);

    if ((e != NULL) && (e->marks < 2) && ((e->marks == 0) || !nx_mark_equal(&e->mark[0], mark))) {
        e->mark[e->marks] = *mark;
        e->peer[e->marks++] = peer;
    }
}

static void mismatch(nx_group *g, nx_run *run, uint32_t peer, const nx_mark *its)
{
    char why[NX_RUN_WHY];

    nx_mark_differ(why, sizeof(why), run->number, rank_of(g, peer), its, g->rank, &run->mark);
    nx_run_fail(run, true, NEXAR_EMISMATCH, "%s", why);
}

/* What was heard of |run| before its time. */
static void use_early(nx_group *g, nx_run *run)
{
    early *e = nx_map_take(&g->hub->early, early_key(g->comm, run->number));

    if (e == NULL) {
        return;
    }
    for (unsigned i = 0; i < e->marks; i++) {
        if (!nx_mark_equal(&e->mark[i], &run->mark)) {
            mismatch(g, run, e->peer[i], &e->mark[i]);
        }
    }
    if (e->err != NEXAR_OK) {
        nx_run_fail(run, false, e->err, "%s", e->why);
    }
    nx_free(e);
}

/* ---- fingerprints ------------------------------------------------------------------ */

void nx_group_settle(nx_group *g, nx_run *run)
{
    if (run->differs) {
        run->differs = false;
        mismatch(g, run, run->other, &run->its);
    }
}

static void on_trouble(nx_task *task)
{
    const nx_hub *hub = nx_list_entry(task, nx_hub, task);
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        nx_list_for_each (l, &g->runs) {
            nx_group_settle(g, nx_list_entry(l, nx_run, link));
        }
    }
}

/* An operation that is over here: has |peer| called the same? */
static void check_past(nx_group *g, uint32_t number, uint32_t peer, const nx_mark *mark)
{
    const size_t at = number % NX_PAST;

    if (((g->past[at].number & NX_NUMBER_MASK) == number) && (g->late == NEXAR_OK) &&
        !nx_mark_equal(&g->past[at].mark, mark)) {
        g->late = NEXAR_EMISMATCH;
        nx_mark_differ(g->late_why, sizeof(g->late_why), g->past[at].number, rank_of(g, peer), mark,
                       g->rank, &g->past[at].mark);
    }
}

nx_verdict nx_hub_on_mark(nx_hub *hub, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    const uint32_t number = (uint32_t)(tag >> NX_NUMBER_SHIFT);
    nx_group *g = find_group(hub, context.comm);
    nx_run *run;

    if (context.kind != NX_KIND_COLL) {
        return NX_KEEP;
    }
    if (g == NULL) {
        if (is_buried(hub, context.comm)) {
            return NX_DROP;
        }
        note_mark(hub, context.comm, number, peer, mark);
        return NX_KEEP;
    }
    run = find_run(g, number);
    if (run == NULL) {
        if (to_come(g, number)) {
            note_mark(hub, context.comm, number, peer, mark);
            return NX_KEEP;
        }
        check_past(g, number, peer, mark);
        return NX_DROP;
    }
    if (run->err != NEXAR_OK) {
        return NX_DROP;
    }
    if (!nx_mark_equal(&run->mark, mark) && !run->differs) {
        run->differs = true;
        run->its = *mark;
        run->other = peer;
        nx_loop_defer(hub->config.loop, &hub->task);
    }
    return NX_KEEP;
}

/* ---- words to other ranks ------------------------------------------------------------ */

static void tell_one(const nx_group *g, uint32_t rank, const nx_writer *w)
{
    const nx_hub_config *c = &g->hub->config;

    if (c->tell != NULL) {
        c->tell(c->ctx, nx_group_peer(g, rank), w->data, w->len);
    } else {
        /* One that cannot be told is gone, and is found out by the others. */
        (void)!nx_msg_send_control(c->msg, nx_group_peer(g, rank), w->data, w->len);
    }
}

/* Tells |rank| what |run| is. */
static void tell_call(const nx_group *g, const nx_run *run, uint32_t rank)
{
    uint8_t frame[CALLED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_CALLED);
    nx_write_u32(&w, g->comm);
    nx_write_u32(&w, run->number);
    nx_write_u64(&w, run->mark.word[0]);
    nx_write_u64(&w, run->mark.word[1]);
    tell_one(g, rank, &w);
}

static void on_called(nx_hub *hub, uint32_t peer, nx_reader *r)
{
    const nx_context context = {.comm = nx_read_u32(r), .kind = NX_KIND_COLL};
    const uint32_t number = nx_read_u32(r);
    nx_mark mark;

    mark.word[0] = nx_read_u64(r);
    mark.word[1] = nx_read_u64(r);
    if (r->failed || !nx_reader_done(r)) {
        nx_log(NX_LOG_WARN, "peer %u said what it called in a way that makes no sense", peer);
        return;
    }
    (void)nx_hub_on_mark(hub, peer, context, (uint64_t)(number & NX_NUMBER_MASK) << NX_NUMBER_SHIFT,
                         &mark);
}

/* A run that has waited for a tick at least and has not told |*rank|, for whom it waits;
 * |*any|: there are runs. */
static nx_run *find_untold(const nx_hub *hub, uint64_t now_ns, uint32_t *rank, bool *any)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        nx_list_for_each (l, &g->runs) {
            nx_run *run = nx_list_entry(l, nx_run, link);

            *any = true;
            if ((now_ns - run->begun_ns >= NX_CALLED_NS) && nx_run_untold(run, rank)) {
                return run;
            }
        }
    }
    return NULL;
}

/* What has waited for a tick says so, at most two ticks after it began. */
static void on_tick(nx_timer *timer, uint64_t now_ns)
{
    nx_hub *hub = nx_list_entry(timer, nx_hub, tick);
    bool any = false;
    uint32_t rank;
    const nx_run *run;

    /* From the beginning each time: a link that fails ends runs. */
    while ((run = find_untold(hub, now_ns, &rank, &any)) != NULL) {
        tell_call(run->group, run, rank);
    }
    hub->ticking =
        any && (nx_loop_timer_set(hub->config.loop, timer, now_ns + NX_CALLED_NS) == NEXAR_OK);
}

static void tick(nx_hub *hub)
{
    if (!hub->ticking && !hub->stopped) {
        hub->ticking = nx_loop_timer_set(hub->config.loop, &hub->tick,
                                         nx_loop_now(hub->config.loop) + NX_CALLED_NS) == NEXAR_OK;
    }
}

void nx_group_tell(nx_group *g, uint32_t number, nexar_err err, const char *why)
{
    uint8_t frame[ABORT_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_ABORT);
    nx_write_u32(&w, g->comm);
    nx_write_u32(&w, number);
    nx_write_u8(&w, (uint8_t)-err);
    nx_write_sentence(&w, why, NX_RUN_WHY); /* whoever could not read it would wait on */
    for (uint32_t rank = 0; rank < g->size; rank++) {
        if (rank != g->rank) {
            tell_one(g, rank, &w);
        }
    }
}

/* Operation |number| of |comm| has failed elsewhere. */
static void on_abort(nx_hub *hub, uint32_t comm, uint32_t number, nexar_err err, const char *why)
{
    nx_group *g = find_group(hub, comm);
    nx_run *run = (g == NULL) ? NULL : find_run(g, number);
    early *e;

    if (run != NULL) {
        nx_run_fail(run, false, err, "%s", why);
    } else if ((g == NULL) ? !is_buried(hub, comm) : to_come(g, number)) {
        e = note(hub, comm, number);
        if ((e != NULL) && (e->err == NEXAR_OK)) {
            e->err = err;
            (void)snprintf(e->why, sizeof(e->why), "%s", why);
        }
    }
}

bool nx_hub_on_control(nx_hub *hub, uint32_t peer, const void *data, size_t len)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);
    char why[NX_RUN_WHY];
    uint32_t comm, number;
    int err;

    if (type == NX_CONTROL_BOARD) {
        return true;
    }
    if (type == NX_CONTROL_CALLED) {
        on_called(hub, peer, &r);
        return true;
    }
    if (type != NX_CONTROL_ABORT) {
        return false;
    }
    comm = nx_read_u32(&r);
    number = nx_read_u32(&r);
    err = -(int)nx_read_u8(&r);
    nx_read_text(&r, why, sizeof(why));
    if (r.failed || !nx_reader_done(&r) || (err > NEXAR_EINVAL) || (err < NEXAR_EINTERNAL)) {
        nx_log(NX_LOG_WARN, "peer %u sent an abort that makes no sense", peer);
        return true;
    }
    on_abort(hub, comm, number, (nexar_err)err, why);
    return true;
}

/* ---- runs ---------------------------------------------------------------------------- */

static void forget_messages(nx_group *g, uint32_t number)
{
    nx_msg_forget_tags(g->hub->config.msg, nx_group_context(g),
                       (uint64_t)(number & NX_NUMBER_MASK) << NX_NUMBER_SHIFT,
                       (uint64_t)NX_NUMBER_MASK << NX_NUMBER_SHIFT);
}

void nx_group_forget(nx_group *g, uint32_t number, bool failed)
{
    if (g->hub->early.n != 0) {
        nx_free(nx_map_take(&g->hub->early, early_key(g->comm, number)));
    }
    if (failed && !g->hub->stopped) {
        forget_messages(g, number);
    }
}

nexar_err nx_group_reserve(nx_group *g, uint32_t n, uint32_t *first)
{
    *first = g->next;
    for (uint32_t i = 0; i < n; i++) {
        nexar_err err = nx_map_put(&g->reserved, ((g->next + i) & NX_NUMBER_MASK) + UINT64_C(1), g);

        if (err != NEXAR_OK) {
            nx_group_unreserve(g, *first, i);
            return err;
        }
    }
    g->next += n;
    return NEXAR_OK;
}

void nx_group_unreserve(nx_group *g, uint32_t first, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (nx_map_take(&g->reserved, ((first + i) & NX_NUMBER_MASK) + UINT64_C(1)) != NULL) {
            nx_free(nx_map_take(&g->hub->early, early_key(g->comm, first + i)));
            forget_messages(g, first + i);
        }
    }
}

nexar_err nx_group_begin(nx_group *g, nx_run *run)
{
    const uint64_t key = (run->number & NX_NUMBER_MASK) + UINT64_C(1);
    nexar_err err;

    if (g->direct != NULL) {
        nx_direct_engine(g->direct, run->number);
    }
    err = nx_map_put(&g->active, key, run);
    if (err != NEXAR_OK) {
        return err;
    }
    (void)nx_map_take(&g->reserved, key);
    nx_list_push_back(&g->runs, &run->link);
    tick(g->hub);
    if (g->hub->config.watch.on_begin != NULL) {
        g->hub->config.watch.on_begin(g->hub->config.watch.ctx, run);
    }
    if (g->broken != NEXAR_OK) {
        nx_run_fail(run, false, g->broken, "%s", g->broken_why);
    }
    if (g->late != NEXAR_OK) {
        nx_run_fail(run, true, g->late, "%s", g->late_why);
        g->late = NEXAR_OK;
    }
    if (g->hub->early.n != 0) {
        use_early(g, run);
    }
    return NEXAR_OK;
}

void nx_group_end(nx_group *g, nx_run *run)
{
    const size_t at = (run->number & NX_NUMBER_MASK) % NX_PAST;

    (void)nx_map_take(&g->active, (run->number & NX_NUMBER_MASK) + UINT64_C(1));
    nx_list_remove(&run->link);
    g->past[at].number = (run->err == NEXAR_OK) ? run->number : 0; /* the others know */
    g->past[at].mark = run->mark;
    g->parted = g->parted || (run->err == NEXAR_EPEER) || (run->err == NEXAR_ECONNECT) ||
                (run->err == NEXAR_EPROTO);
    if ((run->err != NEXAR_OK) && !g->hub->stopped) {
        forget_messages(g, run->number);
    }
    if (g->hub->config.watch.on_end != NULL) {
        g->hub->config.watch.on_end(g->hub->config.watch.ctx, run);
    }
}

/* Fails the runs of all groups: those that wait for |peer| alone, or all. */
static void fail_runs(nx_hub *hub, const uint32_t *peer, nexar_err err, const char *why)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        const uint32_t rank = (peer == NULL) ? 0 : rank_of(g, *peer);

        if ((peer != NULL) && (g->direct != NULL)) {
            nx_direct_on_down(g->direct, rank, err, why);
        }
        nx_list_for_each (l, &g->runs) {
            nx_run *run = nx_list_entry(l, nx_run, link);

            if ((peer == NULL) || nx_run_orphaned(run, rank)) {
                nx_run_fail(run, peer != NULL, err, "%s", why);
            }
        }
    }
}

void nx_hub_on_down(nx_hub *hub, uint32_t peer, nexar_err err, const char *why)
{
    char text[NX_HUB_TEXT], sentence[NX_RUN_WHY];

    (void)snprintf(sentence, sizeof(sentence), "%s: %s",
                   hub->config.peer_text(hub->config.ctx, peer, text), why);
    fail_runs(hub, &peer, err, sentence);
}

void nx_group_break(nx_group *g, nexar_err err, const char *why)
{
    if (g->broken == NEXAR_OK) {
        g->broken = err;
        (void)snprintf(g->broken_why, sizeof(g->broken_why), "%s", why);
    }
    if (g->direct != NULL) {
        nx_direct_on_down(g->direct, g->rank, err, why);
    }
    nx_list_for_each (l, &g->runs) {
        nx_run_fail(nx_list_entry(l, nx_run, link), false, err, "%s", why);
    }
}

void nx_hub_on_death(nx_hub *hub, uint32_t peer, nexar_err err, const char *why)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        if (rank_of(g, peer) < g->size) {
            nx_group_break(g, err, why);
        }
    }
}

void nx_hub_stop(nx_hub *hub, nexar_err err, const char *why)
{
    fail_runs(hub, NULL, err, why);
    hub->stopped = true;
    nx_loop_timer_cancel(hub->config.loop, &hub->tick);
}

/* ---- life ------------------------------------------------------------------------------- */

nexar_err nx_hub_create(nx_hub **out, const nx_hub_config *config)
{
    nx_hub *hub = nx_zalloc(sizeof(*hub));

    if (hub == NULL) {
        return nx_fail_nomem("collectives");
    }
    hub->config = *config;
    nx_task_init(&hub->task, on_trouble);
    hub->tick.on_expire = on_tick;
    *out = hub;
    return NEXAR_OK;
}

/* Drops what was noted for |comm|; NULL: for all. */
static void drop_early(nx_hub *hub, const uint32_t *comm)
{
    early *e;
    size_t at = 0;

    while ((e = nx_map_next(&hub->early, &at)) != NULL) {
        if ((comm == NULL) || ((e->key - 1) >> NX_NUMBER_BITS == *comm)) {
            nx_free(nx_map_take(&hub->early, e->key));
            at = 0; /* what is behind may have moved up */
        }
    }
}

void nx_hub_destroy(nx_hub *hub)
{
    nx_loop_undefer(&hub->task);
    nx_loop_timer_cancel(hub->config.loop, &hub->tick);
    drop_early(hub, NULL);
    nx_map_fini(&hub->early);
    nx_map_fini(&hub->groups);
    nx_free(hub);
}

const nx_hub_config *nx_hub_config_of(const nx_hub *hub)
{
    return &hub->config;
}

nexar_err nx_group_open(nx_group *g)
{
    g->next = 1;
    nx_list_init(&g->runs);
    nx_list_init(&g->flights);
    return nx_map_put(&g->hub->groups, (uint64_t)g->comm + 1, g);
}

void nx_group_move(nx_group *to, const nx_group *from)
{
    *to = *from;
    nx_list_init(&to->runs);
    nx_list_init(&to->flights);
    /* Never without memory: it is there already. */
    (void)!nx_map_put(&to->hub->groups, (uint64_t)to->comm + 1, to);
}

void nx_group_close(nx_group *g)
{
    nx_hub *hub = g->hub;

    (void)nx_map_take(&hub->groups, (uint64_t)g->comm + 1);
    hub->tombs[hub->ntombs++ % TOMBS] = g->comm + 1;
    drop_early(hub, &g->comm);
    if (!hub->stopped) {
        nx_msg_forget(hub->config.msg, g->comm);
    }
    nx_programs_fini(&g->programs);
    nx_map_fini(&g->active);
    nx_map_fini(&g->reserved);
    nx_run_free_flights(&g->flights);
    nx_direct_destroy(g->direct);
    nx_free(g->scratch);
}
