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
/* Ranks that have parted from communicators which this rank has not made yet. */
enum { WORDS = 256 };
enum { PARTED_ROOM = 16 };
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
    uint32_t parted_at[TOMBS]; /* of those that this rank has freed: the next number; or 0 */
    struct word {
        uint32_t comm, peer, next;
        nx_parting how; /* NX_PARTING_NONE: nothing */
        bool finished;  /* the second word, behind its messages; without |next| */
    } words[WORDS];
    size_t nwords;
    bool stopped; /* msg is gone, or about to go */
};

/* ---- small things --------------------------------------------------------------- */

enum { PLACE_BITS = NX_NUMBER_BITS + NX_PART_BITS };

static uint64_t early_key(uint32_t comm, uint32_t place)
{
    return (((uint64_t)comm << PLACE_BITS) | place) + 1;
}

static uint64_t place_key(uint32_t place)
{
    return place + UINT64_C(1);
}

static nx_group *find_group(const nx_hub *hub, uint32_t comm)
{
    return nx_map_get(&hub->groups, (uint64_t)comm + 1);
}

static nx_run *find_run(const nx_group *g, uint32_t place)
{
    return nx_map_get(&g->active, place_key(place));
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

/* Whether |place|, which does not run, is still to begin. */
static bool to_come(const nx_group *g, uint32_t place)
{
    const uint32_t number = place >> NX_PART_BITS;
    const uint32_t behind = (g->next - number) & NX_NUMBER_MASK;

    return (behind == 0) || (behind > NX_NUMBER_MASK / 2) ||
           ((g->direct != NULL) && nx_direct_has(g->direct, number)) ||
           (nx_map_get(&g->reserved, place_key(place)) != NULL);
}

bool nx_hub_buried(const nx_hub *hub, uint32_t comm)
{
    for (size_t i = 0; i < TOMBS; i++) {
        if (hub->tombs[i] == comm + 1) {
            return true;
        }
    }
    return false;
}

/* ---- what comes too early -------------------------------------------------------- */

static early *note(nx_hub *hub, uint32_t comm, uint32_t place)
{
    const uint64_t key = early_key(comm, place);
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

static void note_mark(nx_hub *hub, uint32_t comm, uint32_t place, uint32_t peer,
                      const nx_mark *mark)
{
    early *e = note(hub, comm, place);

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
    early *e =
        nx_map_take(&g->hub->early, early_key(g->comm, nx_group_place(run->number, run->part)));

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

static nx_run *find_differing(const nx_group *g)
{
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (run->differs) {
            return run;
        }
    }
    return NULL;
}

static void on_trouble(nx_task *task)
{
    const nx_hub *hub = nx_list_entry(task, nx_hub, task);
    nx_group *g;
    nx_run *run;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        /* From the beginning each time: one that fails may end others. */
        while ((run = find_differing(g)) != NULL) {
            nx_group_settle(g, run);
        }
    }
}

/* An operation that is over here: has |peer| called the same? */
static void check_past(nx_group *g, uint32_t place, uint32_t peer, const nx_mark *mark)
{
    const size_t at = (place >> NX_PART_BITS) % NX_PAST;

    if ((nx_group_place(g->past[at].number, g->past[at].part) == place) && (g->late == NEXAR_OK) &&
        !nx_mark_equal(&g->past[at].mark, mark)) {
        g->late = NEXAR_EMISMATCH;
        nx_mark_differ(g->late_why, sizeof(g->late_why), g->past[at].number, rank_of(g, peer), mark,
                       g->rank, &g->past[at].mark);
    }
}

nx_verdict nx_hub_on_mark(nx_hub *hub, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    const uint32_t place = (uint32_t)(tag >> NX_PART_SHIFT);
    nx_group *g = find_group(hub, context.comm);
    nx_run *run;

    if (context.kind != NX_KIND_COLL) {
        return NX_KEEP;
    }
    if (g == NULL) {
        if (nx_hub_buried(hub, context.comm)) {
            return NX_DROP;
        }
        note_mark(hub, context.comm, place, peer, mark);
        return NX_KEEP;
    }
    run = find_run(g, place);
    if (run == NULL) {
        if (to_come(g, place)) {
            note_mark(hub, context.comm, place, peer, mark);
            return NX_KEEP;
        }
        check_past(g, place, peer, mark);
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

nx_verdict nx_hub_on_unexpected(const nx_hub *hub, nx_context context)
{
    return ((context.class != NX_CLASS_USER) || (find_group(hub, context.comm) != NULL) ||
            !nx_hub_buried(hub, context.comm))
               ? NX_KEEP
               : NX_DROP;
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
    nx_write_u32(&w, nx_group_place(run->number, run->part));
    nx_write_u64(&w, run->mark.word[0]);
    nx_write_u64(&w, run->mark.word[1]);
    tell_one(g, rank, &w);
}

static void answer_called(nx_hub *hub, uint32_t peer, uint32_t comm, uint32_t place);

static void on_called(nx_hub *hub, uint32_t peer, nx_reader *r)
{
    const nx_context context = {.comm = nx_read_u32(r), .kind = NX_KIND_COLL};
    const uint32_t place = nx_read_u32(r);
    nx_mark mark;

    mark.word[0] = nx_read_u64(r);
    mark.word[1] = nx_read_u64(r);
    if (r->failed || !nx_reader_done(r) || ((uint64_t)place >> PLACE_BITS != 0)) {
        nx_log(NX_LOG_WARN, "peer %u said what it called in a way that makes no sense", peer);
        return;
    }
    (void)nx_hub_on_mark(hub, peer, context, (uint64_t)place << NX_PART_SHIFT, &mark);
    answer_called(hub, peer, context.comm, place);
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

void nx_group_tell(nx_group *g, uint32_t number, uint32_t part, nexar_err err, const char *why)
{
    uint8_t frame[ABORT_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_ABORT);
    nx_write_u32(&w, g->comm);
    nx_write_u32(&w, nx_group_place(number, part));
    nx_write_u8(&w, (uint8_t)-err);
    nx_write_sentence(&w, why, NX_RUN_WHY); /* whoever could not read it would wait on */
    for (uint32_t rank = 0; rank < g->size; rank++) {
        if (rank != g->rank) {
            tell_one(g, rank, &w);
        }
    }
}

/* |place| of |comm| has failed elsewhere. */
static void on_abort(nx_hub *hub, uint32_t comm, uint32_t place, nexar_err err, const char *why)
{
    nx_group *g = find_group(hub, comm);
    nx_run *run = (g == NULL) ? NULL : find_run(g, place);
    early *e;

    if (run != NULL) {
        nx_run_fail(run, false, err, "%s", why);
    } else if ((g == NULL) ? !nx_hub_buried(hub, comm) : to_come(g, place)) {
        e = note(hub, comm, place);
        if ((e != NULL) && (e->err == NEXAR_OK)) {
            e->err = err;
            (void)snprintf(e->why, sizeof(e->why), "%s", why);
        }
        if ((g != NULL) && (g->direct != NULL) && nx_direct_has(g->direct, place >> NX_PART_BITS)) {
            nx_direct_on_abort(g->direct, err, why); /* who has sent it need not come */
        }
    }
}

/* ---- parting --------------------------------------------------------------------------- */

static const struct {
    nexar_err err;
    const char *text;
} partings[NX_PARTINGS] = {
    [NX_PARTING_NONE] = {NEXAR_OK, "is there"},
    [NX_PARTING_FREED] = {NEXAR_EREVOKED, "has freed the communicator"},
    [NX_PARTING_FINALIZED] = {NEXAR_EPEER, "has called finalize and takes part in nothing more"},
};

nexar_err nx_parting_error(nx_parting how)
{
    return partings[how].err;
}

const char *nx_parting_text(nx_parting how)
{
    return partings[how].text;
}

/* Whether |number| is |from| or comes after it. */
static bool is_from(uint32_t number, uint32_t from)
{
    return ((number - from) & NX_NUMBER_MASK) <= NX_NUMBER_MASK / 2;
}

static void tell_parted(const nx_hub *hub, uint32_t peer, const struct word *word)
{
    uint8_t frame[PARTED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_PARTED);
    nx_write_u32(&w, word->comm);
    nx_write_u32(&w, word->next & NX_NUMBER_MASK);
    nx_write_u8(&w, (uint8_t)word->how);
    /* One that cannot be told is gone. */
    (void)!nx_msg_send_control(hub->config.msg, peer, w.data, w.len);
    if (hub->config.on_part != NULL) {
        hub->config.on_part(hub->config.ctx, word->comm, peer, word->how);
    }
}

void nx_group_part_from(const nx_group *g, uint32_t peer)
{
    if ((g->parting != NX_PARTING_NONE) && (rank_of(g, peer) < g->size)) {
        tell_parted(g->hub, peer,
                    &(struct word){.comm = g->comm, .next = g->next, .how = g->parting});
    }
}

void nx_group_part(nx_group *g, nx_parting how)
{
    g->parting = how;
    if (g->direct != NULL) {
        nx_direct_part(g->direct);
    }
    for (uint32_t rank = 0; rank < g->size; rank++) {
        const uint32_t peer = nx_group_peer(g, rank);

        if ((rank != g->rank) && (nx_msg_link(g->hub->config.msg, peer) != NULL)) {
            nx_group_part_from(g, peer);
        }
    }
}

nx_parting nx_group_parted(const nx_group *g, uint32_t rank)
{
    const struct word *word = (g->gone.n == 0) ? NULL : nx_map_get(&g->gone, (uint64_t)rank + 1);

    return (word == NULL) ? NX_PARTING_NONE : word->how;
}

nx_parting nx_group_finished(const nx_group *g, uint32_t rank)
{
    const nx_parting *how =
        (g->finished.n == 0) ? NULL : nx_map_get(&g->finished, (uint64_t)rank + 1);

    return (how == NULL) ? NX_PARTING_NONE : *how;
}

/* |peer| is told that this rank has freed |comm|; |place|: unless it took part in that. */
static void tell_freed(const nx_hub *hub, uint32_t peer, uint32_t comm, const uint32_t *place)
{
    for (size_t i = 0; i < TOMBS; i++) {
        if ((hub->tombs[i] == comm + 1) && (hub->parted_at[i] != 0) &&
            ((place == NULL) || is_from(*place >> NX_PART_BITS, hub->parted_at[i]))) {
            tell_parted(
                hub, peer,
                &(struct word){.comm = comm, .next = hub->parted_at[i], .how = NX_PARTING_FREED});
            return;
        }
    }
}

/* One that waits for this rank in an operation that this rank will not begin is told so. */
static void answer_called(nx_hub *hub, uint32_t peer, uint32_t comm, uint32_t place)
{
    const nx_group *g = find_group(hub, comm);

    if (g == NULL) {
        tell_freed(hub, peer, comm, &place);
    } else if ((g->parting != NX_PARTING_NONE) && (find_run(g, place) == NULL) &&
               to_come(g, place)) {
        nx_group_part_from(g, peer);
    }
}

/* The same for one that waits for a message. */
static void on_waits(nx_hub *hub, uint32_t peer, nx_reader *r)
{
    const uint32_t comm = nx_read_u32(r);
    const nx_group *g = find_group(hub, comm);

    if (!nx_reader_done(r)) {
        nx_log(NX_LOG_WARN, "peer %u waits in a way that makes no sense", peer);
    } else if (g == NULL) {
        tell_freed(hub, peer, comm, NULL);
    } else {
        nx_group_part_from(g, peer);
    }
}

void nx_group_inquire(nx_group *g, uint32_t rank)
{
    uint8_t frame[PARTED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if ((rank == g->rank) || (nx_group_finished(g, rank) != NX_PARTING_NONE) ||
        (nx_map_get(&g->inquired, (uint64_t)rank + 1) != NULL) ||
        (nx_map_put(&g->inquired, (uint64_t)rank + 1, g) != NEXAR_OK)) {
        return;
    }
    nx_write_u8(&w, NX_CONTROL_WAITS);
    nx_write_u32(&w, g->comm);
    /* One that cannot be asked is gone. */
    (void)!nx_msg_send_control(g->hub->config.msg, nx_group_peer(g, rank), w.data, w.len);
}

/* No operation from |next| on can run on |g|. */
static void end_from(nx_group *g, uint32_t next, nexar_err err, const char *why)
{
    if ((g->over == NEXAR_OK) || !is_from(next, g->over_from)) {
        g->over = err;
        g->over_from = next;
        (void)snprintf(g->over_why, sizeof(g->over_why), "%s", why);
    }
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (is_from(run->number, next)) {
            nx_run_fail(run, true, err, "%s", why);
        }
    }
}

/* What |said| says of a group that is there.  NEXAR_ENOMEM: it is as if nothing was said. */
static nexar_err use_word(nx_group *g, const struct word *said)
{
    const nx_hub_config *c = &g->hub->config;
    const uint32_t rank = rank_of(g, said->peer);
    char text[NX_HUB_TEXT], why[NX_HUB_TEXT + 64];
    struct word *word;

    if ((rank == g->size) || (nx_group_parted(g, rank) != NX_PARTING_NONE)) {
        return NEXAR_OK;
    }
    word = nx_zalloc(sizeof(*word));
    if ((word == NULL) || (nx_map_put(&g->gone, (uint64_t)rank + 1, word) != NEXAR_OK)) {
        nx_free(word);
        return NEXAR_ENOMEM;
    }
    *word = *said;
    (void)snprintf(why, sizeof(why), "%s %s", c->peer_text(c->ctx, said->peer, text),
                   nx_parting_text(said->how));
    end_from(g, said->next, nx_parting_error(said->how), why);
    if (c->on_parted != NULL) {
        c->on_parted(c->ctx, said->comm, said->peer, said->how);
    }
    return NEXAR_OK;
}

/* The second word of |said->peer|. */
static nexar_err use_finished(nx_group *g, const struct word *said)
{
    static nx_parting hows[NX_PARTINGS] = {NX_PARTING_NONE, NX_PARTING_FREED, NX_PARTING_FINALIZED};
    const nx_hub_config *c = &g->hub->config;
    const uint32_t rank = rank_of(g, said->peer);
    nexar_err err;

    if ((rank == g->size) || (nx_group_finished(g, rank) != NX_PARTING_NONE)) {
        return NEXAR_OK;
    }
    err = nx_map_put(&g->finished, (uint64_t)rank + 1, &hows[said->how]);
    if ((err == NEXAR_OK) && (c->on_finished != NULL)) {
        c->on_finished(c->ctx, said->comm, said->peer, said->how);
    }
    return err;
}

/* A word of |said->peer|, the first or the second. */
static void take_word(nx_hub *hub, const struct word *said)
{
    nx_group *g = find_group(hub, said->comm);
    nexar_err err = NEXAR_OK;

    if (g != NULL) {
        err = said->finished ? use_finished(g, said) : use_word(g, said);
    } else if (!nx_hub_buried(hub, said->comm)) {
        hub->words[hub->nwords++ % WORDS] = *said;
    }
    if (err != NEXAR_OK) { /* whoever does not know of it would wait for ever */
        nx_msg_fail_peer(hub->config.msg, said->peer, NEXAR_ENOMEM, "no memory for what it said");
    }
}

void nx_hub_on_finished(nx_hub *hub, uint32_t peer, uint32_t comm, uint8_t how)
{
    if ((how == NX_PARTING_NONE) || (how >= NX_PARTINGS)) {
        nx_log(NX_LOG_WARN, "peer %u has finished in a way that makes no sense", peer);
        return;
    }
    take_word(hub,
              &(struct word){.peer = peer, .comm = comm, .how = (nx_parting)how, .finished = true});
}

static void on_parted(nx_hub *hub, uint32_t peer, nx_reader *r)
{
    struct word word = {.peer = peer, .comm = nx_read_u32(r)};
    uint8_t how;

    word.next = nx_read_u32(r);
    how = nx_read_u8(r);
    if (r->failed || !nx_reader_done(r) || (how == NX_PARTING_NONE) || (how >= NX_PARTINGS)) {
        nx_log(NX_LOG_WARN, "peer %u parted in a way that makes no sense", peer);
        return;
    }
    word.how = (nx_parting)how;
    take_word(hub, &word);
}

/* |g| is new: ranks may have parted from it already. */
static nexar_err use_words(nx_group *g)
{
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (i < WORDS) && (err == NEXAR_OK); i++) {
        struct word *word = &g->hub->words[i];

        if ((word->how != NX_PARTING_NONE) && (word->comm == g->comm)) {
            err = word->finished ? use_finished(g, word) : use_word(g, word);
            word->how = NX_PARTING_NONE;
        }
    }
    return err;
}

static void drop_gone(nx_group *g)
{
    struct word *word;
    size_t at = 0;

    while ((word = nx_map_next(&g->gone, &at)) != NULL) {
        nx_free(word);
    }
    nx_map_fini(&g->gone);
    nx_map_fini(&g->finished);
    nx_map_fini(&g->inquired);
}

bool nx_hub_on_control(nx_hub *hub, uint32_t peer, const void *data, size_t len)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);
    char why[NX_RUN_WHY];
    uint32_t comm, place;
    int err;

    if (type == NX_CONTROL_BOARD) {
        return true;
    }
    if (type == NX_CONTROL_CALLED) {
        on_called(hub, peer, &r);
        return true;
    }
    if (type == NX_CONTROL_PARTED) {
        on_parted(hub, peer, &r);
        return true;
    }
    if (type == NX_CONTROL_WAITS) {
        on_waits(hub, peer, &r);
        return true;
    }
    if (type != NX_CONTROL_ABORT) {
        return false;
    }
    comm = nx_read_u32(&r);
    place = nx_read_u32(&r);
    err = -(int)nx_read_u8(&r);
    nx_read_sentence(&r, why, sizeof(why));
    if (r.failed || !nx_reader_done(&r) || (err > NEXAR_EINVAL) || (err < NEXAR_EINTERNAL) ||
        ((uint64_t)place >> PLACE_BITS != 0)) {
        nx_log(NX_LOG_WARN, "peer %u sent an abort that makes no sense", peer);
        return true;
    }
    on_abort(hub, comm, place, (nexar_err)err, why);
    return true;
}

/* ---- runs ---------------------------------------------------------------------------- */

/* Of one part of operation |number|. */
static void forget_messages(nx_group *g, uint32_t number, uint32_t part)
{
    nx_msg_forget_tags(g->hub->config.msg, nx_group_context(g),
                       (uint64_t)nx_group_place(number, part) << NX_PART_SHIFT,
                       UINT64_MAX << NX_PART_SHIFT);
}

static void forget_early(nx_group *g, uint32_t number, uint32_t part)
{
    if (g->hub->early.n != 0) {
        nx_free(nx_map_take(&g->hub->early, early_key(g->comm, nx_group_place(number, part))));
    }
}

/* What was heard of parts of |number| that this rank, having called something else, will not
 * run: only that they are called off, for whoever begins one has heard of all ranks that they
 * have called the same. */
static void forget_rest(nx_group *g, uint32_t number)
{
    for (uint32_t part = 1; (part < NX_CALL_PARTS) && (g->hub->early.n != 0); part++) {
        if (nx_map_get(&g->reserved, place_key(nx_group_place(number, part))) == NULL) {
            forget_early(g, number, part);
        }
    }
}

void nx_group_forget(nx_group *g, uint32_t number, bool failed)
{
    forget_early(g, number, 0);
    forget_rest(g, number);
    if (failed && !g->hub->stopped) {
        forget_messages(g, number, 0);
    }
}

static bool take_reserved(nx_group *g, uint32_t number, uint32_t part)
{
    return nx_map_take(&g->reserved, place_key(nx_group_place(number, part))) != NULL;
}

nexar_err nx_group_reserve(nx_group *g, uint32_t parts, uint32_t *number)
{
    for (uint32_t i = 0; i < parts; i++) {
        nexar_err err = nx_map_put(&g->reserved, place_key(nx_group_place(g->next, i)), g);

        if (err != NEXAR_OK) {
            /* What was heard of it is for the operation that will have this number. */
            while (i > 0) {
                (void)take_reserved(g, g->next, --i);
            }
            return err;
        }
    }
    *number = g->next++;
    return NEXAR_OK;
}

void nx_group_unreserve(nx_group *g, uint32_t number, uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        if (take_reserved(g, number, i)) {
            forget_early(g, number, i);
            forget_messages(g, number, i);
        }
    }
    forget_rest(g, number);
}

