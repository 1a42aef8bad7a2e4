/*
 * msg.h - messages: tags, matching, requests, sinks, flow control.
 *
 * A message is (context, tag, length, bytes) from one peer to another.  The
 * context is a communicator and a kind (user, collective, ...): messages of
 * different contexts never meet.  Matching follows MPI: a receive takes the
 * oldest message that fits; wildcards for source and tag; order is kept per
 * (source, context, tag).  (Between tags too, for a receive of any tag, as long as
 * nothing has to be fetched by name: see 6.)
 *
 * Way of a message: its envelope goes in order on the message lane of the link.
 * A short one carries its bytes behind the envelope.  Of a longer one as much as
 * the *eager credit* allows is sent at once, as a part; the rest when the
 * receiver has matched it and says so (clear).  So a posted receive costs no
 * round trip, and what nobody has asked for is never more than the credit.
 *
 * Flow control, invariants
 *  1. A peer's eager bytes that lie unmatched here are at most the credit it was
 *     given; the credits of all peers and classes together are at most |pool|, also
 *     while peers are added (nx_msg_grow).
 *  2. Credit comes back when a message is matched or dropped: its bytes leave the
 *     pool then, and those still to come go straight to the receive.
 *  3. Envelopes cost credit too (NX_ENVELOPE_COST each), from the same account
 *     while they are unmatched; a sender without credit for the envelope holds
 *     the message back: the send waits.
 *  4. Each class of traffic (user, collective, calls, replies) has its own credit:
 *     a flood of one never stops the others.  Frames of the control lane need none.
 *  5. A message is delivered exactly once, or its send and its receive end with
 *     an error.  (A send that was done when its link broke has had its word.)
 *  6. A receive waits only for what has not been sent: a message that is held
 *     back for want of credit is fetched by name when a receive waits for it.
 *
 * Fragments go straight into the posted buffer or reducer.  Everything runs with
 * the loop's lock held.  Callbacks (on_done, on_peer_down, on_control) run when
 * nothing here is in motion: they may call everything here.  docs/internals/messages.md has
 * the protocol and why it cannot deadlock.
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

/* Traffic that shares a credit.  Replies have one of their own: they never wait
 * behind calls. */
typedef enum nx_class {
    NX_CLASS_USER,
    NX_CLASS_COLL,
    NX_CLASS_CALL,
    NX_CLASS_REPLY,
    NX_CLASSES
} nx_class;

/* Which messages can meet: 32 bits of communicator, 8 of kind. */
typedef struct nx_context {
    uint32_t comm;
    uint8_t kind; /* the caller's; the class below belongs to it */
    nx_class class;
} nx_context;

/* NX_ANY_PEER, NX_ANY_TAG: match.h */

/* What a message of NX_CLASS_COLL says beside its bytes: which operation it belongs
 * to, so that ranks which called different ones notice.  Opaque here. */
typedef struct nx_mark {
    uint64_t word[2];
} nx_mark;

/* What becomes of a message that has come. */
typedef enum nx_verdict {
    NX_KEEP,
    NX_DROP, /* nobody will ever receive it: it is gone, and its send ends well */
} nx_verdict;

enum {
    NX_ENVELOPE_COST = 256, /* at least the memory that an unmatched message takes */
    NX_CREDIT_START = 512,  /* what an account has before the receiver's first word */
    NX_FRAME_OTHER = 64,    /* the first byte of control frames that are not msg's own */
};
#define NX_POOL_DEFAULT ((size_t)64 << 20)
#define NX_INLINE_MAX   ((size_t)NX_FRAME_MAX - 32) /* the most that inline_max may be */

