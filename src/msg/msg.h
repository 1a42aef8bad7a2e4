/*
 * msg.h - messages: tags, matching, requests, sinks, flow control.
 *
 * A message is (context, tag, length, bytes) from one peer to another.  The
 * context is a communicator and a kind (user, collective, ...): messages of
 * different contexts never meet.  Matching follows MPI: a receive takes the
 * oldest message that fits; wildcards for source and tag; order is kept per
 * (source, context, tag).
 *
 * Way of a message: its envelope goes in order on the message lane of the link.
 * A short one carries its bytes behind the envelope.  Of a longer one as much as
 * the *eager credit* allows is sent at once, as a part; the rest when the
 * receiver has matched it and says so (clear).  So a posted receive costs no
 * round trip, and what nobody has asked for is never more than the credit.
 *
 * Flow control, invariants
 *  1. A peer's eager bytes that lie unmatched here are at most the credit it was
 *     given; the credits of all peers and classes together are at most |pool|.
 *  2. Credit comes back when eager bytes leave the pool, or went straight to a
 *     posted receive.
 *  3. Envelopes cost credit too (NX_ENVELOPE_COST each), from the same account
 *     while they are unmatched; a sender without credit for the envelope holds
 *     the message back: the send waits.
 *  4. Each class of traffic (user, collective) has its own credit: a flood of
 *     one never stops the other.  Frames of the control lane need none.
 *  5. A message is delivered exactly once, or its send and its receive end with
 *     an error.
 *
 * Fragments go straight into the posted buffer or reducer.  Everything runs with
 * the loop's lock held.
 */
#ifndef NX_MSG_H
#define NX_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "loop/loop.h"
#include "transport/transport.h"

typedef struct nx_msg nx_msg;

/* Traffic that shares a credit. */
typedef enum nx_class { NX_CLASS_USER, NX_CLASS_COLL, NX_CLASSES } nx_class;

/* Which messages can meet: 32 bits of communicator, 8 of kind. */
typedef struct nx_context {
    uint32_t comm;
    uint8_t kind; /* the caller's; the class below belongs to it */
    nx_class class;
} nx_context;

#define NX_ANY_PEER UINT32_MAX
#define NX_ANY_TAG  UINT64_MAX

enum { NX_ENVELOPE_COST = 64 };

typedef struct nx_msg_config {
    nx_loop *loop;
    uint32_t peers;    /* 0 .. peers - 1 */
    uint32_t self;     /* messages to it go no further than memory */
    size_t pool;       /* bound of unexpected bytes in this process; default 64 MiB */
    size_t inline_max; /* messages up to this are copied behind their envelope */
    size_t eager_max;  /* of a longer one at most this is sent before it is asked for */

    /* Makes or finds the link to |peer|, with |up| and |up_ctx| as its upcalls.
     * Called on first use; an error fails the operation. */
    nexar_err (*connect)(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                         nx_link **link);
    /* A peer has gone down: its pending requests have been failed. */
    void (*on_peer_down)(void *ctx, uint32_t peer, nexar_err err, const char *why);
    /* A frame of the control lane that is not msg's own (type >= NX_FRAME_OTHER):
     * heartbeats and the like. */
    void (*on_control)(void *ctx, uint32_t peer, const void *data, size_t len);
    void *ctx;
} nx_msg_config;

NX_MUST_CHECK nexar_err nx_msg_create(nx_msg **out, const nx_msg_config *config);
/* All requests have ended or are ended now with NEXAR_ECANCELED; links are closed
 * without drain if nx_msg_close did not close them before. */
void nx_msg_destroy(nx_msg *m);

/* The upcalls and their context for a link that |peer| opened to us, to be set in
 * on_accept; then nx_msg_attach. */
const nx_link_up *nx_msg_up(const nx_msg *m);
void *nx_msg_up_ctx(nx_msg *m, uint32_t peer);
void nx_msg_attach(nx_msg *m, uint32_t peer, nx_link *link);
nx_link *nx_msg_link(const nx_msg *m, uint32_t peer); /* NULL: none yet */

