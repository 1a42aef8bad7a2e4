/*
 * failure.h - who of the world has failed, and what follows from it.
 *
 * Owns the machines of cluster/: the failure detector (heartbeats), the broadcast of failures in
 * the world, and, through agreement.h, those of each communicator.  What they and msg report is
 * recorded at once.  What follows from it is done by a task, since none of them may be called from
 * inside its own calls.
 *
 * The record is nx_failure_dead() and nx_failure_left(); nexar_comm_failed() reads it.
 *
 *  F1  No call returns an error that names a failed rank before nexar_comm_failed() on that thread
 *      includes the rank.  Every detector records the failure before anything fails because of it:
 *      the end of a link in on_peer_end of msg, before the requests of that peer end; a heartbeat
 *      verdict, a broadcast item and an agreement in their callbacks; another rank's word on a
 *      collective board before the collective returns.
 *  F2  A rank that makes an operation fail on others tells them of the failure first, on the same
 *      lane (nx_failure_vouch) or on the same board.
 *  F3  While a rank is suspect, what needs it waits.  The end of a link may not tell failed from
 *      left (nothing listens there: the seed is asked) or failed from unreachable (nothing came for
 *      idle_timeout: the heartbeat decides); and a rank that accuses this one is not judged yet
 *      (failure_detector.h, H5).  msg holds the requests of such a peer until the verdict: failed,
 * left, or no answer, which is bounded by the time for an answer or by heartbeat_timeout. F4
 * NEXAR_EPEER does not always mean failed: the rank may have left, or called finalize.  Such a rank
 * is in nx_failure_left() alone.  Other errors of a link (NEXAR_EPROTO, NEXAR_ECONNECT,
 *      NEXAR_EAUTH) say nothing of the rank: they end its requests at once, and the rank
 *      is watched.
 *  F5  The record only grows, and a rank is recorded once, with one reason.  A rank that is itself
 *      declared failed records no other.
 *
 * A rank has failed when its link ends without a goodbye, when its host says that nothing
 * listens at its address (and, if there never was a link, the seed has not had a goodbye either),
 * when it does not answer for heartbeat_timeout, or when others say so; for good.  Then all that
 * needs it ends with NEXAR_EPEER: messages and remote calls (msg), collectives that run or begin
 * later on a communicator that it is in (coll), receives from anybody where nobody else is left.  A
 * rank that finalizes has left: what needs it ends too, but it has not failed.
 *
 * Everything here is called with the loop's lock held.
 */
#ifndef NX_FAILURE_H
#define NX_FAILURE_H

#include "cluster/rankset.h"
#include "core/comm/incarnation.h"

enum { NX_FAILURE_WHY = 200 };

/*
 * The world has formed and has its messages.
 *
 * NEXAR_EINVAL
 *     heartbeat_interval is longer than heartbeat_timeout.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_failure_start(nx_world *world);
/* Messages are closed: nothing is found out any more. */
void nx_failure_quiet(nx_world *world);
/* Frees all; communicators are still there, callbacks of the application are not. */
void nx_failure_stop(nx_world *world);

/*
 * The world has another view, and its slots: those who have come are watched, what is
 * about those who are gone is forgotten, and deaths that were told of before their time
 * are acted upon.  NEXAR_ENOMEM: the world cannot go on.
 */
NX_MUST_CHECK nexar_err nx_failure_grow(nx_world *world);
/* |slot| is about to leave, as all have agreed: it has not failed, whatever is said.
 * Acted upon soon. */
void nx_failure_leaves(nx_world *world, uint32_t slot);
/* |slot| joins, and cannot answer yet: its silence does not count until it can. */
void nx_failure_expect(nx_world *world, uint32_t slot, bool can_answer);
/* Acts upon what was noted, now; not from inside a callback. */
void nx_failure_conclude(nx_world *world);
/* This rank is out of the world, as |why| says: all that needs others ends, and they find
 * that it is gone. */
void nx_failure_quit(nx_world *world, const char *why);

