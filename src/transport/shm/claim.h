/*
 * claim.h - decides which side copies a part: its sender through the ring, or its receiver by
 * reading.
 *
 * A long part is offered, and its sender copies it into the ring, unit by unit, so both cores work.
 * A sender that computes, or has no core, does not; then the receiver reads the rest itself. One
 * cell per offer in the segment divides the work. The cell has the number of the offer, the number
 * of units that the sender has claimed, and whether the receiver has taken the rest.
 *
 * 1.  The sender copies a unit only after it has claimed it, and publishes it before it
 *     claims another. It claims none once the rest is taken.
 * 2.  The receiver reads only what it has taken: all units after those claimed by then. It reads
 *     when these have arrived through the ring, so all bytes arrive once, in order.
 * 3. The rest is taken only while it is not empty. So an offer ends in one of two ways, known to
 *     both sides. Either the sender claims the last unit, and the offer ends when that unit is in
 *     the ring; or the receiver takes the rest, and sends DONE.
 * 4.  Neither side waits for the other with a unit claimed, except a receiver for the unit that
 *     is being copied. If that takes long it sleeps, and the publication wakes it.
 *
 * The number identifies the offer: the slot gets another one when its sender has ended it. Values
 * written by the other side are validated: see take_push and nx_shm_reads_ready.
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

/* Sender: a new offer, before it is published. */
static inline void nx_claim_open(nx_claim *c, uint32_t number)
{
    atomic_store(c, (uint64_t)number << 32);
}

/* Sender: claims the next unit. False: the rest is taken. */
static inline bool nx_claim_next(nx_claim *c)
{
    uint64_t now = atomic_load(c);

    return ((now & NX_CLAIM_TAKEN) == 0) && atomic_compare_exchange_strong(c, &now, now + 1);
}

/* Receiver: takes the units of offer |number|, of |units|, that the sender has not claimed.
 * |*claimed|: number of units that arrive through the ring. False: all of them do. */
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
