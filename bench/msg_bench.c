/*
 * msg_bench.c - the cost of messages above the transport: two engines with a queue in memory
 * between them.
 *
 * One line per case: nanoseconds of this thread per message, from the call that
 * sends to the end of the receive, both sides together, best of five.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "args.h"
#include "base/clock.h"
#include "msg/msg.h"

static const char help[] =
    "usage: msg_bench\n"
    "\n"
    "What messages cost above the transport, both sides together, with a queue in memory\n"
    "between them: nanoseconds of this thread per message, best of five.\n";

enum { QUEUE = 1 << 22, PARTS = 4096, BATCH = 1000, ROUNDS = 5 };

/* One direction: frames, each preceded by its lane and length, and parts. */
typedef struct pipe_end {
    nx_link link; /* first */
    struct pipe_end *other;
    uint8_t *queue;
    size_t head, tail;
    nx_tx *parts[PARTS];
    size_t nparts;
} pipe_end;

typedef struct bench {
    nx_loop *loop;
    nx_msg *msgs[2];
    pipe_end ends[2];
    nx_req sends[BATCH], recvs[BATCH];
    uint8_t *out, *in;
} bench;

static nexar_err send_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    pipe_end *e = (pipe_end *)(void *)link;
    size_t head[2] = {(size_t)lane, 0}, at = e->tail + sizeof(head);

    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(e->queue + at, bytes[i].ptr, bytes[i].len);
        }
        at += bytes[i].len;
    }
    head[1] = at - e->tail - sizeof(head);
    memcpy(e->queue + e->tail, head, sizeof(head));
    e->tail = at;
    return NEXAR_OK;
}

static nexar_err send_part(nx_link *link, nx_tx *tx)
{
    pipe_end *e = (pipe_end *)(void *)link;

    e->parts[e->nparts++] = tx;
    return NEXAR_OK;
}

static void cancel_part(nx_link *link, nx_tx *tx)
{
    (void)link;
    (void)tx;
}

static void close_link(nx_link *link, bool drain)
{
    (void)link;
    (void)drain;
}

static void info(const nx_link *link, nx_link_info *out)
{
    (void)link;
    (void)out;
}

static const nx_link_ops ops = {.name = "pipe",
                                .send_frame = send_frame,
                                .send_part = send_part,
                                .cancel_part = cancel_part,
                                .close = close_link,
                                .info = info};

static void deliver(pipe_end *e)
{
    nx_link *to = &e->other->link;

    while (e->head < e->tail) {
        size_t head[2];

        memcpy(head, e->queue + e->head, sizeof(head));
        e->head += sizeof(head) + head[1];
        to->up->on_frame(to->up_ctx, to, (nx_lane)head[0], e->queue + e->head - head[1], head[1]);
    }
    e->head = e->tail = 0;
    for (size_t i = 0; i < e->nparts; i++) {
        nx_tx *tx = e->parts[i];

        to->up->on_data(to->up_ctx, to, tx->id, tx->off, tx->bytes[0].ptr, tx->bytes[0].len);
        e->link.up->on_sent(e->link.up_ctx, &e->link, tx, NEXAR_OK);
    }
    e->nparts = 0;
}

static void move(bench *b)
{
    while ((b->ends[0].tail > 0) || (b->ends[1].tail > 0) || (b->ends[0].nparts > 0) ||
           (b->ends[1].nparts > 0)) {
        deliver(&b->ends[0]);
        deliver(&b->ends[1]);
    }
}

static const nx_context context = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};

static void post(bench *b, int at, size_t i, uint64_t tag, size_t len)
{
    nx_iov_span span = {.ptr = b->in, .len = len};

    b->recvs[i].on_done = NULL;
    b->recvs[i].event = NULL;
    nx_msg_recv(b->msgs[at], &b->recvs[i], (uint32_t)(1 - at), context, tag,
                &(nx_sink){.iov = &span, .niov = 1, .room = len});
}

static void launch(bench *b, int at, size_t i, uint64_t tag, size_t len)
{
    nx_bytes bytes = {.ptr = b->out, .len = len};

    b->sends[i].on_done = NULL;
    b->sends[i].event = NULL;
    nx_msg_send(b->msgs[at], &b->sends[i], (uint32_t)(1 - at), context, tag, &bytes, 1);
}

/* ---- the cases ---------------------------------------------------------------------- */

