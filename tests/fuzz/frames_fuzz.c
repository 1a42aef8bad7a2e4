/*
 * frames_fuzz.c - frames of a seed to a joiner in a given phase.
 *
 * The first byte is the phase: connected, welcomed, in the world, in the world after a reconnect.
 * Frames follow, each after a length of two bytes.  The joiner must not crash, and its view must be
 * complete.
 */
#include <string.h>

#include "cluster/addresses.h"
#include "cluster/join/join_state.h"
#include "fuzz.h"

static void on_dial(void *ctx)
{
    (void)ctx;
}

static void on_send(void *ctx, const void *frame, size_t len)
{
    (void)ctx;
    nxt_must((frame != NULL) && (len > 0) && (len <= NX_FRAME_MAX));
}

static nexar_err on_adopt(void *ctx, const nx_welcome *welcome)
{
    (void)ctx;
    nxt_must(welcome->member != 0);
    return NEXAR_OK;
}

static void on_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    (void)ctx;
    (void)member;
    nxt_must(how < NX_FAREWELLS);
}

static const nx_join_ops ops = {
    .dial = on_dial, .send = on_send, .adopt = on_adopt, .farewell = on_farewell};

static void say(nx_join_state *s, const nx_writer *w)
{
    nxt_must(!w->failed);
    nx_join_state_frame(s, w->data, w->len, 2);
}

static void welcome(nx_join_state *s)
{
    const nx_welcome f = {.member = 5, .standing = {.lasting = true, .world_size = 1}};
    uint8_t frame[256];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_welcome_encode(&w, &f);
    say(s, &w);
}

static void form(nx_join_state *s, const nx_member *self)
{
    uint8_t bytes[512], frame[600];
    nx_view *view = nx_view_create(1);
    nx_writer w = nx_writer_make(bytes, sizeof(bytes)), f = nx_writer_make(frame, sizeof(frame));

    nxt_must(view != NULL);
    view->epoch = 1;
    view->slots = 1;
    view->members[0] = *self;
    view->members[0].id = 5;
    view->members[0].rank = 0;
    nx_view_encode(&w, view);
    nx_view_destroy(view);
    nx_view_piece_encode(
        &f, &(nx_view_piece){.epoch = 1, .total = (uint32_t)w.len, .data = bytes, .len = w.len});
    say(s, &f);
    f = nx_writer_make(frame, sizeof(frame));
    nx_start_encode(&f, 1);
    say(s, &f);
    nxt_must(nx_join_state_phase(s) == NX_JOIN_FORMED);
}

static void begin(nx_join_state *s, unsigned far, const nx_member *self)
{
    const uint8_t exporter[32] = {9};

    nx_join_state_connected(s, exporter, 1);
    if (far >= 1) {
        welcome(s);
    }
    if (far >= 2) {
        form(s, self);
    }
    if (far >= 3) {
        nx_join_state_closed(s, NEXAR_ECONNECT, false, "x", 2);
        nx_join_state_connected(s, exporter, 2);
    }
}

static void check(const nx_join_state *s)
{
    const nx_join_queue *waiting = nx_join_state_waiting(s);
    uint32_t rank = 0;
    const nx_view *view = nx_join_state_view(s, &rank);

    nxt_must((view == NULL) || (view->members[rank].id == 5));
    for (uint32_t i = 0; i < waiting->n; i++) {
        nxt_must(waiting->list[i].id > ((i == 0) ? 0 : waiting->list[i - 1].id));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_random_seeded random;
    nx_join_rules rules = {.csr = {.len = 1}, .seed = "x"};
    nx_reader r = nx_reader_make(data, size);
    const unsigned far = nx_read_u8(&r) % 4;
    nx_join_state *s = NULL;

    nx_random_seeded_init(&random, 1);
    rules.random = &random.random;
    rules.hello.self.rank = NX_RANK_ANY;
    rules.hello.self.naddresses = 1;
    nxt_must(nx_address_parse("10.0.0.1:5", 0, &rules.hello.self.addresses[0]) == NEXAR_OK);
    nxt_must(nx_join_state_create(&s, &rules, &ops, NULL, 1) == NEXAR_OK);
    begin(s, far, &rules.hello.self);
    while (nx_reader_left(&r) > 0) {
        const size_t want = nx_read_u16(&r), left = nx_reader_left(&r);
        const size_t len = (want < left) ? want : left;

        nx_join_state_frame(s, nx_read_bytes(&r, len), len, 3);
        check(s);
    }
    nx_join_state_destroy(s);
    return 0;
}
