/* create_inner.h - a thread that waits in nexar_comm_create. */
#ifndef NX_CREATE_INNER_H
#define NX_CREATE_INNER_H

#include "cluster/creation/creation.h"
#include "core/create/create.h"

typedef struct nx_create_call {
    nx_creation creation;
    nx_world *world;
    nx_event event; /* set when the creation has another state */
} nx_create_call;

#endif /* NX_CREATE_INNER_H */
