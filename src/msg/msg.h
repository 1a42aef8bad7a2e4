/*
 * msg.h - messages: tags, matching, requests, sinks, flow control.
 *
 * A message is (context, tag, length, bytes) from one peer to another. The context is a
 * communicator and a kind (user, collective, ...). Messages of different contexts never match the
 * same receive. Matching follows MPI: a receive takes the oldest message that matches; source and
 * tag may be wildcards; order is kept per (source, context, tag). (For a receive of any tag, order
 * is also kept between tags, unless a message must be fetched by name: see 6.)
 *
 * Life of a message: its envelope travels in order on the message lane of the link. A short message
 * carries its bytes behind the envelope. Of a longer message, as much as the *eager credit* allows
 * is sent at once, as a fragment. The rest follows when the receiver has matched it and requests it
 * (CLEAR). So a posted receive costs no round trip, and unrequested bytes never exceed the credit.
 *
 * Flow control, invariants
 * 1.  A peer's unmatched eager bytes here are at most the credit it was given. The credits of all
 *     peers and classes together are at most |pool|, also while peers are added (nx_msg_grow).
 * 2. Matching or dropping a message returns its credit: its bytes leave the pool, and further bytes
 *     go directly to the receive.
 * 3.  Envelopes cost credit too (NX_ENVELOPE_COST each), from the same account, while they are
 *     unmatched. A sender without credit for the envelope holds the message back: the send waits.
 * 4.  Each class of traffic (user, collective, calls, replies) has its own credit, so no class
 *     can block another. Frames of the control lane need no credit.
 * 5.  A message is delivered exactly once, or its send and its receive fail. (A send that was done
 *     when its link failed has already succeeded.)
 * 6. A receive waits only for messages that have not been sent: a message held back for lack of
 *     credit is fetched by name when a receive waits for it.
 *
 * Fragments go straight into the posted buffer or reducer. Every function runs with the loop's lock
 * held. Callbacks (on_done, on_peer_down, on_control) run outside of any operation and may call
 * every function here. docs/internals/messages.md describes the protocol and proves that it cannot
 * deadlock.
 */
#ifndef NX_MSG_H
#define NX_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/list.h"
#include "loop/loop.h"
#include "msg/matching/match.h"
#include "msg/sink.h"
#include "transport/transport.h"

typedef struct nx_msg nx_msg;

/* Traffic with a credit of its own. Replies have their own, so they never wait behind calls. */
typedef enum nx_class {
    NX_CLASS_USER,
    NX_CLASS_COLL,
    NX_CLASS_CALL,
    NX_CLASS_REPLY,
    NX_CLASSES
} nx_class;

/* Determines which messages can match: 32 bits of communicator, 8 of kind. */
typedef struct nx_context {
    uint32_t comm;
    uint8_t kind; /* chosen by the caller; determines the class */
    nx_class class;
} nx_context;

/* NX_ANY_PEER, NX_ANY_TAG: match.h */

/* Identifies the operation of a message of NX_CLASS_COLL, so that ranks notice when they called
 * different ones. Opaque here. */
typedef struct nx_mark {
    uint64_t word[2];
} nx_mark;

/* How to treat an arrived message. */
typedef enum nx_verdict {
    NX_KEEP,
    NX_DROP, /* no rank will receive it: dropped, and its send succeeds */
} nx_verdict;

enum {
    NX_ENVELOPE_COST = 256, /* the least memory of an unmatched message */
    NX_CREDIT_START = 512,  /* credit of an account before the receiver's first limit */
    NX_FRAME_OTHER = 64,    /* first type of control frames of other layers */
};
#define NX_POOL_DEFAULT ((size_t)64 << 20)
#define NX_INLINE_MAX   ((size_t)NX_FRAME_MAX - 32) /* the maximum of inline_max */

