/*
 * cast.h - processes of a test that are created before there are threads and join a world on
 * request: at first, later, or never.
 */
#ifndef NXT_CAST_H
#define NXT_CAST_H

#include "procs.h"

enum { NXT_CAST_MOST = 20 };
/* The request to a process. */
enum { NXT_FIRST = 1, NXT_LATER, NXT_NEVER };

/* Shared by the processes, indexed by process number. */
typedef struct nxt_cast_board {
    char join[1024]; /* the join string of the seed */
    _Atomic int go[NXT_CAST_MOST];
    _Atomic uint64_t seen[NXT_CAST_MOST]; /* the members that each process saw last, as bits */
} nxt_cast_board;

typedef struct nxt_cast {
    int n;
    pid_t pids[NXT_CAST_MOST];
    nxt_cast_board *board;
} nxt_cast;

/* Creates |n| processes, which call |body| on request, and a seed for the first |ranks| of them.
 * |board| is shared (nxt_share), and borrowed. */
nexar_seed *nxt_cast_begin(nxt_cast *c, nxt_cast_board *board, int n, int ranks,
                           void (*body)(int me, bool first));
void nxt_cast_start(nxt_cast *c, int me, int how);

/* Waits until the processes in |mask| see exactly each other; |what| is for the message if they
 * do not. */
void nxt_cast_await_world(const nxt_cast *c, uint64_t mask, const char *what);
/* Kills a process; returns the time. */
uint64_t nxt_cast_strike(const nxt_cast *c, int me);
/* Waits, within a time limit, for the end of a process; returns its status. */
int nxt_cast_await_end(const nxt_cast *c, int me);
/* Ends a process that was not requested to join. */
void nxt_cast_dismiss(nxt_cast *c, int me);

#endif /* NXT_CAST_H */
