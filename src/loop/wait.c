/*
 * wait.c - waiting and driving: which thread asks the kernel, which sleeps, which is next.
 *
 * The driver is the one thread that polls descriptors, spins and sleeps in epoll: an application
 * thread in nx_loop_wait, or the background thread.  Invariants, true whenever the lock is free:
 *
 *  1. |driver| is NULL, or a waiter in |waiters|, or the background thread's token.
 *  2. If |waiters| is not empty and |driver| is NULL, the first waiter is signalled and has not run
 *     since. When it runs, it becomes the driver, or leaves and signals the next waiter. Every
 *     return from nx_loop_wait restores this (pass_on), whichever thread leaves and for whatever
 *     reason.
 *  3. If |waiters| is not empty, |driver| is not the background thread: a waiter replaces it
 *     without asking. This is safe, because the background thread sleeps on the epoll descriptor
 *     from outside. It asks epoll only with the lock held and after it has checked that it still
 *     drives.
 *  4. A waiter whose event is set is awake or signalled (nx_event_set), or is the sleeping driver
 *     and has been woken.
 *  5. While |sleeping|, either nothing is due before |sleep_until|, or the driver has been woken
 *     (|woken|). Every unlock except the driver's own ensures this (nx_loop_wake_if_due). So
 *     queueing work costs a write to the eventfd only if the sleeper would be late for the work,
 *     and at most once per sleep.
 *  6. While |sleeping|, the on_idle hooks have last been called with true. Only the driver calls
 *     them with false, when it wakes, or the thread that replaces it. A concurrent kick polls and
 *     does not call them.
 *
 * No wake-up is lost: all conditions change under the lock, and park and eventfd remember a signal
 * that precedes the sleep.
 */
#include <assert.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "loop_inner.h"

static bool by_background(const nx_loop *loop)
{
    return loop->driver == &loop->background.driver;
}

/* ---- waking ---------------------------------------------------------------- */

static void write_once(int fd, bool *written)
{
    if (!*written) {
        *written = true;
        nx_sys_event_set(fd);
    }
}

static void read_if_written(int fd, bool *written)
{
    if (*written) {
        *written = false;
        (void)nx_sys_event_clear(fd);
    }
}

void nx_loop_wake_driver(nx_loop *loop)
{
    if (!loop->sleeping) {
        return;
    }
    if (by_background(loop)) {
        write_once(loop->background.fd, &loop->background.woken);
    } else {
        write_once(loop->wake_fd, &loop->woken);
    }
}

void nx_loop_wake_if_due(nx_loop *loop)
{
    if (loop->sleeping && (nx_loop_next_due(loop) < loop->sleep_until)) {
        nx_loop_wake_driver(loop);
    }
}

void nx_event_set(nx_loop *loop, nx_event *event)
{
    nx_waiter *waiter = event->waiter;

    if (event->set) {
        return;
    }
    event->set = true;
    if (waiter == NULL) {
        return;
    }
    if (waiter == loop->driver) {
        nx_loop_wake_driver(loop);
    } else {
        nx_park_signal(&waiter->park);
    }
}

/* ---- polling ---------------------------------------------------------------- */

/* A poll that ends the wait reads the clock, which takes 20 ns, only once per CLOCK_EVERY polls:
 * the answer to an 8-byte message leaves that much earlier. [polls; nexar bench pingpong -b 8] */
enum { CLOCK_EVERY = 8 };

/* The real time at the last reading of the clock, or now if the loop uses another clock. */
static uint64_t real_now(const nx_loop *loop)
{
    return (loop->clock == &nx_clock_system) ? loop->now_ns : nx_now(&nx_clock_system);
}

static uint64_t refresh_real(nx_loop *loop)
{
    (void)nx_loop_refresh(loop);
    return real_now(loop);
}

/* What to do next; |now_ns| is real time. */
static nx_wait_step next_step(const nx_loop *loop, uint64_t now_ns)
{
    const nx_wait_step step = nx_wait_next(&loop->wait, now_ns);

    if ((step == NX_WAIT_PARK) && (loop->policy.poll_ns > 0) && !loop->policy.crowded &&
        (loop->expected_ns > loop->now_ns)) {
        return NX_WAIT_YIELD;
    }
    return step;
}

