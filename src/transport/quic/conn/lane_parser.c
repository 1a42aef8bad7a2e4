/* lane_parser.c - frames and parts out of pieces of streams. */
#include "lane_parser.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/wire.h"

void nx_lane_parser_init(nx_lane_parser *in, const nx_lane_parser_up *up, void *ctx)
{
    *in = (nx_lane_parser){.up = up, .ctx = ctx};
    nx_list_init(&in->parts);
    nx_list_init(&in->spare);
}

static void free_parts(nx_list *parts)
{
    nx_list *at;

    while ((at = nx_list_pop(parts)) != NULL) {
        nx_free(nx_list_entry(at, nx_inpart, link));
    }
}

void nx_lane_parser_fini(nx_lane_parser *in)
{
    for (int i = 0; i < NX_LANES; i++) {
        nx_free(in->lanes[i].body);
        in->lanes[i].body = NULL;
    }
    free_parts(&in->parts);
    free_parts(&in->spare);
}

/* The length of the varint that begins with |first|. */
static size_t varint_len(uint8_t first)
{
    return (size_t)1 << (first >> 6);
}

/* Adds bytes to |head| until it has |want|; returns the number of bytes taken. */
static size_t collect(uint8_t *head, size_t *have, size_t want, const uint8_t *data, size_t len)
{
    size_t n = (want > *have) ? want - *have : 0;

    n = (n < len) ? n : len;
    memcpy(head + *have, data, n);
    *have += n;
    return n;
}

/* ---- lanes --------------------------------------------------------------------------- */

/* Takes bytes of the varint before a frame. When the varint is complete, the body begins, unless
 * the varint is a marker without a frame. */
static nexar_err lane_head(nx_lane_parser *in, nx_lane which, const uint8_t **data, size_t *len)
{
    nx_inlane *lane = &in->lanes[which];
    size_t want = varint_len((lane->head_len > 0) ? lane->head[0] : (*data)[0]), n;
    nx_reader r;
    uint64_t v;

    if (want > sizeof(lane->head)) {
        return nx_fail(NEXAR_EPROTO, "a frame longer than %d bytes", NX_FRAME_MAX);
    }
    n = collect(lane->head, &lane->head_len, want, *data, *len);
    *data += n;
    *len -= n;
    if (lane->head_len < want) {
        return NEXAR_OK;
    }
    r = nx_reader_make(lane->head, want);
    v = nx_read_varint(&r);
    lane->head_len = 0;
    if ((v == NX_FRAME_BYE) && (which == NX_LANE_CONTROL)) {
        in->up->on_bye(in->ctx);
        return NEXAR_OK;
    }
    if (v > NX_FRAME_MAX + 1) {
        return nx_fail(NEXAR_EPROTO, "a frame longer than %d bytes", NX_FRAME_MAX);
    }
    lane->in_body = (v > 0);
    lane->len = (v > 0) ? (size_t)v - 1 : 0;
    lane->body_len = 0;
    return NEXAR_OK;
}

static nexar_err lane_keep(nx_inlane *lane, const uint8_t **data, size_t *len)
{
    size_t n = lane->len - lane->body_len;

    if (lane->body_room < lane->len) {
        uint8_t *body = nx_grow(lane->body, lane->len, 1);

        if (body == NULL) {
            return nx_fail_nomem("a frame");
        }
        lane->body = body;
        lane->body_room = lane->len;
    }
    n = (n < *len) ? n : *len;
    memcpy(lane->body + lane->body_len, *data, n);
    lane->body_len += n;
    *data += n;
    *len -= n;
    return NEXAR_OK;
}

nexar_err nx_lane_parser_lane(nx_lane_parser *in, nx_lane which, const uint8_t *data, size_t len)
{
    nx_inlane *lane = &in->lanes[which];
    nexar_err err = NEXAR_OK;

    while ((err == NEXAR_OK) && ((len > 0) || (lane->in_body && (lane->len == 0)))) {
        if (!lane->in_body) {
            err = lane_head(in, which, &data, &len);
        } else if ((lane->body_len == 0) && (len >= lane->len)) {
            lane->in_body = false;
            in->up->on_frame(in->ctx, which, data, lane->len);
            data += lane->len;
            len -= lane->len;
        } else {
            err = lane_keep(lane, &data, &len);
            if ((err == NEXAR_OK) && (lane->body_len == lane->len)) {
                lane->in_body = false;
                in->up->on_frame(in->ctx, which, lane->body, lane->len);
            }
        }
    }
    return err;
}

