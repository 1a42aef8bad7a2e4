/*
 * coll_call.h - one collective call of the application, and its fingerprint.
 *
 * A fingerprint (nx_mark on the wire) holds everything that must be equal on every rank. A rank
 * that called a different operation is reported with its call.
 */
#ifndef NX_COLL_CALL_H
#define NX_COLL_CALL_H

#include "device/device.h"
#include "loop/worker.h"
#include "msg/msg.h"
#include "select.h"

/* The public call that a schedule serves; NX_VARIANT_PLAIN: the call of its kind. */
typedef enum nx_variant {
    NX_VARIANT_PLAIN,
    NX_VARIANT_BUCKETED,
    NX_VARIANT_RS_AG,
    NX_VARIANT_COMPRESSED,
    NX_VARIANT_SPLIT,
    NX_VARIANT_DUP,
    NX_VARIANT_SPLIT_HOST,
    NX_VARIANT_UPDATE,
    NX_VARIANT_STATE_SYNC,
    NX_VARIANTS
} nx_variant;

typedef struct nx_coll_call {
    nx_coll coll; /* the run sets |rank| and |size|, those of the group */
    nx_variant guise;
    nexar_dtype dtype;
    nexar_op op;                 /* NEXAR_SUM if the call has none */
    const void *send;            /* NULL when in place */
    void *recv;                  /* if |tensors| is NULL */
    const nexar_tensor *tensors; /* borrowed until the run is made */
    size_t ntensors;
    uint64_t detail; /* hash of further values that must be equal */

    /* The device that holds |send|, |recv| and |tensors|; the run holds a reference. NULL: host
     * memory. Ranks may differ in this. */
    nx_devmem mem;
    nx_worker *worker; /* for calls of the device adapter */

    /* The hook of allreduce_rs_ag, if a thread of the application waits; NULL: none. */
    nexar_shard_fn on_shard;
    void *shard_arg;
} nx_coll_call;

/*
 * Whether the tensors of |call| have fewer than |least| bytes on average. Then packing them into
 * contiguous memory and unpacking the result costs less than working on each. NX_CALL_SHORT applies
 * to host memory, NX_CALL_DEVICE_SHORT to device memory, where each tensor costs a device call.
 * Source: bench/bucketed_bench, docs/measurements/performance.md.
 */
enum { NX_CALL_SHORT = 1 << 10, NX_CALL_DEVICE_SHORT = 32 << 10 };
static inline bool nx_call_scattered(const nx_coll_call *call, size_t least)
{
    return (call->tensors != NULL) &&
           (call->coll.count < least / nexar_dtype_size(call->dtype) * call->ntensors);
}

/* The error of a call whose hook has returned |err|: |err| itself if it is an nexar error, which
 * can be sent to other ranks. */
static inline nexar_err nx_shard_error(nexar_err err)
{
    const int code = (int)err;

    return ((code <= NEXAR_OK) && (code >= NEXAR_EINTERNAL)) ? err : NEXAR_EINVAL;
}

/* The fingerprint of |call|, run as |choice| says. */
nx_mark nx_call_mark(const nx_coll_call *call, const nx_choice *choice, bool verify);
/* The fingerprint of |part|, one of the collectives that make up the call |whole|. It prints as
 * |whole|, and is equal where both parts and the |detail| of |whole| are equal. */
nx_mark nx_mark_within(const nx_mark *part, const nx_coll_call *whole);
bool nx_mark_equal(const nx_mark *a, const nx_mark *b);

/* Buffer size for "allreduce(1024 x f32, sum)". */
enum { NX_CALL_TEXT = 96 };
const char *nx_mark_text(const nx_mark *mark, char *buf);
/* "allreduce"; never NULL. */
const char *nx_mark_name(const nx_mark *mark);

/* Mixes |word| into |hash|, for |detail|. */
static inline uint64_t nx_mark_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* "rank 1 called broadcast(...) as operation #7 where rank 0 called ..." */
void nx_mark_differ(char *buf, size_t size, uint32_t number, uint32_t rank, const nx_mark *its,
                    uint32_t self, const nx_mark *own);

/* For one call |mark|, in elements: "rank 0 called alltoallv(f32) as operation #7 and sends 3 x f32
 * to rank 1, which called the same and expects 2". */
typedef struct nx_uneven {
    uint32_t from, to; /* ranks */
    uint64_t sent, expected;
} nx_uneven;
void nx_mark_uneven(char *buf, size_t size, uint32_t number, const nx_mark *mark,
                    const nx_uneven *u);

#endif /* NX_COLL_CALL_H */
