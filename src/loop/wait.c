/*
 * wait.c - waiting and driving: who asks the kernel, who sleeps, who is next.
 *
 * The driver is the one thread that polls descriptors, spins and sleeps in epoll:
 * an application thread in nx_loop_wait, or the background thread.  Invariants,
 * true whenever the lock is free:
 *
 *  1. |driver| is NULL, or a waiter in |waiters|, or the background thread's token.
 *  2. If someone is in |waiters| and |driver| is NULL, then the first of them is
 *     signalled and has not run since: it will find the place free and take it, or
 *     leave and signal the next.  Every way out of nx_loop_wait restores this
 *     (pass_on), whoever leaves and why.
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
 * No wake-up is lost, since all conditions change under the lock, and what ends a
 * sleep (park, eventfd) remembers a signal that came first.
 */
#include <assert.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "base/spin_backoff.h"
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

/* ---- spinning --------------------------------------------------------------- */

/* A spin that finds nothing costs CPU that somebody may need.  After every fourth
 * miss in a row it is halved, down to a 64th; a hit makes it whole again, and so
 * does a short sleep.  Every 64th is whole in any case. */
enum { MISSES_PER_HALVING = 4, HALVINGS = 6, WHOLE_EVERY = 64 };
/* Who slept for a short time only spins longer the next time.  (200 round trips by shared memory
 * after a pause, four ranks on two cores, two at work, on a virtual machine that was short of
 * cores: mean 3.2 ms before, 1.9 so; nine tenths within 7.9 and 3.8.) */
static const nx_spin_backoff AWAKE = {.times = 4, .most_ns = 1000000};

static uint64_t spin_budget(nx_loop *loop)
{
    uint64_t whole = atomic_load_explicit(&loop->spin_ns, memory_order_relaxed);

    if (loop->awake_ns > whole) {
        return loop->awake_ns;
    }
    if (loop->misses % WHOLE_EVERY == WHOLE_EVERY - 1) {
        return whole;
    }
    return whole >> ((loop->misses < MISSES_PER_HALVING * HALVINGS)
                         ? loop->misses / MISSES_PER_HALVING
                         : HALVINGS);
}

/* A poll takes a microsecond or two.  One that took this long was put off its core:
 * somebody else needs it, perhaps the very peer that is waited for.  So for a while, and
 * for twice as long when it soon happens again, waits give their core away between two
 * polls.  (Two ranks beside two busy processes on two cores, 8-byte allreduce by shared
 * memory: 55 us asleep at once, 2 to 12 us so.  By QUIC, beside four, a round trip of
 * 400 us spinning, 50 us asleep at once or so.) */
enum { PUT_OFF_NS = 200000, CROWDED_LEAST_NS = 10000000, CROWDED_MOST_NS = 1000000000 };
enum { SOON_NS = 100000000 };
/* With something found, it may also have been the work on it that took long.  Where that ends
 * the wait the clock, which takes 30 ns, is read every so many times only: the answer of an 8-byte
 * message goes out that much earlier. */
enum { PUT_OFF_BUSY_NS = 1000000, CLOCK_EVERY = 8 };

/* Times that this thread was put off its core by others of this machine, when it last
 * looked; -1: never. */
static _Thread_local long put_off = -1;

/* Whether it was since.  If not, a hypervisor may have taken the core away for a while, and
 * nobody here would have it.  (Not measured by itself.) */
static bool was_put_off(void)
{
    const long before = put_off;
    struct rusage usage;

    if (getrusage(RUSAGE_THREAD, &usage) != 0) {
        return true;
    }
    put_off = usage.ru_nivcsw;
    return put_off != before;
}

