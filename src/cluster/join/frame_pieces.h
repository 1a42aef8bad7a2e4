/*
 * frame_pieces.h - an encoded view sent in pieces, one for each WANT: from the seed to joiners, and
 * from a member to a seed that lacks a view.
 */
#ifndef NX_FRAME_PIECES_H
#define NX_FRAME_PIECES_H

#include "frames.h"

/* A view of which the first |len| bytes were received or sent. Zeroed: none. */
typedef struct nx_frame_pieces {
    uint8_t *data;
    size_t len, total;
    uint64_t epoch;
} nx_frame_pieces;

/* |p|, which is empty, becomes all of |view|, to be sent.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_frame_pieces_make(nx_frame_pieces *p, const nx_view *view);
/* Encodes the piece of |p| after |*sent|, with its frame's type, and advances |*sent|. */
void nx_frame_pieces_send(const nx_frame_pieces *p, size_t *sent, nx_writer *w);

/* Appends the next piece; the first one allocates memory for all.
 *
 * NEXAR_EPROTO
 *     Not the next piece, or of another view; |p| is unchanged.
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_frame_pieces_take(nx_frame_pieces *p, const nx_view_piece *piece);

/* |p| becomes empty. */
void nx_frame_pieces_drop(nx_frame_pieces *p);

#endif /* NX_FRAME_PIECES_H */