const char *nx_group_aborted(const nx_group *g, uint32_t number, nexar_err *err)
{
    const early *e =
        (g->hub->early.n == 0)
            ? NULL
            : nx_map_get(&g->hub->early, early_key(g->comm, nx_group_place(number, 0)));

    if ((e == NULL) || (e->err == NEXAR_OK)) {
        return NULL;
    }
    *err = e->err;
    return e->why;
}

void nx_group_give_up(nx_group *g, uint32_t number, nexar_err err, const char *why)
{
    if (number == 0) {
        number = g->next++;
    }
    if (g->direct != NULL) {
        nx_direct_engine(g->direct, number);
    }
    nx_group_tell(g, number, 0, err, why);
    nx_group_forget(g, number, true);
}

nexar_err nx_group_begin(nx_group *g, nx_run *run)
{
    const uint64_t key = place_key(nx_group_place(run->number, run->part));
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
    if ((g->over != NEXAR_OK) && is_from(run->number, g->over_from)) {
        nx_run_fail(run, true, g->over, "%s", g->over_why);
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

    (void)nx_map_take(&g->active, place_key(nx_group_place(run->number, run->part)));
    nx_list_remove(&run->link);
    g->past[at].number = (run->err == NEXAR_OK) ? run->number : 0; /* the others know */
    g->past[at].part = run->part;
    g->past[at].mark = run->mark;
    g->parted = g->parted || (run->err == NEXAR_EPEER) || (run->err == NEXAR_ECONNECT) ||
                (run->err == NEXAR_EPROTO);
    if ((run->err != NEXAR_OK) && !g->hub->stopped) {
        forget_messages(g, run->number, run->part);
    }
    forget_rest(g, run->number);
    if (g->hub->config.watch.on_end != NULL) {
        g->hub->config.watch.on_end(g->hub->config.watch.ctx, run);
    }
}

/* A run of |g| that can still fail; if |rank| is not NULL, one that waits for it alone. */
static nx_run *find_open(const nx_group *g, const uint32_t *rank)
{
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (nx_run_open(run) && ((rank == NULL) || nx_run_orphaned(run, *rank))) {
            return run;
        }
    }
    return NULL;
}

