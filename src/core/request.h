/*
 * request.h - an operation that the application waits for, tests or cancels.
 *
 * A message, a collective and a call each have a request of their own that begins
 * with nexar_request; completion is the same for all.  A request belongs to its
 * world's list from its making until it is waited for, tested true, or the world
 * ends.
 */
#ifndef NX_REQUEST_H
#define NX_REQUEST_H

#include "core/comm/comm.h"

/* What the kinds of requests differ in; called with the loop's lock held. */
typedef struct nx_request_ops {
    /* The outcome of |req|, which is done: sets |status| (may be NULL) where there
     * is a message, and makes the sentence of an error. */
    nexar_err (*finish)(nexar_request *req, nexar_status *status);
    /* What it is, for reports.  NULL: a collective, which reports know of. */
    void (*what)(const nexar_request *req, nx_blocked *out);
    /* A thread is about to wait for |until|, which |req| sets when it is done: it may do some of
     * the work of |req|, and of those of its communicator that come before it; the lock may be
     * released meanwhile.  NULL: no thread is needed for it. */
    void (*help)(nexar_request *req, const nx_event *until);
    /* Asks for its end before its time.  NULL: it cannot be taken back. */
    void (*cancel)(nexar_request *req);
    /* Frees it: it is done and in no list. */
    void (*destroy)(nexar_request *req);
} nx_request_ops;

struct nexar_request {
    const nx_request_ops *ops;
    nexar_comm *comm;    /* held by it */
    nx_incarnation *inc; /* the same: on which it was started */
    nx_list link;        /* in world->requests */
    bool done;
    nx_event event; /* set when done */
    nx_event *any;  /* of a thread that waits for the first of many; NULL: none does */
    bool mends;     /* its outcome is given out when |comm| is rebuilt: recovery.h */
    nx_list due;    /* until then it is not done; in inc->recovery.due */
};

/* Begins |req|, zeroed, on |comm|: it is in its world's list from now on. */
void nx_request_init(nexar_request *req, const nx_request_ops *ops, nexar_comm *comm);
/* It has ended; the outcome is there.  Once. */
void nx_request_done(nexar_request *req);
/* Takes it out and frees it: it is done, or was never started. */
void nx_request_destroy(nexar_request *req);

/* Frees those that the application has left behind; all are done. */
void nx_requests_free(nx_world *world);
/* And the memory that is kept for messages: p2p_request.c. */
void nx_p2p_free_spare(nx_world *world);

#endif /* NX_REQUEST_H */