static void posted(bench *b, size_t len)
{
    for (size_t i = 0; i < BATCH; i++) {
        post(b, 1, i, i & 7, len);
    }
    for (size_t i = 0; i < BATCH; i++) {
        launch(b, 0, i, i & 7, len);
    }
    move(b);
}

static void unexpected(bench *b, size_t len)
{
    for (size_t i = 0; i < BATCH; i++) {
        launch(b, 0, i, i, len);
    }
    move(b);
    for (size_t i = BATCH; i-- > 0;) { /* in reverse */
        post(b, 1, i, i, len);
    }
    move(b);
}

static void ping_pong(bench *b, size_t len)
{
    for (size_t i = 0; i < BATCH; i++) {
        int from = (int)(i & 1);

        post(b, 1 - from, i, 1, len);
        launch(b, from, i, 1, len);
        move(b);
    }
}

static const struct bench_case {
    const char *name;
    void (*run)(bench *b, size_t len);
    size_t len, messages;
} cases[] = {
    {"8 B, receives posted", posted, 8, 1000000},
    {"64 B, receives posted", posted, 64, 1000000},
    {"8 B, unexpected, received in reverse by tag", unexpected, 8, 1000000},
    {"64 B, unexpected, received in reverse by tag", unexpected, 64, 1000000},
    {"8 B, ping-pong", ping_pong, 8, 1000000},
    {"4 KiB, receives posted", posted, 4096, 200000},
    {"32 KiB, eager, receives posted", posted, 32768, 100000},
    {"256 KiB, receives posted", posted, 262144, 20000},
};

static nexar_err do_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                            nx_link **link)
{
    pipe_end *e = ctx;

    (void)peer;
    e->link.up = up;
    e->link.up_ctx = up_ctx;
    *link = &e->link;
    return NEXAR_OK;
}

static int setup(bench *b)
{
    b->out = calloc(1, 1 << 20);
    b->in = calloc(1, 1 << 20);
    if ((b->out == NULL) || (b->in == NULL) ||
        (nx_loop_create(&b->loop, &nx_clock_system) != NEXAR_OK)) {
        return 1;
    }
    for (uint32_t i = 0; i < 2; i++) {
        nx_msg_config config = {.loop = b->loop,
                                .peers = 2,
                                .self = i,
                                .inline_max = 8192,
                                .eager_max = 65536,
                                .connect = do_connect,
                                .ctx = &b->ends[i]};

        b->ends[i] = (pipe_end){.other = &b->ends[1 - i], .queue = malloc(2 * QUEUE)};
        b->ends[i].link.ops = &ops;
        if ((b->ends[i].queue == NULL) || (nx_msg_create(&b->msgs[i], &config) != NEXAR_OK)) {
            return 1;
        }
    }
    for (uint32_t i = 0; i < 2; i++) { /* both have a link and exchange greetings */
        if (nx_msg_send_control(b->msgs[i], 1 - i, "\x40", 1) != NEXAR_OK) {
            return 1;
        }
    }
    move(b);
    return 0;
}

static int check(const bench *b)
{
    for (size_t i = 0; i < BATCH; i++) {
        if (!b->sends[i].done || !b->recvs[i].done || (b->recvs[i].err != NEXAR_OK)) {
            (void)fprintf(stderr, "message %zu: %s\n", i, b->recvs[i].why);
            return 1;
        }
    }
    return 0;
}

/* CPU time, not wall time, since the machine may be busy. */
static uint64_t spent_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static bench b;

    (void)nxb_args_take(argc, argv, 0, help);
    if (setup(&b) != 0) {
        (void)fprintf(stderr, "no memory\n");
        return 1;
    }
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        uint64_t best = UINT64_MAX;

        for (int round = 0; round < ROUNDS; round++) {
            uint64_t began = spent_ns(), took;

            for (size_t n = 0; n < cases[c].messages; n += BATCH) {
                cases[c].run(&b, cases[c].len);
            }
            took = spent_ns() - began;
            best = (took < best) ? took : best;
        }
        if (check(&b) != 0) {
            return 1;
        }
        (void)printf("%8.1f ns  %s\n", (double)best / (double)cases[c].messages, cases[c].name);
    }
    nx_msg_destroy(b.msgs[0]);
    nx_msg_destroy(b.msgs[1]);
    nx_loop_destroy(b.loop);
    for (int i = 0; i < 2; i++) {
        free(b.ends[i].queue);
    }
    free(b.out);
    free(b.in);
    return 0;
}