typedef struct nx_msg_config {
    nx_loop *loop;
    uint32_t peers;                          /* 0 .. peers - 1 */
    bool (*there)(void *ctx, uint32_t peer); /* NULL: all are; otherwise some are gone */
    uint32_t self;                           /* messages to it go no further than memory */
    bool grows;        /* peers may be added: a part of the pool is kept for them */
    size_t pool;       /* bound of unexpected bytes in this process; 0: NX_POOL_DEFAULT */
    size_t inline_max; /* messages up to this are copied behind their envelope, */
    bool inline_auto;  /* and those up to what their link says (nx_link.frame_best) */
    size_t eager_max;  /* of a longer one at most this is sent before it is asked for */

    /* Makes or finds the link to |peer|, with |up| and |up_ctx| as its upcalls.
     * Called on first use; an error fails the operation. */
    nexar_err (*connect)(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                         nx_link **link);
    /* The link to |peer| has ended as |end| and |err| say (nx_msg_ended has the sentence), and
     * nothing has been failed yet.  True: what |peer| is is not known yet; what needs it waits,
     * until nx_msg_fail_peer, nx_msg_let_go or nx_msg_retire.  Makes no call to msg for |peer| but
     * nx_msg_ended.  NULL: false. */
    bool (*on_peer_end)(void *ctx, uint32_t peer, nx_end end, nexar_err err);
    /* A peer has gone down, for good: its pending requests have been failed.  May
     * be NULL. */
    void (*on_peer_down)(void *ctx, uint32_t peer, nexar_err err, const char *why);
    /* A frame of the control lane that is not msg's own (type >= NX_FRAME_OTHER):
     * heartbeats and the like.  NULL: dropped. */
    void (*on_control)(void *ctx, uint32_t peer, const void *data, size_t len);
    /* A message of NX_CLASS_COLL has come, before it is matched.  Makes no call to
     * msg.  NULL: all are kept. */
    nx_verdict (*on_mark)(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark);
    /* A message of another class has come for which no receive waits.  The same. */
    nx_verdict (*on_unexpected)(void *ctx, nx_context context);
    /* |peer| sends nothing more of |context|, as it says by |how| (nx_msg_finish); what it has sent
     * has come before, or its envelopes.  May be NULL. */
    void (*on_finished)(void *ctx, uint32_t peer, nx_context context, uint8_t how);
    void *ctx;
} nx_msg_config;

/*
 * NEXAR_EINVAL
 *     inline_max above NX_INLINE_MAX, self not below peers, or a pool that is too
 *     small to give each peer the credit that every sender starts with.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_msg_create(nx_msg **out, const nx_msg_config *config);
/* All requests have ended or are ended now with NEXAR_ECANCELED; links are closed
 * without drain if nx_msg_close did not close them before.  A request whose bytes
 * a transport still holds ends when it lets go of them, from the loop. */
void nx_msg_destroy(nx_msg *m);

/*
 * There are |peers| of them from now on, as many as now or more.  The new ones get their
 * share of the pool, what is free of it at first; those that have more than is fair
 * then are asked to give it back (docs/internals/messages.md).
 *
 * NEXAR_EINVAL
 *     The pool is too small to give each the credit that every sender starts with.
 * NEXAR_ENOMEM
 *     In both cases nothing has changed.
 */
NX_MUST_CHECK nexar_err nx_msg_grow(nx_msg *m, uint32_t peers);
/* |peer| will not be spoken to again: when its link has ended (with none it has failed
 * now, with |err| and |why|), and what it has sent was taken or dropped, its memory is
 * freed: by a later call of this or of nx_msg_grow.  Calls that name it fail from then
 * on. */
void nx_msg_retire(nx_msg *m, uint32_t peer, nexar_err err, const char *why);

/* The upcalls and their context for a link that |peer| opened to us, to be set in
 * on_accept; then nx_msg_attach.  Crossing dials have been settled below: there is
 * one link to a peer.  A link to a peer that is down is closed at once. */
const nx_link_up *nx_msg_up(const nx_msg *m);
void *nx_msg_up_ctx(nx_msg *m, uint32_t peer);
void nx_msg_attach(nx_msg *m, uint32_t peer, nx_link *link);
nx_link *nx_msg_link(const nx_msg *m, uint32_t peer); /* NULL: none yet, or no more */

/* Sends a frame of the control lane for on_control over there; its first byte is
 * NX_FRAME_OTHER or more.  NEXAR_EINVAL if it is not, or if |peer| is ourselves;
 * the errors of connect and of the link.  If there is no way to |peer|, or NEXAR_ENOMEM, it
 * goes down: none of its frames may be missing. */
