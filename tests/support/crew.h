/*
 * crew.h - processes of a test of which some kill themselves in each step, in all of them the
 * same ones: who is left, by rank, and the end of it.
 */
#ifndef NXT_CREW_H
#define NXT_CREW_H

#include "procs.h"

/* Those of the communicator, by rank: the ranks that they began as. */
typedef struct nxt_crew {
    int ids[NXT_PROCS], n;
} nxt_crew;

void nxt_crew_man(nxt_crew *c, int n);
/* Those of |ranks|, as bits, are gone. */
void nxt_crew_lose(nxt_crew *c, uint64_t ranks);

/* In a process: until |w|, which rebuilds itself, has |left| ranks; that is told as a failure. */
void nxt_crew_await(nexar_comm *w, int left);

/* Runs |n| processes of |body|: all but those of |left| are killed, and these come to the same
 * in |history|, by id. */
void nxt_crew_run(int n, void (*body)(int rank, int join_fd, void *arg), const nxt_crew *left,
                  const _Atomic uint64_t *history);

#endif /* NXT_CREW_H */
