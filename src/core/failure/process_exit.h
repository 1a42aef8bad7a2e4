/*
 * process_exit.h - the end of a process of this host is known at once, whatever the transport.
 *
 * By shared memory a link sees by itself that the process behind it has ended.  By QUIC it has
 * to learn that from the network: something must be sent, refused, and refused again, which
 * takes 0.1 to 0.6 s.  So for a link by QUIC to a process of this host a descriptor of that
 * process (pidfd) is held.  When it says that the process has ended the link is told, and goes
 * down; what follows from that is failure.h's.
 *
 *  X1  Never a false death.  A process is watched only if it is certain that it is the one that
 *      the view names (base/os/process.h): same host, same namespace of process ids, started at the
 *      same time.  Where that is not so, or is not told, or cannot be watched (another
 *      container, a hidden /proc, an old kernel, no descriptors), nobody is watched, no error is
 *      made of it, and it is found out as on another host.
 *  X2  Who leaves in order has not failed, and what it sent before is delivered: the end of a
 *      process is not its death, but the end of its links, each of which takes in what is still
 *      in the socket before it goes down (nx_inet_link_exited), the good-bye too.  A process to
 *      which there is no link is not watched: it may have left without a word to this rank.
 *  X3  At most NX_PROCESS_EXIT_MOST descriptors, and one for all of them.  If there are more links
 * of that kind, those to the ranks that come next after this one are watched, so that every rank is
 * watched by those before it, who tell the others. X4  They are closed when the link has ended, and
 * with the world.
 *
 * Ranks that are threads of one process are not watched: they end together.
 *
 * Everything here is called with the loop's lock held.
 */
#ifndef NX_PROCESS_EXIT_H
#define NX_PROCESS_EXIT_H

#include "core/world/world.h"

enum { NX_PROCESS_EXIT_MOST = 32 };

/* A link by QUIC to |m|, who may be anywhere, has begun. */
void nx_process_exit_watch(nx_world *world, const nx_member *m);
/* The link to |slot|, of any kind, has ended. */
void nx_process_exit_forget(nx_world *world, uint32_t slot);
/* Messages are closed, or never were. */
void nx_process_exit_stop(nx_world *world);

/* How many are watched; for tests. */
uint32_t nx_process_exit_watched(const nx_world *world);

#endif /* NX_PROCESS_EXIT_H */
