/*
 * roster.h - with retry=on: who is in a communicator, and what the application knows of that.
 *
 * A request may be run again, and its communicator be rebuilt, at any time; ranks are numbers
 * in the application's hands, and must not change there before it is told.  So a communicator
 * has two rosters: |now|, that of what it is, and |shown|, what the application was last told.
 * Calls are made, checked and laid out by |shown|; they are run by |now|.
 *
 *  R1  |shown| is NULL where the application knows all: then |now| is what it knows.
 *  R2  |shown| changes only when a request of a collective is claimed, or in a blocking
 *      collective, and only to a later one: to what the communicator was when that one ended.
 *      So whoever claims sees the ranks that have contributed, and not those who are left
 *      after the next request; and all ranks see the same after the same call.
 *  R3  While |shown| is not NULL messages and remote calls on the communicator end with
 *      NEXAR_EREVOKED: they would go by numbers that are not true any more.
 *  R4  A roster never changes once a call holds it.  Rosters are made with their communicators
 *      (recover.h makes the next one before it is needed), so that being told never fails.
 *
 * With the loop's lock, but where it is said.
 */
#ifndef NX_ROSTER_H
#define NX_ROSTER_H

#include "core/comm.h"

struct nx_roster {
    uint32_t holds;
    unsigned epoch; /* how often the communicator had been rebuilt */
    uint32_t size, rank;
    nexar_change last;
    uint32_t slots[]; /* by rank */
};

/* That of |comm| as it is, for |now|.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_roster_create(const nexar_comm *comm, nx_roster **out);
/* |comm|, of which the application has been told |shown| or |now|, becomes |next|: the roster
 * of what it is now, which is the communicator's from here. */
void nx_roster_replace(nexar_comm *comm, nx_roster *next);

void nx_roster_hold(nx_roster *r);
/* NULL is left alone. */
void nx_roster_release(nx_roster *r);

/* What the application knows of |comm|, held. */
nx_roster *nx_roster_known(const nexar_comm *comm);
/* The application is told |r|, one of |comm|; does nothing where it knows that, or more. */
void nx_roster_show(nexar_comm *comm, nx_roster *r);
/* The rank that |slot|, of a member of |comm|, has for the application. */
uint32_t nx_roster_rank(const nexar_comm *comm, uint32_t slot);

#endif /* NX_ROSTER_H */