/* Sends a frame of the control lane for on_control over there. */
enum { NX_FRAME_OTHER = 64 }; /* its first byte is this or more */
NX_MUST_CHECK nexar_err nx_msg_send_control(nx_msg *m, uint32_t peer, const void *data, size_t len);

/* Begins the end: whatever was sent is delivered to the transports; |done| is
 * set when every link has drained and closed. */
void nx_msg_close(nx_msg *m, nx_event *done);

/* ---- requests -------------------------------------------------------------- */

typedef struct nx_iov_span {
    void *ptr;
    size_t len;
} nx_iov_span;

/* Where received bytes go: memory, or a function that takes them as they come. */
typedef struct nx_sink {
    const nx_iov_span *iov; /* memory, in order; NULL: |take| */
    size_t niov;
    uint64_t room; /* bytes */
    /* Bytes at |off| of the message; whole |unit|s, in any order of |off|s. */
    void (*take)(void *ctx, uint64_t off, const void *data, size_t len);
    void *ctx;
    uint32_t unit; /* 1 .. 16 */
} nx_sink;

typedef enum nx_req_kind { NX_REQ_SEND, NX_REQ_RECV, NX_REQ_PROBE } nx_req_kind;

/* A send, a receive or a probe: the caller's memory, held until it is done. */
typedef struct nx_req {
    /* Set by the caller before it starts. */
    void (*on_done)(struct nx_req *req); /* from inside the loop, or from the
                                            starting call itself; may be NULL */
    nx_event *event;                     /* set when done; may be NULL */

    /* The outcome, valid when done. */
    bool done;
    nexar_err err;
    char why[160]; /* the sentence when err is set, without the operation */
    uint32_t peer;
    uint64_t tag;
    uint64_t bytes; /* of the message, also when it was truncated */

    /* msg's own. */
    nx_req_kind kind;
    nx_context context;
    uint64_t id, offset, sent, seq;
    nx_sink sink;
    nx_bytes one;
    nx_tx tx[2];
    nx_list link, peer_link;
    void *match;
    uint32_t flags;
} nx_req;

/*
 * Starts sending |n| stretches as one message; they are held with |bytes| until
 * the request is done, which means that they may be reused, not that the message
 * was received.  Short messages are done when the call returns.
 */
void nx_msg_send(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_bytes *bytes, size_t n);

/*
 * Starts receiving from |peer| (or NX_ANY_PEER) what has |tag| (or NX_ANY_TAG).
 * Ends with NEXAR_ETRUNC when the message is longer than the sink: the first
 * |room| bytes are delivered, the rest is dropped.
 */
void nx_msg_recv(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_sink *sink);

/* Is done when a message that fits has come, which stays where it is. */
void nx_msg_probe(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag);
/* The same without waiting: whether there is one, and if so peer, tag, bytes. */
bool nx_msg_iprobe(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, nx_req *found);

/*
 * Ends a request that is not done with NEXAR_ECANCELED, if it can still be ended:
 * a receive or probe that has not matched; a send of which nothing has gone out,
 * or whose peer has not asked for the rest.  Otherwise it runs on.  Returns
 * whether it will be or was cancelled; on_done comes in either case.
 */
bool nx_msg_cancel(nx_msg *m, nx_req *req);

/* What there is, for tests, info and the stall report. */
typedef struct nx_msg_stats {
    uint64_t pool_used, pool_peak; /* bytes, unexpected */
    uint64_t unexpected, posted;   /* messages and receives waiting now */
    uint64_t copied;               /* bytes that went through the pool */
    uint64_t delivered;            /* bytes that went straight to a sink */
    uint64_t messages_sent, messages_received;
} nx_msg_stats;
void nx_msg_stats_get(const nx_msg *m, nx_msg_stats *out);

#endif /* NX_MSG_H */
