/*
 * ranks.h - local processes as ranks: start, output, signals, end.
 *
 * Each rank has its own process group. Only rank 0 gets the input. Everything runs in one thread,
 * around poll.
 */
#ifndef NX_RANKS_H
#define NX_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "spawn.h"

/* The seed's knowledge of the process that was started as a rank. */
typedef enum nx_presence {
    NX_PRESENCE_NONE,      /* has not joined, or there is no seed here */
    NX_PRESENCE_JOINED,    /* is a member */
    NX_PRESENCE_FINALIZED, /* has called nexar_finalize */
    NX_PRESENCE_LOST       /* its connection was lost without nexar_finalize */
} nx_presence;

/* How ranks.c queries the owner of the job, on its own thread. No function blocks for long. */
typedef struct nx_ranks_ops {
    /* Fills in what to start as |rank|: argv, env, cpus, cwd. The pointers stay valid until the
     * next call. */
    void (*describe)(void *ctx, uint32_t rank, nx_spawn *s);
    /* NULL: always NX_PRESENCE_NONE. */
    nx_presence (*presence)(void *ctx, uint32_t rank);
    /* If the world has not formed, writes one line with the joined and the missing ranks and
     * returns true. NULL: unknown. */
    bool (*situation)(void *ctx, char *text, size_t size);
} nx_ranks_ops;

struct nx_ranks_far;

typedef struct nx_ranks_config {
    const char *command; /* "run": the command name in messages */
    const char *noun;    /* "rank", in messages */
    uint32_t n;
    nx_spawn_output output; /* not NX_SPAWN_INHERIT: by line, each prefixed with the rank */
    bool colour_out, colour_err;
    uint64_t grace_ns; /* between asking ranks to end and killing them */
    bool elastic;      /* a failed rank does not end the others */
    int input;         /* for rank 0; nx_ranks_run closes it */
    int life;          /* when it ends, the job ends at once; borrowed */
    int notes;         /* further lines to print among those of the ranks; borrowed; -1: none */
    int news;          /* an eventfd, set when a presence has changed; borrowed; -1: none */
    const nx_ranks_ops *ops;
    const struct nx_ranks_far *far; /* NULL: ranks are children of this process */
    size_t far_polls;
    void *ctx;
} nx_ranks_config;

/* The result of a job. */
typedef struct nx_ranks_result {
    int code;        /* 0, or the code of the first failed rank (128 + signal) */
    int64_t rank;    /* the failed rank; -1: none, or elastic and some succeeded */
    int ended_by;    /* the first signal to this process; 0: none */
    int output_lost; /* errno of the failed write of our own output; 0: none failed */
} nx_ranks_result;

/*
 * Starts the ranks and returns when the ranks and all their child processes have ended. The first
 * failed rank, or a signal to this process, ends the others. They get SIGTERM (or the signal),
 * and SIGKILL after the grace time or a second signal. The output of a rank is passed on before
 * the line on stderr that names its failure, and all output before the return. Only a third
 * signal, or the end of |life|, drops output without a reader. With |elastic| a failed rank does
 * not end the others.
 *
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     The job could not be started; no rank runs.
 * NEXAR_EINVAL
 *     The program cannot be run: the message says why.
 */
NX_MUST_CHECK nexar_err nx_ranks_run(const nx_ranks_config *config, nx_ranks_result *result);

#endif /* NX_RANKS_H */
