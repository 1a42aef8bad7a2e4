/* send_queue.c - outgoing frames and parts. */
#include "transport/tcp/send_queue.h"

#include <string.h>

#include "base/alloc.h"
#include "transport/tcp/stream_parser.h"
#include "wire/wire.h"

/* A unit, including its head. */
struct nx_tcp_frame {
    nx_list link;
    size_t len;
    nx_lane lane;
    uint8_t bytes[];
};

static nx_tcp_frame *frame_of(nx_list *at)
{
    return nx_list_entry(at, nx_tcp_frame, link);
}

static nx_tx *tx_of(nx_list *at)
{
    return nx_list_entry(at, nx_tx, link);
}

void nx_tcp_queue_init(nx_tcp_queue *q)
{
    *q = (nx_tcp_queue){0};
    for (int i = 0; i < NX_LANES; i++) {
        nx_list_init(&q->lanes[i]);
    }
    nx_list_init(&q->parts);
    nx_list_init(&q->done);
}

static void drop_frames(nx_tcp_queue *q)
{
    nx_list *at;

    for (int i = 0; i < NX_LANES; i++) {
        while ((at = nx_list_pop(&q->lanes[i])) != NULL) {
            nx_free(frame_of(at));
        }
    }
    nx_free(q->current);
    q->current = NULL;
}

void nx_tcp_queue_fini(nx_tcp_queue *q)
{
    drop_frames(q);
}

/* ---- the link's side ----------------------------------------------------------------- */

static nx_tcp_frame *make_frame(nx_tcp_queue *q, nx_lane lane, size_t len)
{
    nx_tcp_frame *frame = nx_zalloc(sizeof(*frame) + len);

    if (frame != NULL) {
        frame->len = len;
        frame->lane = lane;
        nx_list_push_back(&q->lanes[lane], &frame->link);
    }
    return frame;
}

nexar_err nx_tcp_queue_frame(nx_tcp_queue *q, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_tcp_frame *frame;
    nx_writer w;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    if (len > NX_FRAME_MAX) {
        return nx_fail(NEXAR_EINVAL, "a frame of %zu bytes; at most %d are possible", len,
                       NX_FRAME_MAX);
    }
    frame = make_frame(q, lane, NX_TCP_HEAD_FRAME + len);
    if (frame == NULL) {
        return nx_fail_nomem("a frame");
    }
    w = nx_writer_make(frame->bytes, frame->len);
    nx_write_u8(&w, (lane == NX_LANE_CONTROL) ? NX_UNIT_CONTROL : NX_UNIT_MESSAGE);
    nx_write_u32(&w, (uint32_t)len);
    for (size_t i = 0; i < n; i++) {
        nx_write_bytes(&w, bytes[i].ptr, bytes[i].len);
    }
    return NEXAR_OK;
}

nexar_err nx_tcp_queue_bye(nx_tcp_queue *q)
{
    nx_tcp_frame *frame = make_frame(q, NX_LANE_MESSAGE, 1);

    if (frame == NULL) {
        return nx_fail_nomem("a good-bye");
    }
    frame->bytes[0] = NX_UNIT_BYE;
    return NEXAR_OK;
}

/* tx->queued: bytes already taken; tx->stream and tx->acked: the stretch of the next byte and the
 * offset in it. For a part that is done, tx->stream is its error. */
nexar_err nx_tcp_queue_part(nx_tcp_queue *q, nx_tx *tx)
{
    if (tx->off + tx->len < tx->off) {
        return nx_fail(NEXAR_EINVAL, "a part beyond the end of all messages");
    }
    tx->owner = q;
    tx->queued = tx->stream = tx->acked = 0;
    nx_list_push_back(&q->parts, &tx->link);
    return NEXAR_OK;
}

static void end_part(nx_tcp_queue *q, nx_tx *tx, nexar_err err)
{
    if (q->parts.next == &tx->link) {
        q->part_sent = 0;
    }
    nx_list_remove(&tx->link);
    tx->owner = NULL;
    tx->stream = (uint64_t)err;
    nx_list_push_back(&q->done, &tx->link);
}

void nx_tcp_queue_cancel(nx_tcp_queue *q, nx_tx *tx)
{
    if (tx->owner == q) {
        end_part(q, tx, NEXAR_ECANCELED);
    }
}

bool nx_tcp_queue_empty(const nx_tcp_queue *q)
{
    return (q->current == NULL) && nx_list_empty(&q->lanes[NX_LANE_CONTROL]) &&
           nx_list_empty(&q->lanes[NX_LANE_MESSAGE]) && nx_list_empty(&q->parts);
}

