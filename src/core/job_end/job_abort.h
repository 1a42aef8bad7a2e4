/*
 * job_abort.h - nexar_abort(): one rank ends the job.
 *
 * The calling rank notifies every rank that it has a link to, and the live ranks at distance 1, 2,
 * 4, ... after it.  Each notified rank prints one line, forwards the notification in the same way,
 * and exits.  No rank is waited for, so a stopped rank delays none; one on this host is continued,
 * so that it exits as well.
 *
 * A1  Once a rank is notified, no public call of its process returns an error (on_error.h): the
 *      application cannot exit with another code because others exit before it.
 * A2  A rank exits NX_ENDING_NS after the notification: frames that it has sent are delivered, or
 *      retransmitted, in that time.
 * A3  A rank that has finalized is in no world, and is not notified; a launcher ends its process.
 * A4  nexar_abort() waits for the lock of the world for at most LOCK_NS.  If a thread holds it
 *      (a reduce function, which must not call nexar), it ends its own process, and others detect
 *      that this rank has failed.
 */
#ifndef NX_JOB_ABORT_H
#define NX_JOB_ABORT_H

#include "core/world/world.h"

/* Delay between the notification and the exit of a process. */
#define NX_ENDING_NS UINT64_C(100000000)

/* This process exits with |code| after |after_ns|, whatever its threads do, unless it is exiting
 * already; with the lock.  recovery=abort uses it too. */
void nx_ending_begin(nx_world *world, int code, uint64_t after_ns);
/* Whether nx_ending_begin was called for any world of this process; from any thread. */
bool nx_process_ends(void);

/* From msg.  False: the frame is not of this. */
bool nx_job_abort_on_control(nx_world *world, uint32_t peer, const void *data, size_t len);

#endif /* NX_JOB_ABORT_H */