typedef struct nx_msg_config {
    nx_loop *loop;
    uint32_t peers;                          /* 0 .. peers - 1 */
    bool (*there)(void *ctx, uint32_t peer); /* NULL: all peers exist; otherwise some may be
                                                absent */
    uint32_t self;                           /* messages to it use loopback */
    bool grows;        /* peers may be added: reserves a part of the pool for them */
    size_t pool;       /* bound on unexpected bytes in this process; 0: NX_POOL_DEFAULT */
    size_t inline_max; /* messages up to this size are copied behind their envelope, */
    bool inline_auto;  /* also those up to the link's own limit (nx_link.frame_best) */
    size_t eager_max;  /* of a longer message, at most this is sent eagerly */

    /* Opens or finds the link to |peer|, with |up| and |up_ctx| as its upcalls. Called on first
     * use; an error fails the operation. */
    nexar_err (*connect)(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                         nx_link **link);
    /* The link to |peer| has ended with |end| and |err| (nx_msg_ended has the message); no request
     * has failed yet. Returns true if the state of |peer| is not known yet: its requests wait until
     * nx_msg_fail_peer, nx_msg_let_go or nx_msg_retire. Must not call msg for |peer| except
     * nx_msg_ended. NULL: false. */
    bool (*on_peer_end)(void *ctx, uint32_t peer, nx_end end, nexar_err err);
    /* A peer is permanently down; its pending requests have failed. May be NULL. */
    void (*on_peer_down)(void *ctx, uint32_t peer, nexar_err err, const char *why);
    /* A control frame of another layer (type >= NX_FRAME_OTHER), for example a heartbeat. NULL:
     * dropped. */
    void (*on_control)(void *ctx, uint32_t peer, const void *data, size_t len);
    /* A message of NX_CLASS_COLL has arrived and is not matched yet. Must not call msg. NULL: all
     * are kept. */
    nx_verdict (*on_mark)(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark);
    /* A message of another class has arrived and matches no posted receive. The same rules. */
    nx_verdict (*on_unexpected)(void *ctx, nx_context context);
    /* |peer| sends no further message of |context|, for the reason |how| (nx_msg_finish). All its
     * messages, or their envelopes, have arrived. May be NULL. */
    void (*on_finished)(void *ctx, uint32_t peer, nx_context context, uint8_t how);
    void *ctx;
} nx_msg_config;

/*
 * NEXAR_EINVAL
 *     inline_max above NX_INLINE_MAX, self not below peers, or a pool too small
 *     to give each peer the initial credit.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_msg_create(nx_msg **out, const nx_msg_config *config);
/* Fails all pending requests with NEXAR_ECANCELED and closes links without drain, unless
 * nx_msg_close has closed them. A request whose bytes a transport still holds completes when the
 * transport releases them, from the loop. */
void nx_msg_destroy(nx_msg *m);

/*
 * Sets the number of peers to |peers|, not less than now. New peers get their share of the pool, at
 * first from its free part. Peers with more than their fair share are then asked to return it
 * (docs/internals/messages.md).
 *
 * NEXAR_EINVAL
 *     The pool is too small to give each peer the initial credit.
 * NEXAR_ENOMEM
 *     In both cases nothing has changed.
 */
NX_MUST_CHECK nexar_err nx_msg_grow(nx_msg *m, uint32_t peers);
/* |peer| will not be used again. Without a link it fails now, with |err| and |why|. When its link
 * has ended and its messages were taken or dropped, a later call of this or of nx_msg_grow frees
 * its memory. Later calls that name it fail. */
void nx_msg_retire(nx_msg *m, uint32_t peer, nexar_err err, const char *why);

/* The upcalls and their context for a link opened by |peer|: set them in on_accept, then call
 * nx_msg_attach. The transport has resolved simultaneous opens: there is one link per peer. A link
 * to a peer that is down is closed immediately. */
const nx_link_up *nx_msg_up(const nx_msg *m);
void *nx_msg_up_ctx(nx_msg *m, uint32_t peer);
void nx_msg_attach(nx_msg *m, uint32_t peer, nx_link *link);
nx_link *nx_msg_link(const nx_msg *m, uint32_t peer); /* NULL: no link */

