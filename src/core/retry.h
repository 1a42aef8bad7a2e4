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

#include "core/coll_run.h"

/* As nx_coll_wait, on a communicator with |recovery.retries|; without the lock. */
nexar_err nx_retry_wait(const nx_coll_args *a, void *shard_arg);

/* A frame CONFIRM of |rank|; with the lock.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_retry_frame(nexar_comm *comm, uint32_t rank, const void *data,
                                       size_t len);

/*
 * Makes |a|, a call on |comm| as it was, one on what is left of it without |failed|.
 *
 * NEXAR_EPEER
 *     It cannot be run again: the same on all ranks.
 */
NX_MUST_CHECK nexar_err nx_retry_translate(nx_coll_args *a, const nexar_comm *comm,
                                           const nx_rankset *failed);

#endif /* NX_RETRY_H */
