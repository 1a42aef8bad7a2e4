/*
 * piggyback.h - data carried by the messages of a dissemination.
 *
 * In round k each rank sends to the rank at distance |far| and receives from the rank at distance
 * -|far|. |far| runs through the powers of two below the number of ranks, in any order that is the
 * same on all ranks. Each send waits for all earlier receives, so at the end every rank has heard
 * from every other rank. A tree or a scan whose messages use these pairs puts its data into them;
 * the other messages are empty. So no rank completes before all have joined (nx_coll.heard), in the
 * same number of rounds and without additional messages.
 *
 * Receives wait only for hazards. Sends are ordered.
 */
#ifndef NX_PIGGYBACK_H
#define NX_PIGGYBACK_H

#include "coll/coll.h"

typedef struct nx_piggyback {
    nx_sched *s;
    nx_step_id sent, received; /* the last of each */
} nx_piggyback;

static inline nx_piggyback nx_piggyback_make(nx_sched *s)
{
    return (nx_piggyback){.s = s, .sent = NX_NO_STEP, .received = NX_NO_STEP};
}

static inline void nx_piggyback_send(nx_piggyback *r, uint32_t to, uint32_t round, nx_ref a,
                                     size_t len)
{
    nx_sched_gate(r->s, r->sent, r->received);
    nx_send(r->s, to, round, a, len);
    nx_sched_gate(r->s, NX_NO_STEP, NX_NO_STEP);
    r->sent = nx_sched_last(r->s);
}

/* After the receive of a round, which is the last step. */
static inline void nx_piggyback_received(nx_piggyback *r)
{
    r->received = nx_sched_last(r->s);
}

#endif /* NX_PIGGYBACK_H */
