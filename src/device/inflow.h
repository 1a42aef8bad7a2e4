/*
 * inflow.h - an incoming message to device memory.
 *
 * Fragments are copied into chunks on arrival. A thread of the worker copies a full or final
 * chunk to the device while the network continues. If all chunks are in use, the oldest partial
 * chunk is submitted as it is. The receiving thread then copies the fragment to the device
 * itself. So a device slower than the network throttles the network, and memory stays bounded.
 *
 * Every function but |apply| is called with the loop's lock held.
 */
#ifndef NX_INFLOW_H
#define NX_INFLOW_H

#include "device/device.h"
#include "device/staging.h"
#include "loop/worker.h"

/* The parts of a message arrive concurrently (msg/sink.h): one chunk for each. */
enum { NX_INFLOW_OPEN = 2 };

/* The caller's memory, zeroed, then set up; borrowed until on_done. */
typedef struct nx_inflow {
    nx_device *device;
    nx_worker *worker;
    /* Applies bytes [off, off + len) of the message to the device, by the primitives of device.h;
     * on any thread, concurrently for different bytes. */
    nexar_err (*apply)(struct nx_inflow *in, uint64_t off, const void *data, size_t len);
    /* Called after nx_inflow_end, when all data is on the device or |err| is set; perhaps from
     * inside nx_inflow_end. */
    void (*on_done)(struct nx_inflow *in);

    /* The result, valid in on_done: the first error. */
    nexar_err err;
    char why[NX_DEVICE_WHY];

    /* Private. */
    nx_chunk *open[NX_INFLOW_OPEN];
    unsigned pending;
    bool ended;
} nx_inflow;

/* Bytes [off, off + len) have arrived; whole elements if |apply| computes. Dropped after an
 * error. */
void nx_inflow_put(nx_inflow *in, uint64_t off, const void *data, size_t len);

/* The message is complete, or has ended. */
void nx_inflow_end(nx_inflow *in);

#endif /* NX_INFLOW_H */
