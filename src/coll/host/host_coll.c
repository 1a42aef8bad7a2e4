/* host_coll.c - operations of a group on its board: numbers, errors, concurrent threads. */
#include "host_coll.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/sentence.h"

struct nx_host_coll {
    nx_host_coll_config config;
    nx_group *group;
    nx_board *board;
    uint64_t last;     /* the number of the last operation that began, in 64 bits */
    uint64_t turns;    /* completed on the board */
    uint64_t count;    /* of operations */
    bool on, reads;    /* all ranks are ready; all can read each other's memory */
    bool roomy;        /* as the board declared at first */
    uint64_t begun[2]; /* the last operations on the board, the latest first; 0: none */
    nx_timer check;
    uint64_t token; /* other ranks read it here to verify this process */
    nx_episode now; /* of the operation on the board; number 0: none */
    nx_mark mark;
    nx_choice plain; /* for marks: no algorithm is chosen */
    uint64_t begun_ns;
    /* Threads that wait for the board: |ends| changes with the loop's lock and |lock|
     * held, when an operation has left it. */
    pthread_mutex_t lock;
    pthread_cond_t freed;
    unsigned waiting;
    uint64_t ends;
    nexar_err down; /* a rank has failed, ... */
    char why[NX_BOARD_WHY];
    nx_event heard; /* set then */
    void *bounce;
    nx_path_choice tune;
    nx_board_self self; /* of the thread that holds the board */
    nx_remote_memory far[NX_BOARD_RANKS];
};

/* ---- damage -------------------------------------------------------------------------- */

/* A cell of the board differs from the value that this rank has written: ends the operations that
 * may hang because of it. */
static void report_damage(nx_host_coll *d, char why[NX_BOARD_WHY])
{
    nx_group *g = d->group;
    const uint64_t number = (d->begun[0] != 0) ? d->begun[0] : 1;

    (void)nx_sentence(
        why, NX_BOARD_WHY,
        "the board of communicator %u is damaged: rank %u found that \"%s\" was written "
        "by another; look for stray writes to shared memory, or set direct=off",
        g->comm, g->rank, d->self.damaged);
    nx_log(NX_LOG_ERROR, "%s", why);
    d->self.damaged = NULL;
    nx_board_break(d->board, &d->self, g->rank, number, NEXAR_EPROTO, why);
    for (int i = 0; i < 2; i++) {
        if (d->begun[i] != 0) {
            nx_group_abort(g, (uint32_t)d->begun[i], NEXAR_EPROTO, why);
        }
    }
}

static void on_check(nx_timer *timer, uint64_t now_ns)
{
    nx_host_coll *d = nx_list_entry(timer, nx_host_coll, check);
    char why[NX_BOARD_WHY];

    if (!nx_board_check(d->board, &d->self, d->group->rank, d->now.number == 0)) {
        report_damage(d, why);
    }
    if (nx_loop_timer_set(nx_registry_config_of(d->group->hub)->loop, timer,
                          now_ns + d->config.check_ns) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "the board of communicator %u is not looked over for damage: no memory",
               d->group->comm);
    }
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_host_coll_create(const nx_host_coll_config *config)
{
    nx_host_coll *d = nx_zalloc(sizeof(*d));
    nx_group *g = config->group;
    nx_board_rank *own = &config->board->ranks[g->rank];
    size_t n;
    int code;

    if (d == NULL) {
        return nx_fail_nomem("collectives on shared memory");
    }
    code = pthread_mutex_init(&d->lock, NULL);
    if (code != 0) {
        nx_free(d);
        return nx_fail_sys("pthread_mutex_init", "", code);
    }
    code = pthread_cond_init(&d->freed, NULL);
    if (code != 0) {
        (void)pthread_mutex_destroy(&d->lock);
        nx_free(d);
        return nx_fail_sys("pthread_cond_init", "", code);
    }
    d->config = *config;
    d->group = g;
    d->board = config->board;
    d->token = config->token;
    d->roomy = (config->board->roomy != 0);
    d->check.on_expire = on_check;
    d->plain.algorithm = nx_algorithms(&n);
    d->last = g->next - 1;
    nx_path_choice_init(&d->tune);
    own->pid = getpid();
    own->token_at = (uint64_t)(uintptr_t)&d->token;
    own->token = d->token;
    /* The engine runs operations that began before. */
    nx_board_engine(d->board, &d->self, g->rank, d->last);
    nx_board_mapped(d->board, &d->self, g->rank);
    g->direct = d;
    return NEXAR_OK;
}

