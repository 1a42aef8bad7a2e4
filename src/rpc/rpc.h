/*
 * rpc.h - remote procedure calls: a message to a handler on a peer, and its reply.
 *
 * A call is one message, a reply is another; the number of the call is the tag of both. The server
 * receives a call into its own memory, runs the handler on a thread of a pool, and sends the reply.
 * The caller allocates memory for a reply when its first bytes arrive, and hands it out: no byte is
 * copied twice.
 *
 * Levels. A call from outside of handlers has level 0; one from inside a handler of level n has
 * level n + 1. Every level has |threads| threads of its own, started on demand. So a handler that
 * waits for a call waits only for handlers of higher levels, and those of the highest level wait
 * for none. Whatever cycles of ranks the calls form, the threads suffice, and there are at most
 * |threads| times NX_RPC_LEVELS. Each level has its own message context, so calls of one level
 * never queue behind those of another.
 *
 * Invariants
 * 1.  Of each level at most 2 x |threads| calls are in memory: being received, waiting for a
 *     thread, running or being answered. Others are unrequested messages, bounded by the credit of
 *     NX_CLASS_CALL, and beyond it they wait at the caller.
 * 2.  Every received call is answered, or its caller is gone.
 * 3.  Replies have a class of their own and always find a posted receive.
 * 4.  A call ends once: by its reply, its time-out, a cancel, the failure of its peer, or
 *     nx_rpc_end. Anything that arrives for it later is dropped.
 *
 * Every function but nx_rpc_stop is called with the loop's lock held.
 */
#ifndef NX_RPC_H
#define NX_RPC_H

#include "loop/loop.h"
#include "msg/msg.h"

typedef struct nx_rpc nx_rpc;

enum { NX_RPC_LEVELS = 64 };

typedef struct nx_rpc_config {
    nx_loop *loop;
    nx_msg *msg;
    unsigned threads;   /* concurrent handlers of one level */
    uint8_t call_kind;  /* of level 0; the following NX_RPC_LEVELS - 1 kinds are reserved, too */
    uint8_t reply_kind; /* all in communicator 0 */
    /* The rank of |peer| for the handlers of |owner|; negative: none, and its calls find no
     * handler. */
    int (*rank_of)(void *owner, uint32_t peer);
    /* The communicator id under which handlers for calls on |comm| are registered. NULL: |comm|. */
    uint32_t (*handlers_of)(void *ctx, uint32_t comm);
    void *ctx;
    /* A registration of |owner| has ended: no call of it runs any more. */
    void (*release)(void *owner);
} nx_rpc_config;

/* NEXAR_ENOMEM, NEXAR_ESYS */
NX_MUST_CHECK nexar_err nx_rpc_create(nx_rpc **out, const nx_rpc_config *config);
/* Begins the shutdown: rejects calls that arrive or wait for a thread. Sets |done| when no handler
 * runs and all replies are sent. Running handlers may still call. */
void nx_rpc_close(nx_rpc *rpc, nx_event *done);
/* Fails all own calls with NEXAR_ECANCELED; receives nothing from now on. Before nx_msg_close. */
void nx_rpc_end(nx_rpc *rpc);
/* Joins the threads; no handler may run. Not with the lock held. NULL is allowed. */
void nx_rpc_stop(nx_rpc *rpc);
/* Call it after nx_rpc_end, nx_rpc_stop and nx_msg_destroy, when no transport holds a part of
 * |rpc|. NULL is allowed. */
void nx_rpc_destroy(nx_rpc *rpc);

/* |peer| has gone down (on_peer_down of msg). */
void nx_rpc_peer_down(nx_rpc *rpc, uint32_t peer, nexar_err err, const char *why);
/* Fails all own calls on communicator |comm| with |err| and |why|. */
void nx_rpc_fail_comm(nx_rpc *rpc, uint32_t comm, nexar_err err, const char *why);

/* ---- serving ------------------------------------------------------------------------- */

