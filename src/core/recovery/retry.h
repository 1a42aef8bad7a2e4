/*
 * retry.h - collectives with the setting retry=on: confirmed, and run again among those who
 * are left when a rank fails.
 *
 * A collective is run as always; then its ranks confirm that all have its result
 * (cluster/commit.h).  When the communicator breaks, its recovery (recovery.h) decides with
 * the same agreement what counts: a collective that all have is returned from as if nothing
 * had been, and the communicator is rebuilt in the next one; one that not all have is run
 * again on the rebuilt one, by all, from inputs that were kept.
 *
 * One such collective of a communicator is on its way at a time, in the order of the calls:
 * others, of this thread (retry_queue.h) or another, wait for their turn (retry_order.h).
 *
 *  R1  Calls are made, checked and laid out by comm->inc, and run on comm->active
 *      (incarnation.h).  A call holds the incarnation that it was made for.
 *  R2  comm->inc advances only when a request of a collective is claimed, or in a blocking
 *      collective, and only to where that operation ended: the application sees the ranks that
 *      have contributed, not the ranks that are left after the next request, and all ranks see
 *      the same after the same call.
 *  R3  While the two differ comm->inc is revoked: messages and remote calls end with
 *      NEXAR_EREVOKED.  They would go by ranks that are not true any more.
 *  R4  Recovery makes an incarnation before it is needed, so telling the application cannot fail.
 *
 * Without the lock, but where it is said.
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
    size_t kept; /* ... a copy of so many bytes at |arg|; 0: |arg| itself */
} nx_retry_how;

/* What the application knows of |comm|, held; a call is checked for it, and then run, or refused,
 * which gives it back. */
nx_incarnation *nx_retry_known(const nexar_comm *comm);
void nx_retry_refuse(const nexar_comm *comm, nx_incarnation *was);

/*
 * Runs |a|, which was checked for |was|, until all who are left have its result: in its turn.
 * |was| is given back.
 *
 * With the guise NX_VARIANT_COMPRESSED |tensors| say what memory it changes: that is as it was
 * after an error.
 */
nexar_err nx_retry_run(const nx_coll_args *a, nx_incarnation *was, const nx_retry_how *how);

/*
 * The same in a turn that the caller has; |was| is the caller's.  |queued|: it is a request's.
 * Then a rank that has no memory for it, before it was begun, does not end alone, with the
 * others waiting for a call that it makes next: all end with NEXAR_ENOMEM or NEXAR_EDEVICE.
 */
nexar_err nx_retry_in_turn(const nx_coll_args *a, const nx_incarnation *was,
                           const nx_retry_how *how, bool queued);

/*
 * With recovery=automatic, without retry=on: all ranks of |inc| end the operation |name|, which
 * this one has ended with |err|, alike.  NEXAR_EPEER: a rank has failed before all had its result;
 * nx_recovery_after follows.  |err| has its sentence.  With the lock.
 */
NX_MUST_CHECK nexar_err nx_retry_conclude(nx_incarnation *inc, const char *name, nexar_err err);

/* A frame CONFIRM of |rank|; with the lock.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_retry_frame(nx_incarnation *inc, uint32_t rank, const void *data,
                                       size_t len);

#endif /* NX_RETRY_H */
