/* local.h - local processes as ranks, of their own world or of an existing cluster. */
#ifndef NX_LOCAL_H
#define NX_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/launch/ranks/ranks.h"
#include "cmd/options.h"

typedef struct nx_local {
    const char *command; /* the command name in messages: "run" */
    uint64_t n;
    uint64_t grace_ns;     /* between asking ranks to end and killing them */
    bool prefix;           /* prints output by line with the rank as prefix; else unchanged */
    bool pty;              /* also through a pty, so that programs flush each line */
    bool elastic;          /* a failed rank does not end the others */
    bool joins;            /* they join the cluster that NEXAR_JOIN names, without their own seed */
    bool bind;             /* binds each rank to its own core */
    const nx_words *env;   /* "NAME=VALUE", for their environment; may be NULL */
    const char *cwd;       /* the directory to start in; NULL: the current one */
    char **argv;           /* ends with NULL */
    const char *join_file; /* file that gets the join string; NULL: none */
} nx_local;

/* Starts the ranks and returns when all have ended. Returns an exit code: 0, the code of the
 * first failed rank (128 + signal), or the code of an error of the launcher. */
int nx_local_run(nx_local *local);

/* The exit code for |result|; reports lost output on stderr. */
int nx_local_code(const char *command, const nx_ranks_result *result);

#endif /* NX_LOCAL_H */