static void note_crowd(nx_loop *loop, uint64_t now_ns)
{
    uint64_t span_ns = 2 * loop->crowded_ns;

    if (nx_loop_fds_crowd(loop)) {
        return; /* it was one of our own, who has this one for himself now */
    }
    if (now_ns - loop->crowded_until_ns > SOON_NS + loop->crowded_ns) {
        span_ns = CROWDED_LEAST_NS;
    }
    loop->crowded_ns = (span_ns > CROWDED_MOST_NS) ? CROWDED_MOST_NS : span_ns;
    loop->crowded_until_ns = now_ns + loop->crowded_ns;
    put_off = -1; /* the yields from now on count too */
}

/* Now and then asks whether this is the right core; whether it is another one now. */
static bool look_round(nx_loop *loop, uint64_t now_ns)
{
    if ((loop->look == NULL) || (now_ns - loop->looked_ns < loop->look_every_ns)) {
        return false;
    }
    loop->looked_ns = now_ns;
    return loop->look(loop->look_ctx);
}

static void yield_core(nx_loop *loop, uint64_t now_ns)
{
    (void)look_round(loop, now_ns);
    (void)sched_yield();
}

/* Reads the loop's clock and returns the real time: mostly the same, and read once. */
static uint64_t refresh_real(nx_loop *loop)
{
    uint64_t now_ns = nx_loop_refresh(loop);

    return (loop->clock == &nx_clock_system) ? now_ns : nx_now(&nx_clock_system);
}

/* Polls until there is something, |event| is set, the clock reaches |until_ns| or
 * the budget is spent: only then is it false.  The budget is of real time, which was
 * |begin_ns| when it began: the loop's clock may stand. */
static bool spin(nx_loop *loop, const nx_event *event, uint64_t until_ns, uint64_t begin_ns)
{
    const bool yields = atomic_load_explicit(&loop->yields, memory_order_relaxed) ||
                        (begin_ns < loop->crowded_until_ns);
    const uint64_t since_ns = loop->now_ns;
    uint64_t end_ns = begin_ns + spin_budget(loop), last_ns = begin_ns, polled_ns;

    if (!yields && (put_off < 0)) {
        (void)was_put_off();
    }
    if (!yields && (loop->expected_ns > since_ns) &&
        (loop->expected_ns - since_ns > end_ns - begin_ns)) {
        end_ns = begin_ns + (loop->expected_ns - since_ns);
    }
    do {
        bool gave_way;

        if (nx_loop_fds_spin(loop, since_ns, yields)) {
            if (event->set && (++loop->finds % CLOCK_EVERY != 0)) {
                loop->misses = 0;
                return true;
            }
            polled_ns = refresh_real(loop);
            if (!yields && (polled_ns - last_ns > PUT_OFF_BUSY_NS) && was_put_off()) {
                note_crowd(loop, polled_ns);
            }
            loop->misses = 0;
            return true;
        }
        gave_way = nx_loop_give_way(loop);
        if (event->set || (nx_loop_next_due(loop) == 0)) {
            loop->misses = 0;
            return true;
        }
        polled_ns = refresh_real(loop);
        if ((loop->now_ns >= until_ns) || (nx_loop_next_due(loop) <= loop->now_ns)) {
            return true;
        }
        if (yields) {
            yield_core(loop, polled_ns);
        } else {
            nx_loop_pause();
        }
        if (!gave_way && !yields && (polled_ns - last_ns > PUT_OFF_NS) && was_put_off()) {
            note_crowd(loop, polled_ns);
            return false;
        }
        last_ns = polled_ns;
    } while (polled_ns < end_ns);
    return false;
}

/* The one that is waited for may need this very core: it gets it, and the spin goes on elsewhere.
 * Two that share a core do not come apart by themselves: each sleeps when it has spun, is woken by
 * the other and left where that one is.  (A round trip by QUIC: 140 us, which is two spins, for
 * hundreds of them, where it takes 20 on two cores.)  What was learned meanwhile does not count. */
static bool spin_elsewhere(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    uint64_t now_ns;

    if (atomic_load_explicit(&loop->yields, memory_order_relaxed)) {
        return false;
    }
    now_ns = refresh_real(loop);
    if (!nx_loop_fds_crowd(loop) && !look_round(loop, now_ns)) {
        return false;
    }
    loop->misses = 0;
    return spin(loop, event, until_ns, now_ns);
}

