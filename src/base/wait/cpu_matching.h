/*
 * cpu_matching.h - whether each rank of a host can have a core, and which rank leaves which core.
 *
 * The affinity masks of the ranks decide whether ranks outnumber cores, not the two counts. Ranks
 * bound to one distinct core each have a core. Two ranks bound to the same core do not, even if
 * other cores are free.
 *
 * Ranks that yield to each other on one core all look busy to the scheduler. The scheduler then
 * leaves three of four ranks on one of two cores for 100 ms and more. A rank migrates to a core
 * that fewer ranks use.
 */
#ifndef NX_CPU_MATCHING_H
#define NX_CPU_MATCHING_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether each of |n| ranks, with the affinity masks |sets|, can have its own core. False also
 * if out of memory. */
bool nx_cpu_matching_exists(const cpu_set_t *sets, uint32_t n);

/* The number of ranks, without the calling rank, that run or are ready to run on each core. */
typedef struct nx_cpu_load {
    uint16_t ranks[CPU_SETSIZE];
} nx_cpu_load;

/* Adds process |pid|, unless it sleeps.  Reads /proc. */
void nx_cpu_load_add(nx_cpu_load *load, long pid);

/* Migrates the calling thread if another core has fewer of these ranks than its own. True: it
 * has migrated. Of two ranks on one core, one runs this function first, so they do not both
 * leave. */
bool nx_cpu_rebalance(const nx_cpu_load *load);

#endif /* NX_CPU_MATCHING_H */
