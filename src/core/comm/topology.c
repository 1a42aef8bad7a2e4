/* topology.c - the hosts on which the ranks of a communicator run. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/cancellation.h"
#include "comm.h"
#include "core/world/fork_guard.h"

/* The name of the host of |rank|; a world without a view is this process alone. */
static void name_host(const nx_incarnation *inc, uint32_t rank, char name[NX_HOST_NAME_MAX])
{
    const nx_view *view = inc->world->view;
    const nx_member *m = (view == NULL) ? NULL : nx_view_slot(view, nx_incarnation_peer(inc, rank));

    memset(name, 0, NX_HOST_NAME_MAX);
    if (view == NULL) {
        (void)gethostname(name, NX_HOST_NAME_MAX - 1);
    } else if (m != NULL) {
        (void)snprintf(name, NX_HOST_NAME_MAX, "%s", m->host);
    }
}

static void locate(const nx_incarnation *inc, uint32_t rank, nexar_host *where)
{
    const nx_hosts *hosts = inc->hosts;
    const uint32_t host = nx_hosts_of(hosts, rank);

    _Static_assert(sizeof(where->name) == NX_HOST_NAME_MAX, "names fit");
    *where = (nexar_host){.host = (int)host,
                          .hosts = (int)nx_hosts_n(hosts, inc->size),
                          .local_rank = (int)nx_hosts_place(hosts, rank),
                          .local_size = (int)nx_hosts_count(hosts, host),
                          .leader = (int)nx_hosts_rank(hosts, host, 0)};
    name_host(inc, rank, where->name);
}

nexar_err nexar_comm_host(nexar_comm *comm, int rank, nexar_host *where)
{
    NX_NOT_CANCELLED;
    nexar_err err = NEXAR_OK;

    if ((comm == NULL) || (where == NULL)) {
        return nx_fail(NEXAR_EINVAL, "comm_host: %s is NULL", (comm == NULL) ? "comm" : "where");
    }
    err = nx_fork_guard_check("comm_host", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if ((rank < 0) || (rank >= nexar_size(comm))) {
        return nx_fail(NEXAR_EINVAL, "comm_host: there is no rank %d; ranks are 0 to %d", rank,
                       nexar_size(comm) - 1);
    }
    nx_loop_lock(comm->world->loop);
    if (comm->inc != comm->active) {
        err = nx_fail(NEXAR_EREVOKED, "comm_host: the communicator was rebuilt for a request; wait "
                                      "for its requests first");
    } else {
        locate(comm->inc, (uint32_t)rank, where);
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}
