/*
 * accumulate.h - an accumulator shared by alternating send and reduce steps.
 *
 * A block that was sent may not be overwritten until the transport releases it, a round trip later.
 * So each addition writes to another buffer than the previous one: two blocks of scratch alternate,
 * and the last addition writes the result.
 */
#ifndef NX_ACCUMULATE_H
#define NX_ACCUMULATE_H

#include "coll/sched.h"

typedef struct nx_acc {
    nx_ref now; /* where the value is; send from here */
    nx_ref out;
    nx_ref spare[2];
    size_t len;
    uint32_t left; /* remaining additions */
} nx_acc;

/* A value of |len| elements at |in| that receives |additions| additions. The last one writes |out|
 * (which may be |in|). With 0 additions the value is copied. */
void nx_acc_init(nx_acc *acc, nx_sched *s, nx_ref in, nx_ref out, size_t len, uint32_t additions);

/* Adds what |peer| sends. */
void nx_acc_recv(nx_acc *acc, nx_sched *s, uint32_t peer, uint32_t round);

#endif /* NX_ACCUMULATE_H */
