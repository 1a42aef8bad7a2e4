/* local.h - a world on this machine: a seed of its own, and local processes as ranks. */
#ifndef NX_LOCAL_H
#define NX_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nx_local {
    const char *command; /* who speaks, in messages: "run" */
    uint64_t n;
    uint64_t grace_ns;     /* between asking ranks to end and killing them */
    bool prefix;           /* their output by line, with the rank before it; else as it is */
    bool pty;              /* and through a pty, so that programs flush each line */
    bool elastic;          /* one that fails does not end the others */
    char **argv;           /* ends with NULL */
    const char *join_file; /* where to write the join string; NULL: nowhere */
} nx_local;

/* Starts it and stays until all ranks have ended.  Returns an exit code: 0, that of
 * the first rank that failed (128 + signal), or of what went wrong here. */
int nx_local_run(nx_local *job);

#endif /* NX_LOCAL_H */
