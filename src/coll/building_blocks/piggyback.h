/*
 * piggyback.h - data that rides on a dissemination.
 *
 * In round k each rank sends to the one |far| places further and receives from the one
 * |far| places before, for every power of two |far| below the number of ranks, in any
 * order, the same on all.  What it sends waits for all that it was to receive before: so
 * at the end it has heard of every other rank, of those at each sum of the distances.  A
 * tree or a scan whose messages go such ways puts its data into those, and the others are
 * empty: then nobody is done before everybody has come (nx_coll.heard), in as many rounds
 * as without, and without messages beside.
 *
 * Receives wait for nothing but what they overwrite; sends are in line.
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
