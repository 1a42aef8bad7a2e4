/*
 * rpc.h - remote procedure calls: a message to a handler over there, and its reply.
 *
 * A call is one message, a reply is another; the number of the call is the tag of
 * both.  The server receives a call into memory of its own, runs the handler on a
 * thread of a pool, and sends what it replies.  The caller takes memory for a reply
 * when its first bytes come, and hands it out: no byte is copied twice.
 *
 * Levels.  A call from outside of handlers has level 0, one from inside of a handler
 * of level n has level n + 1.  Every level has |threads| threads of its own, started
 * when they are needed.  So a handler that waits for a call waits only for handlers of
 * higher levels, and those of the highest wait for none: however many calls come, and
 * whatever rings of ranks they form, threads are enough, and never more than |threads|
 * times NX_RPC_LEVELS.  Each level is a context of messages by itself, so that calls
 * of one are never behind those of another.
 *
 * Invariants
 *  1. Of each level at most 2 x |threads| calls are in memory, being received, waiting
 *     for a thread, running or being answered.  The others are messages that nobody
 *     has asked for: bounded by the credit of NX_CLASS_CALL, and then they wait where
 *     they were called.
 *  2. Whatever is received is answered, or its caller is gone.
 *  3. Replies have a class of their own and always find a receive.
 *  4. A call ends once: by its reply, its time-out, a cancel, the end of its peer, or
 *     nx_rpc_end.  What comes for it later is dropped as it comes.
 *
 * Everything is called with the loop's lock held, but nx_rpc_stop.
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
    unsigned threads;   /* handlers of one level that run at once */
    uint8_t call_kind;  /* of level 0; the NX_RPC_LEVELS - 1 kinds after it are ours too */
    uint8_t reply_kind; /* all in communicator 0 */
    /* The rank that |peer| has for the handlers of |owner|; negative: it has none, and
     * its calls find no handler. */
    int (*rank_of)(void *owner, uint32_t peer);
    /* Under which number the handlers for calls on |comm| are registered.  NULL: its own. */
    uint32_t (*handlers_of)(void *ctx, uint32_t comm);
    void *ctx;
    /* A registration of |owner| is over: no call of it runs any more. */
    void (*release)(void *owner);
} nx_rpc_config;

/* NEXAR_ENOMEM, NEXAR_ESYS */
NX_MUST_CHECK nexar_err nx_rpc_create(nx_rpc **out, const nx_rpc_config *config);
/* Begins the end: calls that come, or wait for a thread, are refused.  |done| is set
 * when no handler runs and all replies are sent.  Handlers that run may still call. */
void nx_rpc_close(nx_rpc *rpc, nx_event *done);
/* Ends all calls of our own with NEXAR_ECANCELED; nothing is received from now on.
 * Before nx_msg_close. */
void nx_rpc_end(nx_rpc *rpc);
/* Joins the threads; no handler runs.  Not with the lock held.  NULL is allowed. */
void nx_rpc_stop(nx_rpc *rpc);
/* After nx_rpc_end, nx_rpc_stop and nx_msg_destroy, when no transport holds anything.
 * NULL is allowed. */
void nx_rpc_destroy(nx_rpc *rpc);

/* |peer| has gone down, as msg says in on_peer_down. */
void nx_rpc_peer_down(nx_rpc *rpc, uint32_t peer, nexar_err err, const char *why);
/* Ends all calls of our own on communicator |comm| with |err| and |why|. */
void nx_rpc_fail_comm(nx_rpc *rpc, uint32_t comm, nexar_err err, const char *why);

/* ---- serving ------------------------------------------------------------------- */

/* Who serves function |fn_id| of communicator |comm|. */
typedef struct nx_rpc_handler {
    nexar_rpc_fn fn; /* NULL: nobody */
    void *arg;
    void *owner; /* held until |release|, also on error */
} nx_rpc_handler;

