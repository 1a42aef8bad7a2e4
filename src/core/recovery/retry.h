/*
 * retry.h - collectives with the setting retry=on: committed, and run again among the survivors
 * when a rank fails.
 *
 * A collective runs as always; then its ranks commit it: all have its result (cluster/commit.h).
 * When the communicator fails, its recovery (recovery.h) decides in the same agreement what counts.
 * A collective that all have completed returns normally, and the communicator is rebuilt in the
 * next one.  One that not all have completed runs again on the rebuilt one, on all ranks, from
 * saved inputs.
 *
 * One such collective of a communicator runs at a time, in the order of the calls.  Others, of this
 * thread (retry_queue.h) or another, are queued (retry_order.h).
 *
 * R1  Calls are made, checked and laid out by comm->inc, and run on comm->active
 *      (incarnation.h).  A call holds the incarnation that it was made for.
 * R2  comm->inc advances only when a request of a collective is claimed, or in a blocking
 *      collective, and only to where that operation ended: the application sees the ranks that
 *      have contributed, not the ranks that are left after the next request, and all ranks see
 *      the same after the same call.
 * R3  While the two differ comm->inc is revoked: messages and remote calls fail with
 *      NEXAR_EREVOKED, since their ranks are no longer valid.
 * R4  Recovery makes an incarnation before it is needed, so notifying the application cannot fail.
 *
 * Without the lock, unless noted.
 */
#ifndef NX_RETRY_H
#define NX_RETRY_H

#include "core/coll/coll_args.h"

/* Runs |a| once, whatever fails: its communicator is not rebuilt.  |*begun|: the other ranks
 * know of it. */
typedef nexar_err (*nx_retry_once)(const nx_coll_args *a, void *arg, bool *begun);

typedef struct nx_retry_how {
    nx_retry_once once;
    void *arg;   /* for it; of a request ... */
    size_t kept; /* ... a copy of this many bytes at |arg|; 0: |arg| itself */
} nx_retry_how;

/* The incarnation that the application knows, with a reference.  A call is checked for it, and then
 * run or rejected, which releases it. */
nx_incarnation *nx_retry_known(const nexar_comm *comm);
void nx_retry_refuse(const nexar_comm *comm, nx_incarnation *was);

/*
 * Runs |a|, which was checked for |was|, in the order of the queue, until all survivors have its
 * result. Releases |was|.
 *
 * With the variant NX_VARIANT_COMPRESSED |tensors| lists the memory that it changes, which is
 * restored after an error.
 */
nexar_err nx_retry_run(const nx_coll_args *a, nx_incarnation *was, const nx_retry_how *how);

/*
 * The same when the caller is at the front of the queue; |was| stays the caller's.  |queued|:
 * for a request. Then a rank without memory for it, before it has begun, does not fail alone
 * while the others wait for its next call: all fail with NEXAR_ENOMEM or NEXAR_EDEVICE.
 */
nexar_err nx_retry_in_turn(const nx_coll_args *a, const nx_incarnation *was,
                           const nx_retry_how *how, bool queued);

/*
 * With recovery=automatic, without retry=on: all ranks of |inc| end the operation |name|, which
 * this one has ended with |err|, alike.  NEXAR_EPEER: a rank has failed before all had its result;
 * nx_recovery_after follows.  |err| has its message.  With the lock.
 */
NX_MUST_CHECK nexar_err nx_retry_conclude(nx_incarnation *inc, const char *name, nexar_err err);

/* A frame CONFIRM of |rank|; with the lock.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_retry_frame(nx_incarnation *inc, uint32_t rank, const void *data,
                                       size_t len);

#endif /* NX_RETRY_H */
