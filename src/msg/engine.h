/*
 * engine.h - shared by the files of msg: the engine, its peers, incoming messages, and the call
 * graph.
 *
 * Every entry, from above or from a transport, is between nx_msg_enter and nx_msg_leave. Actions
 * that must not happen inside an operation are only noted; the outermost leave performs them:
 * on_done of completed requests, and the end of failed links.
 *
 *   peer.c            life of a link: hello, control frames, failure
 *   send.c            from a request to envelopes and fragments
 *   fast_path.c       short messages without a request
 *   queue.c           sends held back for lack of credit
 *   recv.c            from envelopes and fragments to a receive
 *   post.c            posted receives and probes
 *   matched.c         messages matched before they are received
 *   inbound.c         unexpected messages: their memory and their credit
 *   loopback.c        messages to the own rank
 *   fetch_receiver.c  fetches by name a message held back for lack of credit
 *   fetch_sender.c    answers such a fetch
 *   request.c         completion of requests
 *   revoke.c          ends everything that waits in one context
 *   credit_division.c           division of the pool; peers that join and leave
 *   msg.c             create, close, destroy, probe, cancel, stats
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
    NX_REQ_QUEUED = 1,  /* send: held back for lack of credit */
    NX_REQ_POSTED = 2,  /* receive or probe: posted, not matched */
    NX_REQ_MATCHED = 4, /* receive: matched, bytes are arriving */
    NX_REQ_UNCLEAR = 8, /* send: the peer has not requested the rest */
    NX_REQ_LOCAL = 16,  /* send to the own rank: waits for its receive */
    NX_REQ_ENDING = 32, /* send: complete, but the transport holds its bytes */
    NX_REQ_PULLED = 64, /* send: fetched by name, not confirmed */
    NX_REQ_ASKED = 128, /* receive from a named peer: a WANT was sent */
};

/* States of an incoming message, as bits. */
enum {
    NX_IN_EARLY = 1,  /* bytes have arrived before the envelope */
    NX_IN_PULLED = 2, /* fetched by name for a receive; consumed no credit */
    NX_IN_BROKEN = 4, /* the link failed before it was complete */
    NX_IN_FREE = 8,   /* consumed no credit: to the own rank, by reference */
    NX_IN_TINY = 16,  /* its bytes are in |tiny| */
    NX_IN_ASKED = 32, /* fetched by name for a match: all its bytes were requested */
};

/*
 * A message that has arrived, or is arriving, and outlives one call: it waits for a receive (|req|
 * NULL, in nx_msg.match) or for its bytes.
 *
 * Invariants: bytes [0, got) and [eager, rest) have arrived; |data| holds the former while it is
 * unmatched. Listed in from->in_ids while bytes are missing.
 */
typedef struct nx_inbound {
    nx_held held;
    nx_peer *from;
    nx_req *req; /* the matching receive; NX_IN_FREE: the send */
    uint64_t length, eager, got;
    uint8_t *data;
    union {
        struct {
            uint64_t id, rest, upto;
            size_t room; /* of |data| */
        };
        uint8_t tiny[32]; /* the bytes of a short message */
    };
    uint32_t state;
    nx_class class;
} nx_inbound;
_Static_assert(sizeof(nx_inbound) <= NX_ENVELOPE_COST, "an envelope costs what it takes");

typedef struct nx_pull nx_pull; /* fetch_sender.c */

enum { NX_WANTS_MAX = 4096 }; /* WANTs in flight of one account */

/* Progress of an iprobe's query. */
typedef enum nx_glance { NX_GLANCE_NONE, NX_GLANCE_ASKED, NX_GLANCE_SEEN } nx_glance;

/* The WANTs of an account whose sender is out of credit. */
typedef struct nx_asking {
    uint32_t wants; /* not answered */
    uint32_t stale; /* approximate number of WANTs whose receive has ended */
    bool recalling; /* WANTs in flight and their answers are being withdrawn */
    bool unasked;   /* and the WANTs are withdrawn */
    uint64_t any;   /* newest receive from any source that was asked for (nx_req_recv.when) */
    nx_key glance;  /* what an iprobe has asked for: context, tag */
    nx_glance glanced;
    uint64_t seen_tag, seen_bytes; /* the answer: tag and length */
} nx_asking;

