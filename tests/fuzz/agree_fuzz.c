/*
 * agree_fuzz.c - frames of members to the machines of one rank: consensus, reliable broadcast
 * and failure detector.
 *
 * The first byte: bits 0-1 rank, bit 2 it has started an instance, bit 3 early, bit 4 closed,
 * bit 5 a majority is needed.  Frames follow, each after a byte for its sender and two for its
 * length.  The machines must not crash, must decide at most once, and must send only complete
 * frames to other ranks.
 */
#include <string.h>

#include "base/alloc.h"
#include "cluster/consensus/consensus.h"
#include "cluster/membership/failure_detector.h"
#include "cluster/membership/reliable_broadcast.h"
#include "fuzz.h"
#include "msg/control.h"

_Static_assert((NX_CONTROL_PING == 0x43) && (NX_CONTROL_AGREE == 0x46) &&
                   (NX_CONTROL_VERDICT == 0x49),
               "corpus/agree has frames by their numbers: where these move, it must follow");

enum { SIZE = 4, COMM = 7, PAYLOAD = 32 };

typedef struct stage {
    uint32_t self;
    unsigned decided, ended, forgotten;
    nx_rankset dead, left;
    nx_consensus_value value;
} stage;

static void on_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    stage *s = ctx;
    nx_consensus_msg m;

    nxt_must((to < SIZE) && (to != s->self));
    nxt_must(nx_consensus_msg_decode(frame, len, &s->dead, &s->left, &s->value, &m) == NEXAR_OK);
    nxt_must((m.comm == COMM) && !nx_rankset_has(&s->dead, s->self) && (s->ended == 0));
}

static void on_decided(void *ctx, uint64_t seq, const nx_consensus_value *v)
{
    stage *s = ctx;

    nxt_must((seq == 0) && (v->payload_len <= PAYLOAD) && (v->failed.count < SIZE));
    s->decided++;
}

static void on_learned(void *ctx, uint32_t rank)
{
    nxt_must((rank < SIZE) && (rank != ((stage *)ctx)->self));
}

static void on_ended(void *ctx, nexar_err err, const char *why)
{
    nxt_must((err == NEXAR_EPEER) && (strlen(why) > 0));
    ((stage *)ctx)->ended++;
}

static void on_forgotten(void *ctx)
{
    ((stage *)ctx)->forgotten++;
}

static const nx_consensus_ops ops = {.send = on_send,
                                     .decided = on_decided,
                                     .learned = on_learned,
                                     .ended = on_ended,
                                     .forgotten = on_forgotten};

/* An accepted frame is encoded and decoded again to the same value. */
static void check_codec(const uint8_t *data, size_t size, stage *s)
{
    nx_rankset dead, left;
    nx_consensus_value value;
    nx_consensus_msg m, back;
    uint8_t bytes[512];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));

    if (nx_consensus_msg_decode(data, size, &s->dead, &s->left, &s->value, &m) != NEXAR_OK) {
        return;
    }
    nxt_must((nx_rankset_init(&dead, SIZE) == NEXAR_OK) &&
             (nx_rankset_init(&left, SIZE) == NEXAR_OK) &&
             (nx_consensus_value_init(&value, SIZE, PAYLOAD) == NEXAR_OK));
    nx_consensus_msg_encode(&w, &m);
    nxt_must(!w.failed && (w.len <= nx_consensus_encoded_max(SIZE, PAYLOAD)));
    nxt_must(nx_consensus_msg_decode(bytes, w.len, &dead, &left, &value, &back) == NEXAR_OK);
    nxt_must((m.comm == back.comm) && (m.seq == back.seq) && (m.kind == back.kind));
    nxt_must(nx_rankset_equal(&s->dead, &dead) && nx_rankset_equal(&s->left, &left));
    if (m.value != NULL) {
        nxt_must((value.flags == s->value.flags) && (value.highest == s->value.highest) &&
                 (value.ballot == s->value.ballot) && (value.author == s->value.author) &&
                 (value.payload_len == s->value.payload_len));
        nxt_must(nx_rankset_equal(&value.failed, &s->value.failed) &&
                 nx_rankset_equal(&value.leavers, &s->value.leavers));
    }
    nx_rankset_fini(&dead);
    nx_rankset_fini(&left);
    nx_consensus_value_fini(&value);
}

static void ignore_send(void *ctx, uint32_t to, const void *frame, size_t len)
{
    (void)ctx;
    (void)frame;
    nxt_must((to < SIZE) && (len > 0));
}

static void ignore_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    (void)ctx;
    (void)data;
    /* The frame may concern a rank that does not exist here yet. */
    nxt_must(((uint32_t)key < NX_WORLD_MAX) && ((key >> 32) <= NX_RBCAST_ENDED));
    nxt_must((len <= NX_RBCAST_DATA_MAX) && (from < SIZE));
}

