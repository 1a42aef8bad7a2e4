/*
 * outflow.h - an outgoing message from device memory.
 *
 * A thread of the worker reads it chunk by chunk: while the network sends one chunk, the next is
 * read into another. At most two; pinned chunks as long as there are any, then ordinary memory.
 * Waiting for a chunk would mean waiting for a peer, which may wait for this rank.
 *
 * Every function but |stage| is called with the loop's lock held.
 */
#ifndef NX_OUTFLOW_H
#define NX_OUTFLOW_H

#include "device/device.h"
#include "device/staging.h"
#include "loop/worker.h"

typedef struct nx_outflow nx_outflow;

/* A buffer in host memory, and its content. */
typedef struct nx_outflow_slot {
    nx_outflow *out;
    nx_chunk *chunk; /* or */
    void *memory;
    uint64_t off;
    size_t len;
    enum { NX_SLOT_EMPTY, NX_SLOT_READING, NX_SLOT_FULL, NX_SLOT_GIVEN } state;
    nx_job job;
    nexar_err err; /* of the job */
    char why[NX_DEVICE_WHY];
} nx_outflow_slot;

/* The caller's memory, zeroed, then set up; borrowed until on_idle. */
struct nx_outflow {
    nx_device *device;
    nx_worker *worker;
    uint64_t total; /* bytes, > 0 */
    /* Copies bytes [off, off + len) of the message to |host|, by the primitives of device.h; on any
     * thread. */
    nexar_err (*stage)(nx_outflow *out, uint64_t off, void *host, size_t len);
    /* The first |len| bytes, or those requested by nx_outflow_next, are available; perhaps from
     * inside that call. Or |err| and |why| are set. */
    void (*on_ready)(nx_outflow *out, const void *host, size_t len);
    /* Called after nx_outflow_end, when no thread uses |out| any more; perhaps from inside that
     * call. */
    void (*on_idle)(nx_outflow *out);

    /* The first error; valid in on_ready. */
    nexar_err err;
    char why[NX_DEVICE_WHY];

    /* Private. */
    nx_outflow_slot slots[2];
    unsigned turn; /* the slot in use, or waited for */
    uint64_t read; /* end of what was or is being read */
    bool wanted;   /* on_ready is due */
    unsigned jobs; /* running on threads */
    bool ended;
};

/*
 * Starts reading the first bytes.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 *     Nothing was started.
 */
NX_MUST_CHECK nexar_err nx_outflow_start(nx_outflow *out);

/* The data of the last on_ready may be overwritten; requests the next. Not after the last. */
void nx_outflow_next(nx_outflow *out);

/* Nothing more is needed, and the data passed is no longer used. Frees its memory. */
void nx_outflow_end(nx_outflow *out);

#endif /* NX_OUTFLOW_H */