/* Polls until something is found, |event| is set, the clock reaches |until_ns| or the policy parks;
 * returns false only if the policy parks. */
static bool poll_for_a_while(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    const uint64_t since_ns = loop->now_ns;
    nx_wait_step step = next_step(loop, real_now(loop));

    while (step != NX_WAIT_PARK) {
        uint64_t now_ns;

        if (nx_loop_fds_spin(loop, since_ns, step == NX_WAIT_YIELD)) {
            if (!event->set || (++loop->finds % CLOCK_EVERY == 0)) {
                nx_wait_arrived(&loop->wait, refresh_real(loop));
            }
            return true;
        }
        (void)nx_loop_give_way(loop);
        if (event->set || (nx_loop_next_due(loop) == 0)) {
            return true;
        }
        now_ns = refresh_real(loop);
        if ((loop->now_ns >= until_ns) || (nx_loop_next_due(loop) <= loop->now_ns)) {
            return true;
        }
        step = next_step(loop, now_ns);
        if (step == NX_WAIT_YIELD) {
            (void)nx_loop_migrate(loop, now_ns);
        }
        nx_wait_relax(&loop->wait, step);
    }
    return false;
}

/* The peer may need this core: before the thread parks, it may migrate to another core and poll
 * there. Two threads on one core do not separate otherwise: each sleeps after polling, and is woken
 * on the core where the other runs. */
static bool poll_elsewhere(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    const uint64_t now_ns = refresh_real(loop);

    if (loop->policy.crowded || !nx_loop_migrate(loop, now_ns)) {
        return false;
    }
    loop->wait = nx_wait_begin(&loop->policy, &loop->history, now_ns);
    return poll_for_a_while(loop, event, until_ns);
}

/* ---- driving ---------------------------------------------------------------- */

/* Sleeps in the kernel until |until_ns| at most and dispatches what is ready then; returns whether
 * anything was. */
static bool sleep_and_dispatch(nx_loop *loop, uint64_t until_ns)
{
    uint64_t timeout_ns = nx_loop_span(loop->now_ns, until_ns);
    struct epoll_event ready[NX_LOOP_BATCH];
    int n;

    if (nx_loop_fds_idle(loop, true)) {
        (void)nx_loop_fds_idle(loop, false);
        (void)nx_loop_fds_poll(loop);
        (void)nx_loop_refresh(loop);
        return true;
    }
    loop->sleeping = true;
    loop->sleep_until = until_ns;
    nx_loop_release(loop);
    n = nx_loop_fds_ask(loop, ready, timeout_ns);
    nx_loop_lock(loop);
    loop->sleeping = false;
    (void)nx_loop_fds_idle(loop, false);
    read_if_written(loop->wake_fd, &loop->woken);
    nx_loop_fds_dispatch(loop, ready, n);
    return n > 0;
}

/* Polls, then sleeps; the policy learns from both. */
static void poll_and_sleep(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    if (loop->policy.poll_ns == 0) {
        (void)sleep_and_dispatch(loop, until_ns);
        return;
    }
    if (poll_for_a_while(loop, event, until_ns) || poll_elsewhere(loop, event, until_ns)) {
        return;
    }
    if (nx_loop_next_due(loop) < until_ns) {
        until_ns = nx_loop_next_due(loop);
    }
    const bool found = sleep_and_dispatch(loop, until_ns);

    nx_wait_woken(&loop->wait, refresh_real(loop), found);
}

/* One iteration of the driver; returns by |until_ns|. */
static void drive(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    (void)nx_loop_give_way(loop);
    if (event->set) {
        return;
    }
    if (nx_loop_next_due(loop) < until_ns) {
        until_ns = nx_loop_next_due(loop);
    }
    if (until_ns <= loop->now_ns) {
        (void)nx_loop_fds_poll(loop);
        (void)nx_loop_refresh(loop);
    } else {
        poll_and_sleep(loop, event, until_ns);
    }
    nx_loop_run_timers(loop);
    nx_loop_run_tasks(loop);
}

