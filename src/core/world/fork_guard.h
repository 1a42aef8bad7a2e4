/*
 * fork_guard.h - a world belongs to the process that made it, not to forked children.
 *
 * A child has its parent's sockets and shared memory. Other ranks would mistake its actions for the
 * parent's, and the reverse. So calls check the owner before they access anything, including locks,
 * which the child may have inherited in a locked state.
 */
#ifndef NX_FORK_GUARD_H
#define NX_FORK_GUARD_H

#include "world.h"

/* Number of forks between the first process with a world and this one. */
extern unsigned nx_forks;

/* Starts to count forks; stores the current number in |world|. */
void nx_fork_guard_watch(nx_world *world);

NX_MUST_CHECK nexar_err nx_fork_guard_fail(const char *name);

/* NEXAR_EINVAL: |world| is the parent's. */
static inline nexar_err nx_fork_guard_check(const char *name, const nx_world *world)
{
    return (world->forks == nx_forks) ? NEXAR_OK : nx_fork_guard_fail(name);
}

#endif /* NX_FORK_GUARD_H */
