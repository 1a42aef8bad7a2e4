/*
 * adaptive_choice.h - chooses the faster of two methods from measured costs.
 *
 * One method is in use. The other is sampled NX_ADAPTIVE_TRY times in a row, now and then, since
 * costs change, for instance when a hypervisor moves the cores. A sample period that finds nothing
 * better delays the next, up to NX_ADAPTIVE_MOST uses. A method whose best cost is lower by more
 * than a ninth replaces the one in use. If the method in use becomes slower by half, the other is
 * sampled soon.
 *
 * The minimum of the last few costs of a method counts, since disturbances only add time. No clock,
 * no randomness: the same costs make the same choices.
 */
#ifndef NX_ADAPTIVE_CHOICE_H
#define NX_ADAPTIVE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NX_ADAPTIVE_TRY = 2,
    NX_ADAPTIVE_KEPT = 4,
    NX_ADAPTIVE_FIRST = 4,  /* uses until the first try */
    NX_ADAPTIVE_AGAIN = 16, /* until the next after a change of method or of its cost */
    NX_ADAPTIVE_MOST = 128
};

typedef struct nx_adaptive {
    double cost[2][NX_ADAPTIVE_KEPT]; /* ns per byte, the last few */
    uint32_t costs[2];                /* number of recorded costs */
    double settled;                   /* of the method in use at the last decision; 0: none */
    uint32_t left;                    /* uses until the sample period begins, or ends */
    uint32_t pause;                   /* uses between two sample periods */
    uint8_t now;                      /* the method in use, 0 or 1 */
    bool trying;
} nx_adaptive;

/* Starts with |way| in use. */
void nx_adaptive_init(nx_adaptive *w, unsigned way);
/* The method for the next use. */
unsigned nx_adaptive_next(nx_adaptive *w);
/* Records that |bytes| took |ns| with |way|. Do not record disturbed uses. */
void nx_adaptive_took(nx_adaptive *w, unsigned way, uint64_t bytes, uint64_t ns);

#endif /* NX_ADAPTIVE_CHOICE_H */
