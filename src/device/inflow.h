/*
 * inflow.h - a message on its way into device memory.
 *
 * Fragments are copied into chunks as they come; a chunk that is full, or whose
 * message has ended, is brought to the device by a thread of the worker, while the
 * network goes on.  Where all chunks are taken, the one that has waited longest to be
 * filled is sent off as it is, and the fragment is brought to the device at once, by the
 * thread that received it: a device that is slower than the network slows the network
 * down, and memory stays bounded.
 *
 * Everything but |apply| is called with the loop's lock held.
 */
#ifndef NX_INFLOW_H
#define NX_INFLOW_H

#include "device/device.h"
#include "device/staging.h"
#include "loop/worker.h"

/* The parts of a message come beside each other (msg/sink.h): one chunk for each. */
enum { NX_INFLOW_OPEN = 2 };

/* The caller's memory, zeroed, then set up; held until on_done. */
typedef struct nx_inflow {
    nx_device *device;
    nx_worker *worker;
    /* Brings bytes [off, off + len) of the message to the device, as the primitives of
     * device.h do; on any thread, for different bytes by several at once. */
    nexar_err (*apply)(struct nx_inflow *in, uint64_t off, const void *data, size_t len);
    /* After nx_inflow_end, when all is on the device or |err| says why not; perhaps
     * from inside nx_inflow_end. */
    void (*on_done)(struct nx_inflow *in);

    /* The outcome, valid in on_done: the first error. */
    nexar_err err;
    char why[NX_DEVICE_WHY];

    /* inflow's own. */
    nx_chunk *open[NX_INFLOW_OPEN];
    unsigned pending;
    bool ended;
} nx_inflow;

/* Bytes [off, off + len) have come; whole elements, where |apply| computes.  After an
 * error they are dropped. */
void nx_inflow_put(nx_inflow *in, uint64_t off, const void *data, size_t len);

/* All has come, or nothing more will. */
void nx_inflow_end(nx_inflow *in);

#endif /* NX_INFLOW_H */
