/* comm.c - communicators. */
#include "core/comm.h"

#include "base/alloc.h"

nexar_err nx_comm_create_world(nx_world *world, nexar_comm **out)
{
    nexar_comm *comm = nx_zalloc(sizeof(*comm));

    if (comm == NULL) {
        return nx_fail_nomem("a communicator");
    }
    comm->world = world;
    comm->rank = world->rank;
    comm->size = world->size;
    comm->holds = 1;
    nx_list_init(&comm->link);
    *out = comm;
    return NEXAR_OK;
}

static void destroy(nexar_comm *comm)
{
    if (comm != NULL) {
        nx_list_remove(&comm->link);
        nx_free(comm->peers);
        nx_free(comm);
    }
}

void nx_comm_hold(nexar_comm *comm)
{
    comm->holds++;
}

void nx_comm_release(nexar_comm *comm)
{
    if (--comm->holds == 0) {
        destroy(comm);
    }
}

void nx_comms_free(nx_world *world)
{
    while (!nx_list_empty(&world->comms)) {
        destroy(nx_list_entry(world->comms.next, nexar_comm, link));
    }
    destroy(world->comm);
}

uint32_t nx_comm_rank_of(const nexar_comm *comm, uint32_t peer)
{
    uint32_t rank = 0;

    if (comm->peers == NULL) {
        return peer;
    }
    while (comm->peers[rank] != peer) {
        rank++;
    }
    return rank;
}

int nx_comm_find_peer(const nexar_comm *comm, uint32_t peer)
{
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (((comm->peers == NULL) ? rank : comm->peers[rank]) == peer) {
            return (int)rank;
        }
    }
    return -1;
}

int nexar_rank(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->rank;
}

int nexar_size(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->size;
}
