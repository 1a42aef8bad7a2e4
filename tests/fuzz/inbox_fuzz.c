/* inbox_fuzz.c - any bytes on the streams of a connection, in pieces of any size: frames never
 * exceed the limit, parts never exceed the length in their header, and the pieces make no
 * difference. */
#include <string.h>

#include "fuzz.h"
#include "transport/quic/conn/lane_parser.h"

typedef struct tally {
    uint64_t frames, bytes, sum;
} tally;

static void on_frame(void *ctx, nx_lane lane, const void *data, size_t len)
{
    tally *t = ctx;
    const uint8_t *at = data;

    nxt_must((lane < NX_LANES) && (len <= NX_FRAME_MAX));
    t->frames++;
    for (size_t i = 0; i < len; i++) {
        t->sum = t->sum * 31 + at[i];
    }
}

static void on_data(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len)
{
    tally *t = ctx;
    const uint8_t *at = data;

    nxt_must((id < UINT64_C(1) << 62) && (off + len < UINT64_C(1) << 62));
    for (size_t i = 0; i < len; i++) {
        t->sum += (off + i + 1) * (at[i] + UINT64_C(1));
    }
    t->bytes += len;
}

static const nx_lane_parser_up UP = {.on_frame = on_frame, .on_data = on_data};

/* Feeds the input in pieces of |piece| bytes; returns whether it was well-formed. */
static bool feed(const uint8_t *data, size_t size, size_t piece, bool is_part, tally *t)
{
    nexar_err err = NEXAR_OK;
    nx_inpart *part;
    nx_lane_parser in;

    nx_lane_parser_init(&in, &UP, t);
    part = nx_lane_parser_open(&in, 0);
    nxt_must(part != NULL);
    for (size_t at = 0; (at < size) && (err == NEXAR_OK); at += piece) {
        size_t n = (size - at < piece) ? size - at : piece;

        err = is_part
                  ? nx_lane_parser_part(&in, part, (nx_inbytes){data + at, n, at + n == size, NULL})
                  : nx_lane_parser_lane(&in, NX_LANE_MESSAGE, data + at, n);
    }
    nx_lane_parser_fini(&in);
    return err == NEXAR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tally whole = {0}, cut = {0};
    size_t piece;
    bool is_part, well;

    if (size < 2) {
        return 0;
    }
    is_part = (data[0] & 1) != 0;
    piece = (size_t)(data[0] >> 1) + 1;
    well = feed(data + 1, size - 1, size, is_part, &whole);
    nxt_must(feed(data + 1, size - 1, piece, is_part, &cut) == well);
    if (well) {
        nxt_must(memcmp(&whole, &cut, sizeof(whole)) == 0);
    }
    return 0;
}
