/*
 * outflow.h - a message on its way out of device memory.
 *
 * It is read chunk by chunk by a thread of the worker: while the network has one chunk the
 * next one is read into another.  Two at most, pinned ones as long as there are any, then
 * ordinary memory of that length: to wait for a chunk would be to wait for a peer, which may
 * wait for us.
 *
 * Everything but |stage| is called with the loop's lock held.
 */
#ifndef NX_OUTFLOW_H
#define NX_OUTFLOW_H

#include "device/device.h"
#include "device/staging.h"
#include "loop/worker.h"

typedef struct nx_outflow nx_outflow;

/* A piece of host memory, and what is in it. */
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

/* The caller's memory, zeroed, then set up; held until on_idle. */
struct nx_outflow {
    nx_device *device;
    nx_worker *worker;
    uint64_t total; /* bytes, > 0 */
    /* Brings bytes [off, off + len) of the message to |host|, as the primitives of device.h
     * do; on any thread. */
    nexar_err (*stage)(nx_outflow *out, uint64_t off, void *host, size_t len);
    /* The first bytes are there, or those that nx_outflow_next has asked for, |len| of them;
     * perhaps from inside that call.  Or: |err| and |why| say why not. */
    void (*on_ready)(nx_outflow *out, const void *host, size_t len);
    /* After nx_outflow_end: no thread uses it any more; perhaps from inside of it. */
    void (*on_idle)(nx_outflow *out);

    /* The first error; valid in on_ready. */
    nexar_err err;
    char why[NX_DEVICE_WHY];

    /* outflow's own. */
    nx_outflow_slot slots[2];
    unsigned turn; /* the slot that is given, or waited for */
    uint64_t read; /* up to there it was or is being read */
    bool wanted;   /* on_ready is due */
    unsigned jobs; /* that threads have */
    bool ended;
};

/*
 * Begins with the first bytes.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 *     Nothing was begun.
 */
NX_MUST_CHECK nexar_err nx_outflow_start(nx_outflow *out);

/* What on_ready gave last may be overwritten, and the next is wanted.  Not after the last. */
void nx_outflow_next(nx_outflow *out);

/* Nothing more is wanted; what was given is not used any more.  Its memory goes. */
void nx_outflow_end(nx_outflow *out);

#endif /* NX_OUTFLOW_H */
