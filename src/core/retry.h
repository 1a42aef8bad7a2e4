/*
 * retry.h - blocking collectives with the setting retry=on: confirmed, and run again among
 * those who are left when a rank fails.
 *
 * A collective is run as always; then its ranks confirm that all have its result
 * (cluster/confirm.h).  When the communicator breaks, its recovery (recover.h) decides with
 * the same agreement what counts: a collective that all have is returned from as if nothing
 * had been, and the communicator is rebuilt in the next one; one that not all have is run
 * again on the rebuilt one, by all, from inputs that were kept.
 *
 * One such collective of a communicator is on its way at a time: another thread waits.
 */
#ifndef NX_RETRY_H
#define NX_RETRY_H

#include "core/coll_args.h"

/* Runs |a| once, whatever fails: its communicator is not rebuilt.  |*begun|: the other ranks
 * know of it. */
typedef nexar_err (*nx_retry_once)(const nx_coll_args *a, void *arg, bool *begun);

/*
 * Runs |a|, which was checked, by |once| with |arg|, until all who are left have its result.
 * On a communicator with |recovery.retries|; without the lock.
 *
 * With the guise NX_GUISE_COMPRESSED |tensors| say what memory it changes: that is as it was
 * after an error.
 */
nexar_err nx_retry_run(const nx_coll_args *a, nx_retry_once once, void *arg);

/* A frame CONFIRM of |rank|; with the lock.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_retry_frame(nexar_comm *comm, uint32_t rank, const void *data,
                                       size_t len);

#endif /* NX_RETRY_H */
