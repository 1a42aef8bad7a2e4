/*
 * cpu_matching.h - whether each rank of a host can have a core, and which rank leaves which core.
 *
 * Whether ranks outnumber cores is decided by the sets of cores that they may use, not by numbers.
 * Ranks that are bound to one core each have one.  Two that are bound to the same core do not,
 * however many cores are free.
 *
 * Ranks that yield to each other on one core all look busy to the scheduler, which then leaves
 * three of four ranks on one of two cores for 100 ms and more.  A rank that finds more ranks on its
 * core than on another one migrates there.
 */
#ifndef NX_CPU_MATCHING_H
#define NX_CPU_MATCHING_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether each of |n| ranks, which may use |sets|, can have a core of its own.  False also for want
 * of memory. */
bool nx_cpu_matching_exists(const cpu_set_t *sets, uint32_t n);

/* Ranks, without the calling one, that run on each core or are ready to run there. */
typedef struct nx_cpu_load {
    uint16_t ranks[CPU_SETSIZE];
} nx_cpu_load;

/* Adds process |pid|, unless it sleeps.  Reads /proc. */
void nx_cpu_load_add(nx_cpu_load *load, long pid);

/* Migrates the calling thread if another core has fewer of these ranks than its own.  Whether it
 * has done so.  With at least two ranks on a core one of them runs this first, so they do not both
 * leave. */
bool nx_cpu_rebalance(const nx_cpu_load *load);

#endif /* NX_CPU_MATCHING_H */
