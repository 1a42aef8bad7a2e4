/*
 * engine.h - what the files of msg share: the engine, its peers, messages on their
 * way in, and who calls whom.
 *
 * Every entry, from above or from a transport, is between nx_msg_enter and
 * nx_msg_leave.  What must not happen in the middle of something is only noted
 * there, and done by the outermost leave: requests that ended get their on_done,
 * peers that did wrong lose their link.
 *
 *   peer.c    a link's life: hello, control frames, going down
 *   send.c    from a request to envelopes and parts
 *   fast_path.c   short messages without a request
 *   queue.c   sends held back for want of credit
 *   recv.c    from envelopes and parts to a receive
 *   post.c    receives and probes that wait
 *   matched.c messages taken out of matching before they are received
 *   inbound.c messages that wait: their memory, and what it costs
 *   local.c   messages to oneself
 *   fetch_receiver.c     fetching by name what is held back for want of credit
 *   fetch_sender.c    the other end of that
 *   request.c ends of requests
 *   revoke.c  the end of all that waits in one context
 *   share.c   how the pool is divided, and peers that come and go
 *   msg.c     create, close, destroy, probe, cancel, stats
 */
#ifndef NX_ENGINE_H
#define NX_ENGINE_H

#include "base/containers/map.h"
#include "msg/flow/credit.h"
#include "msg/matching/envelope.h"
#include "msg/msg.h"

typedef struct nx_peer nx_peer;

/* States of a request, as bits. */
enum {
    NX_REQ_QUEUED = 1,  /* a send: held back for credit */
    NX_REQ_POSTED = 2,  /* a receive or probe: not matched */
    NX_REQ_MATCHED = 4, /* a receive: bytes are coming */
    NX_REQ_UNCLEAR = 8, /* a send: the peer has not asked for the rest */
    NX_REQ_LOCAL = 16,  /* a send to ourselves that waits for its receive */
    NX_REQ_ENDING = 32, /* a send: over, but the transport holds its bytes */
    NX_REQ_PULLED = 64, /* a send: fetched by name, not confirmed */
    NX_REQ_ASKED = 128, /* a receive that names its peer: that was asked for it */
};

/* States of a message on its way in, as bits. */
enum {
    NX_IN_EARLY = 1,  /* bytes came, the envelope has not */
    NX_IN_PULLED = 2, /* it was fetched by name for a receive, and cost nothing */
    NX_IN_BROKEN = 4, /* its peer went down before it was whole */
    NX_IN_FREE = 8,   /* it cost nothing: to ourselves, by reference */
    NX_IN_TINY = 16,  /* its bytes are in |tiny| */
    NX_IN_ASKED = 32, /* fetched by name for a match: all its bytes were asked for */
};

/*
 * A message that has come, or is coming, and is more than one call's work: it
 * waits for a receive (|req| NULL, in nx_msg.match), or for its bytes.
 *
 * Invariants: bytes [0, got) and [eager, rest) are here; |data| holds the former
 * while it is unmatched.  In from->in_ids while bytes are to come.
 */
typedef struct nx_inbound {
    nx_held held;
    nx_peer *from;
    nx_req *req; /* the receive that took it; NX_IN_FREE: the send */
    uint64_t length, eager, got;
    uint8_t *data;
    union {
        struct {
            uint64_t id, rest, upto;
            size_t room; /* of |data| */
        };
        uint8_t tiny[32]; /* the bytes of a short one */
    };
    uint32_t state;
    nx_class class;
} nx_inbound;
_Static_assert(sizeof(nx_inbound) <= NX_ENVELOPE_COST, "an envelope costs what it takes");

typedef struct nx_pull nx_pull; /* fetch_sender.c */

enum { NX_WANTS_MAX = 4096 }; /* of one account at a time */

/* How far the look of an iprobe has come. */
typedef enum nx_glance { NX_GLANCE_NONE, NX_GLANCE_ASKED, NX_GLANCE_SEEN } nx_glance;

/* What a starved account was asked for by name. */
typedef struct nx_asking {
    uint32_t wants; /* not answered */
    uint32_t stale; /* asked receives that have ended meanwhile, about */
    bool recalling; /* wishes and answers on the way are being undone */
    bool unasked;   /* and the wishes are */
    uint64_t any;   /* up to which receive from anybody (nx_req_recv.when) */
    nx_key glance;  /* what an iprobe has looked for: context, tag */
    nx_glance glanced;
    uint64_t seen_tag, seen_bytes; /* when it was seen */
} nx_asking;

