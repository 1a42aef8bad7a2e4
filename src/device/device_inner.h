/* device_inner.h - shared by the files of device. */
#ifndef NX_DEVICE_INNER_H
#define NX_DEVICE_INNER_H

#include <pthread.h>
#include <stdatomic.h>

#include "device.h"
#include "staging.h"

/*
 * Invariants
 *  - |table| does not change after nx_device_create.
 *  - |lock| protects the lists and |made|. A chunk is in the list of its stage or in use;
 *    made[s] counts both.
 */
struct nx_device {
    nexar_device table;
    char *name;
    atomic_uint holds;
    pthread_mutex_t lock;
    pthread_cond_t freed; /* a chunk was returned, or could not be made */
    nx_list free[NX_STAGES];
    unsigned made[NX_STAGES];
    nx_list open; /* for inflow.c, under the loop's lock: chunks being filled */
    atomic_uint_fast64_t to_host, to_device, reduced_there, reduced, pinned, overlapped;
    atomic_uint busy; /* threads that wait for the device */
};

/* The error for the result of |function| of |d|. */
NX_MUST_CHECK nexar_err nx_device_failed(const nx_device *d, const char *function, nexar_err code);

/* Frees all chunks: none is taken. */
void nx_staging_fini(nx_device *d);

#endif /* NX_DEVICE_INNER_H */
