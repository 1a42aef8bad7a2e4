/*
 * coll_args.h - checks the arguments of a collective call, and converts them for the engine.
 *
 * Errors that one rank can detect alone are reported here, before anything is sent: the
 * communicator stays usable.
 */
#ifndef NX_COLL_ARGS_H
#define NX_COLL_ARGS_H

#include "coll/coll_call.h"
#include "core/comm/comm.h"

/* As the application gave them; |kind| determines the meaning of the counts. */
typedef struct nx_coll_args {
    const char *name; /* "iallreduce", for sentences */
    nexar_comm *comm;
    nx_incarnation *inc; /* with retry=on: on which it is run; NULL: comm->inc */
    nx_coll_kind kind;
    nx_variant guise;
    const void *send;
    void *recv;
    size_t count; /* also sendcount and recvcount of v forms */
    nexar_dtype dtype;
    nexar_op op;
    int root;
    const size_t *counts, *displs;           /* of the side that has many blocks */
    const size_t *send_counts, *send_displs; /* alltoallv */
    const nexar_tensor *tensors;             /* bucketed: NULL means none */
    size_t ntensors;
    nexar_shard_fn on_shard; /* rs_ag */
    bool host_memory;        /* whatever device |comm| has: the library's own calls */
} nx_coll_args;

/* A checked call.  |made| is its own memory, freed with nx_coll_args_done() when the run was
 * made. */
typedef struct nx_coll_checked {
    nx_coll_call call;
    size_t *made;
} nx_coll_checked;

/*
 * NEXAR_EINVAL
 *     The message names the argument and what is accepted.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_coll_args_check(const nx_coll_args *a, nx_seat at, nx_coll_checked *out);
void nx_coll_args_done(nx_coll_checked *c);
/* Whether |counts|, and in alltoallv |send_counts|, are read of |a|. */
bool nx_coll_has_blocks(const nx_coll_args *a, nx_seat at);

#endif /* NX_COLL_ARGS_H */