struct nx_peer {
    nx_msg *msg;
    uint32_t index;
    nx_link *link;
    bool ready;    /* the following fields are initialised */
    bool greeted;  /* its HELLO has arrived */
    bool doomed;   /* its link has failed; the outermost leave ends it */
    bool held;     /* failed, and pending requests wait for the owner's decision; there is no
                      link */
    bool down;     /* permanent */
    bool single;   /* allocated separately, not in the first array */
    bool retired;  /* will not be used again: in nx_msg.retired */
    bool heard;    /* something arrived since nx_msg_heard */
    nx_end ended;  /* how its link ended */
    nexar_err err; /* if failed: the reason */
    char why[160];

    nx_credit_out out[NX_CLASSES];
    nx_credit_in in[NX_CLASSES];
    nx_list queue[NX_CLASSES]; /* held-back sends, oldest first: nx_req.link */
    nx_pull *pull[NX_CLASSES]; /* NULL unless the peer fetches by name */
    nx_list busy;              /* sends that have begun: nx_req.peer_link */
    /* Posted receives and probes that name this peer (nx_req.peer_link); |asked| has the receives
     * for which a WANT was sent. */
    nx_list posted[NX_CLASSES], asked[NX_CLASSES];
    nx_asking asking[NX_CLASSES];
    uint64_t orders;         /* number of sends ever held back */
    nx_map out_ids;          /* sends that wait for CLEAR */
    nx_map in_ids;           /* messages whose bytes are arriving: nx_inbound */
    uint64_t out_number;     /* number of the last long message sent */
    uint64_t in_number;      /* number of the last long envelope received */
    uint32_t matched, early; /* messages of in_ids: with a receive; without envelope */
    uint64_t inbounds;       /* nx_inbound that refer to it */
    uint64_t parts_out;      /* of it, held by a transport */

    nx_list links;    /* nx_msg.links, while there is a link */
    nx_list troubled; /* nx_msg.doomed, then nx_msg.downs */
    nx_list retiring; /* nx_msg.retired */
};

struct nx_msg {
    nx_msg_config config;
    /* Invariant: |granted| (the windows of all accounts of ready peers) plus |share| for each
     * account of the other peers is at most the pool. */
    uint64_t share, granted;
    uint64_t target;         /* target window of an account */
    uint32_t fresh;          /* peers that are not ready */
    uint32_t living;         /* peers that are not down */
    nx_peer **peers;         /* NULL: freed */
    nx_peer *first;          /* memory of the initial peers */
    nx_list retired;         /* retired peers with references: nx_peer.retiring */
    nx_match match;          /* receives and unexpected messages */
    nx_match probes;         /* probes: only the posted half is used */
    nx_list any[NX_CLASSES]; /* receives and probes from any source: nx_req.peer_link */
    nx_list links;
    nx_list spare; /* free list of nx_inbound: held.order */
    size_t nspare;

    unsigned depth;        /* nesting of nx_msg_enter */
    nx_list finished;      /* requests whose on_done is due: nx_req.link */
    nx_list doomed, downs; /* failed peers to process; peers whose on_peer_down is due */
    uint64_t parts_out;    /* held by transports */
    uint64_t posts;        /* receives and probes ever posted */
    uint64_t matched;      /* messages ever taken by matches */
    uint64_t looked[2];    /* of them when nx_msg_each_waiting was last called, and before */
    bool stalls;           /* some peer was ever out of credit */
    bool asked_any;        /* and a receive from any source sent WANTs */
    bool closing, dying;
    bool stir; /* closing: a request ended, links may be idle */
    nx_event *closed;
    nx_msg_stats stats;
};

static inline void nx_msg_enter(nx_msg *m)
{
    m->depth++;
}
/* |m| may be freed on return. */
void nx_msg_leave(nx_msg *m);

static inline uint64_t nx_context_word(nx_context c)
{
    return (uint64_t)c.comm | ((uint64_t)c.kind << 32) | ((uint64_t)c.class << 40);
}

/* ---- request.c ----------------------------------------------------------------------- */

/* Completes |r|, with success or an error. It is in no set and no transport refers to it. It must
 * not be accessed afterwards. */
