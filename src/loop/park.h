/*
 * park.h - one thread sleeps, others wake it: a futex word that remembers.
 *
 * A signal before the sleep is not lost: the sleep ends immediately.  The sleeper resets the word
 * when it has handled the signal.
 */
#ifndef NX_PARK_H
#define NX_PARK_H

#include <stdatomic.h>
#include <stdint.h>

/* Zero-initialised is not signalled. */
typedef struct nx_park {
    atomic_uint signalled;
} nx_park;

/* Sleeps until signalled, for at most |timeout_ns| (UINT64_MAX: indefinitely) of real time; may
 * return spuriously. */
void nx_park_sleep(nx_park *park, uint64_t timeout_ns);
void nx_park_signal(nx_park *park);

static inline void nx_park_reset(nx_park *park)
{
    atomic_store_explicit(&park->signalled, 0, memory_order_relaxed);
}

#endif /* NX_PARK_H */
