/*
 * retry_queue.h - requests of collectives with retry=on: run one after another, each until all
 * survivors have its result, while the application continues.
 *
 * A request takes its position in the queue of its communicator (retry_order.h) when it is called;
 * a later blocking collective is queued behind it.  So the queue has the order of the calls,
 * which is the same on all ranks.  The commit barrier (cluster/commit.h) handles one operation
 * after another, as it must.
 *
 * A thread of the communicator, the *runner*, executes them like blocking calls (retry.h); or, in
 * its place, a thread of the application that waits for one of them.  One thread at a time runs
 * them.  The first request starts the runner.  The world owns it; it is retired when the
 * communicator is destroyed, and joined by nx_runners_reap or at the world's end.  Each
 * communicator has its own, since a runner may wait for ranks that wait for a request of another
 * communicator.
 *
 * Q1  A request holds its communicator, and counts among the operations that finalize waits
 *      for, from its call until its end: a retired runner has nothing to do.
 * Q2  The call checks the arguments and allocates all memory of the request.  What fails later,
 *      before it has begun, fails on all ranks (nx_retry_in_turn).
 * Q3  It is for the ranks that the application knew in the call.  Claimed, it shows the
 *      application where it ended (retry.h, R2).
 * Q4  nexar_comm_free releases the communicator when the last has ended.
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
    nx_list row;      /* requests that are not running yet, in the order of their calls */
    nx_job job;       /* of its thread: to run them; and whether it is on its ... */
    bool awake;       /* ... way */
    bool draining;    /* a thread runs them: the runner, or one that waits for a request */
    nx_event *wanted; /* of a thread that takes over as soon as the other has ended its request */
};

/*
 * Starts |a|, which was checked for |was|; takes |was|, also on error.  Counts, displacements and
 * tensors are copied; buffers are borrowed until the request is done.
 *
 * NEXAR_ENOMEM, NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_queued_start(const nx_coll_args *a, nx_incarnation *was,
                                        const nx_retry_how *how, nexar_request **req);

/* The communicator of |runner| (may be NULL) is destroyed; with the lock. */
void nx_runner_retire(nx_runner *runner);
/* Joins retired runners; without the lock. */
void nx_runners_reap(nx_world *world);
/* Joins all runners: no requests are left; without the lock.  Then frees them. */
void nx_runners_stop(nx_world *world);
void nx_runners_free(nx_world *world);

#endif /* NX_RETRY_QUEUE_H */
