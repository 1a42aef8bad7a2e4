/*
 * call.h - one collective call of the application, and its fingerprint.
 *
 * A fingerprint (nx_mark on the wire) holds all that must be equal on every rank,
 * so that a rank which called something else is named with what it called.
 */
#ifndef NX_COLL_CALL_H
#define NX_COLL_CALL_H

#include "device/device.h"
#include "loop/worker.h"
#include "msg/msg.h"
#include "select.h"

/* Which public call a schedule serves; NX_VARIANT_PLAIN: that of its kind. */
typedef enum nx_variant {
    NX_VARIANT_PLAIN,
    NX_VARIANT_BUCKETED,
    NX_VARIANT_RS_AG,
    NX_VARIANT_COMPRESSED,
    NX_VARIANT_SPLIT,
    NX_VARIANT_DUP,
    NX_VARIANT_SPLIT_HOST,
    NX_VARIANT_UPDATE,
    NX_VARIANTS
} nx_variant;

typedef struct nx_coll_call {
    nx_coll coll; /* |rank| and |size| are the group's: they are set by the run */
    nx_variant guise;
    nexar_dtype dtype;
    nexar_op op;                 /* NEXAR_SUM where there is none */
    const void *send;            /* NULL when in place */
    void *recv;                  /* where |tensors| is NULL */
    const nexar_tensor *tensors; /* borrowed until the run is made */
    size_t ntensors;
    uint64_t detail; /* what else must be equal, mixed up */

    /* Where |send|, |recv| and |tensors| lie: on this device, which the run holds;
     * NULL: in host memory.  The others need not know. */
    nx_devmem mem;
    nx_worker *worker; /* for calls of the device */

    /* The hook of allreduce_rs_ag, where a thread of the application waits; NULL: none. */
    nexar_shard_fn on_shard;
    void *shard_arg;
} nx_coll_call;

/*
 * Whether |call| is on tensors that have fewer than |least| bytes on average: to pack them
 * into one stretch of memory and to spread it again then costs less than to work on each.
 * NX_CALL_SHORT is that for host memory, NX_CALL_DEVICE_SHORT for that of a device, where
 * each takes a call.  Measured with bench/bucketed_bench, see docs/measurements/performance.md.
 */
enum { NX_CALL_SHORT = 1 << 10, NX_CALL_DEVICE_SHORT = 32 << 10 };
static inline bool nx_call_scattered(const nx_coll_call *call, size_t least)
{
    return (call->tensors != NULL) &&
           (call->coll.count < least / nexar_dtype_size(call->dtype) * call->ntensors);
}

/* With what a call ends whose hook has returned |err|: that, if it is an error of nexar,
 * which other ranks can be told. */
static inline nexar_err nx_shard_error(nexar_err err)
{
    const int code = (int)err;

    return ((code <= NEXAR_OK) && (code >= NEXAR_EINTERNAL)) ? err : NEXAR_EINVAL;
}

/* What |call|, run as |choice| says, must have in common with those of the other
 * ranks. */
nx_mark nx_call_mark(const nx_coll_call *call, const nx_choice *choice, bool verify);
/* The mark of |part|, one of the collectives that the call |whole| is made of: it reads as
 * |whole|, and is equal where both and the |detail| of |whole| are. */
nx_mark nx_mark_within(const nx_mark *part, const nx_coll_call *whole);
bool nx_mark_equal(const nx_mark *a, const nx_mark *b);

/* "allreduce(1024 x f32, sum)"; of any bytes. */
enum { NX_CALL_TEXT = 96 };
const char *nx_mark_text(const nx_mark *mark, char *buf);
/* "allreduce"; never NULL. */
const char *nx_mark_name(const nx_mark *mark);

/* Mixes |word| into |hash|: for |detail|. */
static inline uint64_t nx_mark_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* "rank 1 called broadcast(...) as operation #7 where rank 0 called ..." */
void nx_mark_differ(char *buf, size_t size, uint32_t number, uint32_t rank, const nx_mark *its,
                    uint32_t self, const nx_mark *own);

/* "rank 0 called alltoallv(f32) as operation #7 and sends 3 x f32 to rank 1, which called the
 * same and expects 2": of one call |mark|, in elements. */
typedef struct nx_uneven {
    uint32_t from, to; /* ranks */
    uint64_t sent, expected;
} nx_uneven;
void nx_mark_uneven(char *buf, size_t size, uint32_t number, const nx_mark *mark,
                    const nx_uneven *u);

#endif /* NX_COLL_CALL_H */
