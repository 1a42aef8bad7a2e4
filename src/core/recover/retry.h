/*
 * retry.h - collectives with the setting retry=on: confirmed, and run again among those who
 * are left when a rank fails.
 *
 * A collective is run as always; then its ranks confirm that all have its result
 * (cluster/confirm.h).  When the communicator breaks, its recovery (recover.h) decides with
 * the same agreement what counts: a collective that all have is returned from as if nothing
 * had been, and the communicator is rebuilt in the next one; one that not all have is run
 * again on the rebuilt one, by all, from inputs that were kept.
 *
 * One such collective of a communicator is on its way at a time, in the order of the calls:
 * others, of this thread (queued.h) or another, wait for their turn.  A call is for the ranks
 * that its application knew when it made it (roster.h), whatever becomes of them until then.
 *
 * Without the lock, but where it is said.
 */
#ifndef NX_RETRY_H
#define NX_RETRY_H

#include "core/coll/coll_args.h"
#include "core/recover/roster.h"

/* Runs |a| once, whatever fails: its communicator is not rebuilt.  |*begun|: the other ranks
 * know of it. */
typedef nexar_err (*nx_retry_once)(const nx_coll_args *a, void *arg, bool *begun);

typedef struct nx_retry_how {
    nx_retry_once once;
    void *arg;   /* for it; of a request ... */
    size_t kept; /* ... a copy of so many bytes at |arg|; 0: |arg| itself */
} nx_retry_how;

/* The ranks that a call on |comm|, with |recovery.retries|, is for, held; it is checked for
 * them, and then run, or refused. */
nx_roster *nx_retry_roster(const nexar_comm *comm);
void nx_retry_refuse(const nexar_comm *comm, nx_roster *was);

/*
 * Runs |a|, which was checked for |was|, until all who are left have its result: in its turn.
 * |was| is given back.
 *
 * With the guise NX_GUISE_COMPRESSED |tensors| say what memory it changes: that is as it was
 * after an error.
 */
nexar_err nx_retry_run(const nx_coll_args *a, nx_roster *was, const nx_retry_how *how);

/*
 * The same in a turn that the caller has; |was| is the caller's.  |queued|: it is a request's.
 * Then a rank that has no memory for it, before it was begun, does not end alone, with the
 * others waiting for a call that it makes next: all end with NEXAR_ENOMEM or NEXAR_EDEVICE.
 */
nexar_err nx_retry_in_turn(const nx_coll_args *a, const nx_roster *was, const nx_retry_how *how,
                           bool queued);

/* A frame CONFIRM of |rank|; with the lock.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_retry_frame(nexar_comm *comm, uint32_t rank, const void *data,
                                       size_t len);

#endif /* NX_RETRY_H */
