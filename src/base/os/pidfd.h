/*
 * pidfd.h - a pinned process: whether it has exited since.
 *
 * The kernel reuses a process id once the process has exited and was waited for. A pidfd stays with
 * the process that had the id when it was opened. It becomes readable when that process exits,
 * before the id is free. So an action on the id has reached that process if the pidfd is not
 * readable afterwards.
 *
 * Reference-counted: one descriptor serves all users of the process. Every function is thread-safe;
 * none blocks.
 */
#ifndef NX_PIDFD_H
#define NX_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct nx_pidfd nx_pidfd;

/* The process that has the id |pid| now, with one reference. The calling process needs no
 * descriptor. NULL: |pid| is not positive or unused; the kernel has no such call (before 5.3) or a
 * filter denies it; out of descriptors or memory. */
nx_pidfd *nx_pidfd_open(pid_t pid);
/* Adds a reference; returns |p|, which may be NULL. */
nx_pidfd *nx_pidfd_ref(nx_pidfd *p);
/* Drops a reference; the last one closes the descriptor. |p| may be NULL. */
void nx_pidfd_unref(nx_pidfd *p);

pid_t nx_pidfd_pid(const nx_pidfd *p);
/* The descriptor, owned by |p|, for polling; -1: it is the calling process. */
int nx_pidfd_fd(const nx_pidfd *p);
/* Whether it has exited, or that is unknown, or |p| is NULL. False: every action on its id so far
 * has reached this process. */
bool nx_pidfd_exited(const nx_pidfd *p);

#endif /* NX_PIDFD_H */
