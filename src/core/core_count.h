/*
 * core_count.h - whether the ranks of this host have a core each.
 *
 * How long a wait may poll hangs on that.  It is asked for the cores that all of them may
 * use, not for their number alone: ranks that are bound to one core each have one, and
 * two that are bound to the same have not, however many there are besides.
 */
#ifndef NX_CORE_COUNT_H
#define NX_CORE_COUNT_H

#include <sched.h>

#include "core/world/world.h"

/* Whether each of |n| ranks, who may use |sets|, can have a core of its own.  False also
 * for want of memory. */
bool nx_core_count_suffice(const cpu_set_t *sets, uint32_t n);

/* The same of the ranks of this host, by what each may use now.  Of one that this process
 * cannot see (another pid namespace), as of itself. */
bool nx_core_count_for_all(const nx_world *world);

/* Where ranks of this host outnumber its cores, and each yields while it waits, none of them
 * ever sleeps, and the scheduler leaves three of four on one of two cores for 100 ms and
 * more: all of them are as slow as those three (8-byte allreduce over QUIC 120 to 210 us,
 * two on each 90).  So a rank that finds two more of them on its core than on another goes
 * there; whether it has.  |of| is an nx_world; for nx_loop_set_crowd. */
bool nx_core_count_part(void *of);

#endif /* NX_CORE_COUNT_H */
