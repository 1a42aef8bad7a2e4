/*
 * ranks.h - local processes as ranks: starting, their output, signals, their end.
 *
 * Each rank is a process group of its own.  Rank 0 gets the input, the others
 * have none.  All runs in one thread, around poll.
 */
#ifndef NX_RANKS_H
#define NX_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_ranks_config {
    const char *command; /* "run": who says that a rank has failed */
    uint32_t n;
    char **argv;      /* ends with NULL */
    const char *join; /* for NEXAR_JOIN */
    bool prefix;
    bool colour_out, colour_err;
    uint64_t grace_ns; /* between asking ranks to end and killing them */
    bool elastic;      /* one that fails does not end the others */
    int input;         /* for rank 0; ours to close */
    int life;          /* when it ends, all is to end at once; borrowed */
    int notes;         /* lines of others to print among those of the ranks; borrowed */
} nx_ranks_config;

/* What became of it. */
typedef struct nx_ranks_result {
    int code;        /* 0, or that of the first rank that failed (128 + signal) */
    int64_t rank;    /* which one; -1: none, or elastic and some have ended well */
    int ended_by;    /* the signal that we were sent first; 0: none */
    int output_lost; /* errno of why our own output could not be written; 0: it was */
} nx_ranks_result;

/*
 * Starts the ranks and stays until they have ended, and all that they started.
 * The first one that fails, or a signal to us, ends the others: they get SIGTERM
 * (or the signal), and SIGKILL after the grace time or a second signal.  A rank
 * that fails is named in a line on stderr.  With |elastic| those that fail end nobody.
 *
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     It could not be started; nothing runs.
 * NEXAR_EINVAL
 *     The program cannot be run: the sentence says why.
 */
NX_MUST_CHECK nexar_err nx_ranks_run(const nx_ranks_config *config, nx_ranks_result *result);

#endif /* NX_RANKS_H */
