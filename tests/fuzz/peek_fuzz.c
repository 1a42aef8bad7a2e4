/*
 * peek_fuzz.c - any bytes as an unverified packet: a frame that is found lies inside the packet, is
 * found again by a full scan, and has a destination only if it fits.
 *
 * Input: the packet as it would be after decryption.
 */
#include <string.h>

#include "fuzz.h"
#include "transport/quic/conn/lane_parser.h"
#include "transport/quic/udp/peek.h"

enum { ROOM = 4096 };

typedef struct packet {
    const uint8_t *data;
    size_t len;
} packet;

static void read_packet(const void *ctx, size_t from, size_t to, uint8_t *out)
{
    const packet *p = ctx;

    nxt_must((from <= to) && (to <= p->len) && (to - from <= NX_PEEK_WINDOW));
    memcpy(out, p->data + from, to - from);
}

static void *on_want(void *ctx, uint64_t id, uint64_t off, size_t *len)
{
    nxt_must((id < UINT64_C(1) << 62) && (off < UINT64_C(1) << 62) && (*len > 0));
    nxt_must(off + *len < UINT64_C(1) << 62);
    *len = (*len < ROOM) ? *len : ROOM;
    return ctx;
}

static const nx_lane_parser_up UP = {.on_want = on_want};

/* The destination as the first frame of a stream, and as a later one. */
static void look_for_place(const packet *p, const nx_peek *frame)
{
    static uint8_t room[ROOM];
    const nx_inpiece piece = {.stream = frame->stream,
                              .off = frame->off,
                              .len = frame->len,
                              .nknown = (frame->len < NX_PART_HEAD) ? frame->len : NX_PART_HEAD,
                              .known = p->data + frame->at};
    size_t skip = 0;
    nx_inpart *part;
    nx_lane_parser in;

    nx_lane_parser_init(&in, &UP, room);
    if (nx_lane_parser_place(&in, &piece, &skip) != NULL) {
        nxt_must((frame->off == 0) && (skip >= 3) && (skip < frame->len));
        nxt_must(frame->len - skip <= ROOM);
    }
    part = nx_lane_parser_open(&in, frame->stream);
    nxt_must(part != NULL);
    part->in_body = true;
    part->head_len = 3;
    part->len = UINT32_MAX;
    part->got = ((frame->off >= 3) && (frame->off < UINT64_C(1) << 61)) ? frame->off - 3 : 0;
    part->len += part->got;
    if (nx_lane_parser_place(&in, &piece, &skip) != NULL) {
        nxt_must((frame->off >= 3) && (skip == 0) && (frame->len <= ROOM));
    }
    nx_lane_parser_fini(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const packet p = {data, size};
    nx_peek longest, first;

    if (nx_peek_stream(data, size, size, &first)) {
        nxt_must((first.at <= size) && (first.len <= size - first.at));
    }
    if (nx_peek_longest(&p, read_packet, size, &longest)) {
        nxt_must((longest.at <= size) && (longest.len <= size - longest.at));
        nxt_must(nx_peek_stream(data, size, size, &first) && (longest.len >= first.len));
        look_for_place(&p, &longest);
    }
    return 0;
}
