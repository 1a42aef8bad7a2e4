/*
 * failure.h - who of the world has failed, and what follows from it.
 *
 * Owns the machines of cluster/: the membership of the world, the failure detector, the reliable
 * broadcast of failures, and, through agreement.h, those of each communicator.  What they and msg
 * find out is an event for the membership (cluster/membership.h), which records it at once.  What
 * follows is done by a task, since none of them may be called from inside its own calls: the
 * membership notifies the subscribers in the order of the table in fail_pending.c.
 *
 *  F1  No call returns an error that names a failed rank before nexar_comm_failed() on that thread
 *      includes the rank.  It reads the record of the membership, and what a failure ends, a
 *      subscriber ends (membership.h, M3).  msg holds the requests of a peer whose link has ended
 *      until its subscriber is notified.  A rank that another rank lets go of a collective board
 *      because of a failure waits until it is notified itself.
 *  F2  A failure travels by reliable broadcast alone.  No frame and no board that ends an operation
 *      carries one.  The broadcast is started before anything ends.
 *  F3  While a rank is suspect, what needs it waits.  The end of a link may not tell failed from
 *      left (nothing listens there: the seed is asked) or failed from unreachable (nothing came for
 *      idle_timeout: the heartbeat decides); and a rank that accuses this one is not judged yet
 *      (failure_detector.h, H5).  msg holds the requests of such a peer until the verdict: failed,
 * left, or no answer, which is bounded by the time for an answer or by heartbeat_timeout. F4
 * NEXAR_EPEER does not always mean failed: the rank may have left, or called finalize.  Such a rank
 * is in nx_failure_left() alone.  Other errors of a link (NEXAR_EPROTO, NEXAR_ECONNECT,
 *      NEXAR_EAUTH) say nothing of the rank: they end its requests at once, and the rank
 *      is watched.
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

#include "cluster/membership.h"
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

/* The same with a frame that ends something because a rank has failed: what is broadcast of all
 * failures goes before it, on the same lane, so that |to| knows of them first. */
void nx_failure_vouch(nx_world *world, uint32_t to, const void *frame, size_t len);

/* Sends something to |peer|, for which this rank waits, so that it is found out if it has gone:
 * where there is no link, one is made. */
void nx_failure_call_for(nx_world *world, uint32_t peer);

/* Events for the membership.  |slot| has failed, as |why| says, also if it is not known here yet:
 * others may have gone on to a view that this rank is about to come to. */
void nx_failure_failed(nx_world *world, uint32_t slot, nx_life_source source, const char *why);
/* |slot| has left, or all have agreed that it does. */
void nx_failure_left(nx_world *world, uint32_t slot, nx_life_source source);
/* |slot| cannot be found: it has left, unless it turns out that it has failed. */
void nx_failure_absent(nx_world *world, uint32_t slot, nx_life_source source);
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

/* The state of |slot|, and why a slot that has failed has: "its process has ended, at 14:03:22
 * UTC". */
nx_life nx_failure_life(const nx_world *world, uint32_t slot);
const char *nx_failure_why(const nx_world *world, uint32_t slot);
/* Whether any rank of the world has failed. */
bool nx_failure_any(const nx_world *world);

/* Who of |inc| is gone, for a sentence, after ": ": the one that was the last to fail, "rank 1
 * (node7, 10.0.0.7:4433) has failed: its process has ended, at 14:03:22 UTC", and how many more.
 * "": nobody, or this rank is itself held for dead. */
enum { NX_FAILURE_GONE = NX_FAILURE_WHY + NX_PEER_TEXT + 64 };
const char *nx_failure_gone(const nx_incarnation *inc, char buf[NX_FAILURE_GONE]);

/* Calls the function that |comm| has for failures, for each rank that it was not called
 * for. */
void nx_failure_call(nexar_comm *comm);

#endif /* NX_FAILURE_H */
