/*
 * failure.h - which ranks of the world have failed, and the consequences.
 *
 * Owns the machines of cluster/: the membership of the world, the failure detector, the reliable
 * broadcast of failures, and, through agreement.h, those of each communicator.  What they and msg
 * report is an event for the membership (cluster/membership/membership.h), which records it at
 * once.  A task handles the consequences, since none of the machines may be called from inside its
 * own calls: the membership notifies the subscribers in the order of the table in fail_pending.c.
 *
 *  F1  No call returns an error that names a failed rank before nexar_comm_failed() on that thread
 *      includes the rank.  It reads the record of the membership, and what a failure ends, a
 *      subscriber ends (membership.h, M3).  msg holds the requests of a peer whose link has ended
 *      until its subscriber is notified.  A rank that another rank releases from a collective board
 *      because of a failure waits until it is notified itself.
 *  F2  A failure travels by reliable broadcast alone.  No frame and no board that ends an operation
 *      carries one.  The broadcast is started before anything ends.
 *  F3  While a rank is suspect, operations that need it wait.  The end of a link may not
 *      distinguish failed from left: no process listens there, and this rank asks the seed.  It
 *      may not distinguish failed from unreachable: nothing arrived for idle_timeout, and the
 *      heartbeat decides.  A rank that accuses this one is not judged yet (failure_detector.h, H5).
 *      msg holds the requests of such a peer until the verdict: failed, left, or no answer.  The
 *      wait is bounded by the time for an answer or by heartbeat_timeout.
 *  F4  NEXAR_EPEER does not always mean failed: the rank may have left, or called finalize.  Such a
 *      rank is in nx_failure_left() alone.  Other errors of a link (NEXAR_EPROTO, NEXAR_ECONNECT,
 *      NEXAR_EAUTH) say nothing about the rank: they end its requests at once, and the rank
 *      is watched.
 *
 * A rank is declared failed in four cases.  Its link ends without a goodbye.  Its host reports that
 * no process listens at its address; if there never was a link, the seed must also have received no
 * goodbye.  It does not answer for heartbeat_timeout.  Other ranks have declared it failed. That is
 * permanent. Then everything that needs it fails with NEXAR_EPEER: messages and remote calls (msg),
 * collectives that run or begin later on its communicators (coll), receives from any source if no
 * other rank is left. A rank that finalizes has left: what needs it fails too, but the rank has not
 * failed.
 *
 * Every function is called with the loop's lock held.
 */
#ifndef NX_FAILURE_H
#define NX_FAILURE_H

#include "cluster/membership/membership.h"
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
/* Messages are closed: detection ends. */
void nx_failure_quiet(nx_world *world);
/* Frees everything; communicators still exist, callbacks of the application do not. */
void nx_failure_stop(nx_world *world);

/*
 * The world has another view, and its slots: watches new members, forgets leavers, and handles
 * failures that were reported early.  NEXAR_ENOMEM: the world cannot continue.
 */
NX_MUST_CHECK nexar_err nx_failure_grow(nx_world *world);
/* |slot| joins, and cannot answer yet: its silence does not count until it can. */
void nx_failure_expect(nx_world *world, uint32_t slot, bool can_answer);
/* Handles recorded events now; not from inside a callback. */
void nx_failure_conclude(nx_world *world);
/* This rank leaves the world because of |why|: everything that needs others fails, and they notice
 * that it is gone. */
void nx_failure_quit(nx_world *world, const char *why);

/* The same, soon, because a frame of another rank could not be processed: that rank would wait
 * indefinitely. */
void nx_failure_end_receives(nx_world *world);

/* From msg; also if failure detection could not be started.  False: the frame is for another
 * module. */
bool nx_failure_on_control(nx_world *world, uint32_t peer, const void *data, size_t len);
/* The link to |peer| has ended (on_peer_end of msg).  True: the state of |peer| is being
 * determined. */
bool nx_failure_on_end(nx_world *world, uint32_t peer, nx_end end, nexar_err err);
void nx_failure_on_down(nx_world *world, uint32_t peer);

/* Whether a process of its host has reported that the process of |peer| has exited: no need to wait
 * for a link to it. */
bool nx_failure_ended(const nx_world *world, uint32_t peer);

/* From joining: how an unreachable member has left; or that the seed, which was asked, is away.
 * Handled soon. */
void nx_failure_on_farewell(void *ctx, uint64_t member, nx_farewell how);
void nx_failure_unanswered(nx_world *world);

/* |slot| has opened |link|.  If |slot| was declared failed, it is notified by the last frame on
 * |link|, which is closed, and true is returned. */
bool nx_failure_turn_away(nx_world *world, uint32_t slot, nx_link *link);

/* Sends a control frame that depends on this rank's knowledge of failures: to a peer that was not
 * heard recently, once it is heard (cluster/membership/heard_gate.h). */
void nx_failure_send(nx_world *world, uint32_t to, const void *frame, size_t len);

/* The same for a frame that ends something because a rank has failed: all broadcast items about
 * failures precede it on the same lane, so that |to| knows of them first. */
void nx_failure_vouch(nx_world *world, uint32_t to, const void *frame, size_t len);

/* Sends something to |peer|, for which this rank waits, to detect its failure; opens a link if
 * there is none. */
void nx_failure_call_for(nx_world *world, uint32_t peer);

/* Events for the membership.  |slot| has failed because of |why|, also if it is not known here yet:
 * other ranks may be in a view that this rank is about to install. */
void nx_failure_failed(nx_world *world, uint32_t slot, nx_life_source source, const char *why);
/* |slot| has left, or all ranks have agreed that it does. */
void nx_failure_left(nx_world *world, uint32_t slot, nx_life_source source);
/* |slot| is unreachable: it has left, unless a failure is reported. */
void nx_failure_absent(nx_world *world, uint32_t slot, nx_life_source source);
/* |failed|, ranks of |inc|, have failed or left according to an agreement, also if notifications
 * have not arrived yet; later queries and callbacks must agree with it.  Handles everything that
 * was recorded. */
void nx_failure_agreed(const nx_incarnation *inc, const nx_rankset *failed);
/* A communicator has work to do: nx_agreement_conclude is called soon. */
void nx_failure_wake(nx_world *world);

/* Fails receives from any source if every other rank of |inc| has failed, left or freed it. */
void nx_failure_check_alone(nx_incarnation *inc);

/* |inc| was made, and is in its communicator: it is notified of failed members. */
void nx_failure_opened(nx_incarnation *inc);

/* The state of |slot|, and the reason if it has failed: "its process has ended, at 14:03:22
 * UTC". */
nx_life nx_failure_life(const nx_world *world, uint32_t slot);
const char *nx_failure_why(const nx_world *world, uint32_t slot);
/* Whether any rank of the world has failed. */
bool nx_failure_any(const nx_world *world);

/* The failed ranks of |inc|, for messages, after ": ": the last one to fail, "rank 1 (node7,
 * 10.0.0.7:4433) has failed: its process has ended, at 14:03:22 UTC", and the number of others. "":
 * none, or this rank was itself declared failed. */
enum { NX_FAILURE_GONE = NX_FAILURE_WHY + NX_PEER_TEXT + 64 };
const char *nx_failure_gone(const nx_incarnation *inc, char buf[NX_FAILURE_GONE]);

/* Calls the failure callback of |comm| for each rank for which it was not called. */
void nx_failure_call(nexar_comm *comm);

#endif /* NX_FAILURE_H */