/* The same, soon, since a word of others could not be taken in: they would wait for this
 * rank for ever. */
void nx_failure_end_receives(nx_world *world);

/* From msg, also where it could not be started.  False: the frame is not of this. */
bool nx_failure_on_control(nx_world *world, uint32_t peer, const void *data, size_t len);
/* The link to |peer| has ended, as msg says in on_peer_end.  True: what that says of |peer| is
 * found out first. */
bool nx_failure_on_end(nx_world *world, uint32_t peer, nx_end end, nexar_err err);
void nx_failure_on_down(nx_world *world, uint32_t peer);

/* Whether the process of |peer| is known, from one of its host, to be no more: a link to it
 * need not be waited for. */
bool nx_failure_ended(const nx_world *world, uint32_t peer);

/* From joining: how a member has gone that nothing was found of; that the seed, which was asked for
 * it, is away.  Acted upon soon. */
void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how);
void nx_failure_unanswered(nx_world *world);

/* |link| is one that |slot| has made.  If that has failed it is told so, as the last word on
 * |link|, which is closed, and true is returned. */
bool nx_failure_turn_away(nx_world *world, uint32_t slot, nx_link *link);

/* Sends a control frame that rests upon what this rank knows of deaths: to one that it does
 * not hear when that has been heard (cluster/heard_gate.h). */
void nx_failure_send(nx_world *world, uint32_t to, const void *frame, size_t len);

/* The same with a frame that says that an operation has failed: before it |to| is told of all
 * deaths that are known here, so that it knows of whom the frame speaks. */
void nx_failure_vouch(nx_world *world, uint32_t to, const void *frame, size_t len);

/* Sends something to |peer|, for which this rank waits, so that it is found out if it has gone:
 * where there is no link, one is made. */
void nx_failure_call_for(nx_world *world, uint32_t peer);

/* |rank|, a slot, has failed, as |why| says.  Recorded at once, or when the slot is known here:
 * others may have gone on to a view that this rank is about to come to. */
void nx_failure_learn(nx_world *world, uint32_t rank, const char *why);
/* |slot| is gone, say others to whom it has said good-bye: it has left, unless news come that it
 * has failed. */
void nx_failure_absent(nx_world *world, uint32_t slot);
/* |failed|, ranks of |inc|, have failed, or left, as an agreement says, also where the news of it
 * have not come yet: what is asked or called for after it shall not say otherwise.  Acts upon all
 * that was noted. */
void nx_failure_agreed(const nx_incarnation *inc, const nx_rankset *failed);
/* A communicator has something to do: nx_agreement_conclude is called soon. */
void nx_failure_wake(nx_world *world);

/* Receives from anybody end where nobody else of |inc| is left that has not freed it. */
void nx_failure_check_alone(nx_incarnation *inc);

/* |inc| has been made, and is its communicator's: those that have failed are told. */
void nx_failure_opened(nx_incarnation *inc);

/* The record: the slots of those that have failed; of those that have left. */
const nx_rankset *nx_failure_dead(const nx_world *world);
const nx_rankset *nx_failure_left(const nx_world *world);
/* Why |rank|, which has failed, has: "its process has ended, at 14:03:22 UTC". */
const char *nx_failure_why(const nx_world *world, uint32_t rank);

/* Who of |inc| is gone, for a sentence, after ": ": the one that was the last to fail, "rank 1
 * (node7, 10.0.0.7:4433) has failed: its process has ended, at 14:03:22 UTC", and how many more.
 * "": nobody, or this rank is itself held for dead. */
enum { NX_FAILURE_GONE = NX_FAILURE_WHY + NX_PEER_TEXT + 64 };
const char *nx_failure_gone(const nx_incarnation *inc, char buf[NX_FAILURE_GONE]);

/* Calls the function that |comm| has for failures, for each rank that it was not called
 * for. */
void nx_failure_call(nexar_comm *comm);

#endif /* NX_FAILURE_H */
