/*
 * fork_guard.h - a world belongs to the process that made it, not to the children of that.
 *
 * A child by fork has its parent's sockets and shared memory; what it did with them other
 * ranks would take for what the parent does, and the parent for what others do.  So calls
 * ask before they touch anything, also locks, which the child may have got held.
 */
#ifndef NX_FORK_GUARD_H
#define NX_FORK_GUARD_H

#include "world.h"

/* How many forks lie between the first process with a world and this one. */
extern unsigned nx_forks;

/* Forks are counted from now on; this one's number goes to |world|. */
void nx_fork_guard_watch(nx_world *world);

NX_MUST_CHECK nexar_err nx_fork_guard_fail(const char *name);

/* NEXAR_EINVAL: |world| is the parent's. */
static inline nexar_err nx_fork_guard_check(const char *name, const nx_world *world)
{
    return (world->forks == nx_forks) ? NEXAR_OK : nx_fork_guard_fail(name);
}

#endif /* NX_FORK_GUARD_H */
