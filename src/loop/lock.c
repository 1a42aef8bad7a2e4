/*
 * lock.c - the loop's lock, and how a driver that never sleeps gives way.
 *
 * A pthread mutex is not fair: a thread that unlocks and locks again at once wins
 * against one that the kernel has still to wake.  A driver that spins, or that
 * always has work, would shut everybody out.  So those who fail to get the lock
 * at once are counted in |wanted|; the driver looks at the count between two
 * polls (a load of a line that is in its cache while nobody comes) and, if there
 * is someone, keeps off the lock until the count has fallen or patience ends.  So does
 * a thread that comes again and again instead of waiting (nx_loop_pass).
 */
#include <sched.h>
#include <time.h>

#include "loop_inner.h"

/* Tries before a thread goes to sleep for the lock.  A poll of the spinning driver
 * takes about a microsecond, a pause 10 to 40 ns: enough for a few polls, and far
 * less than the 40 us of a wake. */
enum { LOCK_TRIES = 200 };

/* How long the driver keeps off, in pauses: about as long as a wake takes. */
enum { PATIENCE = 1000 };

static bool may_spin(nx_loop *loop)
{
    return atomic_load_explicit(&loop->spin_ns, memory_order_relaxed) > 0;
}

static void acquire_slowly(nx_loop *loop)
{
    int tries = may_spin(loop) ? LOCK_TRIES : 0;
    bool got = false;

    atomic_fetch_add_explicit(&loop->wanted, 1, memory_order_relaxed);
    for (int i = 0; !got && (i < tries); i++) {
        nx_loop_pause();
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

/* Keeps off the lock, which this thread has not, while somebody wants it; whether it is
 * wanted still. */
static bool keep_off(nx_loop *loop)
{
    int patience = may_spin(loop) ? PATIENCE : 0;

    while ((patience-- > 0) && nx_loop_is_wanted(loop)) {
        nx_loop_pause();
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
    if (keep_off(loop) || theirs || atomic_load_explicit(&loop->yields, memory_order_relaxed)) {
        (void)sched_yield();
    }
}
