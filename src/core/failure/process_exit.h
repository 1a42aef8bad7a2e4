/*
 * process_exit.h - detects the exit of a process on this host at once, with any transport.
 *
 * With shared memory a link detects the exit of its process itself.  With QUIC it has to learn that
 * from the network: a packet must be sent, refused, and refused again, which takes 0.1 to 0.6 s.
 * So each QUIC link to a process of this host holds a descriptor of that process (pidfd).  When it
 * reports the exit, the link is notified and goes down; failure.h handles the rest.
 *
 *  X1  No false positives.  A process is watched only if it is certainly the process that the view
 *      names (base/os/process.h): same host, same pid namespace, same start time.  If that is
 *      unknown, or it cannot be watched (another container, a hidden /proc, an old kernel, no
 *      descriptors), it is not watched, without an error, and detection works as on another host.
 *  X2  A rank that leaves in order has not failed, and what it sent before is delivered.  The exit
 *      of a process is not its failure but the end of its links.  Each link reads the rest from the
 *      socket before it goes down (nx_inet_link_exited), including the goodbye.  A process without
 *      a link is not watched: it may have left without notifying this rank.
 *  X3  At most NX_PROCESS_EXIT_MOST descriptors, and one for all of them.  With more such links,
 *      this rank watches the ranks that follow it.  So every rank is watched by the ranks before
 *      it, which notify the others.
 *  X4  They are closed when the link has ended, and with the world.
 *
 * Ranks that are threads of one process are not watched: they exit together.
 *
 * Every function is called with the loop's lock held.
 */
#ifndef NX_PROCESS_EXIT_H
#define NX_PROCESS_EXIT_H

#include "core/world/world.h"

enum { NX_PROCESS_EXIT_MOST = 32 };

/* A QUIC link to |m|, on any host, has begun. */
void nx_process_exit_watch(nx_world *world, const nx_member *m);
/* The link to |slot|, of any kind, has ended. */
void nx_process_exit_forget(nx_world *world, uint32_t slot);
/* Messages are closed, or never were. */
void nx_process_exit_stop(nx_world *world);

/* How many are watched; for tests. */
uint32_t nx_process_exit_watched(const nx_world *world);

#endif /* NX_PROCESS_EXIT_H */
