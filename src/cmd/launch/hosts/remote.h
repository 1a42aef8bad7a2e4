/*
 * remote.h - a world on several hosts: a seed here, and on each host an agent that starts ranks.
 *
 * All hosts are checked before a rank is started. Each unusable host is reported with the reason.
 */
#ifndef NX_REMOTE_H
#define NX_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/launch/local.h"
#include "host_list.h"
#include "ssh.h"

typedef struct nx_remote {
    const nx_local *local; /* what to run, and how; |n| is ignored */
    nx_host_list *hosts;   /* with ranks: nx_host_list_assign */
    nx_shell shell;
    uint64_t host_timeout_ns; /* a host that is silent for this time counts as lost */
} nx_remote;

/* Starts the job and returns when all ranks have ended. Returns an exit code, as nx_local_run; 2
 * if a host cannot run the program, 1 if one cannot be reached or is lost. */
int nx_remote_run(nx_remote *job);

#endif /* NX_REMOTE_H */
