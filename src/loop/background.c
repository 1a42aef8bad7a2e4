/*
 * background.c - the thread that drives when no application thread does.
 *
 * While application threads drive or kick the loop, this thread rests. Once per millisecond it
 * wakes and checks, without the lock, whether an application thread has driven or kicked since. If
 * none has, it becomes the driver. On a virtual machine each check takes a core from another thread
 * for 20 us or more. When such visits are very frequent for several ticks, it therefore checks
 * every 4 ms. When one thread stays in a wait for many ticks, this thread sleeps until that wait
 * ends and signals it. So a program that mostly waits is not disturbed, and a program whose waits
 * are short and frequent need not signal each time.
 *
 * As the driver it sleeps in ppoll on the epoll descriptor and on its own eventfd, not in
 * epoll_wait. An application thread can become the driver at any moment and enter epoll_wait before
 * this thread has left the kernel (wait.c, invariant 3). The two threads must not share the
 * kernel's wake-ups.
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
/* OFTEN visits per tick, in TICKS_TO_LONG consecutive ticks, lengthen the next ticks to LONG_TICKS.
 * A program that posts a few requests and then computes makes fewer visits, so the background
 * thread takes over after one tick. (Ping-pong of two ranks,
 * mean of half a round trip, alternating runs, us: 64 KiB by shared memory 6.4 without and 5.7 with
 * longer ticks, 8 B by QUIC 17.6 and 16.9, which is within the noise. Ticks of 100 ms are no
 * better.) */
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

/* Sleeps until the long-standing driver leaves; begins and ends unlocked. */
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
            nx_park_reset(&bg->rest); /* a signal left set would make the next tick empty */
        }
        nx_loop_unlock(loop);
    }
}

/* Returns when no application thread has visited the loop for a tick; begins and ends unlocked. */
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

/* As the driver: sleeps until something is due or ready. An application thread may become the
 * driver during the sleep. */
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
        loop->sleeping = false; /* otherwise another thread drives and owns |sleeping| */
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

    /* Also before a sleep that may be skipped. While packets arrive continuously, the lock is free
     * for a microsecond between two polls, and a waiting thread takes longer than that to wake. */
    (void)nx_loop_give_way(loop);
    until_ns = nx_loop_next_due(loop);
    /* A thread that stopped this one during give_way found it awake and sends no wake-up. */
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
