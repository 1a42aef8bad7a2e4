/*
 * request.h - an operation that the application waits for, tests or cancels.
 *
 * Messages, collectives and calls have requests that begin with nexar_request; completion is the
 * same for all. A request is in its world's list from its creation until it is waited for, tested
 * true, or the world ends.
 */
#ifndef NX_REQUEST_H
#define NX_REQUEST_H

#include "core/comm/comm.h"

/* The operations of a kind of request; called with the loop's lock held. */
typedef struct nx_request_ops {
    /* The result of |req|, which is done: sets |status| (may be NULL) if there is a message, and
     * sets the error message. */
    nexar_err (*finish)(nexar_request *req, nexar_status *status);
    /* Describes it for reports.  NULL: a collective, which reports know already. */
    void (*what)(const nexar_request *req, nx_blocked *out);
    /* A thread is about to wait for |until|, which |req| sets when it is done. It may do work of
     * |req|, and of earlier requests of its communicator; the lock may be released meanwhile.
     * NULL: no thread is needed. */
    void (*help)(nexar_request *req, const nx_event *until);
    /* Requests a cancellation.  NULL: it cannot be cancelled. */
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
    nx_event *any;  /* set for a thread that waits for the first of several; NULL: none */
    bool mends;     /* its outcome is given out when |comm| is rebuilt: recovery.h */
    nx_list due;    /* until then it is not done; in inc->recovery.due */
};

/* Initialises |req|, zeroed, on |comm| and enters it in its world's list. */
void nx_request_init(nexar_request *req, const nx_request_ops *ops, nexar_comm *comm);
/* It has completed; the result is set.  Once. */
void nx_request_done(nexar_request *req);
/* Removes and frees it: it is done, or was never started. */
void nx_request_destroy(nexar_request *req);

/* Frees requests that the application has not waited for; all are done. */
void nx_requests_free(nx_world *world);
/* And the memory that is kept for messages: p2p_request.c. */
void nx_p2p_free_spare(nx_world *world);

#endif /* NX_REQUEST_H */
