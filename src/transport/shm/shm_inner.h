/*
 * inner.h - what the files of the shm transport share, and who does what.
 *
 *   endpoint.c  the socket, the bell, life, polling all links
 *   pending_peers.c    callers that have not proved themselves
 *   pair.c      the dialler's side of pairing; a link gets its segment
 *   unix_socket.c   packets and descriptors over the socket
 *   link.c      operations; ending; moving to another transport
 *   out.c       from queues to rings
 *   in.c        from rings to calls up
 *   reads.c     reading the sender's memory
 *
 * Calls up are made only from polls and from the endpoint's task, and nothing is freed
 * but by the task: so a callback may close any link, also the one that it is called for.
 */
#ifndef NX_SHM_INNER_H
#define NX_SHM_INNER_H

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/adaptive_choice.h"
#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/log_limit.h"
#include "handshake.h"
#include "segment.h"

enum {
    NX_SHM_SPANS = 16,         /* stretches of memory that an offer names */
    NX_SHM_CHUNK = 16 << 10,   /* bytes of a record of the data ring at most: a unit */
    NX_SHM_CHUNKS = 16,        /* put into the data ring in one go, before others are heard */
    NX_SHM_BOUNCE = 128 << 10, /* read at a time where the bytes have no place: fits a cache */
    NX_SHM_SLICE = 512 << 10,  /* read at a time into their place: 50 us or so */
    NX_SHM_OFFER_LEAST =
        32 << 10,      /* shorter ones are copied: see docs/internals/shared-memory.md */
    NX_SHM_LENGTHS = 3 /* classes of parts by length: which way is the faster */
};

/* How a long part comes: see claim.h. */
enum { NX_BY_RING, NX_BY_READING };

/* Records. */
enum {
    NX_REC_FRAME = 1, /* control, message: a frame or a piece of one */
    NX_REC_DATA,      /* data: id, off, bytes */
    NX_REC_OFFER,     /* data: a part that lies in the sender's memory */
    NX_REC_PUSH,      /* data: the next bytes of one that was offered */
    NX_REC_DONE,      /* control: the reader, who had taken it, needs an offer no more */
    NX_REC_CANCEL     /* control: the writer wants an offer back */
};
enum { NX_REC_MORE = 1 }; /* flag: the frame goes on in the next record */

typedef enum nx_done { NX_DONE_READ, NX_DONE_DROPPED, NX_DONE_UNREADABLE } nx_done;

/* What records carry, in the layout of this machine: it never leaves it. */
typedef struct nx_rec_data {
    uint64_t id, off;
} nx_rec_data;

typedef struct nx_rec_span {
    uint64_t at, len;
} nx_rec_span;

typedef struct nx_rec_offer {
    uint64_t id, off, len;
    uint32_t slot, number, nspans, zero;
    nx_rec_span spans[NX_SHM_SPANS];
} nx_rec_offer;

typedef struct nx_rec_push {
    uint32_t slot, number;
} nx_rec_push;

typedef struct nx_rec_done {
    uint64_t read; /* bytes of it */
    uint32_t slot, number, how, zero;
} nx_rec_done;

typedef enum nx_shm_state {
    NX_SHM_PAIRING, /* the socket is connected, and words go over it */
    NX_SHM_WAITING, /* for the call of the lower member, who has refused ours */
    NX_SHM_UP,
    NX_SHM_DOWN /* for the reason that |err| and |why| say */
} nx_shm_state;

/* An offer that we have made: the peer may be reading |tx|'s memory. */
typedef struct nx_shm_lent {
    nx_tx *tx; /* NULL: the slot is free */
    uint64_t len, pushed;
    size_t stretch, in; /* where byte |pushed| is in |tx|: which, and how far in it */
    uint32_t number;
    bool cancelled;
    bool taken; /* by the peer, which reads the rest */
} nx_shm_lent;

/* An offer that we have got.  |taken|: what is behind the first |pushed| bytes is ours to
 * read.  |over|, only if it is: nothing but the DONE is left. */