void nx_tcp_queue_fail(nx_tcp_queue *q, nexar_err err)
{
    drop_frames(q);
    while (!nx_list_empty(&q->parts)) {
        end_part(q, tx_of(q->parts.next), err);
    }
}

nx_tx *nx_tcp_queue_take_done(nx_tcp_queue *q, nexar_err *err)
{
    nx_list *at = nx_list_pop(&q->done);

    if (at == NULL) {
        return NULL;
    }
    *err = (nexar_err)tx_of(at)->stream;
    return tx_of(at);
}

/* ---- the connection's side ----------------------------------------------------------- */

/* Makes the next frame the current one. */
static void next_frame(nx_tcp_queue *q)
{
    nx_list *at = nx_list_pop(&q->lanes[NX_LANE_CONTROL]);
    const bool parts_wait = !nx_list_empty(&q->parts) && (q->frames_sent >= NX_TCP_FRAMES_TURN);

    if ((at == NULL) && !parts_wait) {
        at = nx_list_pop(&q->lanes[NX_LANE_MESSAGE]);
        q->frames_sent += (at == NULL) ? 0 : frame_of(at)->len;
    }
    q->current = (at == NULL) ? NULL : frame_of(at);
    q->current_at = 0;
}

size_t nx_tcp_queue_take_current(nx_tcp_queue *q, uint8_t *out, size_t room)
{
    nx_tcp_frame *frame = q->current;
    size_t n;

    if (frame == NULL) {
        return 0;
    }
    n = frame->len - q->current_at;
    n = (n < room) ? n : room;
    memcpy(out, frame->bytes + q->current_at, n);
    q->current_at += n;
    if (q->current_at == frame->len) {
        nx_free(frame);
        q->current = NULL;
    }
    return n;
}

static void gather(nx_tx *tx, uint8_t *out, size_t len)
{
    while (len > 0) {
        const nx_bytes *b = &tx->bytes[tx->stream];
        size_t n = b->len - (size_t)tx->acked;

        n = (n < len) ? n : len;
        if (n > 0) {
            memcpy(out, (const uint8_t *)b->ptr + tx->acked, n);
        }
        out += n;
        len -= n;
        tx->acked += n;
        if (tx->acked == b->len) {
            tx->stream++;
            tx->acked = 0;
        }
    }
}

/* A piece of the first part. */
static size_t take_part(nx_tcp_queue *q, uint8_t *out, size_t room)
{
    nx_tx *tx = tx_of(q->parts.next);
    const uint64_t left = tx->len - tx->queued;
    nx_writer w = nx_writer_make(out, room);
    size_t n = room - NX_TCP_HEAD_PART;

    n = (left < n) ? (size_t)left : n;
    nx_write_u8(&w, NX_UNIT_PART);
    nx_write_u64(&w, tx->id);
    nx_write_u64(&w, tx->off + tx->queued);
    nx_write_u32(&w, (uint32_t)n);
    gather(tx, out + NX_TCP_HEAD_PART, n);
    tx->queued += n;
    q->part_sent += n;
    q->frames_sent = 0;
    if (tx->queued == tx->len) {
        end_part(q, tx, NEXAR_OK);
    } else if (q->part_sent >= NX_TCP_PART_TURN) {
        q->part_sent = 0;
        nx_list_remove(&tx->link);
        nx_list_push_back(&q->parts, &tx->link);
    }
    return NX_TCP_HEAD_PART + n;
}

/* Whether the rest of a record, |room| bytes, is enough for a piece of the first part. */
static bool part_fits(const nx_tcp_queue *q, size_t room)
{
    const nx_tx *tx = tx_of(q->parts.next);
    const uint64_t left = tx->len - tx->queued;

    return room >= NX_TCP_HEAD_PART + ((left < NX_TCP_PIECE_LEAST) ? left : NX_TCP_PIECE_LEAST);
}

size_t nx_tcp_queue_take(nx_tcp_queue *q, uint8_t *out, size_t room)
{
    size_t len = 0;

    while (len < room) {
        if (q->current == NULL) {
            next_frame(q);
        }
        if (q->current != NULL) {
            len += nx_tcp_queue_take_current(q, out + len, room - len);
        } else if (!nx_list_empty(&q->parts) && part_fits(q, room - len)) {
            len += take_part(q, out + len, room - len);
        } else {
            break;
        }
    }
    return len;
}
