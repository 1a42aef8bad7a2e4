/*
 * core_count.h - the ranks of this host and its cores: see base/wait/cpu_matching.h.
 */
#ifndef NX_CORE_COUNT_H
#define NX_CORE_COUNT_H

#include "core/world/world.h"

/* Whether each rank of this host can have its own core, given the cores that each may use now. A
 * rank that is invisible to this process (another pid namespace) counts like this one. False also
 * without memory. */
bool nx_core_count_for_all(const nx_world *world);

/* Migrates the calling thread if another core has fewer ranks; whether it has.  |of| is an
 * nx_world; for nx_loop_set_migration. */
bool nx_core_count_rebalance(void *of);

#endif /* NX_CORE_COUNT_H */