typedef struct nx_shm_read {
    bool used, over, taken;
    nx_done how;
    nx_rec_offer offer;
    uint64_t done, pushed;
    uint32_t span; /* where byte |done| is: which, and how far in it */
    uint64_t in_span;
} nx_shm_read;

/* A frame that found no room. */
typedef struct nx_shm_frame {
    nx_list link;
    size_t len, sent;
    uint8_t data[];
} nx_shm_frame;

/* A frame that comes in pieces. */
typedef struct nx_shm_pieces {
    uint8_t *data; /* NX_FRAME_MAX bytes, once needed */
    size_t len;
} nx_shm_pieces;

typedef struct nx_shm_link {
    nx_link base;
    nx_shm *shm;
    nx_list links; /* nx_shm.links */
    uint64_t member;
    nx_shm_state state;
    bool told_up, told_down;
    bool failed;           /* pairing has, for the reason in |why| */
    bool hung_up, nobody;  /* since the peer hung up; since nothing listens there */
    uint8_t tries;         /* to pair again, after it hung up */
    bool challenged;       /* PROOF was sent: WELCOME must follow */
    bool closed, draining; /* by the owner */
    nexar_err err;
    char why[160];

    nx_fd socket, process; /* the second is that of |peer|; fd is -1: it is not watched */
    nx_pidfd *peer;        /* its process; NULL: it cannot be pinned, nor its memory read */
    int bell;              /* the peer's; -1 before it is up */
    pid_t pid;             /* as this process sees it; 0: not at all */
    nx_segment *segment;
    int segment_fd; /* until it is passed; then -1 */
    unsigned side;
    nx_shm_offer offer; /* the peer's */
    uint8_t nonce[NX_SHM_NONCE];
    nx_list parked; /* calls that we, the lower member, have refused: nx_shm_guest.link */

    nx_ring_out out[NX_SHM_RINGS];
    nx_ring_in in[NX_SHM_RINGS];
    uint32_t need[NX_SHM_RINGS]; /* bytes of the record that found no room; 0: none */
    nx_list dirty;               /* nx_shm.dirty: something is to be published */
    nx_list troubled;            /* nx_shm.troubled: the task has to see to it */

    nx_list frames[NX_LANES]; /* nx_shm_frame */
    nx_list big, small;       /* nx_tx.link: to be offered; to be copied */
    nx_list ended;            /* nx_tx.link: on_sent is due, tx->stream is the error */
    nx_shm_lent lent[NX_SHM_OFFERS];
    unsigned nlent, pushing; /* the slot whose turn it is, ... */
    unsigned turn;           /* ... for so many chunks yet */
    bool more;               /* to be pushed, and there may be room */
    uint32_t numbers;
    uint32_t cancels; /* lent slots whose CANCEL found no room */

    nx_shm_pieces pieces[NX_LANES];
    nx_shm_read reads[NX_SHM_OFFERS];
    unsigned nreads, next_read;
    uint32_t peeked;   /* bytes of the frame that was last shown */
    bool part_ended;   /* a long one has come to its end, perhaps */
    uint64_t heard_ns; /* when the last was offered, or something of one came */

    /* How long parts are to come, by their lengths. */
    nx_adaptive ways[NX_SHM_LENGTHS];
    unsigned way;
    const nx_shm_read *watched;         /* one that comes this way; NULL: none does, undisturbed */
    uint64_t watched_ns, watched_bytes; /* when it was offered; received by then */
    nx_timer timer;                     /* of draining */
    uint64_t bytes_sent, bytes_received;
} nx_shm_link;

/* Somebody who has connected. */
typedef struct nx_shm_guest {
    nx_list link; /* nx_shm.guests, or nx_shm_link.parked */
    nx_shm *shm;
    nx_fd socket;
    nx_timer timer;
    pid_t pid;
    uint64_t from; /* 0: it has not said */
    nx_shm_offer offer;
    uint8_t theirs[NX_SHM_NONCE], ours[NX_SHM_NONCE];
} nx_shm_guest;