/* Sends a control frame to on_control of |peer|; its first byte is at least NX_FRAME_OTHER.
 * NEXAR_EINVAL if it is not, or if |peer| is the own rank; the errors of connect and of the link.
 * If |peer| is unreachable, or on NEXAR_ENOMEM, |peer| goes down, since no control frame may be
 * lost. */
NX_MUST_CHECK nexar_err nx_msg_send_control(nx_msg *m, uint32_t peer, const void *data, size_t len);

/* |peer| is known to have failed (no heartbeat, process exit): it goes down with |err| and |why|,
 * with or without a link. */
void nx_msg_fail_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why);

/* |peer| is suspect: its link ends and its requests wait, as after on_peer_end returned true. */
void nx_msg_hold_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why);
/* Fails the requests that wait so, with the message of the link's end. */
void nx_msg_let_go(nx_msg *m, uint32_t peer);

/* As nx_msg_fail_peer; a link sends |frame| last (nx_link_dismiss). Not from inside a callback. */
void nx_msg_dismiss_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why,
                         const void *frame, size_t len);

/* Whether anything has arrived from |peer| since the last call of this. */
bool nx_msg_heard(nx_msg *m, uint32_t peer);
/* For a peer that is down: how its link ended, and the message. */
nx_end nx_msg_ended(const nx_msg *m, uint32_t peer, const char **why);
/* Whether the link to |peer| failed for lack of memory here: |peer| has not failed. */
bool nx_msg_starved(const nx_msg *m, uint32_t peer);

/* Fails pending receives and probes of |context| with |err| and |why|. With |any|, only those
 * without a named peer. Otherwise all of them, and cancels sends as nx_msg_cancel() does
 * (NEXAR_ECANCELED). */
void nx_msg_fail_context(nx_msg *m, nx_context context, bool any, nexar_err err, const char *why);

/* |peer| will request no further message of |context|: sends that it has not requested fail with
 * |err| and |why|. */
void nx_msg_refuse(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why);
/* Notifies |peer|, after all messages to it, that no message of |context| follows: calls
 * on_finished at |peer|. Does nothing if messages are held back for lack of credit. */
void nx_msg_finish(nx_msg *m, uint32_t peer, nx_context context, uint8_t how);
/* Fails pending receives and probes of |context| that name |peer|, with |err| and |why|: its
 * messages have matched others. */
void nx_msg_fail_from(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why);
/* Calls |each| once for every receive and probe of |class| that was pending at the previous call.
 * |each| may send control frames. */
void nx_msg_each_waiting(nx_msg *m, nx_class class,
                         void (*each)(void *ctx, uint32_t peer, nx_context context), void *ctx);
/* Unmatched receives and probes of |class| end with NEXAR_ECANCELED. */
void nx_msg_stop_receiving(nx_msg *m, nx_class class);

/* Drops the unexpected messages of communicator |comm|, which is not used any more, and returns
 * their credit; their sends succeed. on_mark and on_unexpected decide on later messages. Calls and
 * replies belong to no communicator here. */
void nx_msg_forget(nx_msg *m, uint32_t comm);
/* The same for messages of |context| with (tag & |mask|) == |tag|. */
void nx_msg_forget_tags(nx_msg *m, nx_context context, uint64_t tag, uint64_t mask);

/* Begins the shutdown. Unmatched receives and probes, and everything started later, end with
 * NEXAR_ECANCELED. Sends and matched receives continue. A link is closed, with drain, when none of
 * them needs it. |done| (may be NULL) is set when the last link is closed. The transport drains,
 * since it knows how long that takes. */
void nx_msg_close(nx_msg *m, nx_event *done);

/* ---- requests ------------------------------------------------------------------------ */

typedef enum nx_req_kind { NX_REQ_SEND, NX_REQ_RECV, NX_REQ_PROBE, NX_REQ_MATCH } nx_req_kind;

/* A fragment of a send that the transport may hold. */
typedef struct nx_out_part {
    nx_tx tx;
    struct nx_req *req;
} nx_out_part;

