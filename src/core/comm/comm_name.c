/* comm_name.c - names of communicators, for people. */
#include <stdio.h>
#include <string.h>

#include "base/os/cancellation.h"
#include "comm.h"
#include "core/world/fork_guard.h"

void nx_comm_name_child(nexar_comm *child, nexar_comm *parent, const char *how)
{
    char name[NX_COMM_NAME + 32];

    (void)snprintf(name, sizeof(name), "%s.%s.%u", parent->name, how, ++parent->children);
    memcpy(child->name, name, sizeof(child->name) - 1);
    child->name[sizeof(child->name) - 1] = '\0';
}

const char *nx_comm_on(const nexar_comm *comm, char *buf)
{
    const bool world = (comm == comm->world->comm);

    (void)snprintf(buf, NX_COMM_ON, "%s%s", world ? "" : " on ", world ? "" : comm->name);
    return buf;
}

nexar_err nexar_comm_set_name(nexar_comm *comm, const char *name)
{
    NX_NOT_CANCELLED;
    nexar_err err;

    if ((comm == NULL) || (name == NULL)) {
        return nx_fail(NEXAR_EINVAL, "comm_set_name: %s is NULL", (comm == NULL) ? "comm" : "name");
    }
    err = nx_fork_guard_check("comm_set_name", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if (strlen(name) >= NX_COMM_NAME) {
        return nx_fail(NEXAR_EINVAL,
                       "comm_set_name: the name has %zu bytes; at most %d are accepted",
                       strlen(name), NX_COMM_NAME - 1);
    }
    nx_loop_lock(comm->world->loop);
    (void)snprintf(comm->name, sizeof(comm->name), "%s", name);
    nx_loop_unlock(comm->world->loop);
    return NEXAR_OK;
}

const char *nexar_comm_name(const nexar_comm *comm)
{
    return (comm == NULL) ? "" : comm->name;
}
