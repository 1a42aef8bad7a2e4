/*
 * cell.h - a cell of the fault matrix: a fault, its victims, a workload and a transport; and the
 * board on which the processes of a cell record their observations.
 *
 * matrix.c drives, rank.c is a rank.
 */
#ifndef NXT_CELL_H
#define NXT_CELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <nexar.h>

#include "party.h"

enum { NXT_CELL_RANKS = 4, NXT_JOINER = NXT_CELL_RANKS, NXT_CELL_PROCESSES };

/* ---- faults ------------------------------------------------------------------------------- */

typedef enum nxt_strike {
    NXT_KILL,
    NXT_STOP,
    NXT_EXIT,   /* exit() between two operations, without nexar_finalize */
    NXT_CRASH,  /* a segmentation fault there */
    NXT_MUTE,   /* nothing that the victims' host sends arrives */
    NXT_DEAF,   /* nothing that is sent to it arrives */
    NXT_CUT,    /* both */
    NXT_BRIEF,  /* both, for a third of heartbeat_timeout */
    NXT_SEED,   /* the seed is killed */
    NXT_ALARM,  /* all ranks receive 1,000 signals per second, from before init to the end */
    NXT_FAULTY, /* calls of all ranks are interrupted and cut short: support/interrupt.h */
    NXT_TIMED   /* the victim kills itself in the middle of the call named by |during| */
} nxt_strike;

/* The call in which one more rank (nxt_fault.late) kills itself. */
typedef enum nxt_during { NXT_NEVER, NXT_IN_INIT, NXT_IN_RECOVERY } nxt_during;

/* How the survivors continue. */
typedef enum nxt_recovery {
    NXT_SHRINK,
    NXT_UPDATE,
    NXT_AUTOMATIC, /* the communicator is rebuilt automatically, when a collective has failed */
    NXT_RETRIED    /* and collectives are repeated: those of nxt_work.again do not fail */
} nxt_recovery;

typedef struct nxt_fault {
    const char *name;
    nxt_strike strike;
    unsigned victims; /* ranks, as bits; for faults of a host NXT_HOST_OF_2 */
    nxt_during during;
    int late; /* see nxt_during */
    nxt_recovery recovery;
    bool joins;           /* a rank joins at the time of the fault: place NXT_JOINER */
    const char *settings; /* "name=value name=value" for ranks and seed, besides the common ones */
    double aim_ms;        /* deadline for all survivors to know; 0: as the transport says */
} nxt_fault;

enum { NXT_HOST_OF_2 = 1 << 30 };

typedef struct nxt_transport {
    const char *name;
    const char *transports;   /* the setting */
    int host[NXT_CELL_RANKS]; /* of each rank */
    double aim_ms;            /* deadline for all to know of a killed rank, */
    double rebuild_ms;        /* and for a correct sum without that rank after this */
} nxt_transport;

/* Step |i| of a workload, with a check of its results.  Sets |*wrong| to a message if the call
 * succeeds and the results are wrong. */
typedef struct nxt_work {
    const char *name;
    nexar_err (*prepare)(nexar_comm *c); /* a communicator, once; may be NULL */
    nexar_err (*step)(nexar_comm *c, uint64_t i, const char **wrong);
    bool lonely; /* a failure reaches only the neighbours of the failed rank: others are revoked */
    bool calls;  /* no collective: automatic recovery revokes the operations */
    bool again;  /* retry=on runs it again */
    bool makes;  /* creates communicators: survivors revoke the incomplete ones */
} nxt_work;

extern const nxt_work nxt_works[];
extern const int nxt_works_count;
/* The step of all ranks on a rebuilt communicator: a sum over all, checked. */
nexar_err nxt_work_sum(nexar_comm *c, uint64_t i, const char **wrong);
/* The message of the step that failed last, which may have called nexar again since. */
const char *nxt_work_said(void);
/* The ranks that |c| may lose in a repeated step, as bits. */
void nxt_work_may_lose(unsigned ranks);

typedef struct nxt_cell {
    const nxt_fault *fault;
    const nxt_work *work;
    const nxt_transport *transport;
    unsigned victims; /* ranks that the others lose, without |late| */
    int living;       /* ranks that are left at the end */
} nxt_cell;

/* Whether |rank|, which is no victim, waits in each step for a victim: it must detect the failure
 * itself, whatever the others do. */
bool nxt_cell_needs(const nxt_cell *cell, int rank);

/* ---- the board ------------------------------------------------------------------------------ */

typedef enum nxt_stage {
    NXT_STARTED,
    NXT_RUNNING, /* steps on the whole world */
    NXT_KNOWS,   /* an error has occurred */
    NXT_REBUILT, /* a correct result from all survivors */
    NXT_DONE     /* finalized */
} nxt_stage;

/* The observations of one process; times are CLOCK_MONOTONIC, ns. */
typedef struct nxt_seen {
    _Atomic int stage;
    _Atomic uint64_t steps;
    _Atomic int told; /* calls of on_failure */
    nexar_err err;    /* the first error */
    char sentence[320];
    uint64_t known, rebuilt;
    int fds_first, fds_running, fds_rebuilt, fds_last;
    long rss_running, rss_rebuilt; /* KiB */
    char files[1024];              /* the descriptors in fds_rebuilt, as text */
    char wrong[320];               /* an unexpected observation; "": none */
} nxt_seen;

typedef struct nxt_board {
    nxt_seed_place seed;
    _Atomic bool strike;   /* NXT_EXIT, NXT_CRASH: now */
    _Atomic bool end;      /* nothing is lost in this cell: end normally */
    _Atomic uint64_t last; /* set by rank 0 then: the step before which all ranks stop */
    _Atomic uint64_t at;   /* when it happened */
    nxt_seen seen[NXT_CELL_PROCESSES];
} nxt_board;

/* Runs a rank, in a process of its own that is on its host already; returns its exit code. */
int nxt_rank_live(const nxt_cell *cell, nxt_board *board, int rank);

#endif /* NXT_CELL_H */
