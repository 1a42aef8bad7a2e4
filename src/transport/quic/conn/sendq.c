/* sendq.c - chunks for the lanes, cursors into the memory of parts. */
#include "sendq.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/wire.h"

enum { CHUNK_SIZE = 32768 }; /* some hundred envelopes; one is kept per idle lane */

static const uint64_t VARINT_MAX = (UINT64_C(1) << 62) - 1;

struct nx_sendq_chunk {
    nx_list link;
    size_t used;
    uint8_t data[CHUNK_SIZE];
};

static nx_sendq_chunk *chunk_of(nx_list *link)
{
    return nx_list_entry(link, nx_sendq_chunk, link);
}

static nx_outpart *part_of(nx_list *link)
{
    return nx_list_entry(link, nx_outpart, link);
}

nexar_err nx_sendq_init(nx_sendq *q)
{
    *q = (nx_sendq){.turn_left = NX_SENDQ_TURN};
    for (int i = 0; i < NX_LANES; i++) {
        nx_list_init(&q->lanes[i].chunks);
        q->lanes[i].stream = -1;
    }
    nx_list_init(&q->waiting);
    nx_list_init(&q->open);
    nx_list_init(&q->held);
    nx_list_init(&q->cancelled);
    nx_list_init(&q->done);
    nx_list_init(&q->spare);
    return nx_sendq_word(q);
}

void nx_sendq_fini(nx_sendq *q)
{
    nx_list *at;

    for (int i = 0; i < NX_LANES; i++) {
        while ((at = nx_list_pop(&q->lanes[i].chunks)) != NULL) {
            nx_free(chunk_of(at));
        }
    }
    while ((at = nx_list_pop(&q->spare)) != NULL) {
        nx_free(part_of(at));
    }
    nx_free(q->spare_chunk);
    q->spare_chunk = NULL;
}

/* ---- lanes --------------------------------------------------------------------------- */

static nx_sendq_chunk *chunk_get(nx_sendq *q)
{
    nx_sendq_chunk *chunk = q->spare_chunk;

    if (chunk == NULL) {
        chunk = nx_grow(NULL, 1, sizeof(*chunk)); /* not zeroed: the chunk is large */
    }
    q->spare_chunk = NULL;
    if (chunk != NULL) {
        chunk->used = 0;
    }
    return chunk;
}

static void chunk_put(nx_sendq *q, nx_sendq_chunk *chunk)
{
    if (q->spare_chunk == NULL) {
        q->spare_chunk = chunk;
    } else {
        nx_free(chunk);
    }
}

/* Reserves room for |len| bytes in the last chunks; new chunks go to |fresh| so that a failure
 * leaves the lane unchanged. */
static bool reserve(nx_sendq *q, nx_outlane *lane, size_t len, nx_list *fresh)
{
    size_t room = 0;
    nx_list *at;

    if (!nx_list_empty(&lane->chunks)) {
        room = CHUNK_SIZE - chunk_of(lane->chunks.prev)->used;
    }
    while (room < len) {
        nx_sendq_chunk *chunk = chunk_get(q);

        if (chunk == NULL) {
            while ((at = nx_list_pop(fresh)) != NULL) {
                chunk_put(q, chunk_of(at));
            }
            return false;
        }
        nx_list_init(&chunk->link);
        nx_list_push_back(fresh, &chunk->link);
        room += CHUNK_SIZE;
    }
    return true;
}

static void append(nx_outlane *lane, nx_list *fresh, const void *data, size_t len)
{
    const uint8_t *from = data;

    lane->queued += len;
    while (len > 0) {
        nx_sendq_chunk *chunk;
        size_t n;

        if (nx_list_empty(&lane->chunks) || (chunk_of(lane->chunks.prev)->used == CHUNK_SIZE)) {
            nx_list_push_back(&lane->chunks, nx_list_pop(fresh));
        }
        chunk = chunk_of(lane->chunks.prev);
        n = CHUNK_SIZE - chunk->used;
        n = (n < len) ? n : len;
        memcpy(chunk->data + chunk->used, from, n);
        chunk->used += n;
        from += n;
        len -= n;
    }
}

/* Adds |head| followed by |len| bytes in |n| stretches, all of it or nothing. */
static nexar_err add(nx_sendq *q, nx_lane which, const nx_writer *head, const nx_bytes *bytes,
                     size_t n, size_t len)
{
    nx_outlane *lane = &q->lanes[which];
    nx_list fresh;

    nx_list_init(&fresh);
    if (!reserve(q, lane, head->len + len, &fresh)) {
        return nx_fail_nomem("a frame");
    }
    append(lane, &fresh, head->data, head->len);
    for (size_t i = 0; i < n; i++) {
        append(lane, &fresh, bytes[i].ptr, bytes[i].len);
    }
    return NEXAR_OK;
}