struct nx_peer {
    nx_msg *msg;
    uint32_t index;
    nx_link *link;
    bool ready;    /* what follows is initialised */
    bool greeted;  /* its HELLO has come */
    bool doomed;   /* its link is to be given up, by the outermost leave */
    bool held;     /* doomed, and what needs it waits for the owner's word; there is no link */
    bool down;     /* for good */
    bool single;   /* its memory is its own, not a part of the first ones' */
    bool retired;  /* nobody will speak to it again: nx_msg.retired */
    bool heard;    /* something came since nx_msg_heard */
    nx_end ended;  /* what the end of its link said */
    nexar_err err; /* why: when doomed */
    char why[160];

    nx_credit_out out[NX_CLASSES];
    nx_credit_in in[NX_CLASSES];
    nx_list queue[NX_CLASSES]; /* sends held back, oldest first: nx_req.link */
    nx_pull *pull[NX_CLASSES]; /* NULL unless the peer asks by name */
    nx_list busy;              /* sends that have begun: nx_req.peer_link */
    /* Receives and probes that name this peer and wait (nx_req.peer_link), those
     * that it was asked for by name apart. */
    nx_list posted[NX_CLASSES], asked[NX_CLASSES];
    nx_asking asking[NX_CLASSES];
    uint64_t orders;         /* sends that were ever held back */
    nx_map out_ids;          /* sends that wait for CLEAR */
    nx_map in_ids;           /* messages whose bytes are coming: nx_inbound */
    uint64_t out_number;     /* of the last long message sent */
    uint64_t in_number;      /* of the last long envelope that came */
    uint32_t matched, early; /* messages of in_ids: with a receive; without envelope */
    uint64_t inbounds;       /* nx_inbound that name it */
    uint64_t parts_out;      /* of it, held by a transport */

    nx_list links;    /* nx_msg.links, while there is a link */
    nx_list troubled; /* nx_msg.doomed, then nx_msg.downs */
    nx_list retiring; /* nx_msg.retired */
};

struct nx_msg {
    nx_msg_config config;
    /* Invariant: |granted|, the windows of all accounts of peers that are ready, and
     * |share| for each account of those that are not, is at most the pool. */
    uint64_t share, granted;
    uint64_t target;         /* what an account should have */
    uint32_t fresh;          /* peers that are not ready */
    uint32_t living;         /* peers that are not down */
    nx_peer **peers;         /* NULL: gone */
    nx_peer *first;          /* the memory of those that were there at first */
    nx_list retired;         /* that are not gone: nx_peer.retiring */
    nx_match match;          /* receives and unexpected messages */
    nx_match probes;         /* probes: only its posted half */
    nx_list any[NX_CLASSES]; /* receives and probes from anybody: nx_req.peer_link */
    nx_list links;
    nx_list spare; /* nx_inbound to use again: held.order */
    size_t nspare;

    unsigned depth;        /* entries that have not left */
    nx_list finished;      /* requests whose on_done is due: nx_req.link */
    nx_list doomed, downs; /* peers to be buried; whose on_peer_down is due */
    uint64_t parts_out;    /* held by transports */
    uint64_t posts;        /* receives and probes that ever waited */
    uint64_t matched;      /* messages that matches ever took */
    uint64_t looked[2];    /* of them when nx_msg_each_waiting was last called, and before */
    bool stalls;           /* some peer was ever stalled */
    bool asked_any;        /* and asked for a receive from anybody */
    bool closing, dying;
    bool stir; /* closing: something ended, links may be idle */
    nx_event *closed;
    nx_msg_stats stats;
};

static inline void nx_msg_enter(nx_msg *m)
{
    m->depth++;
}
/* |m| may be gone afterwards. */
void nx_msg_leave(nx_msg *m);

static inline uint64_t nx_context_word(nx_context c)
{
    return (uint64_t)c.comm | ((uint64_t)c.kind << 32) | ((uint64_t)c.class << 40);
}

/* ---- request.c --------------------------------------------------------------- */

/* Ends |r| well, or with a sentence.  It is in no set and no transport has
 * anything of it; it must not be touched afterwards. */