static void ignore_peer(void *ctx, uint32_t peer)
{
    (void)ctx;
    nxt_must(peer < SIZE);
}

static void ignore_why(void *ctx, uint32_t peer, const char *why)
{
    (void)ctx;
    nxt_must((peer < SIZE) && (why != NULL));
}

static nx_life is_alive(void *ctx, uint32_t rank)
{
    (void)ctx;
    nxt_must(rank < SIZE);
    return NX_LIFE_ALIVE;
}

static void check_others(uint32_t self, const uint8_t *frame, size_t len)
{
    static const nx_rbcast_ops rbcast_ops = {
        .send = ignore_send, .learned = ignore_learned, .life = is_alive};
    static const nx_detector_ops detector_ops = {
        .send = ignore_send, .dead = ignore_why, .zombie = ignore_peer, .outcast = ignore_why};
    const nx_membership_config mc = {.slots = SIZE, .self = self};
    nx_detector_config config = {.size = SIZE, .self = self, .interval_ns = 1, .timeout_ns = 2};
    const uint32_t from = (self + 1) % SIZE;
    uint8_t reply[NX_CONSENSUS_UNEXPECTED_MAX];
    size_t reply_len;
    nx_membership *members;
    nx_rbcast *rbcast;
    nx_detector *detector;

    nxt_must(nx_membership_create(&members, &mc) == NEXAR_OK);
    config.members = members;
    nxt_must(nx_rbcast_create(&rbcast, COMM, SIZE, self, &rbcast_ops, NULL) == NEXAR_OK);
    nxt_must(nx_detector_create(&detector, &config, &detector_ops, NULL, 0) == NEXAR_OK);
    (void)!nx_rbcast_frame(rbcast, from, frame, len);
    (void)!nx_detector_frame(detector, from, frame, len, 1);
    (void)!nx_detector_frame(detector, (from + 1) % SIZE, "\x44\x01", 2, 1); /* hears this rank */
    (void)!nx_detector_frame(detector, from, frame, len, 1);
    nx_detector_tick(detector, 2);
    (void)nx_consensus_unexpected(frame, len, reply, &reply_len);
    nxt_must(reply_len <= sizeof(reply));
    nx_rbcast_destroy(rbcast);
    nx_detector_destroy(detector);
    nx_membership_destroy(members);
}

static void run_frames(nx_consensus *a, nx_reader *r, stage *s)
{
    while ((s->forgotten == 0) && (nx_reader_left(r) > 3)) {
        const uint32_t from = nx_read_u8(r);
        const size_t want = nx_read_u16(r), left = nx_reader_left(r);
        const size_t len = (want < left) ? want : left;
        const uint8_t *frame = nx_read_bytes(r, len);

        check_codec(frame, len, s);
        check_others(s->self, frame, len);
        if (from >= 0x80) {
            nx_consensus_failed(a, from & 0x7f);
        }
        (void)!nx_consensus_frame(a, from & 0x7f, frame, len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);
    const uint8_t how = nx_read_u8(&r);
    const bool majority = (how & 0x20) != 0;
    const nx_consensus_config config = {.comm = COMM,
                                        .size = SIZE,
                                        .self = how & 3,
                                        .quorum = majority ? NX_QUORUM_MAJORITY : NX_QUORUM_NONE,
                                        .early = ((how & 8) != 0) && !majority,
                                        .fanout = 2,
                                        .payload_max = PAYLOAD};
    const nx_consensus_input input = {.flags = 5, .payload = "x", .payload_len = 1};
    stage s = {.self = config.self};
    nx_consensus *a;

    nxt_must((nx_rankset_init(&s.dead, SIZE) == NEXAR_OK) &&
             (nx_rankset_init(&s.left, SIZE) == NEXAR_OK) &&
             (nx_consensus_value_init(&s.value, SIZE, PAYLOAD) == NEXAR_OK));
    nxt_must(nx_consensus_create(&a, &config, &ops, &s) == NEXAR_OK);
    if ((how & 4) != 0) {
        nxt_must(nx_consensus_start(a, &input) == NEXAR_OK);
    } else if ((how & 0x10) != 0) {
        nx_consensus_close(a);
    }
    run_frames(a, &r, &s);
    nxt_must((s.decided <= 1) && (s.ended <= 1) && (s.forgotten <= 1));
    nx_consensus_destroy(a);
    nx_rankset_fini(&s.dead);
    nx_rankset_fini(&s.left);
    nx_consensus_value_fini(&s.value);
    return 0;
}
