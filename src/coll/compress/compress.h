/*
 * compress.h - the allreduce that sends less than the tensor, as one rank computes it.
 *
 * Between its computations stand plain collectives, which others run: this part has
 * no network, no lock and no thread of its own.
 *
 *     nx_compress_create(&c, &call);
 *     while (nx_compress_next(c, &e) == NEXAR_OK && e.kind != NX_COLL_KINDS)
 *         ... run the collective |e| with the other ranks ...
 *     nx_compress_destroy(c);
 *
 * With x = buf + residual on each rank (x = buf without a residual), the sum of what
 * all ranks end with in their residuals and of the result (times the ranks, for an
 * average) is the sum of the x, but for rounding in the type that is computed in.
 * docs/guide/compression.md has the formulas of each method, its bytes and its memory.
 *
 *   NONE, RANDOMK      allreduce of all elements, or of k that all ranks pick alike
 *   F16, BF16, INT8    encode; alltoallv of shards; sum, encode; allgatherv
 *   TOPK               alltoall of sizes, alltoallv; sum; allgather of sizes, allgatherv
 *
 * All ranks end with the same bits in |buf|.  Until the last computation neither |buf|
 * nor |residual| is written, so an error before leaves them as they were; but NONE
 * without a residual reduces in |buf| itself.
 */
#ifndef NX_COMPRESS_H
#define NX_COMPRESS_H

#include "base/error.h"
#include "coll/coll.h"

typedef struct nx_compress nx_compress;

typedef struct nx_compress_call {
    void *buf, *residual; /* count elements each; residual NULL: no feedback */
    size_t count;
    nexar_dtype dtype; /* f32, f64, f16, bf16 */
    nexar_op op;       /* SUM, AVG */
    nexar_compression how;
    double ratio; /* TOPK, RANDOMK: in (0, 1]; the others do not look at it */
    uint32_t rank, size;
    uint64_t seed; /* RANDOMK: the same on all ranks, another for each call */
} nx_compress_call;

/* "none", "topk", ...; "?" for what is no method. */
const char *nx_compress_name(nexar_compression how);

/* How many elements TOPK and RANDOMK send: ceil(ratio * count) in f64, at least 1 and at
 * most count; 0 of 0.  All elements for the other methods. */
size_t nx_compress_k(nexar_compression how, double ratio, size_t count);

/*
 * Looks at what the application has passed.
 *
 * NEXAR_EINVAL
 *     Another dtype, op or method, a ratio outside of (0, 1] where it matters, no |buf|,
 *     a residual that overlaps it, more bytes than a size_t holds.
 */
NX_MUST_CHECK nexar_err nx_compress_check(const nx_compress_call *call);

/*
 * A collective to run.  |kind| is NX_ALLREDUCE, NX_ALLTOALL, NX_ALLTOALLV, NX_ALLGATHER
 * or NX_ALLGATHERV; |count|, |dtype| and |op| are what the public call of that name
 * says.  |send| is NULL in place.  Counts and displacements are of the v forms, one for
 * each rank.  All memory is the nx_compress's, or the caller's |buf|, and stays.
 */
typedef struct nx_exchange {
    nx_coll_kind kind; /* NX_COLL_KINDS: none, the call is over */
    nexar_dtype dtype;
    nexar_op op;
    const void *send;
    void *recv;
    size_t count;                            /* of allgatherv: what this rank gives */
    const size_t *send_counts, *send_displs; /* alltoallv */
    const size_t *recv_counts, *recv_displs; /* alltoallv, allgatherv */
} nx_exchange;

/* How many collectives nx_compress_next() asks for, on every rank: at most
 * NX_COMPRESS_EXCHANGES. */
enum { NX_COMPRESS_EXCHANGES = 4 };
unsigned nx_compress_exchanges(nexar_compression how);

/* For a call that nx_compress_check() has passed; |call| is copied, its memory held until
 * the end.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_compress_create(nx_compress **out, const nx_compress_call *call);
void nx_compress_destroy(nx_compress *c); /* NULL is allowed */

/*
 * Computes up to the next collective, the one before it being over; takes as long as a
 * few passes over the tensor.  In any thread, in one at a time.  After an error only
 * nx_compress_destroy() is left.
 *
 * NEXAR_ENOMEM
 * NEXAR_EPROTO
 *     What another rank has sent is no encoding.
 */
NX_MUST_CHECK nexar_err nx_compress_next(nx_compress *c, nx_exchange *e);

/* The most bytes that |c| has held at one time. */
size_t nx_compress_memory(const nx_compress *c);

#endif /* NX_COMPRESS_H */
