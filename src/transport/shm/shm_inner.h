/*
 * shm_inner.h - shared by the files of the shm transport.
 *
 *   endpoint.c       the socket, the bell, life, polling of all links
 *   pending_peers.c  accepted connections that are not authenticated
 *   pair.c           the dialler's side of pairing; a link gets its segment
 *   unix_socket.c    packets and descriptors over the socket
 *   link.c           operations; end; move to another transport
 *   out.c            from queues to rings
 *   in.c             from rings to upcalls
 *   reads.c          reading the sender's memory
 *
 * Upcalls are made only from polls and from the endpoint's task, and only the task frees links. So
 * a callback may close any link, also the one it is called for.
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
    NX_SHM_SPANS = 16,         /* pieces of memory that an offer names */
    NX_SHM_CHUNK = 16 << 10,   /* maximum bytes of a record of the data ring: a unit */
    NX_SHM_CHUNKS = 16,        /* written to the data ring in one iteration, before others are
                                  polled */
    NX_SHM_BOUNCE = 128 << 10, /* read at a time without a destination: fits a cache */
    NX_SHM_SLICE = 512 << 10,  /* read at a time to the destination: about 50 us */
    NX_SHM_OFFER_LEAST =
        32 << 10,      /* shorter ones are copied: see docs/internals/shared-memory.md */
    NX_SHM_LENGTHS = 3 /* length classes of parts, for the choice of method */
};

/* How a long part travels: see claim.h. */
enum { NX_BY_RING, NX_BY_READING };

/* Records. */
enum {
    NX_REC_FRAME = 1, /* control, message: a frame or a fragment of one */
    NX_REC_DATA,      /* data: id, off, bytes */
    NX_REC_OFFER,     /* data: a part in the sender's memory */
    NX_REC_PUSH,      /* An accepted connection. */
    NX_REC_DONE,      /* control: the reader, which had taken it, is done with an offer */
    NX_REC_CANCEL     /* control: the writer cancels an offer */
};
enum { NX_REC_MORE = 1 }; /* flag: the frame continues in the next record */

typedef enum nx_done { NX_DONE_READ, NX_DONE_DROPPED, NX_DONE_UNREADABLE } nx_done;

/* Headers of records, in the layout of this machine. */
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
    NX_SHM_PAIRING, /* the socket is connected, the handshake runs */
    NX_SHM_WAITING, /* for the connection of the lower member, which has refused this one */
    NX_SHM_UP,
    NX_SHM_DOWN /* because of |err| and |why| */
} nx_shm_state;

/* An offer that this side has made: the peer may read |tx|'s memory. */
typedef struct nx_shm_lent {
    nx_tx *tx; /* NULL: the slot is free */
    uint64_t len, pushed;
    size_t stretch, in; /* position of byte |pushed| in |tx|: piece, and offset in it */
    uint32_t number;
    bool cancelled;
    bool taken; /* by the peer, which reads the rest */
} nx_shm_lent;

/* An offer received. |taken|: this side reads what follows the first |pushed| bytes. |over|, only
 * if taken: only the DONE is left to send. */
typedef struct nx_shm_read {
    bool used, over, taken;
    nx_done how;
    nx_rec_offer offer;
    uint64_t done, pushed;
    uint32_t span; /* position of byte |done|: span, and offset in it */
    uint64_t in_span;
} nx_shm_read;

/* A frame that did not fit into its ring. */
typedef struct nx_shm_frame {
    nx_list link;
    size_t len, sent;
    uint8_t data[];
} nx_shm_frame;

/* A frame that arrives in fragments. */
typedef struct nx_shm_pieces {
    uint8_t *data; /* NX_FRAME_MAX bytes, allocated on first use */
    size_t len;
} nx_shm_pieces;