NX_MUST_CHECK nexar_err nx_msg_send_control(nx_msg *m, uint32_t peer, const void *data, size_t len);

/* |peer| is known to be dead (no heartbeat, its process is gone): as if its link
 * had gone down with |err| and |why|, also when there is none. */
void nx_msg_fail_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why);

/* |peer| may be dead: its link ends, and what needs it waits, as where on_peer_end was true. */
void nx_msg_hold_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why);
/* What waits so fails, with what was said of the end of the link. */
void nx_msg_let_go(nx_msg *m, uint32_t peer);

/* As nx_msg_fail_peer, and its link, if there is one, ends with |frame| as its last
 * (nx_link_dismiss).  Not from inside a callback. */
void nx_msg_dismiss_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why,
                         const void *frame, size_t len);

/* Whether anything has come from |peer| since this was last asked. */
bool nx_msg_heard(nx_msg *m, uint32_t peer);
/* Of a peer that is down: what the end of its link said, and in words. */
nx_end nx_msg_ended(const nx_msg *m, uint32_t peer, const char **why);
/* Whether the link to |peer| was given up for lack of memory here: it is not |peer| that has
 * failed. */
bool nx_msg_starved(const nx_msg *m, uint32_t peer);

/* Ends receives and probes of |context| that wait, with |err| and |why|: with |any| those
 * that name no peer alone; without, all, and sends as nx_msg_cancel() would (these end
 * with NEXAR_ECANCELED). */
void nx_msg_fail_context(nx_msg *m, nx_context context, bool any, nexar_err err, const char *why);

/* |peer| will ask for no more messages of |context|: sends that it has not asked for end with
 * |err| and |why|. */
void nx_msg_refuse(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why);
/* Says to |peer|, behind all that it was sent, that nothing more of |context| follows: on_finished
 * over there.  If some of it is held back for want of credit nothing is said. */
void nx_msg_finish(nx_msg *m, uint32_t peer, nx_context context, uint8_t how);
/* Receives and probes of |context| that name |peer| and wait end with |err| and |why|: what it has
 * sent has matched others. */
void nx_msg_fail_from(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why);
/* Calls |each| for the receives and probes of |class| that have waited since before the last call
 * of this, for each of them once.  |each| may send control frames. */
void nx_msg_each_waiting(nx_msg *m, nx_class class,
                         void (*each)(void *ctx, uint32_t peer, nx_context context), void *ctx);
/* Receives and probes of |class| that have not matched end with NEXAR_ECANCELED. */
void nx_msg_stop_receiving(nx_msg *m, nx_class class);

/* Drops the unexpected messages of communicator |comm|, which nobody will receive any
 * more, so that they hold no credit: their sends end well.  What comes later is for on_mark
 * and on_unexpected to judge.  Calls and replies belong to no communicator here. */
void nx_msg_forget(nx_msg *m, uint32_t comm);
/* The same for those of |context| whose tag, under |mask|, is |tag|. */
void nx_msg_forget_tags(nx_msg *m, nx_context context, uint64_t tag, uint64_t mask);

/* Begins the end: receives and probes that have not matched end with
 * NEXAR_ECANCELED, and so does what is started from now on; sends and matched
 * receives go on.  A link is closed, with drain, when none of them needs it;
 * |done| (may be NULL) is set when the last one is.  Draining itself is the
 * transport's, which knows how long it takes. */
void nx_msg_close(nx_msg *m, nx_event *done);

/* ---- requests -------------------------------------------------------------- */

typedef enum nx_req_kind { NX_REQ_SEND, NX_REQ_RECV, NX_REQ_PROBE, NX_REQ_MATCH } nx_req_kind;

/* One part of a send, while the transport may hold it. */
typedef struct nx_out_part {
    nx_tx tx;
    struct nx_req *req;
} nx_out_part;

