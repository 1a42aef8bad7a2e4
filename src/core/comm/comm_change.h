/*
 * comm_change.h - what has changed between two incarnations of a communicator, and the function of
 * the application that is called after each change.
 *
 * An incarnation keeps the ranks that its change counts: those that joined (ranks of its own), then
 * those that left, then those that failed (ranks of the previous incarnation), each ascending.
 *
 * With the loop's lock.
 */
#ifndef NX_COMM_CHANGE_H
#define NX_COMM_CHANGE_H

#include "core/comm/comm.h"

/* Keeps the ranks that next->change counts.  |gone|: the ranks of the incarnation before |next|
 * that are not in |next|.  Of these |some| have failed, or left, as |they| says, and the others
 * the other. The ranks that joined are the last of |next|.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_change_keep(nx_incarnation *next, const nx_rankset *gone,
                                       const nx_rankset *some, nexar_change_kind they);
/* The change of |next| is that of |old|.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_change_copy(nx_incarnation *next, const nx_incarnation *old);

/* |comm| has changed for the application: calls its function, after those calls that have not
 * ended. */
void nx_change_tell(nexar_comm *comm, const nexar_change *change);
/* Frees the calls that were not made: the world has no threads any more. */
void nx_changes_drop(nexar_comm *comm);

#endif /* NX_COMM_CHANGE_H */
