/*
 * sendq.h - the send queue of a link, until acknowledgement.
 *
 * A link fills it at any time; the attached connection transmits it. Two lanes of frames are byte
 * streams, copied into chunks that are freed as the peer acknowledges them. Parts refer to their
 * sender's memory.
 *
 * On the wire a frame of n bytes is the varint n + 1 and the bytes. The varint 0 is an empty word:
 * the control lane begins with one (it tells a dialler that the connection is used), and later ones
 * have no meaning. The varint NX_FRAME_BYE is a goodbye: its sender has received all
 * acknowledgements that it needs and wants to leave (link.c). A part is a stream of its own: the
 * varints id, off, len, and the bytes.
 *
 * A part is in one of the lists below, from nx_sendq_part until it is taken from |done|:
 *
 *     waiting -> open <-> held -> done        cancelled: waiting -> done,
 *                                             open, held -> cancelled -> held -> done
 */
#ifndef NX_SENDQ_H
#define NX_SENDQ_H

#include "transport/quic/ngtcp2_compat.h"
#include "transport/transport.h"

enum {
    NX_PART_HEAD = 24,       /* three varints of eight bytes */
    NX_SENDQ_TURN = 1 << 20, /* bytes that a part may send before the next part */
    NX_SENDQ_VECS = 16,      /* pieces of a part in one packet */
    NX_FRAME_HEAD = 4,       /* the varint before a frame, at most */
    NX_FRAME_BYE = NX_FRAME_MAX + 2,
};

typedef struct nx_sendq_chunk nx_sendq_chunk;

/* Offsets count the bytes of the lane's stream.
 * Invariant: base <= written <= queued; |chunks| hold [base, queued). */
typedef struct nx_outlane {
    nx_list chunks;
    uint64_t base, written, queued;
    nx_sendq_chunk *at; /* contains byte |written|; NULL: the first chunk */
    size_t at_off;
    int64_t stream; /* -1: none yet */
    bool blocked;   /* blocked by the flow control of its stream */
} nx_outlane;

typedef struct nx_outpart {
    nx_list link;
    nx_tx *tx;
    int64_t stream;    /* -1: none yet */
    uint64_t written;  /* of the head and the bytes together */
    size_t at, at_off; /* position of the next byte in tx->bytes */
    nexar_err err;     /* in |done| */
    bool cancelled, done;
    uint8_t head_len;
    uint8_t head[NX_PART_HEAD];
} nx_outpart;

typedef struct nx_sendq {
    nx_outlane lanes[NX_LANES];
    nx_list waiting;   /* no stream yet; oldest first */
    nx_list open;      /* data to write; in round-robin order */
    nx_list held;      /* all is written, or the stream is blocked */
    nx_list cancelled; /* the stream must be reset */
    nx_list done;      /* on_sent is due */
    nx_list spare;     /* free list of nx_outpart */
    nx_sendq_chunk *spare_chunk;
    uint64_t turn_left; /* remaining bytes for the first in |open| */
} nx_sendq;

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sendq_init(nx_sendq *q);
/* All parts are done and taken. */
void nx_sendq_fini(nx_sendq *q);

/* ---- the link's side ----------------------------------------------------------------- */

/* NEXAR_EINVAL: longer than NX_FRAME_MAX.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_sendq_frame(nx_sendq *q, nx_lane lane, const nx_bytes *bytes, size_t n);
/* Queues a word that the peer must acknowledge and that has no meaning. */
NX_MUST_CHECK nexar_err nx_sendq_word(nx_sendq *q);
/* Queues a goodbye.  NEXAR_ENOMEM for both. */
NX_MUST_CHECK nexar_err nx_sendq_bye(nx_sendq *q);
/* NEXAR_EINVAL: a number does not fit in 62 bits.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_sendq_part(nx_sendq *q, nx_tx *tx);
void nx_sendq_cancel(nx_sendq *q, nx_tx *tx);

/* Whether everything was sent and acknowledged. */
bool nx_sendq_empty(const nx_sendq *q);
/* Fails all parts with |err|; no connection is attached any more. */
void nx_sendq_fail(nx_sendq *q, nexar_err err);
/* Removes the next part that is done; NULL: none. */
nx_tx *nx_sendq_take_done(nx_sendq *q, nexar_err *err);

/* ---- the connection's side ----------------------------------------------------------- */

/* Fills |vec| with the next data to write, at most |most| bytes; returns the number of entries. */
size_t nx_outlane_peek(const nx_outlane *lane, ngtcp2_vec *vec, size_t most);
void nx_outlane_wrote(nx_outlane *lane, size_t len);
/* Everything before |offset| was acknowledged. */
void nx_outlane_acked(nx_sendq *q, nx_outlane *lane, uint64_t offset);

/* The same; |*fin|: these bytes are the last. */
size_t nx_outpart_peek(const nx_outpart *part, ngtcp2_vec *vec, size_t most, bool *fin);
/* |len| bytes of the first of |open| were written; may rotate the list. */
void nx_sendq_wrote_part(nx_sendq *q, size_t len);
/* The stream of |part| has ended: it is done. */
void nx_sendq_part_closed(nx_sendq *q, nx_outpart *part);

static inline uint64_t nx_outpart_left(const nx_outpart *part)
{
    return part->head_len + part->tx->len - part->written;
}

#endif /* NX_SENDQ_H */