/* State of a send. Invariant: done only when parts_out is 0. */
typedef struct nx_req_send {
    const nx_bytes *bytes;
    size_t n;
    nx_bytes one;             /* the piece, if there is one */
    bool synchronous;         /* done when its receive has begun */
    bool streamed;            /* |one| is the part that exists now, ... */
    bool needs;               /* ... and on_need was called for the next */
    bool broken;              /* no further part will come: fails with err and why when possible */
    bool refused;             /* the same, unless the peer still requests it */
    uint64_t from;            /* offset of |one| in the message */
    uint64_t off, limit;      /* after CLEAR: next byte to send, and the end */
    nx_bytes *cuts;           /* owned: pieces of a scattered send */
    uint32_t parts_out;       /* held by the transport: number of fragments, ... */
    uint32_t out;             /* ... and which, as bits */
    uint64_t id, eager;       /* of a long message */
    struct nx_inbound *local; /* to the own rank: the waiting message */
    nx_out_part part[NX_PARTS];
    nx_bytes cut[NX_PARTS]; /* pieces of |one| */
    uint64_t order;         /* position among held-back sends */
    nx_held held;           /* its entry for fetches by name */
} nx_req_send;

/* State of a receive, a probe or a match. */
typedef struct nx_req_recv {
    nx_posted posted;
    uint64_t when;   /* number of receives and probes posted before */
    uint64_t number; /* of a match, when done: the handle for nx_msg_take */
    nx_delivery delivery;
} nx_req_recv;

/* A send, a receive, a probe or a match. The caller's memory, used until it is done. Need not be
 * initialised. */
typedef struct nx_req {
    /* Set by the caller before the start. */
    void (*on_done)(struct nx_req *req); /* called from the loop, or from the starting call; may be
                                            NULL; may free |req| and start others */
    nx_event *event;                     /* set when done; may be NULL */
    nx_mark mark;                        /* of a send of NX_CLASS_COLL */
    /* Of nx_msg_send_stream: requests the bytes from |off| on. All bytes before may be reused. The
     * owner answers by nx_msg_send_more or nx_msg_send_break, at once or later. */
    void (*on_need)(struct nx_req *req, uint64_t off);

    /* The result, valid when done; |why| below. For a receive, peer, tag and bytes are set before
     * its sink gets the first byte. */
    bool done;
    nexar_err err;
    uint32_t peer;
    uint64_t tag;
    uint64_t bytes; /* of the message, also when it was truncated */

    /* msg's own. */
    nx_req_kind kind;
    uint32_t state;
    nx_context context;
    nx_list link;      /* in the queue of held-back sends, or of due on_done */
    nx_list peer_link; /* in a list of its peer */
    union {
        nx_req_send send;
        nx_req_recv recv;
    };

    char why[160]; /* the message if err is set, without the operation */
} nx_req;

/*
 * Starts sending the concatenation of |n| pieces as one message. The memory is borrowed until the
 * request is done, which does not mean that the message was received. A short message is done when
 * the call returns, if there is credit; inside an on_done, its own on_done follows later. With one
 * piece, |bytes| itself is copied.
 *
 * Errors are reported by the request: NEXAR_EINVAL (unknown peer, tag NX_ANY_TAG, more than 2^62 -
 * 1 bytes; the message says which), NEXAR_ENOMEM, those of connect and of a peer that is down.
 */
void nx_msg_send(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_bytes *bytes, size_t n);
/* The same, but the request is done only when a receive has taken the message or it was dropped, as
 * MPI's synchronous mode. All bytes wait for CLEAR. */
void nx_msg_send_synchronous(nx_msg *m, nx_req *req, uint32_t peer, nx_context context,
                             uint64_t tag, const nx_bytes *bytes, size_t n);

/*
 * The same for a message of |total| bytes that is produced in parts: |first| is the first part.
 * on_need requests the next part when the previous ones were acknowledged, as long as the receiver
 * wants more. It is never called inside this function. Not to the own rank: NEXAR_EINVAL.
 */
void nx_msg_send_stream(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                        nx_bytes first, uint64_t total);
/* The bytes requested by on_need, some or all that are left; borrowed until on_need or on_done.
 * Ignored if the request is done or failing. */
