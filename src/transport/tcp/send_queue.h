/*
 * send_queue.h - the data that a link sends over TCP, as units of a stream (stream_parser.h).
 *
 * The link adds data at any time; its connection takes bytes out. Frames are copied. Parts
 * reference the sender's memory until their last byte is taken.
 *
 * Order: the unit in progress; then control frames; then message frames, of which
 * NX_TCP_FRAMES_TURN bytes precede a piece of a part. Parts alternate after NX_TCP_PART_TURN bytes
 * each.
 */
#ifndef NX_TCP_SEND_QUEUE_H
#define NX_TCP_SEND_QUEUE_H

#include "transport/transport.h"

enum {
    NX_TCP_FRAMES_TURN = 64 << 10,
    NX_TCP_PART_TURN = 1 << 20,
    NX_TCP_PIECE_LEAST = 512, /* bytes of a part that justify a head in the rest of a record */
};

typedef struct nx_tcp_frame nx_tcp_frame;

typedef struct nx_tcp_queue {
    nx_list lanes[NX_LANES]; /* nx_tcp_frame */
    nx_list parts;           /* nx_tx with bytes to send; the next one first */
    nx_list done;            /* nx_tx whose on_sent is due */
    nx_tcp_frame *current;   /* begun and not finished; NULL: none */
    size_t current_at;
    size_t frames_sent; /* bytes of message frames since the last piece of a part */
    uint64_t part_sent; /* bytes of the first part since its last rotation */
} nx_tcp_queue;

void nx_tcp_queue_init(nx_tcp_queue *q);
/* Requires that nx_tcp_queue_take_done has taken all parts. */
void nx_tcp_queue_fini(nx_tcp_queue *q);

/* ---- the link's side ----------------------------------------------------------------- */

/* NEXAR_EINVAL: longer than NX_FRAME_MAX.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_tcp_queue_frame(nx_tcp_queue *q, nx_lane lane, const nx_bytes *bytes,
                                           size_t n);
/* Queues the unit BYE. NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_tcp_queue_bye(nx_tcp_queue *q);
/* NEXAR_EINVAL: it ends beyond 2^64. */
NX_MUST_CHECK nexar_err nx_tcp_queue_part(nx_tcp_queue *q, nx_tx *tx);
/* A part that is done stays done. */
void nx_tcp_queue_cancel(nx_tcp_queue *q, nx_tx *tx);

/* Whether no bytes are left to take. */
bool nx_tcp_queue_empty(const nx_tcp_queue *q);
/* Ends all parts with |err| and drops all frames. */
void nx_tcp_queue_fail(nx_tcp_queue *q, nexar_err err);
/* The next part that is done; NULL: none. */
nx_tx *nx_tcp_queue_take_done(nx_tcp_queue *q, nexar_err *err);

/* ---- the connection's side ----------------------------------------------------------- */

/* Takes the next bytes of the stream, at most |room| (at least NX_TCP_HEAD_MOST +
 * NX_TCP_PIECE_LEAST); returns their number; 0: there are none. */
size_t nx_tcp_queue_take(nx_tcp_queue *q, uint8_t *out, size_t room);
/* The same for the unit in progress only; after it the caller may send a unit of its own. */
size_t nx_tcp_queue_take_current(nx_tcp_queue *q, uint8_t *out, size_t room);

#endif /* NX_TCP_SEND_QUEUE_H */
