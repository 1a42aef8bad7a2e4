/*
 * state_parts.h - the collectives of one nexar_state_sync, which share one number.
 *
 * What the application starts next comes after all of them on every rank, whichever of them a
 * rank has run.  When one fails here, or this rank gives up between two of them, the next one is
 * called off on the other ranks.
 */
#ifndef NX_STATE_PARTS_H
#define NX_STATE_PARTS_H

#include "coll/coll_call.h"
#include "core/comm/comm.h"

typedef struct nx_state_parts {
    nx_incarnation *inc; /* held by the caller */
    uint32_t number;
    uint32_t at; /* the part that comes next */
} nx_state_parts;

/* Takes the number of the operation.  An error uses it up: the other ranks are notified.
 * NEXAR_ENOMEM.  Without the lock, as all of these. */
NX_MUST_CHECK nexar_err nx_state_parts_begin(nx_state_parts *p, nx_incarnation *inc);
/* Runs the next part and waits for its end.  The errors are those of a collective. */
NX_MUST_CHECK nexar_err nx_state_parts_run(nx_state_parts *p, nx_coll_call *call);
/* This rank runs no further part because of |err|, whose message is the thread's last; returns
 * |err|. */
nexar_err nx_state_parts_give_up(nx_state_parts *p, nexar_err err);
/* The operation is over. */
void nx_state_parts_end(nx_state_parts *p);

/* The error |err| with the sentence |why|: callbacks that the loop runs on this thread leave
 * sentences of their own. */
nexar_err nx_state_error(nexar_err err, const char *why);

#endif /* NX_STATE_PARTS_H */
