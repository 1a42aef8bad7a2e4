/*
 * sim_device.h - an adapter for a device that does not exist.
 *
 * It is as unfriendly as an adapter may be.  Device addresses fault when the CPU
 * touches them.  Nothing happens before synchronize: what was put on a stream is
 * done then, in order, by the thread that synchronizes, with the bytes that host memory
 * holds then; meanwhile the target of a to_host or gather holds 0xdb.  So a
 * synchronize that is missing gives wrong bytes, and so does staging memory that is
 * used again too early.  Streams do not know of each other.  A synchronize that fails
 * loses what its thread had put on the stream; others, who hear nothing of it, lose nothing.
 *
 * Any of the optional functions may be left out, and any call may be made to fail.
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
    unsigned optional;    /* functions that there are */
    bool only_f32;        /* reduce returns NEXAR_ENOTSUP for all other types */
    uint64_t ns_per_byte; /* what a copy or reduction takes; 0: nothing */
} nxt_sim_options;

typedef struct nxt_sim_counts {
    uint64_t calls;              /* of functions that can fail, alloc_host too */
    uint64_t to_host, to_device; /* bytes copied */
    uint64_t longest;            /* bytes of one copy, at most */
    uint64_t reduced;            /* elements */
    uint64_t host_allocs, host_frees;
    uint64_t host_refusals; /* alloc_host gave NULL */
    uint64_t wrong;         /* pointers that were not what they should be */
    uint64_t syncs;         /* synchronizes that had something to do */
} nxt_sim_counts;

typedef struct nxt_sim_device nxt_sim_device;

/* NULL: no memory. */
nxt_sim_device *nxt_sim_device_create(const nxt_sim_options *options);
void nxt_sim_device_destroy(nxt_sim_device *d);
const nexar_device *nxt_sim_device_table(const nxt_sim_device *d);

/* Device memory; given back all at once.  NULL: none left. */
void *nxt_sim_device_alloc(nxt_sim_device *d, size_t bytes);
void nxt_sim_device_reset(nxt_sim_device *d);

/* What a program's own kernels would do: at once, past all streams. */
void nxt_sim_device_load(nxt_sim_device *d, void *dev, const void *host, size_t bytes);
void nxt_sim_device_store(nxt_sim_device *d, void *host, const void *dev, size_t bytes);

/* A program's own work on a stream: |bytes| from |host|, copied now, are at |dev| when
 * the stream is synchronized. */
void nxt_sim_device_enqueue(nxt_sim_device *d, void *stream, void *dev, const void *host,
                            size_t bytes);

/* Makes call number |n| from now on (0: the next) return |code|, alloc_host NULL;
 * negative: none.  A call that fails does nothing. */
void nxt_sim_device_fail(nxt_sim_device *d, int64_t n, nexar_err code);
/* Whether that call has come. */
bool nxt_sim_device_failed(nxt_sim_device *d);

void nxt_sim_device_counts(nxt_sim_device *d, nxt_sim_counts *out);

#endif /* NXT_SIM_DEVICE_H */