void nx_host_coll_destroy(nx_host_coll *d)
{
    if (d == NULL) {
        return;
    }
    nx_loop_timer_cancel(nx_registry_config_of(d->group->hub)->loop, &d->check);
    (void)munmap(d->board, nx_board_bytes(d->group->size));
    (void)pthread_cond_destroy(&d->freed);
    (void)pthread_mutex_destroy(&d->lock);
    for (uint32_t rank = 0; rank < NX_BOARD_RANKS; rank++) {
        nx_pidfd_unref(d->far[rank].process);
    }
    nx_free(d->bounce);
    nx_free(d);
}

/* ---- readiness of all ranks ---------------------------------------------------------- */

static bool can_read(nx_host_coll *d, uint32_t rank)
{
    const nx_board_rank *r = &d->board->ranks[rank];
    nx_remote_memory *far = &d->far[rank];
    uint64_t token = 0;

    far->process = d->config.process(d->config.ctx, rank, r->pid);
    return (far->process != NULL) &&
           (nx_remote_memory_read(far, r->token_at, &token, sizeof(token)) == 0) &&
           (token == r->token);
}

/* All ranks have mapped the board: publishes whether their memory can be read. */
static void get_ready(nx_host_coll *d)
{
    bool reads = !d->config.no_reading;

    for (uint32_t rank = 0; reads && (rank < d->group->size); rank++) {
        reads = (rank == d->group->rank) || can_read(d, rank);
    }
    if (reads && (d->bounce == NULL)) {
        d->bounce = nx_alloc_aligned(NX_BOARD_LINE, NX_HOST_CALL_BLOCK);
        reads = (d->bounce != NULL);
    }
    nx_board_ready_as(d->board, &d->self, d->group->rank, reads ? NX_BOARD_READS : NX_BOARD_SLOTS);
}

static bool is_on(nx_host_coll *d)
{
    const uint32_t size = d->group->size;
    bool mapped = true, ready = true, reads = true;

    for (uint32_t rank = 0; rank < size; rank++) {
        mapped = mapped && (atomic_load(&d->board->ranks[rank].mapped) != 0);
    }
    if (mapped && (atomic_load(&d->board->ranks[d->group->rank].ready) == NX_BOARD_NOT_READY)) {
        get_ready(d);
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        const uint32_t its = atomic_load(&d->board->ranks[rank].ready);

        ready = ready && (its != NX_BOARD_NOT_READY);
        reads = reads && (its == NX_BOARD_READS);
    }
    d->on = ready;
    d->reads = reads;
    if (ready) {
        if (d->config.check_ns != 0) {
            on_check(&d->check, nx_loop_now(nx_registry_config_of(d->group->hub)->loop));
        }
        nx_log(NX_LOG_DEBUG, "collectives of communicator %u are direct from #%u on%s",
               d->group->comm, d->group->next, reads ? "" : ", in memory that is shared only");
    }
    return ready;
}

bool nx_host_coll_takes(nx_host_coll *d, const nx_coll_call *call)
{
    nexar_err err;

    /* The engine ends an operation that has failed elsewhere, before it begins; the board stays. */
    return (d->on || is_on(d)) && (nx_group_aborted(d->group, d->group->next, &err) == NULL) &&
           (nx_host_call_way(call, d->roomy, d->group->size, d->reads) != NX_METHOD_ENGINE);
}

/* ---- errors -------------------------------------------------------------------------- */

/* The operation on the board has failed on this rank. */
static void break_board(nx_host_coll *d, nexar_err err, const char *why)
{
    nx_board_break(d->board, &d->self, d->group->rank, d->now.number,
                   (d->group->broken != NEXAR_OK) ? NEXAR_OK : err, why);
}

/* The same, and notifies all other ranks. */
static void fail(nx_host_coll *d, nexar_err err, const char *why)
{
    break_board(d, err, why);
    nx_group_tell(d->group, (uint32_t)d->now.number, 0, err, why);
}

