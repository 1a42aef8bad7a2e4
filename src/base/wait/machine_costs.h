/*
 * machine_costs.h - the measured costs of waiting and copying on this machine.
 *
 * Each cost is measured once per process, when the first world is created: about a millisecond.
 * The least of several rounds counts, since a disturbance only lengthens a round. `nexar info`
 * prints the costs and the values derived from them.
 */
#ifndef NX_MACHINE_COSTS_H
#define NX_MACHINE_COSTS_H

#include <stdint.h>

typedef struct nx_machine_costs {
    uint64_t pause_ns;    /* one poll of memory with a pause instruction */
    uint64_t yield_ns;    /* sched_yield(2) without another thread on the core */
    uint64_t handover_ns; /* a cache line from one core to another; at least |pause_ns| */
    uint64_t park_ns;     /* from the wake-up of a parked thread until it runs */
    uint64_t copy_ns;     /* memory of NX_COSTS_BLOCK bytes, copied from cache to cache */
    uint64_t read_ns;     /* the same by a read of remote memory; 0: refused */
    uint64_t cache_bytes; /* the largest cache of the processor; 0: unknown */
} nx_machine_costs;

enum { NX_COSTS_BLOCK = 256 << 10 };

/* The costs of this machine; measures them on the first call.  Any thread. */
const nx_machine_costs *nx_machine_costs_get(void);

/* Time to copy |bytes| through a ring, and to read them remotely. */
static inline uint64_t nx_machine_costs_copy(const nx_machine_costs *c, uint64_t bytes)
{
    return bytes / NX_COSTS_BLOCK * c->copy_ns +
           bytes % NX_COSTS_BLOCK * c->copy_ns / NX_COSTS_BLOCK;
}

static inline uint64_t nx_machine_costs_read(const nx_machine_costs *c, uint64_t bytes)
{
    return bytes / NX_COSTS_BLOCK * c->read_ns +
           bytes % NX_COSTS_BLOCK * c->read_ns / NX_COSTS_BLOCK;
}

/* Length from which a copy uses non-temporal stores: source and target of both ranks fill the
 * cache. UINT64_MAX: never, since the cache size is unknown. */
static inline uint64_t nx_machine_costs_past_cache(const nx_machine_costs *c)
{
    return (c->cache_bytes == 0) ? UINT64_MAX : c->cache_bytes / 4;
}

#endif /* NX_MACHINE_COSTS_H */
