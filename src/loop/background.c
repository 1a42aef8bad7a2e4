/*
 * background.c - the thread that drives when no application thread does.
 *
 * While application threads come and go it rests and looks up every millisecond, without the lock:
 * has one driven or kicked since?  If not, it takes the driver's place.  Each look takes the core
 * from somebody for 20 us and more on a virtual machine: while they come very often, for some time,
 * it looks up every 4 ms.  While one of them stays in a wait for many ticks it sleeps until it is
 * signalled when that wait ends, so that a program which mostly waits is left alone, and one that
 * waits often and briefly is not made to signal every time.
 *
 * As the driver it sleeps in ppoll on the epoll descriptor and on its own eventfd, not in
 * epoll_wait: an application thread can take its place at any moment and be in epoll_wait before
 * this one has come out of the kernel (wait.c, invariant 3), and must not share the kernel's
 * wake-ups with it.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/os/cancellation.h"
#include "loop_inner.h"

#include "base/os/sys.h"

enum { TICK_NS = 1000000 };
enum { TICKS_TO_DEEP = 10 };
/* So many visits in a tick, in so many ticks in a row, make the next ones longer.  Who posts some
 * requests and computes has fewer, and is relieved at once.  (Two ranks that answer each other,
 * mean of half a round trip, alternating, us: 64 KiB by shared memory 6.4 and 5.7 with it, 8 B by
 * QUIC 17.6 and 16.9, which is within the noise; ticks of 100 ms are no better.) */
enum { OFTEN = 32, TICKS_TO_LONG = 4, LONG_TICKS = 4 };

static bool drives(const nx_loop *loop)
{
    return loop->driver == &loop->background.driver;
}

static bool stopping(nx_loop *loop)
{
    return atomic_load_explicit(&loop->background.stop, memory_order_relaxed);
}

void nx_loop_background_notice(nx_loop *loop)
{
    if (loop->background.deep) {
        loop->background.deep = false;
        nx_park_signal(&loop->background.rest);
    }
}

/* Until the driver that has long been there leaves; begins and ends unlocked. */
static void rest_deeply(nx_loop *loop)
{
    nx_background *bg = &loop->background;
    bool deep;

    nx_loop_lock(loop);
    deep = (loop->driver != NULL) && !stopping(loop);
    if (deep) {
        nx_park_reset(&bg->rest);
        bg->deep = true;
    }
    nx_loop_unlock(loop);
    while (deep && !stopping(loop)) {
        nx_park_sleep(&bg->rest, UINT64_MAX);
        nx_loop_lock(loop);
        deep = bg->deep;
        if (!stopping(loop)) {
            nx_park_reset(&bg->rest); /* or the next tick would be none */
        }
        nx_loop_unlock(loop);
    }
}

/* Comes back when no application thread has been here for a tick; begins and ends
 * unlocked. */
static void rest(nx_loop *loop)
{
    unsigned seen = atomic_load_explicit(&loop->app_visits, memory_order_relaxed);
    int ticks = 0, often = 0;

    while (!stopping(loop)) {
        const unsigned length = (often < TICKS_TO_LONG) ? 1 : LONG_TICKS;
        bool busy;
        unsigned visits;

        nx_park_sleep(&loop->background.rest, (uint64_t)length * TICK_NS);
        busy = atomic_load_explicit(&loop->app_drives, memory_order_relaxed);
        visits = atomic_load_explicit(&loop->app_visits, memory_order_relaxed);
        if (!busy && (visits == seen)) {
            return;
        }
        ticks = (busy && (visits == seen)) ? ticks + 1 : 0;
        often = (visits - seen < OFTEN * length) ? 0 : (often < TICKS_TO_LONG) ? often + 1 : often;
        seen = visits;
        if (ticks == TICKS_TO_DEEP) {
            rest_deeply(loop);
            ticks = 0;
        }
    }
}

/* As the driver: sleeps till something is due or ready.  The place may be lost. */
static void doze(nx_loop *loop, uint64_t until_ns)
{
    nx_background *bg = &loop->background;
    struct pollfd fds[2] = {{.fd = loop->epoll_fd, .events = POLLIN},
                            {.fd = bg->fd, .events = POLLIN}};
    const uint64_t timeout_ns = nx_loop_span(loop->now_ns, until_ns);

    if (nx_loop_fds_idle(loop, true)) {
        (void)nx_loop_fds_idle(loop, false);
        return;
    }
    loop->sleeping = true;
    loop->sleep_until = until_ns;
    nx_loop_release(loop);
    (void)nx_sys_poll(fds, 2, timeout_ns);
    nx_loop_lock(loop);
    if (drives(loop)) {
        loop->sleeping = false; /* else it is another's */
        (void)nx_loop_fds_idle(loop, false);
    }
    if (bg->woken) {
        bg->woken = false;
        (void)nx_sys_event_clear(bg->fd);
    }
}

static void drive(nx_loop *loop)
{
    uint64_t until_ns;

    /* Also before a sleep that may be none: while packets come without end, the lock is free
     * for a microsecond between two of them, and who waits for it takes longer to wake. */
    (void)nx_loop_give_way(loop);
    until_ns = nx_loop_next_due(loop);
    /* Who came meanwhile and stops this thread found it awake, and will not wake it. */
    if (drives(loop) && !stopping(loop) && (until_ns > loop->now_ns)) {
        doze(loop, until_ns);
    }
    if (!drives(loop) || stopping(loop)) {
        return;
    }
    (void)nx_loop_fds_poll(loop);
    (void)nx_loop_refresh(loop);
    nx_loop_run_timers(loop);
    nx_loop_run_tasks(loop);
}

static void *run(void *arg)
{
    nx_loop *loop = arg;

    (void)nx_cancellation_disable();
    while (!stopping(loop)) {
        rest(loop);
        nx_loop_lock(loop);
        if ((loop->driver == NULL) && nx_list_empty(&loop->waiters)) {
            loop->driver = &loop->background.driver;
        }
        while (drives(loop) && !stopping(loop)) {
            drive(loop);
        }
        if (drives(loop)) {
            loop->driver = NULL;
        }
        nx_loop_unlock(loop);
    }
    return NULL;
}

nexar_err nx_loop_background_start(nx_loop *loop)
{
    nx_background *bg = &loop->background;
    sigset_t all, before;
    int code;

    assert(!bg->running);
    bg->fd = nx_sys_eventfd(0);
    if (bg->fd < 0) {
        return nx_fail_sys("eventfd", "", errno);
    }
    atomic_store_explicit(&bg->stop, false, memory_order_relaxed);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    code = pthread_create(&bg->thread, NULL, run, loop);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        (void)nx_sys_close(bg->fd);
        return nx_fail_sys("pthread_create", "", code);
    }
    bg->running = true;
    return NEXAR_OK;
}

void nx_loop_background_stop(nx_loop *loop)
{
    nx_background *bg = &loop->background;

    if (!bg->running) {
        return;
    }
    nx_loop_lock(loop);
    atomic_store_explicit(&bg->stop, true, memory_order_relaxed);
    if (drives(loop)) {
        nx_loop_wake_driver(loop);
    }
    nx_park_signal(&bg->rest);
    nx_loop_unlock(loop);
    (void)pthread_join(bg->thread, NULL);
    (void)nx_sys_close(bg->fd);
    bg->running = false;
    bg->deep = false;
    bg->woken = false;
    nx_park_reset(&bg->rest);
}