struct nx_shm {
    nx_shm_config config;
    nx_shm_offer offer;
    uint64_t member; /* 0: not started */
    nx_fd listener, bell;
    int spare;      /* given up to turn a caller away where there are no more; -1: none */
    nx_timer again; /* accept has failed, and there is no spare one either */
    bool asleep;    /* the loop is about to sleep, or does */
    nx_list links;
    nx_map by_member; /* links that are pairing or up, not closed */
    nx_list guests;
    size_t nguests;
    nx_log_limit refusals; /* of callers */
    nx_list troubled, dirty;
    nx_task task;
    nx_event *drained;
    uint64_t token; /* random: who can read it here can read our memory */
    uint8_t *frame; /* NX_FRAME_MAX bytes: a frame is copied before it is looked at */
    uint8_t *bounce;
};

static inline nx_shm_link *nx_shm_from_base(nx_link *link)
{
    return nx_list_entry(link, nx_shm_link, base);
}

/* Whether calls up may be made. */
static inline bool nx_shm_listens(const nx_shm_link *link)
{
    return (link->state == NX_SHM_UP) && !link->closed;
}

static inline nx_segment_way *nx_shm_way_out(const nx_shm_link *link)
{
    return &link->segment->way[link->side];
}

static inline nx_segment_way *nx_shm_way_in(const nx_shm_link *link)
{
    return &link->segment->way[1 - link->side];
}

/* ---- endpoint.c ---------------------------------------------------------------- */

/* The task has to see to |link|: something is due to its owner, or it is to be freed. */
void nx_shm_trouble(nx_shm_link *link);
/* Something was written for |link|: the task publishes it. */
void nx_shm_dirty(nx_shm_link *link);
/* It was published: the task need not. */
void nx_shm_clean(nx_shm_link *link);
/* Rings the peer's bell if it sleeps. */
void nx_shm_wake(nx_shm_link *link);
/* The peer may see what was written. */
void nx_shm_publish(nx_shm_link *link);

/* ---- unix_socket.c ----------------------------------------------------------------- */

enum { NX_SHM_FDS = 2 };

/* The abstract address of |name|; returns its length. */
socklen_t nx_shm_address(const uint8_t name[NX_SHM_NAME_SIZE], struct sockaddr_storage *out);
/* Whether the other end belongs to our user; its process, 0 if it cannot be seen. */
NX_MUST_CHECK nexar_err nx_shm_peer(int fd, pid_t *pid);
NX_MUST_CHECK nexar_err nx_shm_send(int fd, const nx_shm_word *w, const int *fds, size_t n);
/* The next packet; |fds| gets |most| descriptors at most, the others are -1.  1: there was
 * one; 0: none now; -1: the other end has hung up, or what came was no word.  If what it
 * passes could not be taken, all of |fds| are -1. */
int nx_shm_receive(int fd, nx_shm_word *w, int fds[NX_SHM_FDS], size_t most);
void nx_shm_close_fds(const int *fds, size_t n);
/* Whether |fd| is an eventfd that does not block. */
bool nx_shm_is_bell(int fd);

/* ---- pending_peers.c ------------------------------------------------------------------ */

/* Somebody has connected: |fd| is ours now. */
void nx_shm_guest_add(nx_shm *shm, int fd);
void nx_shm_guest_free(nx_shm_guest *g);

/* ---- pair.c -------------------------------------------------------------------- */