void nx_host_coll_on_down(nx_host_coll *d, uint32_t rank, nexar_err err, const char *why)
{
    if (rank >= d->group->size) {
        return;
    }
    if (d->down == NEXAR_OK) {
        d->down = err;
        (void)nx_sentence(d->why, sizeof(d->why), "%s", why);
    }
    nx_event_set(nx_registry_config_of(d->group->hub)->loop, &d->heard);
    /* A rank that has done its part has no more duties. A rank that has left in order was read by
     * every rank that needed it; a read from a killed rank reports the failure. */
    if ((d->now.number != 0) && !d->self.copy.broke && !nx_episode_is_done(&d->now, rank)) {
        fail(d, err, why);
    }
}

void nx_host_coll_on_abort(nx_host_coll *d, nexar_err err, const char *why)
{
    break_board(d, err, why);
}

/* An error of this rank itself; NEXAR_OK: none. */
static nexar_err own_trouble(const nx_host_coll *d, const nx_host_call *s, nx_episode_end end,
                             char why[NX_BOARD_WHY])
{
    const nx_registry_config *hub = nx_registry_config_of(d->group->hub);
    char text[NX_REGISTRY_TEXT], reason[64], at[NX_TIME_TEXT];

    if (end == NX_EPISODE_LATE) {
        (void)nx_sentence(why, NX_BOARD_WHY, "rank %u: not done after %.1f s (collective_timeout)",
                          d->group->rank, (double)nx_group_timeout(d->group) / 1e9);
        return NEXAR_ETIMEDOUT;
    }
    if (s->nomem) {
        (void)nx_sentence(why, NX_BOARD_WHY, "rank %u has no memory for a block", d->group->rank);
        return NEXAR_ENOMEM;
    }
    if (s->hook_err != NEXAR_OK) {
        (void)nx_sentence(why, NX_BOARD_WHY, "on_shard of rank %u returned %d (%s)", d->group->rank,
                          (int)s->hook_err, nexar_strerror(s->hook_err));
        return nx_shard_error(s->hook_err);
    }
    if (s->uneven) {
        (void)nx_sentence(why, NX_BOARD_WHY,
                          "rank %u has a tensor of %zu elements where that of rank %u has %zu",
                          s->who, s->theirs, d->group->rank, s->ours);
        return NEXAR_EMISMATCH;
    }
    /* Another rank may have left because of the same error, and released its memory. */
    if ((s->code == 0) || (nx_episode_check(&s->turn) == NX_EPISODE_BROKEN)) {
        return NEXAR_OK;
    }
    (void)hub->peer_text(hub->ctx, nx_group_peer(d->group, s->who), text);
    if (s->code == ESRCH) {
        (void)nx_sentence(why, NX_BOARD_WHY, "%s: its process has ended, at %s", text,
                          nx_time_text(at));
        return NEXAR_EPEER;
    }
    (void)nx_sentence(why, NX_BOARD_WHY,
                      "rank %u cannot copy from or to a buffer of %s: %s (errno %d); the setting "
                      "direct=off does without",
                      d->group->rank, text, strerror_r(s->code, reason, sizeof(reason)), s->code);
    return NEXAR_ESYS;
}

/* The group is broken, and this rank is about to receive the reason. */
static nexar_err await_reason(nx_host_coll *d, char why[NX_BOARD_WHY])
{
    const nx_registry_config *hub = nx_registry_config_of(d->group->hub);
    const uint64_t until = nx_loop_refresh(hub->loop) + hub->verdict_ns;

    while ((d->group->broken == NEXAR_OK) && (nx_loop_refresh(hub->loop) < until)) {
        d->heard = (nx_event){0};
        (void)nx_loop_wait(hub->loop, &d->heard, until);
    }
    (void)nx_sentence(why, NX_BOARD_WHY, "%s",
                      (d->group->broken != NEXAR_OK)
                          ? d->group->broken_why
                          : "another rank has ended it, and the reason has not come");
    return (d->group->broken != NEXAR_OK) ? d->group->broken : NEXAR_EPROTO;
}

/* Whether the rank that |s| could not reach has exited; the callback records the failure. */
static bool has_exited(const nx_host_coll *d, const nx_host_call *s)
{
    const nx_registry_config *hub = nx_registry_config_of(d->group->hub);

    return (s->code == ESRCH) && (hub->on_exited != NULL) &&
           hub->on_exited(hub->ctx, nx_group_peer(d->group, s->who));
}