nexar_err nx_sendq_frame(nx_sendq *q, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    uint8_t head[NX_FRAME_HEAD];
    nx_writer w = nx_writer_make(head, sizeof(head));
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > NX_FRAME_MAX - len) {
            return nx_fail(NEXAR_EINVAL, "a frame of more than %d bytes", NX_FRAME_MAX);
        }
        len += bytes[i].len;
    }
    nx_write_varint(&w, len + 1);
    return add(q, lane, &w, bytes, n, len);
}

/* Adds a varint on the control lane that is not a frame. */
static nexar_err add_sign(nx_sendq *q, uint64_t sign)
{
    uint8_t head[NX_FRAME_HEAD];
    nx_writer w = nx_writer_make(head, sizeof(head));

    nx_write_varint(&w, sign);
    return add(q, NX_LANE_CONTROL, &w, NULL, 0, 0);
}

nexar_err nx_sendq_word(nx_sendq *q)
{
    return add_sign(q, 0);
}

nexar_err nx_sendq_bye(nx_sendq *q)
{
    return add_sign(q, NX_FRAME_BYE);
}

size_t nx_outlane_peek(const nx_outlane *lane, ngtcp2_vec *vec, size_t most)
{
    nx_list *at = (lane->at != NULL) ? &lane->at->link : lane->chunks.next;
    size_t n = 0, skip = lane->at_off, len = 0;

    for (; (at != &lane->chunks) && (n < NX_SENDQ_VECS) && (len < most); at = at->next) {
        nx_sendq_chunk *chunk = chunk_of(at);
        size_t take = chunk->used - skip;

        take = (take < most - len) ? take : most - len;
        if (take > 0) {
            vec[n++] = (ngtcp2_vec){.base = chunk->data + skip, .len = take};
            len += take;
        }
        skip = 0;
    }
    return n;
}

void nx_outlane_wrote(nx_outlane *lane, size_t len)
{
    lane->written += len;
    while (len > 0) {
        nx_sendq_chunk *chunk = (lane->at != NULL) ? lane->at : chunk_of(lane->chunks.next);
        size_t take = chunk->used - lane->at_off;

        if (take > len) {
            take = len;
        }
        lane->at = chunk;
        lane->at_off += take;
        len -= take;
        if ((lane->at_off == CHUNK_SIZE) && (chunk->link.next != &lane->chunks)) {
            lane->at = chunk_of(chunk->link.next);
            lane->at_off = 0;
        }
    }
}

/* The last chunk is kept and, when all of it is acknowledged, reused from its beginning: a lane
 * that is never far ahead of its acknowledgements allocates nothing. */
void nx_outlane_acked(nx_sendq *q, nx_outlane *lane, uint64_t offset)
{
    while (!nx_list_empty(&lane->chunks)) {
        nx_sendq_chunk *chunk = chunk_of(lane->chunks.next);

        if (offset - lane->base < chunk->used) {
            return;
        }
        if (chunk->link.next == &lane->chunks) {
            lane->base += chunk->used;
            chunk->used = 0;
            lane->at = NULL;
            lane->at_off = 0;
            return;
        }
        if ((lane->at == chunk) || (lane->at == NULL)) {
            lane->at = chunk_of(chunk->link.next);
            lane->at_off = 0;
        }
        lane->base += chunk->used;
        nx_list_remove(&chunk->link);
        chunk_put(q, chunk);
    }
}

/* ---- parts --------------------------------------------------------------------------- */

static nx_outpart *part_get(nx_sendq *q)
{
    nx_list *at = nx_list_pop(&q->spare);

    return (at != NULL) ? part_of(at) : nx_zalloc(sizeof(nx_outpart));
}

nexar_err nx_sendq_part(nx_sendq *q, nx_tx *tx)
{
    nx_outpart *part;
    nx_writer w;

    if ((tx->id > VARINT_MAX) || (tx->off > VARINT_MAX) || (tx->len > VARINT_MAX - tx->off)) {
        return nx_fail(NEXAR_EINVAL, "a part whose numbers do not fit in 62 bits");
    }
    part = part_get(q);
    if (part == NULL) {
        return nx_fail_nomem("a part");
    }
    *part = (nx_outpart){.tx = tx, .stream = -1};
    nx_list_init(&part->link);
    w = nx_writer_make(part->head, sizeof(part->head));
    nx_write_varint(&w, tx->id);
    nx_write_varint(&w, tx->off);
    nx_write_varint(&w, tx->len);
    part->head_len = (uint8_t)w.len;
    tx->owner = part;
    tx->queued = 0;
    tx->acked = 0;
    nx_list_push_back(&q->waiting, &part->link);
    return NEXAR_OK;
}

