/* world.c - the life of a world, and its operations as a whole. */
#include "binding.h"

nxp_world *nxp_world_create(nexar_comm *root)
{
    nxp_world *world = PyMem_Calloc(1, sizeof(*world));

    if (world == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    world->root = root;
    world->forks = nxp_forks;
    return world;
}

void nxp_world_release(nxp_world *world)
{
    world->refs--;
    if (world->refs == 0) {
        PyMem_Free(world);
    }
}

/* Completes all requests of |world| whose operations have ended. */
void nxp_world_poll(nxp_world *world)
{
    nxp_op *op = world->ops, *next;

    for (; op != NULL; op = next) {
        next = op->next;
        nxp_op_look(op);
        if (op->done && op->claimed) { /* no Request refers to it */
            nxp_op_free(op);
        }
    }
}
bool nxp_world_settle(nxp_world *world)
{
    nxp_world_poll(world);
    for (nxp_op *op = world->ops; op != NULL; op = op->next) {
        if (op->left && (op->comm != NULL) && (((nxp_comm *)op->comm)->comm != NULL)) {
            (void)nexar_comm_revoke(((nxp_comm *)op->comm)->comm);
        }
    }
    return nxp_jobs_settle(world);
}

void nxp_world_closed(nxp_world *world) /* the requests are freed: none is accessed */
{
    while (world->ops != NULL) {
        nxp_op *op = world->ops;

        op->req = NULL;
        nxp_op_completed(op, NEXAR_ECANCELED,
                         "the world was closed while the operation was pending");
        if (op->claimed) {
            nxp_op_free(op);
        }
    }
}
