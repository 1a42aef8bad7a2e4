/*
 * crew.h - processes of a test, some of which kill themselves in each step, the same ones on
 * every rank: the survivors by rank, and the end of the test.
 */
#ifndef NXT_CREW_H
#define NXT_CREW_H

#include "procs.h"

/* The initial ranks of the communicator's members, by current rank. */
typedef struct nxt_crew {
    int ids[NXT_PROCS], n;
} nxt_crew;

void nxt_crew_man(nxt_crew *c, int n);
/* Removes |ranks|, as bits. */
void nxt_crew_lose(nxt_crew *c, uint64_t ranks);

/* In a process: waits until |w|, which recovers automatically, has |left| ranks. The change is
 * reported as a failure. */
void nxt_crew_await(nexar_comm *w, int left);

/* Runs |n| processes of |body|. Checks that all processes but those in |left| are killed, and
 * that the entries of the survivors in |history|, by id, are equal. */
void nxt_crew_run(int n, void (*body)(int rank, int join_fd, void *arg), const nxt_crew *left,
                  const _Atomic uint64_t *history);

#endif /* NXT_CREW_H */
