/*
 * msg_fuzz.c - a peer that sends anything: frames and parts of the fuzzer's making
 * against an engine that sends and receives meanwhile.
 *
 * Input: records of an operation byte, a length byte, and so many bytes.  What
 * decodes encodes to the same; the pool is never exceeded; every request ends.
 */
#include <string.h>

#include "base/log.h"
#include "fuzz.h"
#include "msg/envelope.h"

enum { POOL = 2 * NX_CLASSES * 4000, REQS = 16, ROOM = 64 };

/* A link to nowhere. */
typedef struct nowhere {
    nx_link link; /* first */
    bool closed;
    nx_tx *held[2 * REQS];
    size_t nheld;
} nowhere;

static nexar_err send_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    (void)link;
    (void)lane;
    (void)bytes;
    (void)n;
    return NEXAR_OK;
}

static nexar_err send_part(nx_link *link, nx_tx *tx)
{
    nowhere *w = (nowhere *)(void *)link;

    nxt_must(w->nheld < 2 * REQS);
    w->held[w->nheld++] = tx;
    return NEXAR_OK;
}

static void cancel_part(nx_link *link, nx_tx *tx)
{
    (void)link;
    (void)tx; /* on_sent comes with the others */
}

static void close_link(nx_link *link, bool drain)
{
    (void)drain;
    ((nowhere *)(void *)link)->closed = true;
}

static void info(const nx_link *link, nx_link_info *out)
{
    (void)link;
    (void)out;
}

static const nx_link_ops ops = {"nowhere", send_frame, send_part, cancel_part, close_link, info};

static nexar_err connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                         nx_link **link)
{
    nowhere *w = ctx;

    (void)peer;
    w->link.up = up;
    w->link.up_ctx = up_ctx;
    *link = &w->link;
    return NEXAR_OK;
}

typedef struct target {
    nowhere link;
    nx_msg *msg;
    nx_req reqs[REQS];
    size_t nreqs;
    uint8_t memory[ROOM];
    nx_iov_span span;
} target;

static void start(target *t, const uint8_t *data, size_t len)
{
    nx_context context = {
        .comm = data[0] & 1, .kind = data[0] & 1, .class = (nx_class)((data[0] >> 3) % NX_CLASSES)};
    uint32_t peer = (data[0] & 2) ? NX_ANY_PEER : (data[0] >> 2) & 1;
    uint64_t tag = (len > 1) ? data[1] & 3 : NX_ANY_TAG;
    nx_req *r = &t->reqs[t->nreqs];

    if (t->nreqs == REQS) {
        return;
    }
    t->nreqs++;
    if ((data[0] & 0x80) && (peer != NX_ANY_PEER) && (tag != NX_ANY_TAG)) {
        nx_bytes bytes = {.ptr = t->memory, .len = data[0] & ROOM};

        nx_msg_send(t->msg, r, peer, context, tag, &bytes, 1);
    } else if (data[0] & 0x40) {
        nx_msg_probe(t->msg, r, peer, context, tag);
    } else {
        nx_msg_recv(t->msg, r, peer, context, tag,
                    &(nx_sink){.iov = &t->span, .niov = 1, .room = t->span.len});
    }
}

static void give_back(target *t, nexar_err err)
{
    while (t->link.nheld > 0) {
        nx_tx *tx = t->link.held[--t->link.nheld];

        t->link.link.up->on_sent(t->link.link.up_ctx, &t->link.link, tx, err);
    }
}

/* Bytes of a part, whose id is the first of them; into their place where there is one. */
static void arrive(target *t, uint64_t off, const uint8_t *data, size_t len)
{
    nx_link *link = &t->link.link;
    size_t room = len;
    void *place = link->up->on_want(link->up_ctx, link, data[0], off, &room);

    if (place != NULL) {
        nxt_must((room > 0) && (room <= len));
        memcpy(place, data, room);
        link->up->on_data(link->up_ctx, link, data[0], off, place, room);
    } else {
        link->up->on_data(link->up_ctx, link, data[0], off, data, len);
    }
}

