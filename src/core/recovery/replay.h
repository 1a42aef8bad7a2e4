/*
 * replay.h - a collective call that the survivors of its communicator may have to run again: what
 * is saved, and how its arguments change.
 *
 * Buffers keep the layout of the original call.  Blocks of failed ranks are neither read nor
 * written; the others keep their positions.  So a call with a block for each rank becomes its v
 * form with the blocks of the survivors.  Reduce_scatter, whose blocks are contiguous, works on a
 * copy without the failed ranks' blocks.
 *
 * What is saved: memory that holds an input and gets a result, and received blocks: a failed
 * attempt may have overwritten a part of them, which is then restored.
 */
#ifndef NX_REPLAY_H
#define NX_REPLAY_H

#include "cluster/rankset.h"
#include "core/coll/coll_args.h"

typedef struct nx_replay {
    nx_coll_args now; /* the call as it is to be run, on ... */
    uint32_t size;    /* ... this many, as ... */
    uint32_t rank;    /* ... this one */

    /* Of a call in blocks, by rank: their positions in the buffer with all blocks. */
    size_t *counts, *displs;           /* owned */
    size_t *send_counts, *send_displs; /* alltoall */

    const nexar_tensor *pieces; /* what is put back, in the order of |copy| */
    size_t npieces;
    nexar_tensor *owned; /* |pieces|, if there may be many */
    nexar_tensor one;
    uint8_t *copy; /* in nx_kept: the pieces; or the input of reduce_scatter, if it is ... */
    bool loaded;   /* ... there */
    void *result;  /* after |copy|: for reduce_scatter on device memory; or NULL */
    void *recv;    /* that of the call as it was made */
    nx_devmem mem; /* a reference; none: host memory */
} nx_replay;

/*
 * Saves what running |a|, which was checked for |at|, again may need.  Its arrays and memory are
 * borrowed until nx_replay_fini, and so is |kept|, which holds the copies.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 */
NX_MUST_CHECK nexar_err nx_replay_init(nx_replay *r, const nx_coll_args *a, nx_seat at,
                                       nx_kept *kept);
void nx_replay_fini(nx_replay *r);

/*
 * |now| becomes the call of the ranks without |failed|, which must not include this rank or the
 * root; nx_replay_restore precedes its run.  May be repeated.
 */
void nx_replay_shrink(nx_replay *r, const nx_rankset *failed);

/* Restores memory for a run of |now|.  NEXAR_EDEVICE */
NX_MUST_CHECK nexar_err nx_replay_restore(nx_replay *r);
/* |now|, run after that, has succeeded: moves its result to the caller's buffers.  NEXAR_EDEVICE */
NX_MUST_CHECK nexar_err nx_replay_deliver(const nx_replay *r);

#endif /* NX_REPLAY_H */
