/*
 * msg_fuzz.c - a peer that sends anything: frames and parts to an engine that sends and receives
 * meanwhile.
 *
 * Input: records of an operation byte, a length byte, and that many bytes.  A decoded frame is
 * encoded to the same bytes; the pool is never exceeded; every request ends.
 */
#include <string.h>

#include "base/log.h"
#include "fuzz.h"
#include "msg/matching/envelope.h"
#include "nowhere.h"

enum { POOL = 2 * NX_CLASSES * 4000, REQS = 16, ROOM = 64 };

typedef struct target {
    nxt_nowhere link;
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

/* The bytes of a part, whose id comes first; they are copied into its buffer if it has one. */
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

/* The peer has failed: requests to it end, and no link to it exists any more. */
static void end_link(target *t)
{
    nx_link *link = &t->link.link;

    if (!t->link.closed) {
        nxt_nowhere_give_back(&t->link, NEXAR_EPEER);
        link->ended = NX_END_GONE;
        link->up->on_down(link->up_ctx, link, NEXAR_EPEER, "it has gone");
        nxt_must(t->link.closed);
    }
}

/* The peer's greeting has windows of 768 bytes; the engine must accept it, or the target tests
 * nothing. */
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
        nxt_nowhere_give_back(&t->link, NEXAR_OK);
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
                            .connect = nxt_nowhere_connect,
                            .ctx = &t.link};
    nx_msg_stats stats;
    size_t at = 0;

    check_codec(data, size);
    nx_log_set_level(NX_LOG_ERROR);
    memset(&t, 0, sizeof(t));
    nxt_nowhere_init(&t.link);
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
    nxt_nowhere_give_back(&t.link, NEXAR_EPEER);
    for (size_t i = 0; i < t.nreqs; i++) {
        nxt_must(t.reqs[i].done);
    }
    return 0;
}
