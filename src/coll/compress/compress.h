/*
 * compress.h - allreduce with compressed messages: the computations of one rank.
 *
 * Plain collectives, which the caller runs, separate its computations. This part has no network, no
 * lock and no thread.
 *
 *     nx_compress_create(&c, &call);
 *     while (nx_compress_next(c, &e) == NEXAR_OK && e.kind != NX_COLL_KINDS)
 *         ... run the collective |e| with the other ranks ...
 *     nx_compress_destroy(c);
 *
 * Let x = buf + residual on each rank (x = buf without a residual). Then the sum of x over all
 * ranks equals the result (times the number of ranks for an average) plus the sum of the new
 * residuals, up to rounding in the computation type. docs/guide/compression.md has the formulas of
 * each method, its bytes and its memory.
 *
 *   NONE, RANDOMK      allreduce of all elements, or of k that all ranks pick alike
 *   F16, BF16, INT8    encode; alltoallv of shards; sum, encode; allgatherv
 *   TOPK               alltoall of sizes, alltoallv; sum; allgather of sizes, allgatherv
 *
 * All ranks end with identical bits in |buf|. Neither |buf| nor |residual| is written before the
 * last computation, so an earlier error leaves them unchanged. Exception: NONE without a residual
 * reduces in |buf|.
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
    double ratio; /* TOPK, RANDOMK: in (0, 1]; ignored by the others */
    uint32_t rank, size;
    uint64_t seed; /* RANDOMK: equal on all ranks, different for each call */
} nx_compress_call;

/* "none", "topk", ...; "?" if |how| is invalid. */
const char *nx_compress_name(nexar_compression how);

/* The number of elements that TOPK and RANDOMK send: ceil(ratio * count) in f64, at least 1 and at
 * most count; 0 of 0. All elements for the other methods. */
size_t nx_compress_k(nexar_compression how, double ratio, size_t count);

/*
 * Checks the arguments of the application.
 *
 * NEXAR_EINVAL
 *     An unsupported dtype, op or method, a ratio outside of (0, 1] where it matters, no |buf|,
 *     a residual that overlaps it, or a size that overflows size_t.
 */
NX_MUST_CHECK nexar_err nx_compress_check(const nx_compress_call *call);

/*
 * A collective to run. |kind| is NX_ALLREDUCE, NX_ALLTOALL, NX_ALLTOALLV, NX_ALLGATHER or
 * NX_ALLGATHERV; |count|, |dtype| and |op| are as in the public call. |send| is NULL in place.
 * Counts and displacements are those of the v forms, one per rank. All memory belongs to the
 * nx_compress or is the caller's |buf|.
 */
typedef struct nx_exchange {
    nx_coll_kind kind; /* NX_COLL_KINDS: none, the call is complete */
    nexar_dtype dtype;
    nexar_op op;
    const void *send;
    void *recv;
    size_t count;                            /* of allgatherv: this rank's contribution */
    const size_t *send_counts, *send_displs; /* alltoallv */
    const size_t *recv_counts, *recv_displs; /* alltoallv, allgatherv */
} nx_exchange;

/* Bound on the number of collectives that nx_compress_next() requests, on every rank. */
enum { NX_COMPRESS_EXCHANGES = 4 };
unsigned nx_compress_exchanges(nexar_compression how);

/* For a call that has passed nx_compress_check(). |call| is copied; its memory is borrowed until
 * the end.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_compress_create(nx_compress **out, const nx_compress_call *call);
void nx_compress_destroy(nx_compress *c); /* NULL is allowed */

/*
 * Computes up to the next collective, after the previous one has completed. Takes as long as a few
 * passes over the tensor. Any thread, one at a time. After an error only nx_compress_destroy() is
 * legal.
 *
 * NEXAR_ENOMEM
 * NEXAR_EPROTO
 *     Data from another rank is not a valid encoding.
 */
NX_MUST_CHECK nexar_err nx_compress_next(nx_compress *c, nx_exchange *e);

/* Peak memory of |c|, in bytes. */
size_t nx_compress_memory(const nx_compress *c);

#endif /* NX_COMPRESS_H */
