/* spawn.h - starts one rank: a process with its environment, pipes and group. */
#ifndef NX_SPAWN_H
#define NX_SPAWN_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

typedef struct nx_spawn {
    char **argv;
    const char *join;
    uint32_t rank, size;
    bool pipes;                 /* give it pipes for its output */
    int input;                  /* what it reads; -1: nothing */
    const struct rlimit *files; /* the limit of descriptors it is to have */

    /* What came of it; descriptors are ours, close-on-exec, -1: none. */
    pid_t pid;
    int out, err;
} nx_spawn;

/* NEXAR_EINVAL: argv[0] cannot be run; NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_spawn_rank(nx_spawn *s);

#endif /* NX_SPAWN_H */