/* The peer has gone; requests to it end, and there is no link to it any more. */
static void end_link(target *t)
{
    nx_link *link = &t->link.link;

    if (!t->link.closed) {
        give_back(t, NEXAR_EPEER);
        link->ended = NX_END_GONE;
        link->up->on_down(link->up_ctx, link, NEXAR_EPEER, "it has gone");
        nxt_must(t->link.closed);
    }
}

/* The peer greets with windows of 768 bytes; that must be taken, or nothing is tried here. */
static void greet(target *t)
{
    nx_frame hello = {.type = NX_FRAME_HELLO};
    uint8_t bytes[NX_MSG_FRAME_ROOM];
    size_t len;

    for (int c = 0; c < NX_CLASSES; c++) {
        hello.window[c] = 768;
    }
    len = nx_frame_encode(&hello, bytes);
    t->link.link.up->on_frame(t->link.link.up_ctx, &t->link.link, NX_LANE_CONTROL, bytes, len);
    nxt_must(!t->link.closed);
}

static void act(target *t, uint8_t op, const uint8_t *data, size_t len)
{
    const nx_link_up *up = t->link.link.up;
    void *ctx = t->link.link.up_ctx;
    nx_req found;

    if (len == 0) {
        give_back(t, NEXAR_OK);
    } else if (op % 8 < 3) {
        up->on_frame(ctx, &t->link.link, (nx_lane)(op & 1), data, len);
    } else if (op % 8 == 3) {
        arrive(t, op >> 3, data, len);
    } else if (op % 8 < 6) {
        start(t, data, len);
    } else if (op % 8 == 7) {
        (void)((len > 1) ? nx_msg_forget(t->msg, data[0] & 1) : end_link(t));
    } else if (t->nreqs > 0) {
        (void)nx_msg_cancel(t->msg, &t->reqs[data[0] % t->nreqs]);
        (void)nx_msg_iprobe(t->msg, 1, (nx_context){.comm = 0}, data[0] & 3, &found);
    }
}

static void check_codec(const uint8_t *data, size_t size)
{
    for (int lane = 0; lane < NX_LANES; lane++) {
        uint8_t again[NX_MSG_FRAME_ROOM];
        const char *why = NULL;
        nx_frame f, g;
        size_t len;

        if (nx_frame_decode((nx_lane)lane, data, size, &f, &why) != NEXAR_OK) {
            nxt_must(why != NULL);
            continue;
        }
        len = nx_frame_encode(&f, again);
        nxt_must(len <= sizeof(again));
        nxt_must(nx_frame_decode((nx_lane)lane, again, len, &g, &why) == NEXAR_OK);
        nxt_must((g.type == f.type) && (g.tag == f.tag) && (g.id == f.id));
        nxt_must((g.limit == f.limit) && (g.eager == f.eager));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static target t;
    nx_msg_config config = {.peers = 2,
                            .self = 0,
                            .pool = POOL,
                            .inline_max = 32,
                            .eager_max = 48,
                            .connect = connect,
                            .ctx = &t.link};
    nx_msg_stats stats;
    size_t at = 0;

    check_codec(data, size);
    nx_log_set_level(NX_LOG_ERROR);
    memset(&t, 0, sizeof(t));
    t.link.link.ops = &ops;
    t.span = (nx_iov_span){.ptr = t.memory, .len = ROOM};
    if (nx_msg_create(&t.msg, &config) != NEXAR_OK) {
        return 0;
    }
    nxt_must(nx_msg_send_control(t.msg, 1, "\x40", 1) == NEXAR_OK);
    greet(&t);
    while (size - at >= 2) {
        size_t len = (data[at + 1] < size - at - 2) ? data[at + 1] : size - at - 2;

        act(&t, data[at], data + at + 2, len);
        at += 2 + len;
        nx_msg_stats_get(t.msg, &stats);
        nxt_must((stats.pool_used <= POOL) && (stats.pool_peak <= POOL));
    }
    nx_msg_destroy(t.msg);
    give_back(&t, NEXAR_EPEER);
    for (size_t i = 0; i < t.nreqs; i++) {
        nxt_must(t.reqs[i].done);
    }
    return 0;
}