/*
 * Sets it in place of the one before, and waits until no call of that one runs;
 * inside a handler it does not wait.
 *
 * NEXAR_ENOMEM
 *     The one before is still there.
 */
NX_MUST_CHECK nexar_err nx_rpc_register(nx_rpc *rpc, uint32_t comm, uint16_t fn_id,
                                        const nx_rpc_handler *handler);
/* Takes out all handlers of |comm|, in the same way. */
void nx_rpc_forget(nx_rpc *rpc, uint32_t comm);

/* The rank of the caller, as config.rank_of gave it; without the lock. */
int nx_rpc_caller(const nexar_rpc *call);
/* The runtime that runs |call|'s handler. */
nx_loop *nx_rpc_loop_of(const nexar_rpc *call);

/*
 * Replies, once; waits until |data| may be reused.
 *
 * NEXAR_EINVAL
 *     |call| was replied to.
 * Others: those of a send.
 */
NX_MUST_CHECK nexar_err nx_rpc_reply(nexar_rpc *call, const void *data, size_t bytes);

/* ---- calling ------------------------------------------------------------------- */

/* A call on its way: the caller's memory, held until it is done. */
typedef struct nx_rpc_call {
    /* Set by the caller before it starts. */
    void (*on_done)(struct nx_rpc_call *call); /* may be NULL; may free |call| */
    nx_event *event;                           /* set when done; may be NULL */
    bool wanted;                               /* somebody wants the reply's bytes */

    /* The outcome, valid when done. */
    bool done;
    nexar_err err;
    uint8_t *reply; /* the caller's, if err is NEXAR_OK and it is wanted: never NULL then */
    uint64_t reply_bytes;
    char *text;    /* the caller's, may be NULL: the sentence from over there */
    char why[160]; /* the sentence otherwise */

    /* rpc's own. */
    nx_rpc *rpc;
    nx_list link;
    uint64_t id;
    uint32_t peer, comm;
    uint64_t timeout_ns;
    nx_timer timer;
    bool decided, sent;        /* the outcome is there; the bytes are ours no more */
    struct nx_rpc_inbox *from; /* the receive that its reply is coming by */
    uint8_t head[8];
    nx_bytes bytes[2];
    nx_req send;
} nx_rpc_call;

typedef struct nx_rpc_target {
    uint32_t peer, comm;
    uint16_t fn;
    const char *revoked; /* not NULL: the call ends with NEXAR_EREVOKED and these words */
} nx_rpc_target;

/*
 * Starts |call|, cleared but for what the caller sets: |bytes| bytes of |data|, held
 * until it is done.  |timeout_ns| 0: none.  The level is that of the handler in which
 * this thread is, and one more.  It may be done when this returns.
 *
 * Errors are the call's: NEXAR_EINVAL (nested too deep, more bytes than can be),
 * NEXAR_ENOMEM (also over there), NEXAR_ETIMEDOUT, NEXAR_ECANCELED, NEXAR_ENOHANDLER,
 * NEXAR_EREMOTE, NEXAR_EPROTO, those of the peer.
 */
void nx_rpc_start(nx_rpc *rpc, nx_rpc_call *call, const nx_rpc_target *target, const void *data,
                  size_t bytes, uint64_t timeout_ns);
/* Ends it with NEXAR_ECANCELED, as soon as the transport lets go of its bytes. */
void nx_rpc_cancel(nx_rpc_call *call);

/* What there is, for tests and the stall report. */
typedef struct nx_rpc_stats {
    uint64_t calls;           /* of our own that have not ended */
    uint64_t accepted, most;  /* of others in memory now, and at most */
    uint64_t running;         /* handlers */
    uint64_t served, refused; /* in all */
    uint64_t dropped;         /* replies for nobody */
} nx_rpc_stats;
void nx_rpc_stats_get(const nx_rpc *rpc, nx_rpc_stats *out);

#endif /* NX_RPC_H */