typedef struct nx_shm_link {
    nx_link base;
    nx_shm *shm;
    nx_list links; /* nx_shm.links */
    uint64_t member;
    nx_shm_state state;
    bool told_up, told_down;
    bool failed;           /* pairing has failed because of |why| */
    bool hung_up, nobody;  /* since the peer hung up; since nothing listens there */
    uint8_t tries;         /* pairing attempts after a hangup */
    bool challenged;       /* PROOF was sent: WELCOME must follow */
    bool closed, draining; /* by the owner */
    nexar_err err;
    char why[160];

    nx_fd socket, process; /* the second is that of |peer|; fd -1: not watched */
    nx_pidfd *peer;        /* its process; NULL: it cannot be pinned, nor its memory read */
    int bell;              /* the peer's; -1 before it is up */
    pid_t pid;             /* in this process's pid namespace; 0: invisible */
    nx_segment *segment;
    int segment_fd; /* until it is passed; then -1 */
    unsigned side;
    nx_shm_offer offer; /* the peer's */
    uint8_t nonce[NX_SHM_NONCE];
    nx_list parked; /* connections refused by the lower member (this one): nx_shm_guest.link */

    nx_ring_out out[NX_SHM_RINGS];
    nx_ring_in in[NX_SHM_RINGS];
    uint32_t need[NX_SHM_RINGS]; /* size of the record that did not fit; 0: none */
    nx_list dirty;               /* nx_shm.dirty: something must be published */
    nx_list troubled;            /* nx_shm.troubled: the task must handle it */

    nx_list frames[NX_LANES]; /* nx_shm_frame */
    nx_list big, small;       /* nx_tx.link: to be offered; to be copied */
    nx_list ended;            /* nx_tx.link: on_sent is due, tx->stream is the error */
    nx_shm_lent lent[NX_SHM_OFFERS];
    unsigned nlent, pushing; /* the slot that is served, ... */
    unsigned turn;           /* ... and its remaining chunks */
    bool more;               /* something is left to push, and there may be room */
    uint32_t numbers;
    uint32_t cancels; /* pairing attempts after a hangup */

    nx_shm_pieces pieces[NX_LANES];
    nx_shm_read reads[NX_SHM_OFFERS];
    unsigned nreads, next_read;
    uint32_t peeked;   /* size of the frame last peeked */
    bool part_ended;   /* a long part may have ended */
    uint64_t heard_ns; /* time of the last offer, or of its last bytes */

    /* The method for long parts, by length class. */
    nx_adaptive ways[NX_SHM_LENGTHS];
    unsigned way;
    const nx_shm_read *watched;         /* a part being measured; NULL: none */
    uint64_t watched_ns, watched_bytes; /* the time of its offer; bytes received by then */
    nx_timer timer;                     /* of draining */
    uint64_t bytes_sent, bytes_received;
} nx_shm_link;

/* An accepted connection. */
typedef struct nx_shm_guest {
    nx_list link; /* nx_shm.guests, or nx_shm_link.parked */
    nx_shm *shm;
    nx_fd socket;
    nx_timer timer;
    pid_t pid;
    uint64_t from; /* Whether queued data fits now, or there is more to push. |sleep|: requests a
                      notification otherwise. */
    nx_shm_offer offer;
    uint8_t theirs[NX_SHM_NONCE], ours[NX_SHM_NONCE];
} nx_shm_guest;

struct nx_shm {
    nx_shm_config config;
    nx_shm_offer offer;
    uint64_t member; /* 0: not started */
    nx_fd listener, bell;
    int spare;      /* reserve descriptor, closed to reject a connection when there are no others;
                       -1: none */
    nx_timer again; /* accept has failed, and there is no reserve descriptor */
    bool asleep;    /* the loop is about to sleep, or sleeps */
    nx_list links;
    nx_map by_member; /* links that are pairing or up, not closed */
    nx_list guests;
    size_t nguests;
    nx_log_limit refusals; /* of callers */
    nx_list troubled, dirty;
    nx_task task;
    nx_event *drained;
    uint64_t token; /* random: a process that can read it here can read this process's memory */
    uint8_t *frame; /* NX_FRAME_MAX bytes: a frame is copied before validation */
    uint8_t *bounce;
};

static inline nx_shm_link *nx_shm_from_base(nx_link *link)
{
    return nx_list_entry(link, nx_shm_link, base);
}

/* Whether upcalls may be made. */
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

/* Publishes what was written. */

/* The task must handle |link|: an upcall is due, or it must be freed. */
void nx_shm_trouble(nx_shm_link *link);
/* Something was written to |link|: the task publishes it. */
void nx_shm_dirty(nx_shm_link *link);
/* It was published: the task need not. */
void nx_shm_clean(nx_shm_link *link);
/* Rings the peer's bell if it sleeps. */
void nx_shm_wake(nx_shm_link *link);
/* Publishes what was written. */
void nx_shm_publish(nx_shm_link *link);

/* ---- unix_socket.c ------------------------------------------------------------------- */

enum { NX_SHM_FDS = 2 };

/* The abstract address of |name|; returns its length. */
socklen_t nx_shm_address(const uint8_t name[NX_SHM_NAME_SIZE], struct sockaddr_storage *out);
/* Whether the other end belongs to the same user; its process, 0 if invisible. */
NX_MUST_CHECK nexar_err nx_shm_peer(int fd, pid_t *pid);
NX_MUST_CHECK nexar_err nx_shm_send(int fd, const nx_shm_word *w, const int *fds, size_t n);
/* Receives the next packet; |fds| gets at most |most| descriptors, the others are -1. 1: a packet;
 * 0: none now; -1: hangup or malformed packet. If its descriptors could not be received, all of
 * |fds| are -1. */
int nx_shm_receive(int fd, nx_shm_word *w, int fds[NX_SHM_FDS], size_t most);
void nx_shm_close_fds(const int *fds, size_t n);
/* Whether |fd| is a non-blocking eventfd. */
bool nx_shm_is_bell(int fd);

/* ---- pending_peers.c ----------------------------------------------------------------- */

/* A connection was accepted; takes |fd|. */
void nx_shm_guest_add(nx_shm *shm, int fd);
void nx_shm_guest_free(nx_shm_guest *g);

/* ---- pair.c -------------------------------------------------------------------------- */

