/*
 * spin_backoff.h - how long to stay awake before one sleeps, learned from the last sleep.
 *
 * A wake may take longer than a wait polls: then the one that is woken comes so late that the other
 * sleeps meanwhile, has to be woken itself, and so on from one operation to the next, for good.
 * (8 bytes in shared memory: 200 to 280 us each for 600 of them by two ranks, where they take 0.6;
 * 440 for as many by four, where they take 7.)  So who slept for a short time only stays awake
 * twice as long as that the next time, which breaks the chain at once; who waited long, for one
 * that computes, begins anew.
 */
#ifndef NX_SPIN_BACKOFF_H
#define NX_SPIN_BACKOFF_H

#include <stdint.h>

/* How long it may get at most: |times| as long as at first, |most_ns| in any case. */
typedef struct nx_spin_backoff {
    uint64_t times, most_ns;
} nx_spin_backoff;

static inline uint64_t nx_spin_backoff_most(nx_spin_backoff p, uint64_t first_ns)
{
    return (p.times * first_ns < p.most_ns) ? p.times * first_ns : p.most_ns;
}

/* How long to stay awake the next time, after a wait of |waited_ns| that ended in a sleep;
 * |first_ns|: as at first. */
static inline uint64_t nx_spin_backoff_after(nx_spin_backoff p, uint64_t first_ns,
                                             uint64_t waited_ns)
{
    const uint64_t most_ns = nx_spin_backoff_most(p, first_ns);

    if ((waited_ns >= most_ns) || (2 * waited_ns < first_ns)) {
        return first_ns;
    }
    return (2 * waited_ns < most_ns) ? 2 * waited_ns : most_ns;
}

#endif /* NX_SPIN_BACKOFF_H */