/* ---- running ------------------------------------------------------------------------- */

/* Another thread's operation is on the board: waits for its end. */
static void wait_turn(nx_host_coll *d)
{
    nx_loop *loop = nx_registry_config_of(d->group->hub)->loop;

    while (d->now.number != 0) {
        const uint64_t ends = d->ends;

        d->waiting++;
        nx_loop_unlock(loop);
        (void)pthread_mutex_lock(&d->lock);
        while (d->ends == ends) {
            (void)pthread_cond_wait(&d->freed, &d->lock);
        }
        (void)pthread_mutex_unlock(&d->lock);
        nx_loop_lock(loop);
        d->waiting--;
    }
}

/* No operation is on the board any more. */
static void leave(nx_host_coll *d)
{
    d->now.number = 0;
    if (d->waiting != 0) {
        (void)pthread_mutex_lock(&d->lock);
        d->ends++;
        (void)pthread_cond_broadcast(&d->freed);
        (void)pthread_mutex_unlock(&d->lock);
    }
}

static void on_lent(void *ctx, uint32_t rank, const nx_lent *lent)
{
    nx_host_coll *d = ctx;

    if (d->far[rank].size == 0) {
        d->config.on_lent(d->config.ctx, rank, lent, &d->far[rank]);
    }
}

static void begin(nx_host_coll *d, const nx_coll_call *call, nx_host_call *s)
{
    const nx_registry_config *hub = nx_registry_config_of(d->group->hub);
    nx_group *g = d->group;
    const uint64_t timeout_ns = nx_group_timeout(g);

    d->last += (uint32_t)(nx_group_take_number(g) - (uint32_t)d->last);
    d->begun_ns = nx_loop_now(hub->loop);
    d->mark = nx_call_mark(call, &d->plain, true);
    d->now = (nx_episode){.board = d->board,
                          .rank = g->rank,
                          .size = g->size,
                          .number = d->last,
                          .turn = d->turns,
                          .waits = &d->config.waits,
                          .clock = &nx_clock_system,
                          .loop = hub->loop,
                          .self = &d->self,
                          .check_ns = d->config.check_ns,
                          .deadline_ns = (timeout_ns == 0) ? 0 : d->begun_ns + timeout_ns};
    *s = (nx_host_call){.turn = d->now,
                        .call = call,
                        .turns = 1,
                        .mark = d->mark,
                        .declines = (g->late != NEXAR_OK), /* the engine reports this error */
                        .way = nx_host_call_way(call, d->roomy, d->group->size, d->reads),
                        .reads = d->reads,
                        .roomy = d->roomy,
                        .tune = &d->tune,
                        .far = d->far,
                        .bounce = d->bounce};
    if ((s->way >= NX_METHOD_EITHER) && (d->config.lend != NULL)) {
        d->config.lend(d->config.ctx, &s->own);
        s->on_lent = on_lent;
        s->ctx = d;
    }
    nx_board_begun(d->board, &d->self, g->rank, d->last);
    d->begun[1] = d->begun[0];
    d->begun[0] = d->last;
}

static nexar_err outcome(nx_host_coll *d, const nx_host_call *s, nx_episode_end end)
{
    const nx_episode *t = &s->turn;
    const bool damaged = (d->self.damaged != NULL);
    char why[NX_BOARD_WHY] = "";
    nexar_err err = damaged ? NEXAR_EPROTO : own_trouble(d, s, end, why);

    if (damaged) {
        report_damage(d, why);
    } else if (err != NEXAR_OK) {
        if (has_exited(d, s)) {
            err = await_reason(d, why);
            break_board(d, err, why); /* in case the rank had announced that it was done */
        } else {
            fail(d, err, why);
        }
    } else if ((end == NX_EPISODE_BROKEN) || (s->code != 0)) {
        err = nx_episode_trouble(t, why);
        err = (err == NEXAR_OK) ? await_reason(d, why) : err;
    } else if (s->odd != t->size) {
        err = NEXAR_EMISMATCH;
        nx_mark_differ(why, sizeof(why), (uint32_t)t->number, s->odd, &s->its, t->rank, &s->mark);
    } else if (s->apart) {
        err = NEXAR_EMISMATCH;
        nx_mark_uneven(why, sizeof(why), (uint32_t)t->number, &s->mark, &s->lengths);
    }
    if (err == NEXAR_OK) {
        return NEXAR_OK;
    }
    return nx_fail(err, "%s #%u: %s", nx_mark_name(&s->mark), (uint32_t)t->number, why);
}

