/*
 * coll.h - the parameters of a collective call, as its algorithm sees them.
 *
 * A builder is a pure function of an nx_coll and of the data it points to. It adds steps to a
 * schedule and has no other effect. It works for any size >= 1, any host map and any count >= 0,
 * and seals the schedule last.
 */
#ifndef NX_COLL_H
#define NX_COLL_H

#include "coll/hosts.h"
#include "coll/sched.h"
#include "coll/split.h"

typedef enum nx_coll_kind {
    NX_BARRIER,
    NX_BROADCAST,
    NX_REDUCE,
    NX_ALLREDUCE,
    NX_ALLGATHER,
    NX_GATHER,
    NX_SCATTER,
    NX_REDUCE_SCATTER,
    NX_ALLTOALL,
    NX_SCAN,
    NX_EXSCAN,
    NX_ALLGATHERV,
    NX_GATHERV,
    NX_SCATTERV,
    NX_REDUCE_SCATTERV,
    NX_ALLTOALLV,
    NX_COLL_KINDS
} nx_coll_kind;

/* "allreduce", ...; never NULL for a kind. */
const char *nx_coll_name(nx_coll_kind kind);
/* The kind with name |name|; NX_COLL_KINDS if unknown. */
nx_coll_kind nx_coll_find(const char *name);
/* Whether the kind combines elements with an operation. */
bool nx_coll_reduces(nx_coll_kind kind);
/* Whether the kind has a root. */
bool nx_coll_rooted(nx_coll_kind kind);
/* Whether a buffer of the kind has a block for each rank. */
bool nx_coll_in_blocks(nx_coll_kind kind);
/* Whether only sender and receiver know the length of a block. */
bool nx_coll_private(nx_coll_kind kind);

typedef struct nx_distribution nx_distribution; /* coll/distribution/distribution.h */

/*
 * |count| has the meaning of the public call of that name: the vector of broadcast, reduce,
 * allreduce, scan and exscan. In allgather and gather it is each rank's contribution, in scatter
 * and reduce_scatter each rank's result, in alltoall the block for each rank.
 *
 * The v forms have their blocks in |parts|: for allgatherv, gatherv and alltoallv their positions
 * in the receive buffer; for scatterv and reduce_scatterv in the send buffer. alltoallv sends from
 * |send_parts|. The other kinds ignore both. In gatherv and scatterv only the root knows |parts|;
 * the others have |count| for their own block, and so has the root.
 *
 * The buffer of a broadcast is NX_SPACE_RECV on every rank, the root too. The buffers are those of
 * the public call. A non-root of reduce and gather has no NX_SPACE_RECV, and a non-root of scatter
 * no NX_SPACE_SEND. In place there is no NX_SPACE_SEND at all.
 */
typedef struct nx_coll {
    nx_coll_kind kind;
    uint32_t rank, size;
    const nx_hosts *hosts; /* host of each rank, borrowed; NULL: one host per rank */
    uint32_t root;
    size_t count;
    nx_split parts, send_parts;
    const nx_distribution *distribution; /* instead of what |kind| says; may be NULL; borrowed */
    bool in_place;                       /* the input is in NX_SPACE_RECV, as NEXAR_IN_PLACE says */
    bool average; /* the operation is NEXAR_AVG: divide once, before the result is distributed */
    bool hook;    /* allreduce by rs_ag: call the caller's hook on the shard */
    bool heard;   /* no rank completes before it has heard, directly or indirectly, from every
                     other rank; legal if nx_algorithm.hears. For an nx_coll_private kind, also
                     that every rank has received what it expects */
} nx_coll;

/* Start of this rank's input. */
static inline nx_ref nx_coll_input(const nx_coll *c)
{
    return nx_at(c->in_place ? NX_SPACE_RECV : NX_SPACE_SEND, 0);
}

/* The blocks of a collective with one block per rank, v form or not. */
nx_split nx_coll_blocks(const nx_coll *c);

typedef nexar_err (*nx_builder)(nx_sched *s, const nx_coll *c);

#endif /* NX_COLL_H */
