/*
 * formation.h - the seed's view of the processes that were started for a job.
 *
 * The seed's thread writes it in on_event; the launcher's thread reads it.
 */
#ifndef NX_FORMATION_H
#define NX_FORMATION_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cluster/seed/seed.h"
#include "ranks.h"

typedef struct nx_formation_seat {
    uint64_t member; /* 0: none yet */
    nx_presence presence;
} nx_formation_seat;

typedef struct nx_formation {
    uint32_t n;
    int notes[2]; /* a pipe: lines to print; the first end does not block either */
    int news;     /* an eventfd: a presence has changed */
    pthread_mutex_t lock;
    nx_formation_seat *seats; /* by requested rank */
} nx_formation;

/* For |n| ranks. NEXAR_ESYS, NEXAR_ENOMEM; then no nx_formation_fini is needed. */
NX_MUST_CHECK nexar_err nx_formation_init(nx_formation *f, uint32_t n);
/* Call it after the seed has ended. */
void nx_formation_fini(nx_formation *f);

/* An nx_seed_config.on_event, with |f| as |ctx|: never blocks. A line for the user goes to
 * |notes|; a line that does not fit in the pipe is dropped. */
void nx_formation_on_event(void *ctx, const nx_seed_event *event);

nx_presence nx_formation_presence(nx_formation *f, uint32_t rank);

#endif /* NX_FORMATION_H */
