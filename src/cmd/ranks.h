/*
 * ranks.h - local processes as ranks: starting, their output, signals, their end.
 *
 * Each rank is a process group of its own.  Rank 0 gets our standard input,
 * through a pipe; the others have none.  All runs in one thread, around poll.
 */
#ifndef NX_RANKS_H
#define NX_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_ranks_config {
    uint32_t n;
    char **argv;      /* ends with NULL */
    const char *join; /* for NEXAR_JOIN */
    bool prefix;
    bool colour_out, colour_err;
    uint64_t grace_ns; /* between asking ranks to end and killing them */
} nx_ranks_config;

/* What became of it. */
typedef struct nx_ranks_result {
    int code;         /* 0, or that of the first rank that failed (128 + signal) */
    int64_t rank;     /* which one; -1: none */
    int64_t pid;      /* of that one */
    int ended_by;     /* the signal that we were sent first; 0: none */
    bool output_lost; /* our own output could not be written */
} nx_ranks_result;

/*
 * Starts the ranks and stays until all have ended.  The first one that fails, or
 * a signal to us, ends the others: they get SIGTERM (or the signal), and SIGKILL
 * after the grace time.  |on_failure| (may be NULL) is called once, when the
 * first rank has failed and before the others are ended.
 *
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     It could not be started; nothing runs.
 * NEXAR_EINVAL
 *     The program cannot be run: the sentence says why.
 */
NX_MUST_CHECK nexar_err nx_ranks_run(const nx_ranks_config *config,
                                     void (*on_failure)(const nx_ranks_result *result),
                                     nx_ranks_result *result);

#endif /* NX_RANKS_H */