/* ---- driving ---------------------------------------------------------------- */

/* Sleeps in the kernel till |until_ns| at most and dispatches what there is then. */
static void sleep_and_dispatch(nx_loop *loop, uint64_t until_ns)
{
    uint64_t timeout_ns = nx_loop_span(loop->now_ns, until_ns);
    struct epoll_event ready[NX_LOOP_BATCH];
    int n;

    if (nx_loop_fds_idle(loop, true)) {
        (void)nx_loop_fds_idle(loop, false);
        (void)nx_loop_fds_poll(loop);
        (void)nx_loop_refresh(loop);
        return;
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
}

/* A wait of |waited_ns| ended in a sleep. */
static void learn(nx_loop *loop, uint64_t whole, uint64_t waited_ns)
{
    const bool brief = (waited_ns < nx_spin_backoff_most(AWAKE, whole)) || (waited_ns < 2 * whole);

    loop->misses = brief ? 0 : loop->misses + 1;
    loop->awake_ns = nx_spin_backoff_after(AWAKE, whole, waited_ns);
}

/* Spins, then sleeps, and learns from what came of it. */
static void spin_and_sleep(nx_loop *loop, const nx_event *event, uint64_t until_ns)
{
    uint64_t whole = atomic_load_explicit(&loop->spin_ns, memory_order_relaxed);
    uint64_t begin_ns;

    if (whole == 0) {
        sleep_and_dispatch(loop, until_ns);
        return;
    }
    begin_ns = refresh_real(loop);
    if (spin(loop, event, until_ns, begin_ns) || spin_elsewhere(loop, event, until_ns)) {
        return;
    }
    if (nx_loop_next_due(loop) < until_ns) {
        until_ns = nx_loop_next_due(loop);
    }
    sleep_and_dispatch(loop, until_ns);
    learn(loop, whole, nx_now(&nx_clock_system) - begin_ns);
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
        spin_and_sleep(loop, event, until_ns);
    }
    nx_loop_run_timers(loop);
    nx_loop_run_tasks(loop);
}

/* ---- looking without waiting -------------------------------------------------- */

/* A look takes some 25 ns: the answer to a short message comes within 2 us where the cores are far
 * from each other.  The clock, which takes as long, is read now and then only. */
enum { LOOKS = 100, LOOK_CLOCK_EVERY = 4 };
/* Where waits give their core away some looks take less than that, if the answer comes from
 * another core: as long as they find it, and now and then.  (Two of four ranks on two cores, half
 * of a round trip of 8 B while the others sleep: 1.3 us, 0.8 so; while all four do that 4.6, as
 * before, and 5.6 if they looked each time.) */
enum { LOOKS_YIELDING = 10, LOOK_AGAIN_EVERY = 32, LUCK = 8 };

/* For a wait that gives its core away.  Who has found something looks again the next times; now and
 * then both sides have to try it at the same time to see whether it helps. */
static unsigned looks_yielding(nx_loop *loop)
{
    if (loop->looking || (loop->looks % LOOK_AGAIN_EVERY == 0)) {
        loop->luck = LUCK;
    }
    loop->looking = (loop->luck > 0);
    return loop->looking ? LOOKS_YIELDING : 1;
}

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
    if (atomic_load_explicit(&loop->spin_ns, memory_order_relaxed) == 0) {
        return 1;
    }
    return (atomic_load_explicit(&loop->yields, memory_order_relaxed) ||
            (loop->now_ns < loop->crowded_until_ns))
               ? looks_yielding(loop)
               : LOOKS;
}

bool nx_loop_look_again(nx_loop *loop, unsigned *looks)
{
    if ((*looks <= 1) || nx_loop_is_wanted(loop)) {
        loop->luck -= (loop->luck > 0) ? 1 : 0;
        loop->looking = false;
        return false;
    }
    (*looks)--;
    nx_loop_pause();
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
