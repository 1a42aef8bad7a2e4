/* run_hosts.h - the hosts of `nexar run`, from its options or from Slurm. */
#ifndef NX_RUN_HOSTS_H
#define NX_RUN_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/launch/local.h"
#include "host_list.h"

#define NX_HOST_TIMEOUT     UINT64_C(30000000000)
#define NX_HOST_TIMEOUT_MIN UINT64_C(10000000)
#define NX_HOST_TIMEOUT_MAX UINT64_C(86400000000000)

/* The values of the options. */
typedef struct nx_run_hosts {
    const char *list, *file; /* NULL: not given */
    const char *ssh, *nexar;
    uint64_t timeout_ns;
} nx_run_hosts;

/* Whether agents run the ranks: hosts were given, or this is an allocation of Slurm. */
bool nx_run_hosts_wanted(const nx_run_hosts *h);

/* Runs |local| on these hosts.  Returns an exit code. */
int nx_run_hosts_run(const nx_run_hosts *h, const nx_local *local);

#endif /* NX_RUN_HOSTS_H */
