/* tcp_stream_fuzz.c - any bytes in the stream of a TCP connection, in pieces of any size: frames
 * never exceed the limit, parts never pass the end of all messages, and the pieces make no
 * difference. */
#include <string.h>

#include "fuzz.h"
#include "transport/tcp/stream_parser.h"

typedef struct tally {
    uint64_t signals, frames, bytes, sum;
    bool closed;
} tally;

static void add(tally *t, const uint8_t *at, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        t->sum = t->sum * 31 + at[i];
    }
}

static void on_signal(void *ctx)
{
    tally *t = ctx;

    nxt_must(!t->closed);
    t->signals++;
}

static void on_frame(void *ctx, nx_lane lane, const void *data, size_t len)
{
    tally *t = ctx;

    nxt_must(!t->closed && (lane < NX_LANES) && (len <= NX_FRAME_MAX));
    t->frames++;
    add(t, data, len);
}

static void on_data(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len)
{
    tally *t = ctx;
    const uint8_t *at = data;

    nxt_must(!t->closed && (off + len >= off));
    for (size_t i = 0; i < len; i++) {
        t->bytes += (id + 1) * (off + i + 1) * (at[i] + UINT64_C(1));
    }
    t->frames += (len == 0);
}

static void on_close(void *ctx, uint8_t code, const void *data, size_t len)
{
    tally *t = ctx;

    nxt_must(!t->closed && (len <= NX_TCP_CLOSE_MOST));
    t->closed = true;
    t->signals += code;
    add(t, data, len);
}

static const nx_tcp_parser_up UP = {.on_hello = on_signal,
                                    .on_use = on_signal,
                                    .on_frame = on_frame,
                                    .on_data = on_data,
                                    .on_bye = on_signal,
                                    .on_close = on_close};

/* Feeds the input in pieces of |piece| bytes; returns whether it was well-formed. */
static bool feed(const uint8_t *data, size_t size, size_t piece, tally *t)
{
    nexar_err err = NEXAR_OK;
    nx_tcp_parser p;

    nx_tcp_parser_init(&p, &UP, t);
    for (size_t at = 0; (at < size) && (err == NEXAR_OK); at += piece) {
        err = nx_tcp_parse(&p, data + at, (size - at < piece) ? size - at : piece);
    }
    nx_tcp_parser_fini(&p);
    return err == NEXAR_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tally whole = {0}, cut = {0};
    bool well;

    if (size < 2) {
        return 0;
    }
    well = feed(data + 1, size - 1, size, &whole);
    nxt_must(feed(data + 1, size - 1, (size_t)data[0] + 1, &cut) == well);
    nxt_must((whole.signals == cut.signals) && (whole.frames == cut.frames) &&
             (whole.bytes == cut.bytes) && (whole.sum == cut.sum) && (whole.closed == cut.closed));
    return 0;
}
