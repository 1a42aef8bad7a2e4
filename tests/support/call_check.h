/*
 * call_check.h - one collective call on all ranks, as the application makes it: buffers, blocks,
 * in-place ranks. The oracle reads it; world_fixture.h derives an nx_coll per rank from it.
 */
#ifndef NXT_CALL_CHECK_H
#define NXT_CALL_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/coll.h"

typedef enum nxt_place {
    NXT_APART,    /* every rank has a send buffer */
    NXT_IN_PLACE, /* all ranks that may be in place are */
    NXT_MIXED,    /* each such rank at random */
    NXT_PLACES
} nxt_place;

typedef struct nxt_call {
    nx_coll_kind kind;
    uint32_t size, root;
    size_t count;
    bool *in_place;              /* per rank */
    size_t *send_len, *recv_len; /* per rank: elements of its buffers */
    /* The v forms: the arguments of each rank, a row of |size| per rank. Ranks whose arguments
     * are ignored (non-roots of gatherv and scatterv) pass invalid values. */
    size_t *counts, *displs;
    size_t *send_counts, *send_displs; /* alltoallv */
} nxt_call;

/* |seed| draws the blocks of v forms: of |count| elements on average, some empty, in any order,
 * with gaps (except reduce_scatterv, whose blocks are contiguous). */
void nxt_call_init(nxt_call *call, nx_coll_kind kind, uint32_t size, uint32_t root, size_t count,
                   nxt_place place, uint64_t seed);
void nxt_call_fini(nxt_call *call);

/* Whether |rank| may be in place in this kind of collective. */
bool nxt_may_be_in_place(nx_coll_kind kind, bool is_root);
bool nxt_is_v(nx_coll_kind kind);

/* Offset and length of block |b| of |rank|'s parts, for any kind with blocks. */
nx_span nxt_call_block(const nxt_call *call, uint32_t rank, uint32_t b);
/* Block |b| of the send buffer of |rank| in an alltoall(v). */
nx_span nxt_call_send_block(const nxt_call *call, uint32_t rank, uint32_t b);

#endif /* NXT_CALL_CHECK_H */