/* What a send is made of.  Invariant: done only when parts_out is 0. */
typedef struct nx_req_send {
    const nx_bytes *bytes;
    size_t n;
    nx_bytes one;             /* the stretch, when there is one */
    bool synchronous;         /* done no sooner than its receive has begun */
    bool streamed;            /* |one| is what there is of it now, ... */
    bool needs;               /* ... and its owner was asked for the next */
    bool broken;              /* there will be none: it ends with err and why when it can */
    bool refused;             /* the same, unless the peer asks for it after all */
    uint64_t from;            /* where |one| begins in the message */
    uint64_t off, limit;      /* when the peer has asked: what goes next, and the end */
    nx_bytes *cuts;           /* owned: the parts of several stretches */
    uint32_t parts_out;       /* held by the transport: how many, ... */
    uint32_t out;             /* ... and which, as bits */
    uint64_t id, eager;       /* of a long one */
    struct nx_inbound *local; /* to ourselves: the message that waits */
    nx_out_part part[NX_PARTS];
    nx_bytes cut[NX_PARTS]; /* the parts of |one| */
    uint64_t order;         /* of one held back: its place */
    nx_held held;           /* and when it is asked for by name */
} nx_req_send;

/* What a receive, a probe or a match is made of. */
typedef struct nx_req_recv {
    nx_posted posted;
    uint64_t when;   /* how many were posted before, receives and probes */
    uint64_t number; /* of a match, when done: what nx_msg_take names it by */
    nx_delivery delivery;
} nx_req_recv;

/* A send, a receive, a probe or a match: the caller's memory, held until it is done.  It
 * need not be cleared before it is set up. */
typedef struct nx_req {
    /* Set by the caller before it starts. */
    void (*on_done)(struct nx_req *req); /* from inside the loop, or from the
                                            starting call itself; may be NULL; may
                                            free |req| and start others */
    nx_event *event;                     /* set when done; may be NULL */
    nx_mark mark;                        /* of a send of NX_CLASS_COLL */
    /* Of nx_msg_send_stream: the bytes from |off| on are next.  All before them may be
     * reused.  Answered by nx_msg_send_more or nx_msg_send_break, at once or later. */
    void (*on_need)(struct nx_req *req, uint64_t off);

    /* The outcome, valid when done; |why| below.  Of a receive peer, tag and bytes are
     * there before its sink gets the first byte: whoever takes them knows whose and
     * how many they are. */
    bool done;
    nexar_err err;
    uint32_t peer;
    uint64_t tag;
    uint64_t bytes; /* of the message, also when it was truncated */

    /* msg's own. */
    nx_req_kind kind;
    uint32_t state;
    nx_context context;
    nx_list link;      /* among those held back, or those whose on_done is due */
    nx_list peer_link; /* among those that fail with their peer */
    union {
        nx_req_send send;
        nx_req_recv recv;
    };

    char why[160]; /* the sentence when err is set, without the operation */
} nx_req;

/*
 * Starts sending |n| stretches as one message; they are held with |bytes| until
 * the request is done, which means that they may be reused, not that the message
 * was received.  Short messages are done when the call returns, if there is
 * credit; inside an on_done the request's own on_done comes after that.  A single
 * stretch is copied: |bytes| itself is only borrowed then.
 *
 * Errors are the request's: NEXAR_EINVAL (a peer that is not there, tag NX_ANY_TAG,
 * more bytes than 2^62 - 1: the sentence says which), NEXAR_ENOMEM, those of connect, of the peer
 * that is down.
 */
void nx_msg_send(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_bytes *bytes, size_t n);
/* The same, and the request is done only when a receive has taken the message, or it was dropped:
 * as MPI's synchronous mode.  All its bytes wait for the receiver's CLEAR. */
void nx_msg_send_synchronous(nx_msg *m, nx_req *req, uint32_t peer, nx_context context,
                             uint64_t tag, const nx_bytes *bytes, size_t n);

/*
 * The same for a message of |total| bytes whose owner does not have them all at once: |first|
 * are its first ones, not all.  on_need asks for the next, when those before have gone out
 * and were acknowledged, as long as the receiver wants more; not in a call of this.  Not to
 * ourselves: NEXAR_EINVAL.
 */
void nx_msg_send_stream(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                        nx_bytes first, uint64_t total);
/* The bytes that on_need has asked for, some or all that are left; held until on_need or
 * on_done.  Ignored when the request is done, or ends. */
