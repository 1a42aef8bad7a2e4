/*
 * wait.c - waiting and driving: who asks the kernel, who sleeps, who is next.
 *
 * The driver is the one thread that polls descriptors, spins and sleeps in epoll: an application
 * thread in nx_loop_wait, or the background thread.  Invariants, true whenever the lock is free:
 *
 *  1. |driver| is NULL, or a waiter in |waiters|, or the background thread's token.
 *  2. If someone is in |waiters| and |driver| is NULL, then the first of them is
 *     signalled and has not run since: it will find the place free and take it, or
 *     leave and signal the next.  Every way out of nx_loop_wait restores this
 *     (pass_on), whichever thread leaves and why.
 *  3. If someone is in |waiters|, |driver| is not the background thread: a waiter
 *     takes its place without asking.  It may, because the background thread sleeps
 *     on the epoll descriptor from outside and asks epoll only with the lock held
 *     and after it has seen that it still drives.
 *  4. A waiter whose event is set is awake or signalled (nx_event_set), or the
 *     driver that sleeps has been woken.
 *  5. While |sleeping|, either nothing is due before |sleep_until|, or the driver
 *     has been woken (|woken|): every unlock but the driver's own sees to it
 *     (nx_loop_wake_if_due).  So queueing work costs a write to the eventfd only if
 *     the sleeper would be late for it, and only once per sleep.
 *  6. While |sleeping|, the on_idle hooks were told so, and nobody has told them the
 *     opposite: only the driver does, when it wakes, or who takes its place.  A kick
 *     meanwhile polls and leaves them as they are.
 *
 * No wake-up is lost, since all conditions change under the lock, and what ends a sleep (park,
 * eventfd) remembers a signal that came first.
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

/* A poll that ends the wait reads the clock, which takes 20 ns, only now and then: the answer of an
 * 8-byte message goes out that much earlier.  [polls; nexar bench pingpong -b 8] */
enum { CLOCK_EVERY = 8 };

/* The real time at the last reading of the clock, or now if the loop's clock is another one. */
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

/* Polls until there is something, |event| is set, the clock reaches |until_ns| or the policy parks:
 * only then is it false. */
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

/* The peer may need this very core: before it parks, the thread may go to another one, and polls
 * there.  Two threads on one core do not separate otherwise: each sleeps when it has polled, and is
 * woken where the other one runs. */
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

/* Sleeps in the kernel till |until_ns| at most and dispatches what there is then; whether there was
 * anything. */
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

/* Polls, then sleeps, and learns from both. */
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

/* One turn of the driver; comes back by |until_ns|. */
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

/* ---- looking without waiting -------------------------------------------------- */

/* The clock, which takes as long as a look, is read now and then only.  [looks; nexar bench
 * pingpong -b 8] */
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
        nx_loop_wake_driver(loop); /* it finds that it has lost the place */
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
