/*
 * pidfd.h - one process, pinned: whether it has exited since.
 *
 * A process id is given to another process once the first has exited and was waited for.  A
 * pidfd stays with the process that had the id when it was opened.  It becomes readable when
 * that process exits, before the id is free.  So what was done with the id was done to that
 * process if, afterwards, the pidfd is not readable.
 *
 * Counted references: one descriptor serves all that deal with the process.  The functions may be
 * called from any thread; none blocks.
 */
#ifndef NX_PIDFD_H
#define NX_PIDFD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct nx_pidfd nx_pidfd;

/* The process that has the id |pid| now, with one reference.  The calling process needs no
 * descriptor.  NULL: |pid| is not positive or nobody has it; the kernel has no such call (before
 * 5.3) or a filter denies it; no descriptor or memory is left. */
nx_pidfd *nx_pidfd_open(pid_t pid);
/* One more reference; returns |p|, which may be NULL. */
nx_pidfd *nx_pidfd_ref(nx_pidfd *p);
/* One less; the last closes the descriptor.  |p| may be NULL. */
void nx_pidfd_unref(nx_pidfd *p);

pid_t nx_pidfd_pid(const nx_pidfd *p);
/* The descriptor, owned by |p|, to be watched; -1: it is the calling process. */
int nx_pidfd_fd(const nx_pidfd *p);
/* Whether it has exited, or that cannot be asked, or |p| is NULL.  False: everything done with its
 * id so far was done to this process. */
bool nx_pidfd_exited(const nx_pidfd *p);

#endif /* NX_PIDFD_H */
