/*
 * ranks_inner.h - shared by the files of ranks.h.
 *
 * ranks.c has the loop, ranks_end.c the end of one rank and of all, ranks_signal.c the signals of
 * the user.
 */
#ifndef NX_RANKS_INNER_H
#define NX_RANKS_INNER_H

#include <poll.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cmd/launch/io/output.h"
#include "ranks.h"
#include "ranks_far.h"

typedef struct nx_rank_process {
    pid_t pid;   /* 0: has ended; -1: on another host, and not known yet */
    pid_t was;   /* the same, also after its end */
    int stopped; /* the signal that stopped it; 0: not stopped */
    /* When to report that the rank has exited with code 0 and, as far as is known, without
     * nexar_finalize; 0: nothing to report. */
    uint64_t unsaid_at;
    nx_output out, err;
} nx_rank_process;

struct nx_ranks {
    const nx_ranks_config *config;
    nx_ranks_result *result;
    nx_rank_process *processes;
    struct pollfd *polls;
    nx_output_sink sinks[2]; /* stdout, stderr; if they are one file, only the first is used */
    nx_output_sink *out, *err;
    nx_output notes;
    struct rlimit files;
    struct winsize window; /* of the ranks' ptys */
    bool sized;            /* there is a size */
    int digits;            /* of the widest rank */
    size_t host_width;     /* of the longest host before a rank, with its colon */
    bool said_no_pty;
    uint32_t started, running; /* the first |started| have been started */
    int signals, input, life;
    bool ending;
    bool hurried;      /* output that cannot be written at once is dropped */
    bool well;         /* some rank has ended with code 0 */
    uint64_t asked_at; /* when the first signal came */
    unsigned wishes;   /* number of such signals */
    uint64_t kill_at;  /* when to kill, 0: not */
    bool paused;       /* the user has stopped them all */
    uint64_t stuck_at; /* when to end stopped ranks, 0: not */
    unsigned unsaid;   /* processes with |unsaid_at| */

    /* The first rank that ended because another rank had failed, as its exit code says
     * (recovery=abort). If the other rank is observed to end before |blame_at|, it is named
     * instead. */
    int64_t follower; /* -1: none */
    uint64_t blame_at;
};

/* Measures how wide lines of ranks may be. False: stdout is no terminal. */
bool nx_ranks_measure(nx_ranks *r);
/* Prints one line on stderr, after the queued lines. */
void nx_ranks_tell(nx_ranks *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "pid 12", or "node1 pid 12", for messages. */
enum { NX_WHERE_ROOM = 320 };
const char *nx_ranks_where(const nx_ranks *r, uint32_t rank, char buf[NX_WHERE_ROOM]);

/* ---- ranks_end.c --------------------------------------------------------------------- */

void nx_ranks_signal(const nx_ranks *r, int number);
/* Sends signal |number| to the running ranks and sets the time of the kill. */
void nx_ranks_end(nx_ranks *r, int number);
void nx_ranks_kill(nx_ranks *r);
/* |rank| has ended: ends the others if it has failed. */
void nx_ranks_on_end(nx_ranks *r, uint32_t rank, const siginfo_t *info);
/* Handles ranks that have ended. */
void nx_ranks_reap(nx_ranks *r);
/* Does what is due: blame, and the kill after the grace time. */
void nx_ranks_check_end(nx_ranks *r);
/* When nx_ranks_check_end is due; UINT64_MAX: not before another event. */
uint64_t nx_ranks_end_due(const nx_ranks *r);

/* ---- ranks_signal.c ------------------------------------------------------------------ */

void nx_ranks_signals(nx_ranks *r);
/* Signal |number| requests the end. */
void nx_ranks_wish(nx_ranks *r, int number);
/* |rank| was stopped by |number|. */
void nx_ranks_on_stop(nx_ranks *r, uint32_t rank, int number);
/* Handles ranks that were stopped or resumed. Ends stopped ranks if no other rank runs. */
void nx_ranks_check_stops(nx_ranks *r);

/* The rank of process |pid|; config->n: none. */
uint32_t nx_ranks_of(const nx_ranks *r, pid_t pid);

#endif /* NX_RANKS_INNER_H */