void nx_msg_send_more(nx_msg *m, nx_req *req, nx_bytes next);
/* No further part will come: the message is cancelled, its receive fails with NEXAR_ECANCELED and
 * |req| with |err| and |why|. At any time before |req| is done. */
void nx_msg_send_break(nx_msg *m, nx_req *req, nexar_err err, const char *why);

/* Fast path without a request: sends |len| bytes, of a class other than NX_CLASS_COLL, if they can
 * follow their envelope immediately. False: nothing has happened. */
NX_MUST_CHECK bool nx_msg_send_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag,
                                     const void *data, size_t len);

/* Fast path without a request: receives from |peer| the message |tag|, of a class other than
 * NX_CLASS_COLL. Succeeds if it is the next message on the link, no other receive matches it, and
 * it fits |room|; |*got| is its length. |waits|: spins for it briefly (nx_loop_looks); only for a
 * thread outside of callbacks. False: nothing has happened. */
NX_MUST_CHECK bool nx_msg_recv_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag,
                                     bool waits, nx_iov_span room, size_t *got);

/*
 * Posts a receive from |peer| (or NX_ANY_PEER) with |tag| (or NX_ANY_TAG). Fails with NEXAR_ETRUNC
 * if the message is longer than the sink: the first |room| bytes are delivered, the rest is
 * dropped. With NEXAR_EMISMATCH if it ends inside a unit of a function. With NEXAR_ECANCELED if the
 * sender cancelled it. With the peer's error if the peer is down and no message of it is left to
 * match.
 */
void nx_msg_recv(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_sink *sink);

/* Completes when a matching message has arrived; does not take it. */
void nx_msg_probe(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag);
/* The same without waiting: whether there is one; if so its peer, tag, bytes. */
bool nx_msg_iprobe(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, nx_req *found);

/*
 * A matched probe: removes from matching the message that a receive posted now would take. |req| is
 * done when it has arrived and describes it. No other receive or probe finds the message;
 * nx_msg_take receives it by req->recv.number. It consumes credit until then, unless it was fetched
 * by name. nx_msg_forget and nx_msg_destroy drop it.
 */
void nx_msg_match(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag);
/* Receives the message |number| of |peer| and |context| taken by a match: as nx_msg_recv, but the
 * result has no tag. Fails with NEXAR_ECANCELED if the message no longer exists: cancelled by the
 * sender, forgotten, or already taken. */
void nx_msg_take(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t number,
                 const nx_sink *sink);

/*
 * Cancels a pending request if possible. A receive or probe is cancelled if it has not matched; a
 * send if nothing was sent, or if its peer has not requested the rest (a receive that has matched
 * it then fails with NEXAR_ECANCELED). Otherwise the request continues. Returns whether it was or
 * will be cancelled. on_done is called in either case.
 */
bool nx_msg_cancel(nx_msg *m, nx_req *req);

/* The tag of the oldest unexpected message of |context| from |peer|; false: there is none. Visits
 * every unexpected message: for reports. */
bool nx_msg_unmatched(const nx_msg *m, nx_context context, uint32_t peer, uint64_t *tag);

/* Counters, for tests, info and the stall report. */
typedef struct nx_msg_stats {
    uint64_t pool_used, pool_peak; /* unexpected bytes, including the cost of envelopes */
    uint64_t unexpected, posted;   /* unexpected messages and posted receives now */
    uint64_t copied;               /* bytes that were copied through the pool */
    uint64_t delivered;            /* bytes delivered straight to a sink */
    uint64_t messages_sent, messages_received;
    uint64_t credit_frames; /* number of CREDIT frames sent */
    uint64_t waiting;       /* sends held back now */
    uint64_t pulled;        /* messages fetched by name, in all */
    uint64_t granted;       /* bytes of the pool granted to all peers */
    uint64_t links;         /* links ever opened or accepted */
    uint64_t peers;         /* peers with allocated memory */
} nx_msg_stats;
void nx_msg_stats_get(const nx_msg *m, nx_msg_stats *out);

#endif /* NX_MSG_H */
