/* loop.c - creates and destroys a loop, its clock, and an iteration on request. */
#include "loop/loop.h"

#include <assert.h>
#include <time.h>

#include "base/alloc.h"
#include "loop_inner.h"

nexar_err nx_loop_create(nx_loop **out, const nx_clock *clock)
{
    nx_loop *loop = nx_zalloc(sizeof(*loop));
    nexar_err err;

    if (loop == NULL) {
        return nx_fail_nomem("a progress engine");
    }
    loop->clock = clock;
    loop->background.fd = -1;
    nx_loop_set_migration(loop, NULL, NULL);
    nx_list_init(&loop->fds);
    nx_list_init(&loop->tasks);
    nx_list_init(&loop->waiters);
    err = nx_loop_fds_init(loop);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = nx_fail_sys("pthread_mutex_init", "", pthread_mutex_init(&loop->mutex, NULL));
    if (err != NEXAR_OK) {
        goto fail_fds;
    }
    (void)nx_loop_refresh(loop);
    *out = loop;
    return NEXAR_OK;

fail_fds:
    nx_loop_fds_fini(loop);
fail_free:
    nx_free(loop);
    return err;
}

void nx_loop_destroy(nx_loop *loop)
{
    if (loop == NULL) {
        return;
    }
    assert(!loop->background.running);
    assert(nx_list_empty(&loop->waiters));
    assert(nx_list_empty(&loop->fds));
    assert(nx_heap_top(&loop->timers) == NULL);
    (void)pthread_mutex_destroy(&loop->mutex);
    nx_loop_fds_fini(loop);
    nx_heap_fini(&loop->timers);
    nx_free(loop);
}

uint64_t nx_loop_now(const nx_loop *loop)
{
    return loop->now_ns;
}

uint64_t nx_loop_refresh(nx_loop *loop)
{
    uint64_t now_ns = nx_now(loop->clock);

    if (now_ns > loop->now_ns) {
        loop->now_ns = now_ns;
    }
    return loop->now_ns;
}

void nx_loop_set_policy(nx_loop *loop, const nx_wait_policy *policy)
{
    loop->policy = *policy;
    loop->history = (nx_wait_history){0};
    atomic_store_explicit(&loop->polls_of_spin, nx_wait_polls_of_spin(policy),
                          memory_order_relaxed);
    atomic_store_explicit(&loop->polls_of_park, nx_wait_polls_of_park(policy),
                          memory_order_relaxed);
    atomic_store_explicit(&loop->crowded, policy->crowded, memory_order_relaxed);
}

void nx_loop_expect(nx_loop *loop, uint64_t at_ns)
{
    const uint64_t most_ns = loop->now_ns + nx_wait_longest(&loop->policy);

    at_ns = (at_ns < most_ns) ? at_ns : most_ns;
    if (at_ns > loop->expected_ns) {
        loop->expected_ns = at_ns;
    }
}

void nx_loop_set_migration(nx_loop *loop, bool (*migrate)(void *ctx), void *ctx)
{
    loop->migrate = migrate;
    loop->migrate_ctx = ctx;
    atomic_store_explicit(&loop->migrate_due_ns, (migrate == NULL) ? UINT64_MAX : 0,
                          memory_order_relaxed);
}

/* Migration calls take at most 1/MIGRATE_SHARE of the time between two calls. The share is CPU
 * time: a thread that was preempted during the call should check again soon. [1; a call takes 10 us
 * for each rank] */
enum { MIGRATE_SHARE = 100 };

