/*
 * guardian.h - a process that outlives us, to end what we started if we are
 * killed.
 *
 * It holds one end of a pipe and learns the process groups to end through it.
 * When the other end closes without a good-bye, we are gone: it kills them.
 */
#ifndef NX_GUARDIAN_H
#define NX_GUARDIAN_H

#include <sys/types.h>

#include "base/error.h"

typedef struct nx_guardian {
    int pipe; /* our end; close-on-exec */
    pid_t pid;
} nx_guardian;

/* NEXAR_ESYS */
NX_MUST_CHECK nexar_err nx_guardian_start(nx_guardian *g);
void nx_guardian_watch(nx_guardian *g, pid_t group);
/* All is over, nothing is to be killed; waits for the guardian to end. */
void nx_guardian_stop(nx_guardian *g);

#endif /* NX_GUARDIAN_H */