/* Without the loop's lock. */
static nx_episode_end work(nx_host_call *s)
{
    const nx_episode_end end = nx_episode_check(&s->turn);

    if (end != NX_EPISODE_ON) {
        s->odd = s->turn.size;
        return end;
    }
    return nx_host_call_run(s);
}

/* The operation has failed: returns its buffers to the caller when all ranks have left it. */
static void leave_failed(nx_host_coll *d, const nx_host_call *s)
{
    nx_loop *loop = nx_registry_config_of(d->group->hub)->loop;
    uint32_t last;

    nx_episode_leave(&s->turn);
    if (!s->working) {
        return;
    }
    nx_loop_unlock(loop);
    last = nx_host_call_await_others(s);
    nx_loop_lock(loop);
    if (last < s->turn.size) {
        nx_log(NX_LOG_WARN, "operation #%u has failed, and rank %u is still in it",
               (uint32_t)s->turn.number, last);
    }
}

bool nx_host_coll_run(nx_host_coll *d, const nx_coll_call *call, uint32_t *number, nexar_err *err,
                      nx_host_coll_now *was)
{
    nx_loop *loop = nx_registry_config_of(d->group->hub)->loop;
    const char *aborted;
    nx_episode_end end;
    nx_host_call s;

    wait_turn(d);
    begin(d, call, &s);
    aborted = nx_group_aborted(d->group, (uint32_t)d->now.number, err);
    if (aborted != NULL) { /* while this call waited for the board */
        nx_host_coll_on_abort(d, *err, aborted);
    }
    if ((d->down != NEXAR_OK) && (nx_episode_check(&s.turn) == NX_EPISODE_ON)) {
        fail(d, d->down, d->why);
    }
    nx_loop_unlock(loop);
    end = work(&s);
    nx_loop_lock(loop);
    if ((end == NX_EPISODE_ENGINE) && d->self.copy.broke &&
        (d->self.copy.number == d->now.number)) {
        end = NX_EPISODE_BROKEN; /* aborted, other ranks are notified: no rank runs it */
    }
    if ((end == NX_EPISODE_ENGINE) && (d->self.damaged == NULL)) {
        nx_host_call_done(&s);
        *number = (uint32_t)d->now.number; /* the engine runs the operation with this number */
        return false;
    }
    *was = (nx_host_coll_now){
        .number = (uint32_t)d->now.number, .mark = d->mark, .begun_ns = d->begun_ns};
    *err = outcome(d, &s, end);
    if (*err != NEXAR_OK) {
        leave_failed(d, &s);
    }
    nx_host_call_done(&s);
    d->turns += s.turns;
    d->count++;
    nx_group_forget(d->group, (uint32_t)d->now.number, *err != NEXAR_OK);
    leave(d);
    return true;
}

/* ---- interface for other modules ----------------------------------------------------- */

uint64_t nx_host_coll_count(const nx_host_coll *d)
{
    return d->count;
}

void nx_host_coll_look(const nx_host_coll *d, nx_host_coll_now *out)
{
    *out = (nx_host_coll_now){.number = (uint32_t)d->now.number};
    if (d->now.number != 0) {
        out->mark = d->mark;
        out->begun_ns = d->begun_ns;
        out->missing = nx_episode_missing(&d->now);
    }
}

bool nx_host_coll_has(const nx_host_coll *d, uint32_t number)
{
    return (d->now.number != 0) && ((((uint32_t)d->now.number ^ number) & NX_NUMBER_MASK) == 0);
}

void nx_host_coll_part(nx_host_coll *d)
{
    nx_board_engine(d->board, &d->self, d->group->rank, UINT64_MAX);
}

void nx_host_coll_engine(nx_host_coll *d, uint32_t number)
{
    const uint64_t wide = d->last + (uint64_t)(int64_t)(int32_t)(number - (uint32_t)d->last);

    if (d->now.number == wide) {
        leave(d);
    }
    d->last = (wide > d->last) ? wide : d->last;
    nx_board_engine(d->board, &d->self, d->group->rank, wide);
}