static uint64_t cpu_time(void)
{
    struct timespec ts = {0};

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static bool migration_is_due(nx_loop *loop, uint64_t now_ns)
{
    return now_ns >= atomic_load_explicit(&loop->migrate_due_ns, memory_order_relaxed);
}

bool nx_loop_migrate(nx_loop *loop, uint64_t now_ns)
{
    uint64_t begun_ns;
    bool gone;

    if ((loop->migrate == NULL) || !migration_is_due(loop, now_ns)) {
        return false;
    }
    begun_ns = cpu_time();
    gone = loop->migrate(loop->migrate_ctx);
    atomic_store_explicit(&loop->migrate_due_ns, now_ns + MIGRATE_SHARE * (cpu_time() - begun_ns),
                          memory_order_relaxed);
    return gone;
}

bool nx_loop_migrate_unlocked(nx_loop *loop, uint64_t now_ns)
{
    bool gone;

    if (!migration_is_due(loop, now_ns) || !nx_loop_lock_within(loop, 0)) {
        return false;
    }
    gone = nx_loop_migrate(loop, now_ns);
    nx_loop_unlock(loop);
    return gone;
}

/* ---- without waiting -------------------------------------------------------- */

static void turn(nx_loop *loop)
{
    (void)nx_loop_refresh(loop);
    nx_loop_run_tasks(loop); /* first: the caller's packets leave before anything is read */
    if (!atomic_load_explicit(&loop->app_drives, memory_order_relaxed)) {
        (void)nx_loop_fds_glance(loop);
    }
    nx_loop_run_timers(loop);
    nx_loop_run_tasks(loop);
    nx_loop_note_visit(loop);
}

void nx_loop_kick(nx_loop *loop)
{
    if (loop->dispatching) {
        return; /* a callback asks: the current iteration does all this when the callback returns */
    }
    nx_loop_stream_pause(loop);
    turn(loop);
}

/* The eighth consecutive call starts a stream: a program that sends a few messages and then
 * computes has them sent immediately. A datagram over the loopback costs 7 us, whatever its
 * size. */
enum { STREAM_AFTER = 8, STREAM_GAP_NS = 20000 };
enum { HOLD_NS = 20000, HOLD_BYTES = 16384 };

void nx_loop_stream_pause(nx_loop *loop)
{
    /* A program that sends a window of messages, waits, and sends the next window resumes its
     * stream. */
    loop->stream.run = (loop->stream.run > 2 * STREAM_AFTER) ? STREAM_AFTER : loop->stream.run / 2;
    loop->stream.bytes = 0;
}

static bool all_patient(const nx_loop *loop)
{
    for (const nx_list *at = loop->tasks.next; at != &loop->tasks; at = at->next) {
        if (!nx_list_entry(at, nx_task, link)->patient) {
            return false;
        }
    }
    return !nx_list_empty(&loop->tasks);
}

/* Whether deferred work may wait for more work. */
static bool hold(nx_loop *loop, size_t bytes)
{
    nx_stream *s = &loop->stream;
    uint64_t now_ns;

    if (!loop->background.running || !all_patient(loop)) {
        return false;
    }
    now_ns = nx_loop_refresh(loop);
    s->run = (now_ns - s->last_ns < STREAM_GAP_NS) ? s->run + 1 : 0;
    s->last_ns = now_ns;
    if (s->run < STREAM_AFTER) {
        return false;
    }
    nx_loop_relieve_background(loop);
    if (loop->driver != NULL) {
        return false; /* the driver may sleep and would have to be woken */
    }
    s->since_ns = (s->bytes == 0) ? now_ns : s->since_ns;
    s->bytes += bytes;
    if ((s->bytes < HOLD_BYTES) && (now_ns - s->since_ns < HOLD_NS)) {
        nx_loop_note_visit(loop);
        return true;
    }
    s->bytes = 0;
    return false;
}

void nx_loop_flush(nx_loop *loop, size_t bytes)
{
    if (loop->dispatching || ((bytes > 0) && hold(loop, bytes))) {
        return;
    }
    if (nx_loop_fds_quiet(loop)) {
        nx_loop_run_tasks(loop); /* before reading the clock, which takes 30 ns */
        (void)nx_loop_refresh(loop);
        nx_loop_note_visit(loop);
    }
    if (!nx_loop_fds_quiet(loop)) {
        turn(loop);
    }
}

void nx_loop_settle(nx_loop *loop)
{
    if (!loop->dispatching) {
        nx_loop_run_tasks(loop);
    }
}