/* Fails the runs of |g|: those that wait for |rank| alone, or all. */
static void fail_runs(nx_group *g, const uint32_t *rank, nexar_err err, const char *why)
{
    nx_run *run;

    /* From the beginning each time: what it takes back and says may find another link broken,
     * and that ends other runs. */
    while ((run = find_open(g, rank)) != NULL) {
        nx_run_fail(run, rank != NULL, err, "%s", why);
    }
}

void nx_hub_on_down(nx_hub *hub, uint32_t peer, nexar_err err, const char *why)
{
    char text[NX_HUB_TEXT], sentence[NX_RUN_WHY];
    nx_group *g;
    size_t at = 0;

    (void)snprintf(sentence, sizeof(sentence), "%s: %s",
                   hub->config.peer_text(hub->config.ctx, peer, text), why);
    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        const uint32_t rank = rank_of(g, peer);

        if (g->direct != NULL) {
            nx_direct_on_down(g->direct, rank, err, sentence);
        }
        fail_runs(g, &rank, err, sentence);
    }
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
    fail_runs(g, NULL, err, why);
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
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        fail_runs(g, NULL, err, why);
    }
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
        if ((comm == NULL) || ((e->key - 1) >> PLACE_BITS == *comm)) {
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
    nexar_err err;

    g->next = 1;
    nx_list_init(&g->runs);
    nx_list_init(&g->flights);
    err = nx_map_put(&g->hub->groups, (uint64_t)g->comm + 1, g);
    if (err == NEXAR_OK) {
        err = use_words(g);
        if (err != NEXAR_OK) {
            (void)nx_map_take(&g->hub->groups, (uint64_t)g->comm + 1);
            drop_gone(g);
        }
    }
    return err;
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
    hub->parted_at[hub->ntombs % TOMBS] =
        (g->parting == NX_PARTING_FREED) ? (g->next & NX_NUMBER_MASK) : 0;
    hub->tombs[hub->ntombs++ % TOMBS] = g->comm + 1;
    drop_early(hub, &g->comm);
    if (!hub->stopped) {
        nx_msg_forget(hub->config.msg, g->comm);
    }
    nx_programs_fini(&g->programs);
    nx_map_fini(&g->active);
    nx_map_fini(&g->reserved);
    drop_gone(g);
    nx_run_free_flights(&g->flights);
    nx_direct_destroy(g->direct);
    nx_free(g->scratch);
}
