/*
 * cancellation.h - keeps threads from being cancelled inside a call of the library.
 *
 * A thread that ended inside a call would leave behind locks, the duty to drive the loop, and
 * operations on its stack. Nearly every system call is a cancellation point, also one that writes a
 * log line. So every public call that makes any disables cancellation from its first such point to
 * its return, which costs 8 ns. A pending cancel takes effect at the next cancellation point of the
 * caller. Threads of the runtime cannot be cancelled at all. "make check" verifies the declaration
 * below in every public call.
 */
#ifndef NX_CANCELLATION_H
#define NX_CANCELLATION_H

#include <pthread.h>

/* Disables it for the calling thread; returns what it was. */
static inline int nx_cancellation_disable(void)
{
    int was = PTHREAD_CANCEL_ENABLE;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

static inline void nx_cancellation_restore(const int *was)
{
    (void)pthread_setcancelstate(*was, NULL);
}

/* A declaration: the calling thread cannot be cancelled from here to the end of the block. */
#define NX_NOT_CANCELLED                                                                      \
    const int nx_cancellation_was __attribute__((cleanup(nx_cancellation_restore), unused)) = \
        nx_cancellation_disable()

#endif /* NX_CANCELLATION_H */
