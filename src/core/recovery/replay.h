/*
 * replay.h - a collective call that may have to be run again, by those who are left of its
 * communicator: what is kept of it, and what becomes of its arguments.
 *
 * Buffers keep the layout of the call as it was made.  Blocks of ranks that are gone are
 * neither read nor written; those of the others stay where they are.  So a call with a
 * block for each rank becomes its v form with the blocks of those who are left; and
 * reduce_scatter, whose blocks lie one behind the other, works on a copy without the others.
 *
 * What is kept: memory that holds an input and gets a result, and blocks that are received:
 * whoever fails may have written a part of its own, which is then put back as it was.
 */
#ifndef NX_REPLAY_H
#define NX_REPLAY_H

#include "cluster/rankset.h"
#include "core/coll/coll_args.h"

typedef struct nx_replay {
    nx_coll_args now; /* the call as it is to be run, on ... */
    uint32_t size;    /* ... so many, as ... */
    uint32_t rank;    /* ... this one */

    /* Of a call in blocks, by rank: where they lie in the buffer that has many. */
    size_t *counts, *displs;           /* owned */
    size_t *send_counts, *send_displs; /* alltoall */

    const nexar_tensor *pieces; /* what is put back, in the order of |copy| */
    size_t npieces;
    nexar_tensor *owned; /* |pieces|, where there may be many */
    nexar_tensor one;
    uint8_t *copy; /* in nx_kept: the pieces; or the input of reduce_scatter, if it is ... */
    bool loaded;   /* ... there */
    void *result;  /* behind |copy|: of reduce_scatter, for the memory of a device; or NULL */
    void *recv;    /* that of the call as it was made */
    nx_devmem mem; /* held; none: host memory */
} nx_replay;

/*
 * Keeps what running |a|, which was checked, again may need, which was called for |at|.  Its arrays
 * and memory are borrowed until nx_replay_fini, and so is |kept|, where copies are made.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 */
NX_MUST_CHECK nexar_err nx_replay_init(nx_replay *r, const nx_coll_args *a, nx_seat at,
                                       nx_kept *kept);
void nx_replay_fini(nx_replay *r);

/*
 * |now| becomes a call on what is left without |failed|, in which neither this rank nor its
 * root is; nx_replay_restore comes before it is run.  As often as some fail.
 */
void nx_replay_shrink(nx_replay *r, const nx_rankset *failed);

/* Puts memory back as it was, for |now| to be run.  NEXAR_EDEVICE */
NX_MUST_CHECK nexar_err nx_replay_restore(nx_replay *r);
/* |now|, run after that, has ended well: its result goes where it belongs.  NEXAR_EDEVICE */
NX_MUST_CHECK nexar_err nx_replay_deliver(const nx_replay *r);

#endif /* NX_REPLAY_H */
