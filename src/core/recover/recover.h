/*
 * recover.h - what follows when a rank of a communicator has failed, by the setting
 * `recovery`: nothing, the end of the process, or a communicator that is rebuilt in place.
 *
 * Rebuilding has two halves, so that nobody waits for anybody's application:
 *
 *  1. The agreement (rescue.h) begins when a rank knows of a failure, or is told that
 *     others do; it is driven by events alone.  From its beginning on all that is on the
 *     communicator ends.  Its outcome makes the communicator of those who are left, |next|,
 *     which nobody uses yet; if one of its ranks fails it is mended in turn.
 *  2. The communicator becomes |next| when the application is told: when a collective
 *     returns NEXAR_EPEER, or a request with that outcome is claimed.  That is local.  Ranks
 *     never change under an application that has not been told.
 *
 * A collective that ends with NEXAR_EPEER ends for the application when (1) is done and no
 * collective is inside the old communicator any more; all of them have failed, so that takes
 * no other rank either.  |epoch| tells whether a communicator was rebuilt since an operation
 * began.
 *
 * With the loop's lock held.
 */
#ifndef NX_RECOVER_H
#define NX_RECOVER_H

#include "core/comm.h"
#include "core/request.h"

/* |comm|, not yet in its world, gets what it needs.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_recover_open(nexar_comm *comm);
/* The application gives |comm| back. */
void nx_recover_freed(nexar_comm *comm);

/* Whether |comm| is the world's communicator, or what that is to become. */
bool nx_recover_is_world(const nexar_comm *comm);
/* The id under which |comm| serves remote calls: that of what it is to become. */
uint32_t nx_recover_last_id(const nexar_comm *comm);

/* ---- from failure.h and rescue.h ---------------------------------------------------------- */

/* A rank of |comm| has failed.  Soon the agreement is begun; or at once. */
void nx_recover_want(nexar_comm *comm);
void nx_recover_on_failure(nexar_comm *comm);
void nx_recover_begin(nexar_comm *comm, const char *why);
/* The agreement is over. */
void nx_recover_decided(nexar_comm *comm);
/* Does what was noted meanwhile. */
void nx_recover_settle(nx_world *world);
/* A rank has failed, as |sentence| says: if that is the policy, the process ends soon. */
void nx_recover_abort(nx_world *world, const char *sentence);

/* ---- for collectives ------------------------------------------------------------------------ */

/* One begins on |comm|; it has ended, and lets go of it. */
void nx_recover_enter(nexar_comm *comm);
void nx_recover_leave(nexar_comm *comm);
/*
 * A collective of this thread that began in |epoch| has ended with |err|, whose sentence is
 * the thread's last: waits until |comm| is rebuilt where that is to be.  Returns |err| with
 * the same sentence, or one that says why it is not rebuilt; NEXAR_ENOMEM.
 */
NX_MUST_CHECK nexar_err nx_recover_after(nexar_comm *comm, unsigned epoch, nexar_err err);
/* Threads that wait for anything of |comm| look again. */
void nx_recover_wake(nexar_comm *comm);
/* The collective of |req| has ended with |err|: nx_request_done, now or when its
 * communicator can be rebuilt. */
void nx_recover_request_done(nexar_request *req, nexar_err err);
/* Whether the outcome of |req|, which is done, may be given out: waits until |deadline_ns| at most
 * (0: does not wait) for its communicator to be ready. */
bool nx_recover_await(const nexar_request *req, uint64_t deadline_ns);
/* The outcome of |req| is given out: its communicator becomes what it is to be.  Waits until that
 * is ready. */
void nx_recover_claim(nexar_request *req);

/* ---- for update.h: docs/reliability.md, Both at once ---------------------------------------- */

/* Whether an update may begin its agreement on |comm|: that is not about to be rebuilt. */
bool nx_recover_may_update(const nexar_comm *comm);
/* Whether |comm| stays broken, and only an update makes it whole. */
bool nx_recover_is_lost(const nexar_comm *comm);
/* Whether this rank is in the agreement of an update of |comm|. */
void nx_recover_updating(nexar_comm *comm, bool is);
/* That has ended, and says that some have |failed|: does it count?  If not |comm| is to be
 * rebuilt, on all ranks.  Waits until that is known. */
bool nx_recover_update_counts(nexar_comm *comm, bool failed);
/* Waits until |comm| can be rebuilt, and rebuilds it: NEXAR_EPEER, or NEXAR_ENOMEM. */
nexar_err nx_recover_rebuild(nexar_comm *comm, const char *name);

/* ---- for retry.h --------------------------------------------------------------------------- */

/* A place in the row of the collectives of a communicator; zero-initialised. */
typedef struct nx_place {
    nx_list link;   /* in comm->recovery.turns */
    nx_event event; /* set: it is its turn */
} nx_place;

/* The last place for now; waits until it is |turn|'s, and enters; leaves, and lets the next
 * one.  Places are taken in the order of calls, which is the same on all ranks. */
void nx_recover_queue(nexar_comm *comm, nx_place *turn);
void nx_recover_take_turn(nexar_comm *comm, nx_place *turn);
void nx_recover_give_turn(nexar_comm *comm);
/* Waits until the requests that there are now have ended. */
void nx_recover_drain(nexar_comm *comm);
/* Waits until nx_recover_wake is called; false: not before |deadline_ns|. */
bool nx_recover_wait_change(nexar_comm *comm, uint64_t deadline_ns);
/*
 * |comm|, of which no rank has failed, is rebuilt so that all ranks end the operation that
 * not all have entered alike: with |err|, NEXAR_ETIMEDOUT, NEXAR_EDEVICE or NEXAR_ENOMEM, as
 * |why| says.
 * nx_recover_given_up then says which on each of them; NEXAR_OK: it is run again.
 */
void nx_recover_give_up(nexar_comm *comm, nexar_err err, const char *why);
nexar_err nx_recover_given_up(const nexar_comm *comm);
/* Waits until |comm|, which this thread has the turn of, can be rebuilt.  NEXAR_EPEER: it
 * never can. */
NX_MUST_CHECK nexar_err nx_recover_wait_mended(nexar_comm *comm);
/* What was agreed on: as nx_confirm_decide; and who is left out. */
void nx_recover_verdict(const nexar_comm *comm, uint64_t *keep, uint32_t *errs);
const nx_rankset *nx_recover_failed(const nexar_comm *comm);
/* |comm| becomes what it is to be.  NEXAR_ENOMEM: it is as it was. */
NX_MUST_CHECK nexar_err nx_recover_become(nexar_comm *comm);

#endif /* NX_RECOVER_H */
