/*
 * claim.h - who brings a part: its sender by the ring, or its receiver by reading.
 *
 * A long part is offered, and its sender goes on to copy it into the ring, unit by unit:
 * both cores work then.  A sender that computes, or has no core, does not; then the
 * receiver reads what is left, by itself.  A word for each offer, in the segment, parts the
 * two: the number of the offer, how many units the sender has claimed, and whether the
 * receiver has taken the rest.
 *
 *  1. The sender copies a unit only after it has claimed it, and publishes it before it
 *     claims another.  It claims none once the rest is taken.
 *  2. The receiver reads only what it has taken: all behind the units that were claimed by
 *     then.  It reads when those have come by the ring: so all bytes come once, in order.
 *  3. The rest is taken only while there is one.  So an offer ends in one of two ways, and
 *     both know which: the sender has claimed the last unit, and ends it when that is in the
 *     ring; or the receiver has taken the rest, and says DONE.
 *  4. Nobody waits for the other with a unit claimed, but a receiver for what is being
 *     copied this moment; it sleeps meanwhile if that takes long, and is woken by it as by
 *     all that is published.
 *
 * The number says that the word is still about this offer: the slot has another one when
 * its sender has ended it.  What the other side writes here is not trusted: see take_push
 * and nx_shm_reads_ready.
 */
#ifndef NX_CLAIM_H
#define NX_CLAIM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* number << 32 | taken << 31 | units */
typedef _Atomic uint64_t nx_claim;

enum { NX_CLAIM_UNITS = 0x7fffffff }; /* at most */
#define NX_CLAIM_TAKEN (UINT64_C(1) << 31)

/* The sender: a new offer, before it is published. */
static inline void nx_claim_open(nx_claim *c, uint32_t number)
{
    atomic_store(c, (uint64_t)number << 32);
}

/* The sender: claims the next unit.  False: the rest is taken. */
static inline bool nx_claim_next(nx_claim *c)
{
    uint64_t now = atomic_load(c);

    return ((now & NX_CLAIM_TAKEN) == 0) && atomic_compare_exchange_strong(c, &now, now + 1);
}

/* The receiver: takes what the sender of offer |number|, of |units|, has not claimed.
 * |*claimed|: so many units come by the ring.  False: all of them do. */
static inline bool nx_claim_take(nx_claim *c, uint32_t number, uint32_t units, uint32_t *claimed)
{
    uint64_t now = atomic_load(c);

    do {
        *claimed = (uint32_t)(now & NX_CLAIM_UNITS);
        if (((now >> 32) != number) || (*claimed >= units)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(c, &now, now | NX_CLAIM_TAKEN));
    return true;
}

#endif /* NX_CLAIM_H */
