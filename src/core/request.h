/*
 * request.h - an operation that the application waits for, tests or cancels.
 *
 * Point-to-point requests are one nx_req.  A request belongs to its world's list
 * from its making until it is waited for, tested true, or the world ends.
 */
#ifndef NX_REQUEST_H
#define NX_REQUEST_H

#include "core/comm.h"

/* What a blocking call and a request have in common: the message request and
 * the words for its error. */
typedef struct nx_op {
    nx_req req;
    nx_event event;
    nexar_comm *comm;
    const char *name; /* "send", "recv", ... */
    int peer;         /* rank as the caller gave it; NEXAR_ANY_SOURCE too */
    uint64_t tag;
    bool sending;
} nx_op;

struct nexar_request {
    nx_op op;
    nx_list link; /* in world->requests */
    union {       /* the buffer */
        nx_iov_span span;
        nx_bytes bytes;
    };
};

/* The outcome of |op|, which is done: sets |status| (may be NULL) where there is
 * a message, and makes the sentence of an error. */
nexar_err nx_op_finish(nx_op *op, nexar_status *status);

/* A request on |comm|, not started, in its world's list; NULL: out of memory. */
nexar_request *nx_request_create(nexar_comm *comm);
/* Takes it out and frees it: it is done, or was never started. */
void nx_request_destroy(nexar_request *req);

/* Frees those that the application has left behind; all are done. */
void nx_requests_free(nx_world *world);

#endif /* NX_REQUEST_H */