/* ---- parts --------------------------------------------------------------------------- */

nx_inpart *nx_lane_parser_open(nx_lane_parser *in, int64_t stream)
{
    nx_list *at = nx_list_pop(&in->spare);
    nx_inpart *part;

    part = (at != NULL) ? nx_list_entry(at, nx_inpart, link) : nx_zalloc(sizeof(*part));
    if (part == NULL) {
        return NULL;
    }
    *part = (nx_inpart){.stream = stream};
    nx_list_init(&part->link);
    nx_list_push_back(&in->parts, &part->link);
    in->nparts++;
    return part;
}

void nx_lane_parser_close(nx_lane_parser *in, nx_inpart *part)
{
    nx_list_remove(&part->link);
    nx_list_push_back(&in->spare, &part->link);
    in->nparts--;
}

/* The length of the head, as far as its bytes so far determine it. */
static size_t head_want(const nx_inpart *part)
{
    size_t at = 0;

    for (int i = 0; i < 3; i++) {
        if (at >= part->head_len) {
            return at + 1;
        }
        at += varint_len(part->head[at]);
    }
    return at;
}

/* Takes bytes of the head; returns whether it is complete. */
static bool part_head(nx_inpart *part, const uint8_t **data, size_t *len)
{
    nx_reader r;

    while ((part->head_len < head_want(part)) && (*len > 0)) {
        size_t n = collect(part->head, &part->head_len, head_want(part), *data, *len);

        *data += n;
        *len -= n;
    }
    if (part->head_len < head_want(part)) {
        return false;
    }
    r = nx_reader_make(part->head, part->head_len);
    part->id = nx_read_varint(&r);
    part->off = nx_read_varint(&r);
    part->len = nx_read_varint(&r);
    part->in_body = true;
    return true;
}

/* Whether a part of 62-bit numbers ends within 62 bits. */
static bool ends(const nx_inpart *part)
{
    return part->off <= UINT64_MAX / 4 - part->len;
}

nexar_err nx_lane_parser_part(nx_lane_parser *in, nx_inpart *part, nx_inbytes bytes)
{
    if (!part->in_body && part_head(part, &bytes.data, &bytes.len) && !ends(part)) {
        return nx_fail(NEXAR_EPROTO, "a part that ends beyond 62 bits");
    }
    if ((bytes.len > part->len - part->got) ||
        (bytes.fin && (!part->in_body || (part->got + bytes.len != part->len)))) {
        return nx_fail(NEXAR_EPROTO, "a part whose length is not what its head says");
    }
    if ((bytes.len > 0) || (bytes.fin && (part->len == 0))) {
        uint64_t off = part->off + part->got;

        part->got += bytes.len;
        in->up->on_data(in->ctx, part->id, off,
                        (bytes.in_place != NULL) ? bytes.in_place : bytes.data, bytes.len);
    }
    return NEXAR_OK;
}

static const nx_inpart *find(const nx_lane_parser *in, int64_t stream)
{
    nx_list_for_each (at, &in->parts) {
        const nx_inpart *part = nx_list_entry(at, nx_inpart, link);

        if (part->stream == stream) {
            return part;
        }
    }
    return NULL;
}

uint8_t *nx_lane_parser_place(nx_lane_parser *in, const nx_inpiece *piece, size_t *skip)
{
    enum { FEW = 64 }; /* parts in a linear search */
    size_t left = piece->nknown, len;
    const nx_inpart *part;
    nx_inpart fresh = {0};
    void *place;

    if ((in->up->on_want == NULL) || (in->nparts > FEW)) {
        return NULL;
    }
    part = find(in, piece->stream);
    if ((part == NULL) || (part->head_len == 0)) {
        const uint8_t *data = piece->known;

        if ((piece->off != 0) || !part_head(&fresh, &data, &left) || !ends(&fresh)) {
            return NULL;
        }
        part = &fresh;
        *skip = part->head_len;
    } else if (!part->in_body || (piece->off != part->head_len + part->got)) {
        return NULL;
    } else {
        *skip = 0;
    }
    if ((piece->len <= *skip) || (piece->len - *skip > part->len - part->got)) {
        return NULL;
    }
    len = piece->len - *skip;
    place = in->up->on_want(in->ctx, part->id, part->off + part->got, &len);
    return (len == piece->len - *skip) ? place : NULL;
}
