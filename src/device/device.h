/*
 * device.h - memory that the CPU cannot address, behind an adapter.
 *
 * An nx_device is a checked copy of an adapter's table, with the staging memory of one
 * communicator (staging.h). Its primitives are what upper layers do with device memory. Each
 * works with any subset of the adapter's optional functions and blocks until the device has
 * completed the work. Each may be called concurrently from any thread; none takes a lock of the
 * loop. Each gets the stream of its operation.
 *
 * Any result of the adapter but NEXAR_OK becomes NEXAR_EDEVICE, with a message that names the
 * adapter, the function and its result. After an error the target is undefined.
 */
#ifndef NX_DEVICE_H
#define NX_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/error.h"

typedef struct nx_device nx_device;

/*
 * Checks and copies |table| and its name; |ctx| is borrowed until the end. |call| is for messages:
 * "comm_set_device".
 *
 * NEXAR_EINVAL
 *     A required function is missing.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_device_create(const char *call, const nexar_device *table,
                                         nx_device **out);
/* Adds and drops a reference; the last one frees |d| and its staging memory. */
void nx_device_hold(nx_device *d);
void nx_device_release(nx_device *d);

const char *nx_device_name(const nx_device *d);
/* Whether device pointers are host pointers. Then upper layers need only nx_device_synchronize, at
 * the start of an operation. */
bool nx_device_plain(const nx_device *d);

/* Device memory as one operation sees it. */
typedef struct nx_devmem {
    nx_device *device;
    void *stream;
} nx_devmem;

/* Waits for everything enqueued on the stream. */
NX_MUST_CHECK nexar_err nx_device_synchronize(nx_devmem m);

/* |bytes| from the device, and to it. */
NX_MUST_CHECK nexar_err nx_device_read(nx_devmem m, void *host, const void *dev, size_t bytes);
NX_MUST_CHECK nexar_err nx_device_write(nx_devmem m, void *dev, const void *host, size_t bytes);

/* Copies regions, concatenated in |host|, and back. */
NX_MUST_CHECK nexar_err nx_device_gather(nx_devmem m, void *host, const nexar_iov *regions,
                                         size_t n);
NX_MUST_CHECK nexar_err nx_device_scatter(nx_devmem m, const nexar_iov *regions, size_t n,
                                          const void *host);

/* dst = src on the device; they may overlap. */
NX_MUST_CHECK nexar_err nx_device_copy(nx_devmem m, void *dst, const void *src, size_t bytes);

/* The operations of reduce.h on device memory: dev = op(dev, host); dev = the identity of op; dev =
 * dev / divisor. Results are bit-identical to reduce.h, if the adapter's own reduction is. */
NX_MUST_CHECK nexar_err nx_device_reduce(nx_devmem m, void *dev, const void *host, size_t count,
                                         nexar_dtype dtype, nexar_op op);
NX_MUST_CHECK nexar_err nx_device_fill(nx_devmem m, void *dev, size_t count, nexar_dtype dtype,
                                       nexar_op op);
NX_MUST_CHECK nexar_err nx_device_divide(nx_devmem m, void *dev, size_t count, nexar_dtype dtype,
                                         uint32_t divisor);

/* Counters of a device since its creation, for tests and statistics. */
typedef struct nx_device_stats {
    uint64_t to_host, to_device;     /* bytes */
    uint64_t reduced_there, reduced; /* elements, by the adapter and by staging */
    uint64_t pinned;                 /* bytes of staging memory that were allocated */
    uint64_t overlapped;             /* bytes received while the device was busy */
} nx_device_stats;
void nx_device_stats_get(nx_device *d, nx_device_stats *out);

#endif /* NX_DEVICE_H */
