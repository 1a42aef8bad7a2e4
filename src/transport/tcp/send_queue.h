/*
 * send_queue.h - what a link has to send over TCP, as units of a stream (stream_parser.h).
 *
 * A link fills it at any time; the connection that the link uses takes bytes out of it.  Frames
 * are copied.  Parts refer to their sender's memory until their last byte was taken.
 *
 * Order: a unit that was begun is finished; then control frames; then message frames, of which
 * NX_TCP_FRAMES_TURN bytes go before a piece of a part has its turn.  A part sends
 * NX_TCP_PART_TURN bytes before the next part has its turn.
 */
#ifndef NX_TCP_SEND_QUEUE_H
#define NX_TCP_SEND_QUEUE_H

#include "transport/transport.h"

enum {
    NX_TCP_FRAMES_TURN = 64 << 10,
    NX_TCP_PART_TURN = 1 << 20,
    NX_TCP_PIECE_LEAST = 512, /* bytes of a part that are worth a head in the rest of a record */
};

typedef struct nx_tcp_frame nx_tcp_frame;

typedef struct nx_tcp_queue {
    nx_list lanes[NX_LANES]; /* nx_tcp_frame */
    nx_list parts;           /* nx_tx with bytes to send; whose turn it is first */
    nx_list done;            /* nx_tx whose on_sent is due */
    nx_tcp_frame *current;   /* begun and not finished; NULL: none */
    size_t current_at;
    size_t frames_sent; /* bytes of message frames since a part had its turn */
    uint64_t part_sent; /* bytes of the first part in its turn */
} nx_tcp_queue;

void nx_tcp_queue_init(nx_tcp_queue *q);
/* All parts were taken by nx_tcp_queue_take_done. */
void nx_tcp_queue_fini(nx_tcp_queue *q);

/* ---- the link's side ----------------------------------------------------------------- */

/* NEXAR_EINVAL: longer than NX_FRAME_MAX.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_tcp_queue_frame(nx_tcp_queue *q, nx_lane lane, const nx_bytes *bytes,
                                           size_t n);
/* The unit BYE.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_tcp_queue_bye(nx_tcp_queue *q);
/* NEXAR_EINVAL: it ends beyond 2^64. */
NX_MUST_CHECK nexar_err nx_tcp_queue_part(nx_tcp_queue *q, nx_tx *tx);
/* A part that is done already remains so. */
void nx_tcp_queue_cancel(nx_tcp_queue *q, nx_tx *tx);

/* Whether nothing is left to be taken. */
bool nx_tcp_queue_empty(const nx_tcp_queue *q);
/* Ends all parts with |err| and drops all frames. */
void nx_tcp_queue_fail(nx_tcp_queue *q, nexar_err err);
/* The next part that is done; NULL: none. */
nx_tx *nx_tcp_queue_take_done(nx_tcp_queue *q, nexar_err *err);

/* ---- the connection's side ----------------------------------------------------------- */

/* Takes the next bytes of the stream, at most |room| (at least NX_TCP_HEAD_MOST +
 * NX_TCP_PIECE_LEAST); returns how many; 0: there are none. */
size_t nx_tcp_queue_take(nx_tcp_queue *q, uint8_t *out, size_t room);
/* The same for the unit that was begun; after that a unit of the caller may follow. */
size_t nx_tcp_queue_take_current(nx_tcp_queue *q, uint8_t *out, size_t room);

#endif /* NX_TCP_SEND_QUEUE_H */
