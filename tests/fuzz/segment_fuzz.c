/*
 * segment_fuzz.c - a peer that writes anything into the shared memory: records of any kind, in any
 * ring, impossible positions and claims.  The link stays up or goes down; what it delivers is
 * within bounds; every part that was sent ends.
 *
 * Input: records of an operation byte, a length byte, and that many bytes.  The lowest two bits are
 * the operation: a record into the ring of the next two bits, its kind and flags in the first two
 * bytes; 8 bytes over the cells of a direction; this side sends a part or a frame; this side polls
 * or, with the highest bit, prepares to sleep.
 */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"
#include "transport/shm/shm_inner.h"

enum { PARTS = 8, LONG = 80 << 10 };

typedef struct stage {
    nx_loop *loop;
    nx_shm *shm;
    nx_shm_link *link;
    nx_ring_out out[NX_SHM_RINGS]; /* the peer's */
    int theirs;
    bool down;
    nx_tx parts[PARTS];
    bool busy[PARTS];
    nx_bytes bytes[PARTS];
    unsigned held;
} stage;

static uint8_t memory[LONG];

/* Reads both ends, so that the sanitizer checks them. */
static void look_at(const void *data, size_t len)
{
    const volatile uint8_t *at = data;

    if (len > 0) {
        (void)at[0];
        (void)at[len - 1];
    }
}

static bool find(void *ctx, uint64_t member, nx_shm_offer *offer)
{
    (void)ctx;
    (void)member;
    (void)offer;
    return false;
}

static void on_up(void *ctx, nx_link *link)
{
    (void)ctx;
    (void)link;
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)ctx;
    (void)link;
    nxt_must((lane < NX_LANES) && (len <= NX_FRAME_MAX));
    look_at(data, len);
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    (void)ctx;
    (void)link;
    (void)id;
    nxt_must(len <= UINT64_MAX - off);
    look_at(data, len);
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    stage *s = ctx;

    (void)link;
    (void)err;
    nxt_must(s->busy[tx - s->parts]);
    s->busy[tx - s->parts] = false;
    s->held--;
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    stage *s = ctx;

    nxt_must((err != NEXAR_OK) && (why[0] != '\0') && (s->held == 0) && !s->down);
    s->down = true;
    s->link = NULL;
    nx_link_close(link, false);
}

static const nx_link_up UP = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down};

/* A record with a valid frame for the ring, and any contents. */
static void put_record(stage *s, unsigned ring, const uint8_t *data, size_t len)
{
    void *at;

    if ((len < 2) || (data[0] == 0) || (ring >= NX_SHM_RINGS)) {
        return;
    }
    at = nx_ring_reserve(&s->out[ring], (uint32_t)(len - 2));
    if (at != NULL) {
        memcpy(at, data + 2, len - 2);
        nx_ring_commit(&s->out[ring], data[0], data[1], (uint32_t)(len - 2));
        (void)nx_ring_publish(&s->out[ring]);
    }
}

/* Writes over positions, flags and claims: everything shared except the bytes of the rings. */
static void garble(stage *s, const uint8_t *data, size_t len)
{
    uint8_t *at = (uint8_t *)&s->link->segment->way[data[0] & 1];

    if (len >= 10) {
        memcpy(at + (size_t)data[1] * 8 % sizeof(nx_segment_way), data + 2, 8);
    }
}

static void send_one(stage *s, const uint8_t *data, size_t len)
{
    const nx_bytes frame = {.ptr = data, .len = len};
    unsigned i = 0;

    if ((data[0] & 1) != 0) {
        (void)!nx_link_send_frame(&s->link->base, (nx_lane)((data[0] >> 1) % NX_LANES), &frame, 1);
        return;
    }
    while ((i < PARTS) && s->busy[i]) {
        i++;
    }
    if (i == PARTS) {
        return;
    }
    s->bytes[i] = (nx_bytes){.ptr = memory, .len = ((data[0] & 2) != 0) ? LONG : data[0]};
    s->parts[i] = (nx_tx){.id = i, .bytes = &s->bytes[i], .nbytes = 1, .len = s->bytes[i].len};
    if (nx_link_send_part(&s->link->base, &s->parts[i]) == NEXAR_OK) {
        s->busy[i] = true;
        s->held++;
    }
}

static void act(stage *s, uint8_t op, const uint8_t *data, size_t len)
{
    if ((op & 3) == 0) {
        put_record(s, op >> 2 & 3U, data, len);
    } else if (((op & 3) == 1) && (len > 0)) {
        garble(s, data, len);
    } else if (((op & 3) == 2) && (len > 0)) {
        send_one(s, data, len);
    } else {
        (void)nx_shm_waiting(s->link, (op & 0x80) != 0);
        nx_shm_poll(s->link);
    }
    nx_loop_kick(s->loop);
}

static void begin(stage *s)
{
    nx_shm_config config = {.random = &nx_random_system, .find = find, .ctx = s};
    const nx_shm_word word = {.type = NX_SHM_WELCOME};
    int pair[2], fd = -1;

    memset(s, 0, sizeof(*s));
    nxt_must(nx_loop_create(&s->loop, &nx_clock_system) == NEXAR_OK);
    nx_loop_lock(s->loop);
    config.loop = s->loop;
    nxt_must((nx_shm_open(&s->shm, &config) == NEXAR_OK) && (nx_shm_start(s->shm, 1) == NEXAR_OK));
    nxt_must(nx_shm_link_create(s->shm, 2, &s->link) == NEXAR_OK);
    s->link->base.up = &UP;
    s->link->base.up_ctx = s;
    nxt_must(nx_segment_create(&s->link->segment, &fd) == NEXAR_OK);
    (void)close(fd);
    nx_segment_out(s->link->segment, 1, s->out);
    nxt_must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    s->theirs = pair[1];
    nx_shm_pair_done(s->link, &word, pair[0], getpid(), eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    /* The peer is this process: its memory can be read, at any address. */
    atomic_store(&nx_shm_way_out(s->link)->reads, NX_READS_YES);
    nx_loop_kick(s->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stage s;
    size_t at = 0;

    nx_log_set_level(NX_LOG_ERROR);
    begin(&s);
    while ((s.link != NULL) && (size - at >= 2)) {
        const size_t len = (data[at + 1] < size - at - 2) ? data[at + 1] : size - at - 2;

        act(&s, data[at], data + at + 2, len);
        at += 2 + len;
    }
    nx_shm_close(s.shm);
    nxt_must(s.held == 0);
    (void)close(s.theirs);
    nx_loop_kick(s.loop);
    nx_loop_unlock(s.loop);
    nx_loop_destroy(s.loop);
    return 0;
}
