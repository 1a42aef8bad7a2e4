/* frame_pieces.c - sends and reassembles views in pieces. */
#include "frame_pieces.h"

#include <string.h>

#include "base/alloc.h"

void nx_frame_pieces_drop(nx_frame_pieces *p)
{
    nx_free(p->data);
    *p = (nx_frame_pieces){0};
}

nexar_err nx_frame_pieces_make(nx_frame_pieces *p, const nx_view *view)
{
    const size_t room = nx_view_encoded_max(view->size);
    uint8_t *data = nx_zalloc(room);
    nx_writer w = nx_writer_make(data, room);

    if (data == NULL) {
        return nx_fail_nomem("a view");
    }
    nx_view_encode(&w, view);
    *p = (nx_frame_pieces){.data = data, .total = w.len, .epoch = view->epoch};
    return NEXAR_OK;
}

void nx_frame_pieces_send(const nx_frame_pieces *p, size_t *sent, nx_writer *w)
{
    const size_t left = p->total - *sent;
    const nx_view_piece piece = {.epoch = p->epoch,
                                 .total = (uint32_t)p->total,
                                 .off = (uint32_t)*sent,
                                 .data = p->data + *sent,
                                 .len = (left < NX_VIEW_PIECE) ? left : NX_VIEW_PIECE};

    nx_view_piece_encode(w, &piece);
    *sent += piece.len;
}

nexar_err nx_frame_pieces_take(nx_frame_pieces *p, const nx_view_piece *piece)
{
    if ((piece->off == 0) && (p->data == NULL)) {
        p->data = nx_zalloc(piece->total);
        if (p->data == NULL) {
            return nx_fail_nomem("a view");
        }
        p->total = piece->total;
        p->epoch = piece->epoch;
    }
    if ((p->data == NULL) || (piece->epoch != p->epoch) || (piece->total != p->total) ||
        (piece->off != p->len)) {
        return nx_fail(NEXAR_EPROTO, "pieces of a view out of order");
    }
    memcpy(p->data + piece->off, piece->data, piece->len);
    p->len += piece->len;
    return NEXAR_OK;
}
