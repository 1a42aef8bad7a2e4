/*
 * accumulate.h - a value that is sent and added to in turn, without waiting.
 *
 * A block that was sent may not be overwritten until the transport gives it
 * back, a round trip later.  So each addition goes to another place than the
 * one before: two blocks of scratch in turn, and the result at last.
 */
#ifndef NX_ACCUMULATE_H
#define NX_ACCUMULATE_H

#include "coll/sched.h"

typedef struct nx_acc {
    nx_ref now; /* where the value is: send from here */
    nx_ref out;
    nx_ref spare[2];
    size_t len;
    uint32_t left; /* additions still to come */
} nx_acc;

/* A value of |len| elements at |in| to which |additions| will be made, the last
 * of which lands in |out| (which may be |in|).  Without any it is copied. */
void nx_acc_init(nx_acc *acc, nx_sched *s, nx_ref in, nx_ref out, size_t len, uint32_t additions);

/* Adds what |peer| sends. */
void nx_acc_recv(nx_acc *acc, nx_sched *s, uint32_t peer, uint32_t round);

#endif /* NX_ACCUMULATE_H */