void nx_msg_send_more(nx_msg *m, nx_req *req, nx_bytes next);
/* There will be no more: the message is taken back, its receive ends with NEXAR_ECANCELED,
 * |req| with |err| and |why|.  At any time before |req| is done. */
void nx_msg_send_break(nx_msg *m, nx_req *req, nexar_err err, const char *why);

/* Sends |len| bytes of a class other than NX_CLASS_COLL without a request, if they can go
 * behind their envelope at once: as nx_msg_send, and done.  False: nothing has happened. */
NX_MUST_CHECK bool nx_msg_send_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag,
                                     const void *data, size_t len);

/* Receives from |peer| what has |tag|, both given, of a class other than NX_CLASS_COLL, without a
 * request, if it is the next that this peer's link has, nobody else may want it, and it fits into
 * |room|: as nx_msg_recv, and done, |*got| bytes.  |waits|: looks for it for a moment, of a thread
 * that is in no callback (nx_loop_looks), not only once.  False: nothing has happened. */
NX_MUST_CHECK bool nx_msg_recv_short(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag,
                                     bool waits, nx_iov_span room, size_t *got);

/*
 * Starts receiving from |peer| (or NX_ANY_PEER) what has |tag| (or NX_ANY_TAG).
 * Ends with NEXAR_ETRUNC when the message is longer than the sink: the first
 * |room| bytes are delivered, the rest is dropped; with NEXAR_EMISMATCH when it
 * ends inside a unit of a function; with NEXAR_ECANCELED when the sender took it
 * back; with the peer's error if that is down and nothing of it is left to match.
 */
void nx_msg_recv(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_sink *sink);

/* Is done when a message that fits has come, which stays where it is. */
void nx_msg_probe(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag);
/* The same without waiting: whether there is one, and if so peer, tag, bytes. */
bool nx_msg_iprobe(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, nx_req *found);

/*
 * A matched probe: takes the message that a receive posted now would take out of matching, when it
 * has come; |req| is done then, and its outcome is the message's.  No other receive or probe finds
 * the message; nx_msg_take receives it by req->recv.number.  It costs credit until then, unless
 * it was fetched by name; nx_msg_forget and nx_msg_destroy drop it.
 */
void nx_msg_match(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag);
/* Receives the message |number| of |peer| and |context|, which a match has taken: as nx_msg_recv,
 * but the outcome's tag is not set.  Ends with NEXAR_ECANCELED where it is no longer there: the
 * sender took it back, it was forgotten, or taken before. */
void nx_msg_take(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t number,
                 const nx_sink *sink);

/*
 * Ends a request that is not done with NEXAR_ECANCELED, if it can still be ended:
 * a receive or probe that has not matched; a send of which nothing has gone out,
 * or whose peer has not asked for the rest (a receive that has matched it ends with
 * NEXAR_ECANCELED then).  Otherwise it runs on.  Returns whether it was or will be
 * cancelled; on_done comes in either case.
 */
bool nx_msg_cancel(nx_msg *m, nx_req *req);

/* The tag of the oldest message of |context| from |peer| that waits for a receive; false: there
 * is none.  Looks at every message that waits: for reports. */
bool nx_msg_unmatched(const nx_msg *m, nx_context context, uint32_t peer, uint64_t *tag);

/* What there is, for tests, info and the stall report. */
typedef struct nx_msg_stats {
    uint64_t pool_used, pool_peak; /* bytes, unexpected, with the cost of envelopes */
    uint64_t unexpected, posted;   /* messages and receives waiting now */
    uint64_t copied;               /* bytes that went through the pool */
    uint64_t delivered;            /* bytes that went straight to a sink */
    uint64_t messages_sent, messages_received;
    uint64_t credit_frames; /* sent: how often credit was told */
    uint64_t waiting;       /* sends that are held back now */
    uint64_t pulled;        /* messages that were fetched by name, in all */
    uint64_t granted;       /* of the pool, to all peers: what may lie there */
    uint64_t links;         /* that were ever made or taken */
    uint64_t peers;         /* of which there is a memory */
} nx_msg_stats;
void nx_msg_stats_get(const nx_msg *m, nx_msg_stats *out);

#endif /* NX_MSG_H */
