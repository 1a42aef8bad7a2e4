/* local.h - local processes as ranks: of a world of their own, or of a cluster elsewhere. */
#ifndef NX_LOCAL_H
#define NX_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/launch/ranks/ranks.h"
#include "cmd/options.h"

typedef struct nx_local {
    const char *command; /* the command that speaks, in messages: "run" */
    uint64_t n;
    uint64_t grace_ns;     /* between asking ranks to end and killing them */
    bool prefix;           /* their output by line, with the rank before it; else as it is */
    bool pty;              /* and through a pty, so that programs flush each line */
    bool elastic;          /* one that fails does not end the others */
    bool joins;            /* they join the cluster that NEXAR_JOIN names: no seed of their own */
    bool bind;             /* each on a core of its own */
    const nx_words *env;   /* "NAME=VALUE", for their environment; may be NULL */
    const char *cwd;       /* the directory to start in; NULL: this one */
    char **argv;           /* ends with NULL */
    const char *join_file; /* where to write the join string; NULL: nowhere */
} nx_local;

/* Starts them and stays until all have ended.  Returns an exit code: 0, that of
 * the first rank that failed (128 + signal), or of what went wrong here. */
int nx_local_run(nx_local *local);

/* The exit code that tells of |result|; says on stderr that output was lost. */
int nx_local_code(const char *command, const nx_ranks_result *result);

#endif /* NX_LOCAL_H */
