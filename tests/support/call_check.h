/*
 * call.h - one collective call on all ranks, as the application makes it:
 * buffers, blocks, who is in place.  The oracle reads it; the world (world.h)
 * makes an nx_coll per rank of it.
 */
#ifndef NXT_CALL_CHECK_H
#define NXT_CALL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

typedef enum nxt_place {
    NXT_APART,    /* every rank has a send buffer */
    NXT_IN_PLACE, /* all that may are in place */
    NXT_MIXED,    /* each that may, or may not */
    NXT_PLACES
} nxt_place;

typedef struct nxt_call {
    nx_coll_kind kind;
    uint32_t size, root;
    size_t count;
    bool *in_place;              /* per rank */
    size_t *send_len, *recv_len; /* per rank: elements of its buffers */
    /* The v forms: what each rank passes, a row of |size| per rank.  Ranks that
     * have nothing to pass (gatherv and scatterv, non-roots) pass nonsense. */
    size_t *counts, *displs;
    size_t *send_counts, *send_displs; /* alltoallv */
} nxt_call;

/* |seed| draws the blocks of v forms: zeros among them, in any order, with gaps
 * (but reduce_scatterv, whose blocks lie one behind the other), of |count|
 * elements on average. */
void nxt_call_init(nxt_call *call, nx_coll_kind kind, uint32_t size, uint32_t root, size_t count,
                   nxt_place place, uint64_t seed);
void nxt_call_fini(nxt_call *call);

/* Whether |rank| may be in place in this kind of collective. */
bool nxt_may_be_in_place(nx_coll_kind kind, bool is_root);
bool nxt_is_v(nx_coll_kind kind);

/* Block |b| of |rank|'s parts: where and how long; any kind with blocks. */
nx_span nxt_call_block(const nxt_call *call, uint32_t rank, uint32_t b);
/* Block |b| of what |rank| sends in an alltoall(v). */
nx_span nxt_call_send_block(const nxt_call *call, uint32_t rank, uint32_t b);

#endif /* NXT_CALL_CHECK_H */
