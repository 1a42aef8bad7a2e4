/*
 * adaptive_choice.h - which of two ways to do the same thing is the faster one, by what both took.
 *
 * One way is in use.  The other is tried for NX_ADAPTIVE_TRY times in a row, now and then: what
 * holds now need not hold in a minute, when a hypervisor has moved the cores.  A try that
 * found nothing better makes the next come later, NX_ADAPTIVE_MOST uses later in the end; one
 * whose best cost is below that of the way in use by more than a ninth changes the way.  If
 * the way in use becomes dearer by half, the other is tried soon.
 *
 * The least of the last few costs of a way counts: what disturbs only makes things longer.
 * No clock, no randomness: the same costs make the same choices.
 */
#ifndef NX_ADAPTIVE_CHOICE_H
#define NX_ADAPTIVE_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    NX_ADAPTIVE_TRY = 2,
    NX_ADAPTIVE_KEPT = 4,
    NX_ADAPTIVE_FIRST = 4,  /* uses until the first try */
    NX_ADAPTIVE_AGAIN = 16, /* until the next after a change, of the way or of what it costs */
    NX_ADAPTIVE_MOST = 128
};

typedef struct nx_adaptive {
    double cost[2][NX_ADAPTIVE_KEPT]; /* ns a byte, the last few */
    uint32_t costs[2];                /* how many were told since they were forgotten */
    double settled;                   /* of the way in use, when that was last decided; 0: never */
    uint32_t left;                    /* uses until the try begins, or ends */
    uint32_t pause;                   /* between two tries */
    uint8_t now;                      /* 0 or 1: in use */
    bool trying;
} nx_adaptive;

/* |way| is in use. */
void nx_adaptive_init(nx_adaptive *w, unsigned way);
/* By which way the next is to be done. */
unsigned nx_adaptive_next(nx_adaptive *w);
/* |bytes| took |ns| by |way|.  Nothing is to be said of what was disturbed. */
void nx_adaptive_took(nx_adaptive *w, unsigned way, uint64_t bytes, uint64_t ns);

#endif /* NX_ADAPTIVE_CHOICE_H */
