/*
 * lock.c - the loop's lock, and how a driver that never sleeps gives way.
 *
 * A pthread mutex is not fair: a thread that unlocks and locks again at once wins against one that
 * the kernel has still to wake.  A driver that spins, or that always has work, would starve all
 * other threads.  So threads that fail to get the lock at once are counted in |wanted|; the driver
 * looks at the count between two polls (a load of a line that is in its cache while nobody comes)
 * and, if there is someone, keeps off the lock until the count has fallen or patience ends.  So
 * does a thread that comes again and again instead of waiting (nx_loop_pass).
 */
#include <sched.h>
#include <time.h>

#include "loop_inner.h"

/* A thread that finds the lock taken spins, as in any wait, then sleeps in the mutex. */
static void acquire_slowly(nx_loop *loop)
{
    const unsigned tries = atomic_load_explicit(&loop->polls_of_spin, memory_order_relaxed);
    bool got = false;

    atomic_fetch_add_explicit(&loop->wanted, 1, memory_order_relaxed);
    for (unsigned i = 0; !got && (i < tries); i++) {
        nx_cpu_pause();
        got = (pthread_mutex_trylock(&loop->mutex) == 0);
    }
    if (!got) {
        (void)pthread_mutex_lock(&loop->mutex); /* fails only when it is misused */
    }
    atomic_fetch_sub_explicit(&loop->wanted, 1, memory_order_relaxed);
}

void nx_loop_enter(nx_loop *loop)
{
    if (pthread_mutex_trylock(&loop->mutex) != 0) {
        acquire_slowly(loop);
    }
}

void nx_loop_lock(nx_loop *loop)
{
    nx_loop_enter(loop);
    (void)nx_loop_refresh(loop);
}

bool nx_loop_lock_within(nx_loop *loop, uint64_t span_ns)
{
    struct timespec until;
    bool got;

    (void)clock_gettime(CLOCK_REALTIME, &until); /* the clock of pthread_mutex_timedlock */
    span_ns += (uint64_t)until.tv_nsec;
    until.tv_sec += (time_t)(span_ns / UINT64_C(1000000000));
    until.tv_nsec = (long)(span_ns % UINT64_C(1000000000));
    atomic_fetch_add_explicit(&loop->wanted, 1, memory_order_relaxed);
    got = (pthread_mutex_timedlock(&loop->mutex, &until) == 0);
    atomic_fetch_sub_explicit(&loop->wanted, 1, memory_order_relaxed);
    if (got) {
        (void)nx_loop_refresh(loop);
    }
    return got;
}

void nx_loop_release(nx_loop *loop)
{
    (void)pthread_mutex_unlock(&loop->mutex);
}

void nx_loop_unlock(nx_loop *loop)
{
    nx_loop_wake_if_due(loop);
    nx_loop_release(loop);
}

/* Keeps off the lock, which this thread has not, while another thread wants it, for the time of a
 * wake-up at most; whether it is wanted still. */
static bool keep_off(nx_loop *loop)
{
    unsigned polls = atomic_load_explicit(&loop->polls_of_park, memory_order_relaxed);

    while ((polls-- > 0) && nx_loop_is_wanted(loop)) {
        nx_cpu_pause();
    }
    return nx_loop_is_wanted(loop);
}

bool nx_loop_give_way(nx_loop *loop)
{
    if (!nx_loop_is_wanted(loop)) {
        return false;
    }
    nx_loop_release(loop);
    if (keep_off(loop)) {
        (void)sched_yield();
    }
    nx_loop_lock(loop);
    return true;
}

void nx_loop_pass(nx_loop *loop, bool theirs)
{
    nx_loop_unlock(loop);
    if (keep_off(loop) || theirs || atomic_load_explicit(&loop->crowded, memory_order_relaxed)) {
        (void)sched_yield();
    }
}