static void finish(nx_sendq *q, nx_outpart *part, nexar_err err)
{
    if (q->open.next == &part->link) {
        q->turn_left = NX_SENDQ_TURN;
    }
    nx_list_remove(&part->link);
    part->err = err;
    part->done = true;
    nx_list_push_back(&q->done, &part->link);
}

void nx_sendq_cancel(nx_sendq *q, nx_tx *tx)
{
    nx_outpart *part = tx->owner;

    if ((part == NULL) || part->cancelled || part->done) {
        return;
    }
    part->cancelled = true;
    if (part->stream < 0) {
        finish(q, part, NEXAR_ECANCELED);
        return;
    }
    if (q->open.next == &part->link) {
        q->turn_left = NX_SENDQ_TURN;
    }
    nx_list_remove(&part->link);
    nx_list_push_back(&q->cancelled, &part->link);
}

size_t nx_outpart_peek(const nx_outpart *part, ngtcp2_vec *vec, size_t most, bool *fin)
{
    size_t n = 0, len = 0, skip = part->at_off;

    if (part->written < part->head_len) {
        len = part->head_len - (size_t)part->written;
        vec[n++] = (ngtcp2_vec){.base = (uint8_t *)part->head + part->written, .len = len};
    }
    for (size_t i = part->at; (i < part->tx->nbytes) && (n < NX_SENDQ_VECS) && (len < most); i++) {
        const nx_bytes *b = &part->tx->bytes[i];
        size_t take = b->len - skip;

        take = (take < most - len) ? take : most - len;
        if (take > 0) {
            vec[n++] = (ngtcp2_vec){.base = (uint8_t *)b->ptr + skip, .len = take};
            len += take;
        }
        skip = 0;
    }
    *fin = (len == nx_outpart_left(part));
    return n;
}

static void advance(nx_outpart *part, size_t len)
{
    if (part->written < part->head_len) {
        size_t left = part->head_len - (size_t)part->written;
        size_t take = (len < left) ? len : left;

        part->written += take;
        len -= take;
    }
    part->written += len;
    part->tx->queued += len;
    while (len > 0) {
        size_t left = part->tx->bytes[part->at].len - part->at_off;

        if (len < left) {
            part->at_off += len;
            return;
        }
        len -= left;
        part->at++;
        part->at_off = 0;
    }
}

void nx_sendq_wrote_part(nx_sendq *q, size_t len)
{
    nx_outpart *part = part_of(q->open.next);

    advance(part, len);
    if (nx_outpart_left(part) == 0) {
        nx_list_remove(&part->link);
        nx_list_push_back(&q->held, &part->link);
        q->turn_left = NX_SENDQ_TURN;
    } else if (len >= q->turn_left) {
        nx_list_remove(&part->link);
        nx_list_push_back(&q->open, &part->link);
        q->turn_left = NX_SENDQ_TURN;
    } else {
        q->turn_left -= len;
    }
}

void nx_sendq_part_closed(nx_sendq *q, nx_outpart *part)
{
    nexar_err err = NEXAR_OK;

    if (part->cancelled) {
        err = NEXAR_ECANCELED;
    } else if (nx_outpart_left(part) != 0) {
        err = NEXAR_EPROTO; /* the peer has ended a stream that only this side may end */
    }
    finish(q, part, err);
}

bool nx_sendq_empty(const nx_sendq *q)
{
    return (q->lanes[NX_LANE_CONTROL].base == q->lanes[NX_LANE_CONTROL].queued) &&
           (q->lanes[NX_LANE_MESSAGE].base == q->lanes[NX_LANE_MESSAGE].queued) &&
           nx_list_empty(&q->waiting) && nx_list_empty(&q->open) && nx_list_empty(&q->held) &&
           nx_list_empty(&q->cancelled) && nx_list_empty(&q->done);
}

void nx_sendq_fail(nx_sendq *q, nexar_err err)
{
    nx_list *lists[] = {&q->held, &q->open, &q->cancelled, &q->waiting};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        while (!nx_list_empty(lists[i])) {
            nx_outpart *part = part_of(lists[i]->next);

            finish(q, part, part->cancelled ? NEXAR_ECANCELED : err);
        }
    }
}

nx_tx *nx_sendq_take_done(nx_sendq *q, nexar_err *err)
{
    nx_list *at = nx_list_pop(&q->done);
    nx_outpart *part;
    nx_tx *tx;

    if (at == NULL) {
        return NULL;
    }
    part = part_of(at);
    tx = part->tx;
    *err = part->err;
    tx->owner = NULL;
    nx_list_push_back(&q->spare, &part->link);
    return tx;
}