/* Begins to dial; on an error, pairing has failed. */
void nx_shm_pair_start(nx_shm_link *link);
/* Pairing has failed; the task handles it. */
void nx_shm_pair_fail(nx_shm_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Retries after a hangup; if the process has exited, the retry finds no listener. False: no hangup,
 * or too many retries. */
bool nx_shm_pair_again(nx_shm_link *link);
/* Frees what an own attempt holds. */
void nx_shm_pair_abandon(nx_shm_link *link);
/* |link| has a segment and a side: it is up, with the peer's |bell|, the socket |fd| and the
 * process |pid|. Makes no upcall: the task does. */
void nx_shm_pair_done(nx_shm_link *link, const nx_shm_word *w, int fd, pid_t pid, int bell);

/* ---- link.c -------------------------------------------------------------------------- */

extern const nx_link_ops nx_shm_ops;

/* Creates a pairing link to |member| and enters it in the map.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_link_create(nx_shm *shm, uint64_t member, nx_shm_link **out);
void nx_shm_link_free(nx_shm_link *link);
/* Releases all parts with |err|. */
void nx_shm_link_give_up(nx_shm_link *link, nexar_err err);
/* |link| is down; the first reason counts. */
void nx_shm_link_down(nx_shm_link *link, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Makes the upcalls that are due; frees |link| when it is unused. From the task. */
void nx_shm_link_see_to(nx_shm_link *link);
/* |tx|, which is in no list, is complete. */
void nx_shm_part_end(nx_shm_link *link, nx_tx *tx, nexar_err err);
/* Calls on_up, unless it was called. */
void nx_shm_notify_up(nx_shm_link *link);

/* ---- out.c --------------------------------------------------------------------------- */

/* Reserves a record of |len| bytes; NULL: full, and sets |need|. */
void *nx_shm_reserve(nx_shm_link *link, nx_shm_ring ring, uint32_t len);
/* Commits it; the next publication makes it visible. */
void nx_shm_commit(nx_shm_link *link, nx_shm_ring ring, uint8_t kind, uint8_t flags, uint32_t len);
/* Writes a frame from byte |*sent| on into its ring, as far as it fits; returns whether all of it
 * was written. */
bool nx_shm_put_frame(nx_shm_link *link, nx_lane lane, const nx_bytes *bytes, size_t n,
                      size_t *sent);
/* Writes queued data into the rings. */
void nx_shm_pump(nx_shm_link *link);
/* Whether queued data fits now, or there is more to push. |sleep|: requests a notification
 * otherwise. */
bool nx_shm_can_pump(nx_shm_link *link, bool sleep);
/* Appends |tx| to its list. */
void nx_shm_part_queue(nx_shm_link *link, nx_tx *tx);
/* Cancels an offer. */
void nx_shm_recall(nx_shm_link *link, nx_shm_lent *lent);
/* The reader of an offer reports its result. False: invalid. */
NX_MUST_CHECK bool nx_shm_lent_back(nx_shm_link *link, const nx_rec_done *done);
/* Whether nothing is left to send. */
bool nx_shm_all_sent(const nx_shm_link *link);

/* ---- in.c ---------------------------------------------------------------------------- */

/* Processes received data, within a budget per iteration. */
void nx_shm_poll(nx_shm_link *link);
/* nx_link_ops.peek_frame and drop_frame. */
bool nx_shm_peek_frame(nx_link *base, nx_bytes *frame);
void nx_shm_drop_frame(nx_link *base);
/* Whether there is data, without consuming it. */
bool nx_shm_waiting(nx_shm_link *link, bool sleep);
/* The peer has hung up: processes the remaining data, then the link goes down. */
void nx_shm_hangup(nx_shm_link *link, const char *why);

/* ---- reads.c ------------------------------------------------------------------------- */

/* Whether |token| can be read at |at| in the peer's memory. */
bool nx_shm_reads_probe(const nx_shm_link *link, uint64_t at, uint64_t token);
/* An offer has arrived, as a record of |len| bytes. False: invalid. */
NX_MUST_CHECK bool nx_shm_reads_add(nx_shm_link *link, const nx_rec_offer *offer, size_t len);
/* The writer cancels it. */
NX_MUST_CHECK bool nx_shm_reads_cancel(nx_shm_link *link, uint32_t slot, uint32_t number);
/* The next |len| bytes of an offer, by the ring. False: invalid. */
NX_MUST_CHECK bool nx_shm_reads_pushed(nx_shm_link *link, const nx_rec_push *head, const void *data,
                                       size_t len);
/* Whether something is to be read. Takes what the sender does not push: when no bytes of it have
 * arrived for a while, or before sleeping (|sleep|). */
bool nx_shm_reads_ready(nx_shm_link *link, bool sleep);
/* Reads a slice. */
void nx_shm_reads_run(nx_shm_link *link);
/* Sends DONE for completed reads; false: no room. */
bool nx_shm_reads_send_done(nx_shm_link *link);

#endif /* NX_SHM_INNER_H */
