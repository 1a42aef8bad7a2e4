/*
 * recovery.h - what happens when a rank of a communicator has failed, by the setting `recovery`:
 * nothing, exit of the process, or rebuilding the communicator in place.
 *
 * Rebuilding has two halves, so that no rank waits for another's application:
 *
 * 1.  The agreement (auto_shrink.h) begins when a rank knows of a failure, or is notified that
 *     others do; only events drive it.  When it begins, everything on the incarnation fails.  Its
 *     outcome makes the successor, of the surviving ranks, which is not used yet.  If one of its
 * ranks fails, the successor gets a successor itself. 2.  The communicator points to the
 * successor when the application is notified: when a collective
 *     returns NEXAR_EPEER, or a request with that outcome is claimed.  That is local.  Ranks
 *     never change under an application that was not notified.
 *
 * A collective that fails with NEXAR_EPEER returns to the application when (1) is done and no
 * collective is inside the old incarnation any more.  All of them have failed, so that does not
 * depend on another rank.
 *
 * With the loop's lock held.
 */
#ifndef NX_RECOVERY_H
#define NX_RECOVERY_H

#include "core/comm/comm.h"
#include "core/request.h"

/* The setting `recovery`. */
bool nx_recovery_is_automatic(const nx_world *world);

/* Prepares |inc|, not yet in its world, for recovery.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_recovery_open(nx_incarnation *inc);

/* ---- from failure.h and auto_shrink.h --------------------------------------------------- */

/* A rank of |inc| has failed.  The agreement begins soon, or at once. */
void nx_recovery_want(nx_incarnation *inc);
void nx_recovery_on_failure(nx_incarnation *inc);
void nx_recovery_begin(nx_incarnation *inc, const char *why);
/* The agreement has ended. */
void nx_recovery_decided(nx_incarnation *inc);
/* Does what was noted meanwhile. */
void nx_recovery_conclude(nx_world *world);
/* recovery_abort.c: a rank has failed, with the message |sentence|: with that policy, the
 * process exits soon. */
void nx_recovery_abort(nx_world *world, const char *sentence);

/* ---- for collectives ------------------------------------------------------------------------ */

/* A collective begins on |inc|; it has ended and releases it. */
void nx_recovery_enter(nx_incarnation *inc);
void nx_recovery_leave(nx_incarnation *inc);
/*
 * A collective of this thread on |inc|, which the caller holds, has failed with |err|; its message
 * is the thread's last: waits until the communicator is rebuilt, if it is to be. Returns |err| with
 * the same message, or one that says why it is not rebuilt; NEXAR_ENOMEM.
 */
NX_MUST_CHECK nexar_err nx_recovery_after(nx_incarnation *inc, nexar_err err);
/* Wakes threads that wait for a change of |inc|. */
void nx_recovery_wake(nx_incarnation *inc);
/* The collective of |req| has ended with |err|: calls nx_request_done, now or when its communicator
 * can be rebuilt. */
void nx_recovery_request_done(nexar_request *req, nexar_err err);
/* Whether the result of |req|, which is done, may be returned: waits until |deadline_ns| at most
 * (0: does not wait) for its communicator to be ready. */
bool nx_recovery_await(const nexar_request *req, uint64_t deadline_ns);
/* The result of |req| is returned: updates its communicator.  Waits until that is ready. */
void nx_recovery_claim(nexar_request *req);

/* ---- for update.h: docs/internals/elastic.md, Both at once ------------------------------ */

/* The agreement of an update of |inc| has ended, and reports that some ranks have |failed|: does it
 * count? If not, |inc| is replaced on all ranks.  Waits until that is known. */
bool nx_recovery_update_counts(nx_incarnation *inc, bool failed);
/* Waits until |inc| can be rebuilt, and rebuilds it: NEXAR_EPEER, or NEXAR_ENOMEM. */
nexar_err nx_recovery_rebuild(nx_incarnation *inc, const char *name);

/* ---- for retry.h --------------------------------------------------------------------------- */

/* Waits until nx_recovery_wake is called; false: |deadline_ns| has passed. */
bool nx_recovery_wait_change(nexar_comm *comm, uint64_t deadline_ns);
/*
 * Rebuilds |inc|, of which no rank has failed, so that all ranks end alike an operation that not
 * all have entered: with |err|, NEXAR_ETIMEDOUT, NEXAR_EDEVICE or NEXAR_ENOMEM, because of |why|.
 * nx_recovery_given_up then returns it on each of them; NEXAR_OK: run it again.
 */
void nx_recovery_give_up(nx_incarnation *inc, nexar_err err, const char *why);
nexar_err nx_recovery_given_up(const nx_incarnation *inc);
/* Waits until |inc|, whose communicator runs this thread's call, can be replaced. NEXAR_EPEER: it
 * never can. */
NX_MUST_CHECK nexar_err nx_recovery_wait_mended(const nx_incarnation *inc);
/* The decision, as nx_commit_decide; and the excluded ranks. */
void nx_recovery_verdict(const nx_incarnation *inc, uint64_t *keep, uint32_t *errs);
const nx_rankset *nx_recovery_failed(const nx_incarnation *inc);
/* Collectives of |comm| run on the successor from now on; without retry=on the application is
 * notified.  NEXAR_ENOMEM: unchanged. */
NX_MUST_CHECK nexar_err nx_recovery_advance(nexar_comm *comm);

#endif /* NX_RECOVERY_H */
