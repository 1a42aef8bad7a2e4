/*
 * frame_pieces.h - an encoded view that goes over in pieces, one for each WANT: from the seed to
 * those who join, and from a member to a seed that has missed something.
 */
#ifndef NX_FRAME_PIECES_H
#define NX_FRAME_PIECES_H

#include "frames.h"

/* A view of which the first |len| bytes have come, or have gone.  Zeroed: none. */
typedef struct nx_frame_pieces {
    uint8_t *data;
    size_t len, total;
    uint64_t epoch;
} nx_frame_pieces;

/* |p|, which is none, becomes all of |view|, to be sent.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_frame_pieces_make(nx_frame_pieces *p, const nx_view *view);
/* Encodes the piece of |p| behind |*sent|, with its frame's type, and counts it. */
void nx_frame_pieces_send(const nx_frame_pieces *p, size_t *sent, nx_writer *w);

/* Takes the next piece; the first makes room for all.
 *
 * NEXAR_EPROTO
 *     It is not the next, or of another view; |p| is as it was.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_frame_pieces_take(nx_frame_pieces *p, const nx_view_piece *piece);

/* |p| is none. */
void nx_frame_pieces_drop(nx_frame_pieces *p);

#endif /* NX_FRAME_PIECES_H */
