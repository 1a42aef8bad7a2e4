/* spawn.h - starts one process: its environment, directory, cores, output and group. */
#ifndef NX_SPAWN_H
#define NX_SPAWN_H

#include <sched.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"

typedef enum nx_spawn_output {
    NX_SPAWN_INHERIT, /* the process writes to our stdout and stderr */
    NX_SPAWN_PIPES,   /* a pipe each */
    NX_SPAWN_PTY      /* stdout is a pty; stderr, which no C library buffers, a pipe */
} nx_spawn_output;

typedef struct nx_spawn {
    char **argv;            /* ends with NULL */
    const char *const *env; /* "NAME=VALUE", ends with NULL: added to the environment */
    const cpu_set_t *cpus;  /* the affinity mask; NULL: inherited */
    int cwd;                /* the directory to start in; -1: inherited */
    int input;              /* its stdin; -1: none */
    nx_spawn_output output;
    const struct winsize *window; /* of its pty; NULL: no size */
    const struct rlimit *files;   /* its limit of descriptors */

    /* The result.  Descriptors are the caller's, close-on-exec and do not block; -1: none. */
    pid_t pid;
    int out, err;
    int no_pty; /* errno if no pty could be opened and stdout is a pipe; 0: none */
} nx_spawn;

/* Starts the process in its own process group. |s| is borrowed until the call returns.
 * NEXAR_EINVAL: argv[0] cannot be run; NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_spawn_start(nx_spawn *s);

#endif /* NX_SPAWN_H */
