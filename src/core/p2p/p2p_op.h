/*
 * p2p_op.h - one send, receive or probe of the application, from its start to its result, on host
 * or device memory.
 *
 * A thread of the world stages a send from a device chunk by chunk.  It passes the send to msg
 * after earlier sends of its communicator, which keeps their order. The rest of a long message
 * is read while it is sent (device/outflow.h). A receive to a device streams (device/inflow.h).
 * With the loop's lock held.
 */
#ifndef NX_P2P_OP_H
#define NX_P2P_OP_H

#include "coll/run/run.h"
#include "core/comm/comm.h"
#include "core/comm/comm_device.h"

typedef struct nx_op {
    nx_req req;
    nexar_comm *comm;
    nx_incarnation *inc; /* on which it was started; referenced until it has ended */
    const char *name;    /* "send", "recv", ... */
    int peer;            /* rank as the caller gave it; NEXAR_ANY_SOURCE too */
    uint32_t to;         /* the same as msg names it */
    uint32_t id;         /* of |inc| */
    uint64_t number;     /* the message taken by a matched probe; 0: none */
    int source;          /* rank in |inc| of the message's source */
    uint64_t tag;
    bool sending;
    bool over;                         /* the outcome is in |req| */
    void (*on_over)(struct nx_op *op); /* once */
    nx_devmem mem;                     /* referenced until it has ended; none: host memory */
    struct nx_op_device *device;       /* p2p_device.c; NULL: none */
} nx_op;

/* Begins |op|: |mem| as nx_comm_memory gave it, or zero. */
void nx_op_init(nx_op *op, nexar_comm *comm, nx_devmem mem, void (*on_over)(nx_op *op));

/* |bytes| and |iov| are borrowed until it has ended, if there are several. */
void nx_op_send(nx_op *op, const char *name, const nx_bytes *bytes, size_t n, int dest,
                uint64_t tag);
/* The same; it completes when a receive has taken the message.  Host memory only. */
void nx_op_send_synchronous(nx_op *op, const char *name, const nx_bytes *bytes, size_t n, int dest,
                            uint64_t tag);
/* Fast path without an nx_op: sends at once.  False: nothing has happened. */
NX_MUST_CHECK bool nx_op_send_short(nexar_comm *comm, const nx_bytes *bytes, int dest,
                                    uint64_t tag);
/* |op|, which was not begun, has completed: its message was sent by the fast path. */
void nx_op_sent(nx_op *op, const char *name, int dest, uint64_t tag);
void nx_op_recv(nx_op *op, const char *name, const nx_iov_span *iov, size_t n, int source,
                uint64_t tag);
/* Fast path: receives the next message from |source| if it is short and arrives soon.  False:
 * nothing has happened. */
NX_MUST_CHECK bool nx_op_recv_short(nexar_comm *comm, const nx_iov_span *span, int source,
                                    uint64_t tag, nexar_status *status);
/* Receives the message |number| that a matched probe took from |source|, a rank of |comm|. */
void nx_op_take(nx_op *op, const char *name, const nx_iov_span *span, int source, uint64_t tag,
                uint64_t number);
void nx_op_probe(nx_op *op, const char *name, int source, uint64_t tag);
/* A matched probe: op->req.recv.number identifies the message when it has completed. */
void nx_op_match(nx_op *op, const char *name, int source, uint64_t tag);
/* The receive of |op| begins in msg. */
void nx_op_post(nx_op *op, const nx_sink *sink);
/* Cancels |op|, which has not completed. */
void nx_op_cancel(nx_op *op);
/* The outcome, and its error message. */
nexar_err nx_op_finish(nx_op *op, nexar_status *status);

/* As reports have it. */
nx_what nx_op_what(const nx_op *op);

/* A rank, or any, as msg names it. */
uint32_t nx_op_source(const nx_incarnation *inc, int source);

/* ---- p2p_device.c -------------------------------------------------------------------- */

/* Completes |op|, whose request is done. */
void nx_op_over(nx_op *op);
void nx_op_device_send(nx_op *op, const nx_bytes *bytes, size_t n);
void nx_op_device_recv(nx_op *op, const nx_iov_span *iov, size_t n);
/* msg has completed a send that was passed to it here; or the message of a receive has arrived. */
void nx_op_device_sent(nx_op *op);
void nx_op_device_received(nx_op *op);
/* True: it was not passed to msg yet, and ends later. */
bool nx_op_device_cancel(nx_op *op);
/* What |op| waits for at a device; NULL: nothing.  |*snag| describes the operation for the returned
 * message: |op| itself, or an earlier one.  |rank| is not set. */
const nx_op *nx_op_device_wait(const nx_op *op, nx_local_wait *snag);
void nx_op_device_free(nx_op *op);

#endif /* NX_P2P_OP_H */
