/* run_hosts.c - finds the hosts of a job and runs the job there. */
#include "run_hosts.h"

#include <stddef.h>

#include "cmd/cmd.h"
#include "remote.h"
#include "slurm.h"

bool nx_run_hosts_wanted(const nx_run_hosts *h)
{
    return (h->list != NULL) || (h->file != NULL) || nx_slurm_allocated();
}

static nexar_err find_hosts(const nx_run_hosts *h, uint64_t n, nx_host_list *list)
{
    nexar_err err = NEXAR_OK;

    if ((h->list == NULL) && (h->file == NULL)) {
        err = nx_slurm_hosts(list, n);
    }
    if (h->list != NULL) {
        err = nx_host_list_parse(list, h->list);
    }
    if ((err == NEXAR_OK) && (h->file != NULL)) {
        err = nx_host_list_read(list, h->file);
    }
    return (err == NEXAR_OK) ? nx_host_list_assign(list, n) : err;
}

int nx_run_hosts_run(const nx_run_hosts *h, const nx_local *local)
{
    const bool given = (h->list != NULL) || (h->file != NULL);
    nx_host_list hosts = {0};
    nx_remote job = {
        .local = local,
        .hosts = &hosts,
        .shell = {given ? NX_SHELL_SSH : NX_SHELL_SRUN, h->ssh, h->nexar},
        .host_timeout_ns = h->timeout_ns,
    };
    const nexar_err err = find_hosts(h, local->n, &hosts);
    const int code = (err == NEXAR_OK) ? nx_remote_run(&job) : nx_cmd_error(local->command, err);

    nx_host_list_fini(&hosts);
    return code;
}
