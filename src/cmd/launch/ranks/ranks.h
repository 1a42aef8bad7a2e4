/*
 * ranks.h - local processes as ranks: start, output, signals, end.
 *
 * Each rank is a process group of its own.  Rank 0 gets the input, the others
 * have none.  All runs in one thread, around poll.
 */
#ifndef NX_RANKS_H
#define NX_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "spawn.h"

/* What the seed knows of the process that was started as a rank. */
typedef enum nx_presence {
    NX_PRESENCE_NONE,      /* it has not joined, or there is no seed to ask */
    NX_PRESENCE_JOINED,    /* it is a member */
    NX_PRESENCE_FINALIZED, /* it has called nexar_finalize */
    NX_PRESENCE_LOST       /* its connection has gone without that */
} nx_presence;

/* How ranks.c asks the owner of the job; from its own thread, none of these blocks for long. */
typedef struct nx_ranks_ops {
    /* Fills in what to start as |rank|: argv, env, cpus, cwd.  What it points to stays valid
     * until the next call. */
    void (*describe)(void *ctx, uint32_t rank, nx_spawn *s);
    /* NULL: never anything but NX_PRESENCE_NONE. */
    nx_presence (*presence)(void *ctx, uint32_t rank);
    /* Writes who has joined and who is missing, one line, and returns true, if the world has not
     * formed.  NULL: it is not known. */
    bool (*situation)(void *ctx, char *text, size_t size);
} nx_ranks_ops;

struct nx_ranks_far;

typedef struct nx_ranks_config {
    const char *command; /* "run": the command that speaks, in messages */
    const char *noun;    /* "rank", in messages */
    uint32_t n;
    nx_spawn_output output; /* not NX_SPAWN_INHERIT: by line, with the rank before each */
    bool colour_out, colour_err;
    uint64_t grace_ns; /* between asking ranks to end and killing them */
    bool elastic;      /* one that fails does not end the others */
    int input;         /* for rank 0; ours to close */
    int life;          /* when it ends, all is to end at once; borrowed */
    int notes;         /* lines of others to print among those of the ranks; borrowed; -1: none */
    int news;          /* an eventfd that says that a presence has changed; borrowed; -1: none */
    const nx_ranks_ops *ops;
    const struct nx_ranks_far *far; /* NULL: ranks are children of this process */
    size_t far_polls;
    void *ctx;
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
 * (or the signal), and SIGKILL after the grace time or a second signal.  What a rank has
 * printed is passed on before the line on stderr that names its failure, and all of it before
 * the return; only a third signal, or the end of |life|, drops what nobody reads.  With
 * |elastic| a rank that fails ends no other.
 *
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     It could not be started; nothing runs.
 * NEXAR_EINVAL
 *     The program cannot be run: the sentence says why.
 */
NX_MUST_CHECK nexar_err nx_ranks_run(const nx_ranks_config *config, nx_ranks_result *result);

#endif /* NX_RANKS_H */