/* Begins to dial; if it cannot, pairing has failed. */
void nx_shm_pair_start(nx_shm_link *link);
/* Pairing has failed; the task sees to it. */
void nx_shm_pair_fail(nx_shm_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Begins anew, after the peer hung up: of a process that has ended nothing listens in the end.
 * false: it did not hang up, or has done so too often. */
bool nx_shm_pair_again(nx_shm_link *link);
/* Gives back what an attempt of our own holds. */
void nx_shm_pair_abandon(nx_shm_link *link);
/* |link| has a segment and a side: it is up, with the peer's |bell|, the socket |fd| and
 * the process |pid|.  It makes no call up: the task does. */
void nx_shm_pair_done(nx_shm_link *link, const nx_shm_word *w, int fd, pid_t pid, int bell);

/* ---- link.c -------------------------------------------------------------------- */

extern const nx_link_ops nx_shm_ops;

/* A link to |member|, pairing; in the map.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_link_create(nx_shm *shm, uint64_t member, nx_shm_link **out);
void nx_shm_link_free(nx_shm_link *link);
/* Gives all parts back with |err|. */
void nx_shm_link_give_up(nx_shm_link *link, nexar_err err);
/* |link| is down; the first reason counts. */
void nx_shm_link_down(nx_shm_link *link, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What is due to the owner; frees |link| when nobody needs it.  From the task. */
void nx_shm_link_see_to(nx_shm_link *link);
/* |tx|, which is in no list, is over. */
void nx_shm_part_end(nx_shm_link *link, nx_tx *tx, nexar_err err);
/* on_up, unless it was told. */
void nx_shm_tell_up(nx_shm_link *link);

/* ---- out.c --------------------------------------------------------------------- */

/* Room for a record of |len| bytes; NULL: none now, and |need| says so. */
void *nx_shm_reserve(nx_shm_link *link, nx_shm_ring ring, uint32_t len);
/* It is written, and goes out with the next publication. */
void nx_shm_commit(nx_shm_link *link, nx_shm_ring ring, uint8_t kind, uint8_t flags, uint32_t len);
/* Puts a frame from byte |*sent| on into its ring, as far as there is room; whether all
 * of it has gone. */
bool nx_shm_put_frame(nx_shm_link *link, nx_lane lane, const nx_bytes *bytes, size_t n,
                      size_t *sent);
/* Puts into the rings what waits. */
void nx_shm_pump(nx_shm_link *link);
/* Whether what waits for room has it now, or there is more to push; |sleep|: the peer tells us
 * otherwise. */
bool nx_shm_can_pump(nx_shm_link *link, bool sleep);
/* Puts |tx| in the list that it belongs to. */
void nx_shm_part_queue(nx_shm_link *link, nx_tx *tx);
/* Asks for an offer back. */
void nx_shm_recall(nx_shm_link *link, nx_shm_lent *lent);
/* The reader of an offer of ours says what became of it.  False: impossible. */
NX_MUST_CHECK bool nx_shm_lent_back(nx_shm_link *link, const nx_rec_done *done);
/* Whether nothing is left to send. */
bool nx_shm_all_sent(const nx_shm_link *link);

/* ---- in.c ---------------------------------------------------------------------- */

/* Takes what has come, as much as is good for one turn. */
void nx_shm_poll(nx_shm_link *link);
/* nx_link_ops.peek_frame and drop_frame. */
bool nx_shm_peek_frame(nx_link *base, nx_bytes *frame);
void nx_shm_drop_frame(nx_link *base);
/* Whether there is something, without taking it. */
bool nx_shm_waiting(nx_shm_link *link, bool sleep);
/* The peer has hung up: takes what it has left, then the link goes down. */
void nx_shm_farewell(nx_shm_link *link, const char *why);

/* ---- reads.c ------------------------------------------------------------------- */

/* Whether |token| can be read at |at| in the peer's memory. */
bool nx_shm_reads_probe(const nx_shm_link *link, uint64_t at, uint64_t token);
/* An offer has come, as a record of |len| bytes.  False: an impossible one. */
NX_MUST_CHECK bool nx_shm_reads_add(nx_shm_link *link, const nx_rec_offer *offer, size_t len);
/* The writer wants it back. */
NX_MUST_CHECK bool nx_shm_reads_cancel(nx_shm_link *link, uint32_t slot, uint32_t number);
/* The next |len| bytes of one, by the ring.  False: impossible. */
NX_MUST_CHECK bool nx_shm_reads_pushed(nx_shm_link *link, const nx_rec_push *head, const void *data,
                                       size_t len);
/* Whether something is to be read.  What its sender does not push is taken: when nothing has
 * come of it for a while, or we would |sleep|. */
bool nx_shm_reads_ready(nx_shm_link *link, bool sleep);
/* Reads a slice. */
void nx_shm_reads_run(nx_shm_link *link);
/* Tells what is over; false: no room. */
bool nx_shm_reads_tell(nx_shm_link *link);

#endif /* NX_SHM_INNER_H */