void nx_req_end(nx_msg *m, nx_req *r);
void nx_req_fail(nx_msg *m, nx_req *r, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Records the message that a receive or probe has matched. */
void nx_req_outcome(nx_req *r, const nx_key *key, uint64_t bytes);
/* Completes a receive whose message has arrived. */
void nx_req_received(nx_msg *m, nx_req *r);

/* Initialises what all kinds have in common; |key| is that of the message or of the receive. */
void nx_req_begin(nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context);
/* Runs the callbacks that are due. */
void nx_req_run_finished(nx_msg *m);

/* Bytes [off, off + len) of a send as pieces at |out|; returns their number. */
size_t nx_req_cut(const nx_req *r, uint64_t off, uint64_t len, nx_bytes *out);

/* ---- peer.c -------------------------------------------------------------------------- */

extern const nx_link_up nx_peer_up;

/* Peer |index|, initialised. */
nx_peer *nx_peer_get(nx_msg *m, uint32_t index);
/* Opens a link if there is none. */
NX_MUST_CHECK nexar_err nx_peer_connect(nx_peer *p);
void nx_peer_attach(nx_peer *p, nx_link *link);

/* Marks the link as failed; the outermost leave ends it. The first reason counts and is logged with
 * its time. */
void nx_peer_mark_failed(nx_peer *p, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with a finished message. */
void nx_peer_mark_failed_why(nx_peer *p, nexar_err err, const char *why);
/* |p| has failed; its requests, current and later, wait until one of the next two calls. */
void nx_peer_hold_why(nx_peer *p, nexar_err err, const char *why);
/* They wait no longer: the outermost leave fails them, for the recorded reason. */
void nx_peer_fail_held(nx_peer *p);
/* Fails everything that waits for a failed peer. */
void nx_peer_release_failed(nx_peer *p);
/* Whether nothing needs the link. */
bool nx_peer_idle(const nx_peer *p);

/* Sends one of msg's own frames; on an error the peer fails. */
void nx_peer_send_frame(nx_peer *p, nx_lane lane, const nx_frame *f);

/* Charges |cost| to |p|. False if credit did not cover it: the peer fails. */
NX_MUST_CHECK bool nx_peer_charge(nx_peer *p, nx_class class, uint64_t cost);
void nx_peer_release(nx_peer *p, nx_class class, uint64_t cost);
/* Counts bytes that enter the pool; negative: that leave it. */
void nx_pool_count(nx_msg *m, int64_t bytes);

/* ---- credit_division.c --------------------------------------------------------------- */

/* Divides the pool of a new engine among its |fresh| peers. */
void nx_credit_division_start(nx_msg *m);
/* Allocates the peers up to |peers|. NEXAR_ENOMEM: allocates none. */
NX_MUST_CHECK nexar_err nx_credit_division_take(nx_msg *m, uint32_t peers);
/* |p|, which is down, keeps only the credit of its messages that are here. */
void nx_credit_division_end(nx_peer *p);
/* Raises the window of an account below its share, if there is room. */
void nx_credit_division_enrich(nx_peer *p, nx_class class);
void nx_credit_division_reclaim(nx_peer *p, const nx_frame *f);
void nx_credit_division_return(nx_peer *p, const nx_frame *f);

/* ---- send.c -------------------------------------------------------------------------- */

/* The largest number of bytes that follow their envelope to |p|, which has a link. */
static inline size_t nx_send_inline_max(const nx_peer *p)
{
    const nx_msg_config *config = &p->msg->config;

    return (config->inline_auto && (p->link->frame_best > config->inline_max)) ? p->link->frame_best
                                                                               : config->inline_max;
}
/* Sends |r|, which is in no queue; credit covers its envelope. */
void nx_send_now(nx_peer *p, nx_req *r);
/* The same without bytes and credit, for a WANT. */
void nx_send_pulled(nx_peer *p, nx_req *r);
void nx_send_clear(nx_peer *p, const nx_frame *f);
void nx_send_on_sent(nx_peer *p, nx_tx *tx, nexar_err err);
bool nx_send_cancel(nx_msg *m, nx_req *r);
/* Fails a send with the error of its peer. */
void nx_send_fail_all(nx_peer *p, nx_req *r);
/* |p| will not request |r|: fails it unless it was already requested. */
void nx_send_refuse(nx_peer *p, nx_req *r, nexar_err err, const char *why);
/* Completes a failed or refused send with its recorded error; it is not being fetched by name. */
void nx_send_broken(nx_peer *p, nx_req *r);

/* ---- queue.c ------------------------------------------------------------------------- */

/* Whether a new send must wait. */
bool nx_queue_blocked(const nx_peer *p, nx_class class);
/* Appends |r| to the queue, or sends it if the receiver has requested it. */
void nx_queue_add(nx_peer *p, nx_req *r);
void nx_queue_remove(nx_peer *p, nx_req *r);
/* Sends what credit allows. */
void nx_queue_pump(nx_peer *p, nx_class class);
/* A fetched message was not taken: returns it to its position in the queue. */
void nx_queue_putback(nx_peer *p, const nx_frame *f);

/* ---- inbound.c ----------------------------------------------------------------------- */

/* A node for a message |key|, not in any set; NULL: out of memory. */
nx_inbound *nx_inbound_make(nx_peer *from, const nx_key *key, nx_class class);
void nx_inbound_free(nx_msg *m, nx_inbound *in);
/* Copies the next |len| bytes of the eager part, or all of a short message. */
NX_MUST_CHECK nexar_err nx_inbound_keep(nx_inbound *in, const void *data, size_t len);
NX_MUST_CHECK nexar_err nx_inbound_keep_whole(nx_inbound *in, const nx_bytes *bytes, size_t n,
                                              uint64_t length);
/* Queues an unmatched message and completes matching probes. */
void nx_inbound_hold(nx_msg *m, nx_inbound *in);
/* Releases the credit of |in|. */
void nx_inbound_release(nx_inbound *in);

/* ---- recv.c -------------------------------------------------------------------------- */

void nx_recv_envelope(nx_peer *p, const nx_frame *f);
void nx_recv_retract(nx_peer *p, const nx_frame *f);
void nx_recv_data(nx_peer *p, uint64_t id, uint64_t off, const void *data, size_t len);
/* The destination of bytes [off, off + *len), cut to one piece; NULL: use nx_recv_data. */
void *nx_recv_want(nx_peer *p, uint64_t id, uint64_t off, size_t *len);
/* The message |in| and the receive |r|, both in no set, match. */
void nx_recv_meet(nx_inbound *in, nx_req *r);
/* Processes the messages of |p| when it goes down. */
void nx_recv_fail_all(nx_peer *p);

/* ---- post.c -------------------------------------------------------------------------- */

/* Removes a posted receive or probe from its sets. */
void nx_post_remove(nx_msg *m, nx_req *r);
/* A message |key| has arrived: completes the probes that wait for it. */
void nx_post_complete_probes(nx_msg *m, const nx_key *key, uint64_t length);

/* Posts |r|, initialised by nx_req_begin, of |kind|. */
void nx_post_begin(nx_msg *m, nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context);

/* ---- matched.c ----------------------------------------------------------------------- */

/* The match |r| takes |in|; both are in no set. */
void nx_matched_keep(nx_inbound *in, nx_req *r);

/* ---- loopback.c ---------------------------------------------------------------------- */

void nx_local_send(nx_msg *m, nx_req *r);
/* |r| takes |in|, sent by the own rank. */
void nx_local_take(nx_msg *m, nx_inbound *in, nx_req *r);
void nx_local_cancel(nx_msg *m, nx_req *r);

/* ---- fetch_sender.c, the sender's end ------------------------------------------------ */

/* |p| fetches a message by name. */
void nx_pull_want(nx_peer *p, const nx_frame *f);
/* |r| is about to be held back. True: it was requested and has been sent. */
bool nx_pull_offer(nx_peer *p, nx_req *r);
/* |r| is no longer held back. */
void nx_pull_forget(nx_peer *p, nx_req *r);
/* A fetched message has found its receive, or was put back. */
void nx_pull_confirm(nx_peer *p, nx_class class, bool taken);
/* Whether a fetched message is not confirmed: nothing may overtake it. */
bool nx_pull_pending(const nx_peer *p, nx_class class);
/* Ends the fetching if nothing is held back or pending. */
void nx_pull_check(nx_peer *p, nx_class class);
/* Ends it unconditionally: |p| is down. */
void nx_pull_end(nx_peer *p, nx_class class);
void nx_pull_unask(nx_peer *p, const nx_frame *f);

/* ---- fetch_receiver.c, the receiver's end -------------------------------------------- */

/* Asks a sender without credit for what posted receives wait for. */
void nx_ask(nx_peer *p, nx_class class);
/* The receive or probe |r| was posted; it no longer waits. */
void nx_ask_posted(nx_msg *m, nx_req *r);
void nx_ask_ended(nx_msg *m, nx_req *r);
/* An answer has arrived: counts it. True: a receive may take it. False: it must be put back, or |p|
 * has failed. */
NX_MUST_CHECK bool nx_ask_answered(nx_peer *p, const nx_frame *f);
/* No receive waits for the answer |f|. */
void nx_ask_putback(nx_peer *p, const nx_frame *f);
void nx_ask_unwanted(nx_peer *p, const nx_frame *f);
void nx_ask_unasked(nx_peer *p, const nx_frame *f);
/* An iprobe found nothing: returns what a sender without credit holds back, if that is known. */
bool nx_ask_glance(nx_peer *p, const nx_key *key, nx_context context, nx_req *found);

#endif /* NX_ENGINE_H */
