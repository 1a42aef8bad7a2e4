/*
 * staging.h - host memory for transfers to and from device memory.
 *
 * Chunks of NX_CHUNK bytes, pinned if the adapter offers that (alloc_host and free_host) and has
 * some left, allocated on first use and kept. There are three kinds, so that none waits for
 * another. A send chunk is free when the network has released it; a receive chunk when a thread has
 * copied it to the device; a bounce chunk when its computation is done. The last two never wait for
 * a peer, so a thread that waits for one gets it.
 *
 * At most NX_CHUNKS_SEND + NX_CHUNKS_RECV + NX_CHUNKS_BOUNCE chunks, 9 MiB, per device of a
 * communicator.
 */
#ifndef NX_STAGING_H
#define NX_STAGING_H

#include "base/containers/list.h"
#include "device/device.h"
#include "loop/worker.h"

enum {
    NX_CHUNK = 512 << 10,  /* bytes: two segments by default */
    NX_CHUNKS_SEND = 8,    /* 4 MiB in flight: keeps 10 Gbit/s busy over 3 ms */
    NX_CHUNKS_RECV = 8,    /* two are written, the others filled by concurrent messages */
    NX_CHUNKS_BOUNCE = 2,  /* one per thread that works on devices */
    NX_DEVICE_THREADS = 2, /* per world, for all devices: one reads, one writes */
};

enum { NX_DEVICE_WHY = 160 }; /* size of a message passed between threads */

typedef enum nx_stage { NX_STAGE_SEND, NX_STAGE_RECV, NX_STAGE_BOUNCE, NX_STAGES } nx_stage;

typedef struct nx_chunk {
    nx_list link;
    char *ptr; /* NX_CHUNK bytes, aligned for every element */
    nx_stage stage;
    bool theirs; /* |ptr| was allocated by the adapter's alloc_host */

    /* For the holder. */
    nx_job job;
    void *owner;
    uint64_t off;
    size_t used;
    nexar_err err;
    char why[NX_DEVICE_WHY];
} nx_chunk;

/*
 * A free chunk; NULL in |*out| when all are taken.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_staging_try(nx_device *d, nx_stage stage, nx_chunk **out);
/* The same, but waits for one. Not for NX_STAGE_SEND. */
NX_MUST_CHECK nexar_err nx_staging_take(nx_device *d, nx_stage stage, nx_chunk **out);
void nx_staging_give(nx_device *d, nx_chunk *chunk);

#endif /* NX_STAGING_H */