void nx_req_end(nx_msg *m, nx_req *r);
void nx_req_fail(nx_msg *m, nx_req *r, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Notes the message that a receive or probe has met. */
void nx_req_outcome(nx_req *r, const nx_key *key, uint64_t bytes);
/* Ends a receive whose message is all there. */
void nx_req_received(nx_msg *m, nx_req *r);

/* Prepares what all kinds have in common; |key| is of the message or the wish. */
void nx_req_begin(nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context);
/* Runs the callbacks that are due. */
void nx_req_run_finished(nx_msg *m);

/* Bytes [off, off + len) of a send as stretches at |out|; returns how many. */
size_t nx_req_cut(const nx_req *r, uint64_t off, uint64_t len, nx_bytes *out);

/* ---- peer.c -------------------------------------------------------------------- */

extern const nx_link_up nx_peer_up;

/* Peer |index|, initialised. */
nx_peer *nx_peer_get(nx_msg *m, uint32_t index);
/* Sees to it that there is a link. */
NX_MUST_CHECK nexar_err nx_peer_connect(nx_peer *p);
void nx_peer_attach(nx_peer *p, nx_link *link);

/* The link has to go; the outermost leave does it.  The first reason counts, and says when it
 * was. */
void nx_peer_mark_failed(nx_peer *p, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a sentence as it is. */
void nx_peer_mark_failed_said(nx_peer *p, nexar_err err, const char *why);
/* |p| is doomed, and what needs it waits, now and later, until one of the two below. */
void nx_peer_hold_said(nx_peer *p, nexar_err err, const char *why);
/* It waits no longer: the outermost leave ends it, for the reason of before. */
void nx_peer_let_go(nx_peer *p);
/* Ends all that waits for a doomed peer. */
void nx_peer_release_failed(nx_peer *p);
/* Whether nothing needs the link. */
bool nx_peer_idle(const nx_peer *p);

/* Sends one of msg's own frames; a failure dooms the peer. */
void nx_peer_tell(nx_peer *p, nx_lane lane, const nx_frame *f);

/* |cost| has come from |p|: false and doomed if that was not covered. */
NX_MUST_CHECK bool nx_peer_charge(nx_peer *p, nx_class class, uint64_t cost);
void nx_peer_release(nx_peer *p, nx_class class, uint64_t cost);
/* Counts what lies in the pool; negative: what left it. */
void nx_pool_count(nx_msg *m, int64_t bytes);

/* ---- share.c --------------------------------------------------------------------- */

/* Divides the pool of a new engine among its |fresh| peers. */
void nx_credit_division_start(nx_msg *m);
/* Takes the memory of the peers up to |peers|, of those that are there.  NEXAR_ENOMEM:
 * that of none. */
NX_MUST_CHECK nexar_err nx_credit_division_take(nx_msg *m, uint32_t peers);
/* |p|, which is down, is owed nothing more than what lies here of it. */
void nx_credit_division_end(nx_peer *p);
/* Raises the window of an account that has less than its share, if there is room. */
void nx_credit_division_enrich(nx_peer *p, nx_class class);
void nx_credit_division_reclaim(nx_peer *p, const nx_frame *f);
void nx_credit_division_return(nx_peer *p, const nx_frame *f);

/* ---- send.c --------------------------------------------------------------------- */

/* The most bytes that go behind their envelope to |p|, which has a link. */
static inline size_t nx_send_inline_max(const nx_peer *p)
{
    const nx_msg_config *config = &p->msg->config;

    return (config->inline_auto && (p->link->frame_best > config->inline_max)) ? p->link->frame_best
                                                                               : config->inline_max;
}
/* Sends |r|, which is in no queue; there is credit for its envelope. */
void nx_send_now(nx_peer *p, nx_req *r);
/* The same without bytes and credit, for a WANT. */
void nx_send_pulled(nx_peer *p, nx_req *r);
void nx_send_clear(nx_peer *p, const nx_frame *f);
void nx_send_on_sent(nx_peer *p, nx_tx *tx, nexar_err err);
bool nx_send_cancel(nx_msg *m, nx_req *r);
/* Ends a send with the error of its peer. */
void nx_send_fail_all(nx_peer *p, nx_req *r);
/* |p| will not ask for |r|: it ends, unless it has been asked for. */
void nx_send_refuse(nx_peer *p, nx_req *r, nexar_err err, const char *why);
/* Ends one that is broken or refused, with what stands in it; it is not being fetched by name. */
void nx_send_broken(nx_peer *p, nx_req *r);

/* ---- queue.c -------------------------------------------------------------------- */

/* Whether a new send must wait. */
bool nx_queue_blocked(const nx_peer *p, nx_class class);
/* Holds |r| back, as the last; or sends it, if the receiver has asked for it. */
void nx_queue_add(nx_peer *p, nx_req *r);
void nx_queue_remove(nx_peer *p, nx_req *r);
/* Sends what credit allows. */
void nx_queue_pump(nx_peer *p, nx_class class);
/* A pulled message was not taken: it is held back again, where it was. */
void nx_queue_putback(nx_peer *p, const nx_frame *f);

/* ---- inbound.c ------------------------------------------------------------------ */

/* A node for a message |key|, not in any set; NULL: no memory. */
nx_inbound *nx_inbound_make(nx_peer *from, const nx_key *key, nx_class class);
void nx_inbound_free(nx_msg *m, nx_inbound *in);
/* Copies the next |len| bytes of the eager part, or all of a short message. */
NX_MUST_CHECK nexar_err nx_inbound_keep(nx_inbound *in, const void *data, size_t len);
NX_MUST_CHECK nexar_err nx_inbound_keep_whole(nx_inbound *in, const nx_bytes *bytes, size_t n,
                                              uint64_t length);
/* Lets an unmatched message wait, and tells the probes. */
void nx_inbound_hold(nx_msg *m, nx_inbound *in);
/* What |in| had cost is free again. */
void nx_inbound_release(nx_inbound *in);

/* ---- recv.c --------------------------------------------------------------------- */

void nx_recv_envelope(nx_peer *p, const nx_frame *f);
void nx_recv_retract(nx_peer *p, const nx_frame *f);
void nx_recv_data(nx_peer *p, uint64_t id, uint64_t off, const void *data, size_t len);
/* Where bytes [off, off + *len) go, cut to one stretch; NULL: by nx_recv_data. */
void *nx_recv_want(nx_peer *p, uint64_t id, uint64_t off, size_t *len);
/* The message |in| and the receive |r|, both in no set, have met. */
void nx_recv_meet(nx_inbound *in, nx_req *r);
/* What is left of |p|'s messages when it goes down. */
void nx_recv_fail_all(nx_peer *p);

/* ---- post.c --------------------------------------------------------------------- */

/* Takes a waiting receive or probe out of its sets. */
void nx_post_remove(nx_msg *m, nx_req *r);
/* A message |key| is there: ends the probes that wait for it. */
void nx_post_tell_probes(nx_msg *m, const nx_key *key, uint64_t length);

/* Starts |r|, set up by nx_req_begin but for that, of |kind|. */
void nx_post_begin(nx_msg *m, nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context);

/* ---- matched.c ------------------------------------------------------------------ */

/* The match |r| takes |in|; both are in no set. */
void nx_matched_keep(nx_inbound *in, nx_req *r);

/* ---- local.c --------------------------------------------------------------------- */

void nx_local_send(nx_msg *m, nx_req *r);
/* |r| takes |in|, which a send of our own waits with. */
void nx_local_take(nx_msg *m, nx_inbound *in, nx_req *r);
void nx_local_cancel(nx_msg *m, nx_req *r);

/* ---- fetch_sender.c, the sender's end -------------------------------------------------------- */

/* |p| wants a message by name. */
void nx_pull_want(nx_peer *p, const nx_frame *f);
/* |r| is about to be held back.  True: it was wanted, and has gone. */
bool nx_pull_offer(nx_peer *p, nx_req *r);
/* |r| is no longer held back. */
void nx_pull_forget(nx_peer *p, nx_req *r);
/* A pulled message has found its receive, or has been put back. */
void nx_pull_confirm(nx_peer *p, nx_class class, bool taken);
/* Whether a pulled message is not confirmed: nothing may overtake it. */
bool nx_pull_pending(const nx_peer *p, nx_class class);
/* Ends the pulling if nothing is held back or pending. */
void nx_pull_check(nx_peer *p, nx_class class);
/* Ends it in any case: |p| is down. */
void nx_pull_end(nx_peer *p, nx_class class);
void nx_pull_unask(nx_peer *p, const nx_frame *f);

/* ---- fetch_receiver.c, the receiver's end
 * -------------------------------------------------------- */

/* Asks a starved peer for what receives wait for. */
void nx_ask(nx_peer *p, nx_class class);
/* A receive or probe |r| has been posted; will wait no longer. */
void nx_ask_posted(nx_msg *m, nx_req *r);
void nx_ask_ended(nx_msg *m, nx_req *r);
/* An answer has come: counts it.  True: a receive may have it; false: it must be
 * put back, or |p| is doomed. */
NX_MUST_CHECK bool nx_ask_answered(nx_peer *p, const nx_frame *f);
/* Nobody waits for the answer |f|. */
void nx_ask_putback(nx_peer *p, const nx_frame *f);
void nx_ask_unwanted(nx_peer *p, const nx_frame *f);
void nx_ask_unasked(nx_peer *p, const nx_frame *f);
/* An iprobe found nothing: what a starved peer would have, if it is known. */
bool nx_ask_glance(nx_peer *p, const nx_key *key, nx_context context, nx_req *found);

#endif /* NX_ENGINE_H */
