/*
 * retry_queue.h - requests of collectives with retry=on: run one after the other, each until all
 * who are left have its result, while the application goes on.
 *
 * A request takes its place in the row of its communicator (retry_order.h) when it is
 * called; a blocking collective that is called later comes behind it.  So the row has the
 * order of the calls, on all ranks the same, and the confirmation (cluster/commit.h) is of
 * one operation after the other, as it must be.
 *
 * Who runs them: a thread of the communicator, the *runner*, by the way of blocking calls
 * (retry.h); or, in its place, a thread of the application that waits for one of them: at any
 * time one thread alone runs them.  The runner is started by the first request, owned by the
 * world, retired when the communicator is destroyed, and joined by nx_runners_reap or at the
 * world's end.  It is a thread of its own, for one may wait for ranks that wait for a request
 * of another communicator.
 *
 *  Q1  A request holds its communicator, and counts among the operations that finalize waits
 *      for, from its call until its end: a runner that is retired has nothing to do.
 *  Q2  Arguments are checked, and all memory that the request itself needs is taken, in the
 *      call.  What fails later, before it has begun, fails on all ranks (nx_retry_in_turn).
 *  Q3  It is for the ranks that the application knew in the call.  Claimed, it tells the
 *      application where it ended (retry.h, R2).
 *  Q4  nexar_comm_free gives the communicator back when the last has ended.
 */
#ifndef NX_RETRY_QUEUE_H
#define NX_RETRY_QUEUE_H

#include "core/request.h"
#include "retry.h"
#include "retry_order.h"

struct nx_runner {
    nx_list link; /* in world->runners */
    nx_loop *loop;
    nx_worker *worker; /* of one thread; NULL: it was joined */
    bool retired;
    nx_list row;      /* requests that nobody runs yet, in the order of their calls */
    nx_job job;       /* of its thread: to run them; and whether it is on its ... */
    bool awake;       /* ... way */
    bool draining;    /* a thread runs them: its own, or one that waits for a request */
    nx_event *wanted; /* of one that would, as soon as the other has ended the one it is at */
};

/*
 * Starts |a|, which was checked for |was|; |was| is taken over, also on error.  Counts,
 * displacements and tensors are copied; buffers are nexar's until the request is done.
 *
 * NEXAR_ENOMEM, NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_queued_start(const nx_coll_args *a, nx_incarnation *was,
                                        const nx_retry_how *how, nexar_request **req);

/* The communicator of |runner| (may be NULL) is destroyed; with the lock. */
void nx_runner_retire(nx_runner *runner);
/* Joins those that were retired; without the lock. */
void nx_runners_reap(nx_world *world);
/* Joins all: there are no requests any more; without the lock.  Then frees them. */
void nx_runners_stop(nx_world *world);
void nx_runners_free(nx_world *world);

#endif /* NX_RETRY_QUEUE_H */
