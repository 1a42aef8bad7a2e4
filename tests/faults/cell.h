/*
 * cell.h - a cell of the fault matrix: what happens, to whom, in the middle of what, between
 * ranks that are linked how; and the board on which the processes of a cell write what they
 * saw.  matrix.c drives, rank.c is a rank.
 */
#ifndef NXT_CELL_H
#define NXT_CELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nexar.h>

#include "party.h"

enum { NXT_CELL_RANKS = 4, NXT_JOINER = NXT_CELL_RANKS, NXT_CELL_PROCESSES };

/* ---- what there is ------------------------------------------------------------------------ */

typedef enum nxt_strike {
    NXT_KILL,
    NXT_STOP,
    NXT_EXIT,   /* exit() between two operations, without nexar_finalize */
    NXT_CRASH,  /* a segmentation fault there */
    NXT_MUTE,   /* nothing that the victims' host sends arrives */
    NXT_DEAF,   /* nothing that it is sent arrives */
    NXT_CUT,    /* both */
    NXT_BRIEF,  /* both, for a third of heartbeat_timeout */
    NXT_SEED,   /* the seed is killed */
    NXT_ALARM,  /* all ranks have 1,000 signals a second, from before init to the end */
    NXT_FAULTY, /* all have calls that are interrupted and cut short: support/interrupt.h */
    NXT_TIMED   /* the victim kills itself in the middle of the call named by |during| */
} nxt_strike;

/* The call in which one more rank (nxt_fault.late) kills itself. */
typedef enum nxt_during { NXT_NEVER, NXT_IN_INIT, NXT_IN_RECOVERY } nxt_during;

/* How those who are left go on. */
typedef enum nxt_recovery {
    NXT_SHRINK,
    NXT_UPDATE,
    NXT_AUTOMATIC, /* the communicator is made whole by itself, when a collective has failed */
    NXT_RETRIED    /* and collectives are run again: those of nxt_work.again do not fail */
} nxt_recovery;

typedef struct nxt_fault {
    const char *name;
    nxt_strike strike;
    unsigned victims; /* ranks, as bits; for what befalls a host NXT_HOST_OF_2 */
    nxt_during during;
    int late; /* see nxt_during */
    nxt_recovery recovery;
    bool joins;           /* a rank comes when the others are struck: place NXT_JOINER */
    const char *settings; /* "name=value name=value" for ranks and seed, beside the common ones */
    double aim_ms;        /* all survivors know after this; 0: as the transport says */
} nxt_fault;

enum { NXT_HOST_OF_2 = 1 << 30 };

typedef struct nxt_transport {
    const char *name;
    const char *transports;   /* the setting */
    int host[NXT_CELL_RANKS]; /* of each rank */
    double aim_ms;            /* a killed rank is known to all after this, */
    double rebuild_ms;        /* and so much later all have a right sum without it */
} nxt_transport;

/* One step of a workload, number |i|, checked.  |*wrong| is set to words if the call says that
 * all is well and the values are not. */
typedef struct nxt_work {
    const char *name;
    nexar_err (*prepare)(nexar_comm *c); /* a communicator, once; may be NULL */
    nexar_err (*step)(nexar_comm *c, uint64_t i, const char **wrong);
    bool lonely; /* a failure reaches only those beside the failed one: others are revoked */
    bool calls;  /* no collective: what recovers by itself revokes them */
    bool again;  /* retry=on runs it again */
    bool makes;  /* communicators: those who fail to revoke what they were to have */
} nxt_work;

extern const nxt_work nxt_works[];
extern const int nxt_works_count;
/* What all do on a communicator that was made anew: a sum over all, checked. */
nexar_err nxt_work_sum(nexar_comm *c, uint64_t i, const char **wrong);
/* The sentence of the step that failed last, which may have called more of nexar since. */
const char *nxt_work_said(void);
/* The ranks that |c| may lose in a step that is run again, as bits. */
void nxt_work_may_lose(unsigned ranks);

typedef struct nxt_cell {
    const nxt_fault *fault;
    const nxt_work *work;
    const nxt_transport *transport;
    unsigned victims; /* ranks that the others lose, without |late| */
    int living;       /* ranks that are left at the end */
} nxt_cell;

/* Whether |rank|, which is not struck, waits in each step for one that is: it must find out by
 * itself, whatever the others do. */
bool nxt_cell_needs(const nxt_cell *cell, int rank);

/* ---- the board ------------------------------------------------------------------------------ */

typedef enum nxt_stage {
    NXT_STARTED,
    NXT_RUNNING, /* steps on the whole world */
    NXT_KNOWS,   /* has had an error */
    NXT_REBUILT, /* has had a right result from all who are left */
    NXT_DONE     /* finalized */
} nxt_stage;

/* What one process saw; times are CLOCK_MONOTONIC, ns. */
typedef struct nxt_seen {
    _Atomic int stage;
    _Atomic uint64_t steps;
    _Atomic int told; /* calls of on_failure */
    nexar_err err;    /* the first error */
    char sentence[320];
    uint64_t known, rebuilt;
    int fds_first, fds_running, fds_rebuilt, fds_last;
    long rss_running, rss_rebuilt; /* KiB */
    char files[1024];              /* those of fds_rebuilt, in words */
    char wrong[320];               /* what it found that should not be; "": nothing */
} nxt_seen;

typedef struct nxt_board {
    nxt_seed_place seed;
    _Atomic bool strike;   /* NXT_EXIT, NXT_CRASH: now */
    _Atomic bool end;      /* where nothing is lost: come to an end */
    _Atomic uint64_t last; /* set by rank 0 then: the step before which all stop */
    _Atomic uint64_t at;   /* when it happened */
    nxt_seen seen[NXT_CELL_PROCESSES];
} nxt_board;

/* A rank's life, in a process of its own that is on its host already; its exit code. */
int nxt_rank_live(const nxt_cell *cell, nxt_board *board, int rank);

#endif /* NXT_CELL_H */
