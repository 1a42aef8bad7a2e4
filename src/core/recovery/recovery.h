/*
 * recovery.h - what follows when a rank of a communicator has failed, by the setting
 * `recovery`: nothing, the end of the process, or a communicator that is rebuilt in place.
 *
 * Rebuilding has two halves, so that nobody waits for anybody's application:
 *
 *  1. The agreement (auto_shrink.h) begins when a rank knows of a failure, or is told that
 *     others do; it is driven by events alone.  From its beginning on all that is on the
 *     incarnation ends.  Its outcome makes the successor, of the ranks that are left, which
 *     nobody uses yet; if one of its ranks fails it gets a successor in turn.
 *  2. The communicator points to the successor when the application is told: when a collective
 *     returns NEXAR_EPEER, or a request with that outcome is claimed.  That is local.  Ranks
 *     never change under an application that has not been told.
 *
 * A collective that ends with NEXAR_EPEER ends for the application when (1) is done and no
 * collective is inside the old incarnation any more; all of them have failed, so that takes
 * no other rank either.
 *
 * With the loop's lock held.
 */
#ifndef NX_RECOVERY_H
#define NX_RECOVERY_H

#include "core/comm/comm.h"
#include "core/request.h"

/* The setting `recovery`. */
bool nx_recovery_is_automatic(const nx_world *world);

/* |inc|, not yet in its world, gets what it needs.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_recovery_open(nx_incarnation *inc);

/* ---- from failure.h and auto_shrink.h ----------------------------------------------------------
 */

/* A rank of |inc| has failed.  Soon the agreement is begun; or at once. */
void nx_recovery_want(nx_incarnation *inc);
void nx_recovery_on_failure(nx_incarnation *inc);
void nx_recovery_begin(nx_incarnation *inc, const char *why);
/* The agreement is over. */
void nx_recovery_decided(nx_incarnation *inc);
/* Does what was noted meanwhile. */
void nx_recovery_conclude(nx_world *world);
/* recovery_abort.c: a rank has failed, as |sentence| says: if that is the policy, the process ends
 * soon. */
void nx_recovery_abort(nx_world *world, const char *sentence);

/* ---- for collectives ------------------------------------------------------------------------ */

/* One begins on |inc|; it has ended, and lets go of it. */
void nx_recovery_enter(nx_incarnation *inc);
void nx_recovery_leave(nx_incarnation *inc);
/*
 * A collective of this thread on |inc|, which the caller holds, has ended with |err|, whose
 * sentence is the thread's last: waits until the communicator is rebuilt where that is to be.
 * Returns |err| with the same sentence, or one that says why it is not rebuilt; NEXAR_ENOMEM.
 */
NX_MUST_CHECK nexar_err nx_recovery_after(nx_incarnation *inc, nexar_err err);
/* Threads that wait for anything of |inc| look again. */
void nx_recovery_wake(nx_incarnation *inc);
/* The collective of |req| has ended with |err|: nx_request_done, now or when its
 * communicator can be rebuilt. */
void nx_recovery_request_done(nexar_request *req, nexar_err err);
/* Whether the outcome of |req|, which is done, may be given out: waits until |deadline_ns| at most
 * (0: does not wait) for its communicator to be ready. */
bool nx_recovery_await(const nexar_request *req, uint64_t deadline_ns);
/* The outcome of |req| is given out: its communicator becomes what it is to be.  Waits until that
 * is ready. */
void nx_recovery_claim(nexar_request *req);

/* ---- for update.h: docs/internals/elastic.md, Both at once
 * ---------------------------------------- */

/* The agreement of an update of |inc| has ended, and says that some have |failed|: does it count?
 * If not |inc| is to be replaced, on all ranks.  Waits until that is known. */
bool nx_recovery_update_counts(nx_incarnation *inc, bool failed);
/* Waits until |inc| can be rebuilt, and rebuilds it: NEXAR_EPEER, or NEXAR_ENOMEM. */
nexar_err nx_recovery_rebuild(nx_incarnation *inc, const char *name);

/* ---- for retry.h --------------------------------------------------------------------------- */

/* Waits until nx_recovery_wake is called; false: not before |deadline_ns|. */
bool nx_recovery_wait_change(nexar_comm *comm, uint64_t deadline_ns);
/*
 * |inc|, of which no rank has failed, is rebuilt so that all ranks end the operation that
 * not all have entered alike: with |err|, NEXAR_ETIMEDOUT, NEXAR_EDEVICE or NEXAR_ENOMEM, as
 * |why| says.
 * nx_recovery_given_up then says which on each of them; NEXAR_OK: it is run again.
 */
void nx_recovery_give_up(nx_incarnation *inc, nexar_err err, const char *why);
nexar_err nx_recovery_given_up(const nx_incarnation *inc);
/* Waits until |inc|, of whose communicator this thread has the turn, can be replaced.
 * NEXAR_EPEER: it never can. */
NX_MUST_CHECK nexar_err nx_recovery_wait_mended(const nx_incarnation *inc);
/* What was agreed on: as nx_commit_decide; and who is left out. */
void nx_recovery_verdict(const nx_incarnation *inc, uint64_t *keep, uint32_t *errs);
const nx_rankset *nx_recovery_failed(const nx_incarnation *inc);
/* Collectives of |comm| run on the successor from now on; without retry=on the application is
 * told.  NEXAR_ENOMEM: it is as it was. */
NX_MUST_CHECK nexar_err nx_recovery_advance(nexar_comm *comm);

#endif /* NX_RECOVERY_H */
