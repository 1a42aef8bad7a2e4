/*
 * lock.c - the loop's lock, and how a driver that never sleeps yields it.
 *
 * A pthread mutex is not fair: a thread that unlocks and locks again immediately wins against a
 * thread that the kernel has yet to wake. A driver that spins, or that always has work, would
 * starve all other threads. So threads that fail to get the lock immediately are counted in
 * |wanted|. The driver reads the count between two polls; the load hits its cache while no thread
 * arrives. If the count is not zero, the driver releases the lock until the count has fallen or the
 * duration of a wake-up has passed. A thread that polls repeatedly instead of waiting does the same
 * (nx_loop_pass).
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
        (void)pthread_mutex_lock(&loop->mutex); /* fails only when the mutex is misused */
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

/* Without the lock: waits while another thread wants it, at most for the duration of a wake-up.
 * Returns whether a thread still wants the lock. */
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