/* ---- polling without waiting -------------------------------------------------- */

/* The clock, which takes as long as a poll, is read only once per LOOK_CLOCK_EVERY polls. [polls;
 * nexar bench pingpong -b 8] */
enum { LOOK_CLOCK_EVERY = 4 };

unsigned nx_loop_looks(nx_loop *loop)
{
    if (loop->dispatching || !nx_loop_fds_quiet(loop) || (nx_loop_next_due(loop) <= loop->now_ns) ||
        nx_loop_is_wanted(loop)) {
        return 0;
    }
    nx_loop_relieve_background(loop);
    if (loop->driver != NULL) {
        return 0;
    }
    nx_loop_note_visit(loop);
    if (++loop->looks % LOOK_CLOCK_EVERY == 0) {
        (void)nx_loop_refresh(loop);
    }
    if (!nx_wait_spins(&loop->policy, &loop->history)) {
        return 1;
    }
    return 1 + atomic_load_explicit(&loop->polls_of_spin, memory_order_relaxed);
}

bool nx_loop_look_again(nx_loop *loop, unsigned *looks)
{
    if ((*looks <= 1) || nx_loop_is_wanted(loop)) {
        return false;
    }
    (*looks)--;
    nx_cpu_pause();
    return true;
}

/* ---- waiting ---------------------------------------------------------------- */

void nx_loop_relieve_background(nx_loop *loop)
{
    if (by_background(loop)) {
        nx_loop_wake_driver(loop); /* on waking it sees that another thread drives */
        if (loop->sleeping) {
            (void)nx_loop_fds_idle(loop, false);
        }
        loop->sleeping = false;
        loop->driver = NULL;
    }
}

static void take_over(nx_loop *loop, nx_waiter *self)
{
    nx_loop_relieve_background(loop);
    loop->driver = self;
    loop->wait = nx_wait_begin(&loop->policy, &loop->history, real_now(loop));
    atomic_store_explicit(&loop->app_drives, true, memory_order_relaxed);
}

/* Restores invariant 2 when a waiter leaves. */
static void pass_on(nx_loop *loop, const nx_waiter *self)
{
    if (loop->driver == self) {
        loop->driver = NULL;
        atomic_store_explicit(&loop->app_drives, false, memory_order_relaxed);
    }
    nx_loop_note_visit(loop);
    if (loop->driver != NULL) {
        return;
    }
    if (nx_list_empty(&loop->waiters)) {
        nx_loop_background_notice(loop);
    } else {
        nx_park_signal(&nx_list_entry(loop->waiters.next, nx_waiter, link)->park);
    }
}

static void park(nx_loop *loop, nx_waiter *self, uint64_t deadline_ns)
{
    uint64_t timeout_ns = nx_loop_span(loop->now_ns, deadline_ns);

    nx_loop_unlock(loop);
    nx_park_sleep(&self->park, timeout_ns);
    nx_loop_lock(loop);
    nx_park_reset(&self->park);
}

bool nx_loop_wait(nx_loop *loop, nx_event *event, uint64_t deadline_ns)
{
    nx_waiter self = {.event = event};
    bool expired = false;

    assert(!loop->dispatching);
    assert(event->waiter == NULL);
    (void)nx_loop_refresh(loop);
    nx_loop_stream_pause(loop);
    nx_loop_run_tasks(loop);
    if (event->set) {
        return true;
    }
    event->waiter = &self;
    nx_list_push_back(&loop->waiters, &self.link);
    while (!event->set && !expired) {
        expired = (loop->now_ns >= deadline_ns);
        if ((loop->driver == NULL) || by_background(loop)) {
            take_over(loop, &self);
        }
        if (loop->driver == &self) {
            drive(loop, event, deadline_ns);
        } else if (!expired) {
            park(loop, &self, deadline_ns);
        }
    }
    nx_list_remove(&self.link);
    event->waiter = NULL;
    pass_on(loop, &self);
    return event->set;
}