/* The handler of function |fn_id| of communicator |comm|. */
typedef struct nx_rpc_handler {
    nexar_rpc_fn fn; /* NULL: none */
    void *arg;
    void *owner; /* referenced until |release|, also on error */
} nx_rpc_handler;

/*
 * Replaces the registered handler, and waits until no call of the old one runs; inside a handler it
 * does not wait.
 *
 * NEXAR_ENOMEM
 *     The old handler is still registered.
 */
NX_MUST_CHECK nexar_err nx_rpc_register(nx_rpc *rpc, uint32_t comm, uint16_t fn_id,
                                        const nx_rpc_handler *handler);
/* Removes all handlers of |comm|, in the same way. */
void nx_rpc_forget(nx_rpc *rpc, uint32_t comm);

/* The rank of the caller, from config.rank_of; without the lock. */
int nx_rpc_caller(const nexar_rpc *call);
/* The runtime that runs |call|'s handler. */
nx_loop *nx_rpc_loop_of(const nexar_rpc *call);

/*
 * Replies, once; waits until |data| may be reused.
 *
 * NEXAR_EINVAL
 *     |call| was already replied to.
 * Others: those of a send.
 */
NX_MUST_CHECK nexar_err nx_rpc_reply(nexar_rpc *call, const void *data, size_t bytes);

/* ---- calling ------------------------------------------------------------------------- */

/* A call in flight: the caller's memory, borrowed until it is done. */
typedef struct nx_rpc_call {
    /* Set by the caller before the start. */
    void (*on_done)(struct nx_rpc_call *call); /* may be NULL; may free |call| */
    nx_event *event;                           /* set when done; may be NULL */
    bool wanted;                               /* the reply's bytes are needed */

    /* The result, valid when done. */
    bool done;
    nexar_err err;
    uint8_t *reply; /* owned by the caller if err is NEXAR_OK and it is wanted: never NULL then */
    uint64_t reply_bytes;
    char *text;    /* owned by the caller, may be NULL: the message of the handler */
    char why[160]; /* the message otherwise */

    /* rpc's own. */
    nx_rpc *rpc;
    nx_list link;
    uint64_t id;
    uint32_t peer, comm;
    uint64_t timeout_ns;
    nx_timer timer;
    bool decided, sent;        /* the result is known; the call's bytes were released */
    struct nx_rpc_inbox *from; /* the receive through which its reply arrives */
    uint8_t head[8];
    nx_bytes bytes[2];
    nx_req send;
} nx_rpc_call;

typedef struct nx_rpc_target {
    uint32_t peer, comm;
    uint16_t fn;
    const char *revoked; /* not NULL: the call fails with NEXAR_EREVOKED and this message */
} nx_rpc_target;

/*
 * Starts |call|, zeroed except for the caller's fields: |bytes| bytes of |data|, borrowed until it
 * is done. |timeout_ns| 0: none. The level is one above that of the handler that this thread runs.
 * May be done on return.
 *
 * Errors are reported by the call: NEXAR_EINVAL (nested too deep, too many bytes), NEXAR_ENOMEM
 * (also on the peer), NEXAR_ETIMEDOUT, NEXAR_ECANCELED, NEXAR_ENOHANDLER, NEXAR_EREMOTE,
 * NEXAR_EPROTO, those of the peer.
 */
void nx_rpc_start(nx_rpc *rpc, nx_rpc_call *call, const nx_rpc_target *target, const void *data,
                  size_t bytes, uint64_t timeout_ns);
/* Fails it with NEXAR_ECANCELED, as soon as the transport releases its bytes. */
void nx_rpc_cancel(nx_rpc_call *call);

/* Counters, for tests and the stall report. */
typedef struct nx_rpc_stats {
    uint64_t calls;           /* own pending calls */
    uint64_t accepted, most;  /* calls of peers in memory now, and their maximum */
    uint64_t running;         /* handlers */
    uint64_t served, refused; /* in all */
    uint64_t dropped;         /* replies without a waiting call */
} nx_rpc_stats;
void nx_rpc_stats_get(const nx_rpc *rpc, nx_rpc_stats *out);

#endif /* NX_RPC_H */
