/*
 * cast.h - processes of a test that are made before there are threads, and join a world when they
 * are told to: at first, later, or never.
 */
#ifndef NXT_CAST_H
#define NXT_CAST_H

#include "procs.h"

enum { NXT_CAST_MOST = 20 };
/* What a process is to do. */
enum { NXT_FIRST = 1, NXT_LATER, NXT_NEVER };

/* What they share, by the number that each was made with. */
typedef struct nxt_cast_board {
    char join[1024]; /* the join string of the seed */
    _Atomic int go[NXT_CAST_MOST];
    _Atomic uint64_t seen[NXT_CAST_MOST]; /* whom it has seen last, as bits: each says so */
} nxt_cast_board;

typedef struct nxt_cast {
    int n;
    pid_t pids[NXT_CAST_MOST];
    nxt_cast_board *board;
} nxt_cast;

/* Makes |n| processes, which call |body| when they are told to, and a seed for |ranks| of them,
 * who begin.  |board| is shared (nxt_share), and borrowed. */
nexar_seed *nxt_cast_begin(nxt_cast *c, nxt_cast_board *board, int n, int ranks,
                           void (*body)(int me, bool first));
void nxt_cast_start(nxt_cast *c, int me, int how);

/* Waits until those in |mask| see each other and nobody else; |what| is for the sentence if
 * they do not. */
void nxt_cast_await_world(const nxt_cast *c, uint64_t mask, const char *what);
/* Kills one; when. */
uint64_t nxt_cast_strike(const nxt_cast *c, int me);
/* Waits for its end, in good time: its status. */
int nxt_cast_await_end(const nxt_cast *c, int me);
/* Ends it, if it was not told to begin. */
void nxt_cast_dismiss(nxt_cast *c, int me);

#endif /* NXT_CAST_H */
