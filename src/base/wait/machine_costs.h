/*
 * machine_costs.h - what waiting costs on this machine, measured.
 *
 * Each cost is measured once per process, when the first world is created: about a millisecond.
 * The least of several rounds counts, since a disturbance only lengthens a round.  `nexar info`
 * prints the costs and what is derived from them.
 */
#ifndef NX_MACHINE_COSTS_H
#define NX_MACHINE_COSTS_H

#include <stdint.h>

typedef struct nx_machine_costs {
    uint64_t pause_ns;    /* one poll of memory with a pause instruction */
    uint64_t yield_ns;    /* sched_yield(2) without another thread on the core */
    uint64_t handover_ns; /* a cache line from one core to another; at least |pause_ns| */
    uint64_t park_ns;     /* a thread parks and another one wakes it: until it runs */
} nx_machine_costs;

/* The costs of this machine; measures them on the first call.  Any thread. */
const nx_machine_costs *nx_machine_costs_get(void);

#endif /* NX_MACHINE_COSTS_H */
