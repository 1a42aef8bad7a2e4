/*
 * sim_device.h - an adapter for a simulated device.
 *
 * It is as strict as an adapter may be. A CPU access to a device address faults. Nothing happens
 * before synchronize. Only then the synchronizing thread executes the enqueued work in order,
 * with the current content of host memory. Until then the target of a to_host or gather contains
 * 0xdb. So a missing synchronize gives wrong bytes, and so does staging memory that is reused too
 * early. Streams are independent. A failed synchronize loses the work that its thread has
 * enqueued on the stream. Other threads, which are not notified, lose nothing.
 *
 * Any optional function may be omitted, and any call may be made to fail.
 */
#ifndef NXT_SIM_DEVICE_H
#define NXT_SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

/* The optional functions, as bits. */
enum {
    NXT_SIM_REDUCE = 1,
    NXT_SIM_GATHER = 2,
    NXT_SIM_SCATTER = 4,
    NXT_SIM_ALLOC = 8,
    NXT_SIM_FREE = 16,
    NXT_SIM_ALL = 31,
    NXT_SIM_MASKS = 32,
};

typedef struct nxt_sim_options {
    size_t bytes;         /* of device memory */
    unsigned optional;    /* optional functions present */
    bool only_f32;        /* reduce returns NEXAR_ENOTSUP for all other types */
    uint64_t ns_per_byte; /* duration of a copy or reduction; 0: none */
} nxt_sim_options;

typedef struct nxt_sim_counts {
    uint64_t calls;              /* of functions that can fail, alloc_host too */
    uint64_t to_host, to_device; /* bytes copied */
    uint64_t longest;            /* bytes of one copy, at most */
    uint64_t reduced;            /* elements */
    uint64_t host_allocs, host_frees;
    uint64_t host_refusals; /* calls of alloc_host that returned NULL */
    uint64_t wrong;         /* pointers of the wrong kind */
    uint64_t syncs;         /* calls of synchronize with work to do */
} nxt_sim_counts;

typedef struct nxt_sim_device nxt_sim_device;

/* NULL: no memory. */
nxt_sim_device *nxt_sim_device_create(const nxt_sim_options *options);
void nxt_sim_device_destroy(nxt_sim_device *d);
const nexar_device *nxt_sim_device_table(const nxt_sim_device *d);

/* Device memory, freed only with the device. NULL: none left. */
void *nxt_sim_device_alloc(nxt_sim_device *d, size_t bytes);
void nxt_sim_device_reset(nxt_sim_device *d);

/* Acts like a program's own kernels: at once, bypassing all streams. */
void nxt_sim_device_load(nxt_sim_device *d, void *dev, const void *host, size_t bytes);
void nxt_sim_device_store(nxt_sim_device *d, void *host, const void *dev, size_t bytes);

/* A program's own work on a stream: |bytes| from |host|, copied now, are at |dev| when
 * the stream is synchronized. */
void nxt_sim_device_enqueue(nxt_sim_device *d, void *stream, void *dev, const void *host,
                            size_t bytes);

/* Makes call number |n| from now on (0: the next) return |code|, alloc_host NULL;
 * negative: none.  A call that fails does nothing. */
void nxt_sim_device_fail(nxt_sim_device *d, int64_t n, nexar_err code);
/* Whether that call has happened. */
bool nxt_sim_device_failed(nxt_sim_device *d);

void nxt_sim_device_counts(nxt_sim_device *d, nxt_sim_counts *out);

#endif /* NXT_SIM_DEVICE_H */
