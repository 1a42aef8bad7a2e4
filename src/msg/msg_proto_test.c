/*
 * msg_proto_test.c - a peer that breaks the protocol loses its link, with a reason, and harms no
 * other peer; and bytes in any permitted order are accepted.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "fake_net.h"
#include "msg/matching/envelope.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};

enum { POOL = 3 * NX_CLASSES * 20000, WINDOW = 20000, INLINE = 1000, EAGER = 4096 };

static int downs;
static nexar_err down_err;
static char down_why[256];

static void on_peer_down(nxt_net *net, uint32_t node, uint32_t peer, nexar_err err, const char *why)
{
    (void)net;
    if ((node == 1) && (peer == 0)) {
        downs++;
        down_err = err;
        (void)snprintf(down_why, sizeof(down_why), "%s", why);
    }
}

static void send(nxt_net *net, nx_req *r, uint32_t from, uint32_t to, uint64_t tag,
                 const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};

    *r = (nx_req){0};
    nx_msg_send(nxt_net_msg(net, from), r, to, user, tag, &bytes, 1);
}

static void recv(nxt_net *net, nx_req *r, uint32_t at, uint32_t from, uint64_t tag, void *data,
                 size_t room)
{
    nx_iov_span span = {.ptr = data, .len = room};

    *r = (nx_req){0};
    nx_msg_recv(nxt_net_msg(net, at), r, from, user, tag,
                &(nx_sink){.iov = &span, .niov = 1, .room = room});
}

/* Node 0 violates the protocol towards node 1, after the HELLO frames. */
static nxt_net *make(void)
{
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 3,
                                                    .pool = POOL,
                                                    .inline_max = INLINE,
                                                    .eager_max = EAGER,
                                                    .on_peer_down = on_peer_down});

    assert_non_null(net);
    downs = 0;
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 1, "\x40", 1), NEXAR_OK);
    nxt_net_run(net);
    return net;
}

static void say(nxt_net *net, const nx_frame *f)
{
    uint8_t data[NX_MSG_FRAME_ROOM];
    size_t len = nx_frame_encode(f, data);

    nxt_net_inject_frame(net, 1, 0, (f->type < NX_FRAME_HELLO) ? NX_LANE_MESSAGE : NX_LANE_CONTROL,
                         data, len);
}

static nx_frame announce(uint64_t number, uint64_t length, uint64_t eager)
{
    return (nx_frame){.type = NX_FRAME_LONG,
                      .context = user,
                      .tag = 5,
                      .id = nx_id_make(number, NX_CLASS_USER),
                      .length = length,
                      .eager = eager};
}

static void data(nxt_net *net, uint64_t number, uint64_t off, size_t len)
{
    static const uint8_t zeros[1 << 16];

    nxt_net_inject_data(net, 1, 0, nx_id_make(number, NX_CLASS_USER), off, zeros, len);
}

/* Expects that the link has failed for |why|, while node 1 continues with node 2 and with
 * itself. */
static void expect_end(nxt_net *net, const char *why)
{
    char in[4] = "";
    nx_req s, r;

    if ((downs != 1) || (down_err != NEXAR_EPROTO) || (strstr(down_why, why) == NULL)) {
        fail_msg("downs %d, error %d, \"%s\" for \"%s\"", downs, down_err, down_why, why);
    }
    send(net, &s, 1, 0, 1, "x", 1);
    assert_true(s.done && (s.err == NEXAR_EPROTO) && (strstr(s.why, why) != NULL));
    recv(net, &r, 1, 2, 1, in, 4);
    send(net, &s, 2, 1, 1, "ok", 2);
    nxt_net_run(net);
    assert_true(r.done && (r.err == NEXAR_OK) && (strcmp(in, "ok") == 0));
    nxt_net_destroy(net);
}

/* ---- frames that cannot be ----------------------------------------------------------- */

static void test_garbage_ends_the_link(void **state)
{
    (void)state;
    for (int lane = 0; lane < NX_LANES; lane++) {
        for (unsigned type = 0; type < NX_FRAME_OTHER; type++) {
            uint8_t junk[40];
            nxt_net *net = make();

            memset(junk, 0xff, sizeof(junk));
            junk[0] = (uint8_t)type;
            nxt_net_inject_frame(net, 1, 0, (nx_lane)lane, junk, sizeof(junk));
            expect_end(net, "it ");
        }
    }
}

static void test_an_empty_frame_ends_the_link(void **state)
{
    nxt_net *net = make();

    (void)state;
    nxt_net_inject_frame(net, 1, 0, NX_LANE_CONTROL, "", 0);
    expect_end(net, "truncated");
}

static void test_frames_in_a_wrong_state_end_the_link(void **state)
{
    nx_frame greeting = {.type = NX_FRAME_HELLO, .window = {1 << 20, 1 << 20, 1 << 20, 1 << 20}};
    nx_frame less = {.type = NX_FRAME_CREDIT, .limit = 10};
    nx_frame clear = {.type = NX_FRAME_CLEAR, .id = nx_id_make(1, NX_CLASS_USER), .limit = 1};
    nx_frame stalled = {.type = NX_FRAME_STALLED, .limit = WINDOW + 1};
    nx_frame unwant = {.type = NX_FRAME_UNWANT, .limit = 1};
    nx_frame unasked = {.type = NX_FRAME_UNASKED, .limit = 0};
    nx_frame putback = {.type = NX_FRAME_PUTBACK, .id = nx_id_make(1, NX_CLASS_USER)};
    nx_frame retract = {.type = NX_FRAME_RETRACT, .id = nx_id_make(1, NX_CLASS_USER)};
    nx_frame pulled = {.type = NX_FRAME_PULLED, .id = nx_id_make(1, NX_CLASS_USER), .length = 5};
    const struct {
        const nx_frame *frame;
        const char *why;
    } cases[] = {
        {&greeting, "HELLO twice"},    {&less, "lowered a limit"},
        {&clear, "was not sent"},      {&stalled, "unknown limit"},
        {&unwant, "more WANTs"},       {&unasked, "withdrew more WANTs"},
        {&putback, "had not fetched"}, {&retract, "had not sent"},
        {&pulled, "answered a WANT"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nxt_net *net = make();

        say(net, cases[i].frame);
        expect_end(net, cases[i].why);
    }
}

static void test_the_first_frame_must_be_hello(void **state)
{
    nx_frame credit = {.type = NX_FRAME_CREDIT, .limit = 1 << 20};
    uint8_t frame[NX_MSG_FRAME_ROOM];
    nxt_net *net =
        nxt_net_create(&(nxt_net_config){.nodes = 3, .pool = POOL, .on_peer_down = on_peer_down});
    nx_req s;

    (void)state;
    assert_non_null(net);
    downs = 0;
    send(net, &s, 1, 0, 1, "", 0); /* makes the link; nothing has returned */
    nxt_net_inject_frame(net, 1, 0, NX_LANE_CONTROL, frame, nx_frame_encode(&credit, frame));
    expect_end(net, "not HELLO");
}

/* ---- limits exceeded ----------------------------------------------------------------- */

static void test_more_messages_than_the_credit_end_the_link(void **state)
{
    nx_frame f = {.type = NX_FRAME_INLINE, .context = user, .tag = 1};
    nxt_net *net = make();
    nx_msg_stats stats;

    (void)state;
    for (int i = 0; i < WINDOW / NX_ENVELOPE_COST; i++) {
        say(net, &f);
        assert_int_equal(downs, 0);
    }
    say(net, &f);
    nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
    assert_true(stats.pool_peak <= WINDOW);
    expect_end(net, "credit");
}

static void test_more_eager_bytes_than_the_credit_end_the_link(void **state)
{
    nx_frame f = announce(1, NX_WIRE_MAX, 1 << 20);
    nxt_net *net = make();

    (void)state;
    say(net, &f);
    expect_end(net, "credit");
    net = make();
    for (int i = 0; (i < 100) && (downs == 0); i++) { /* of bytes before their envelope */
        data(net, 1, (uint64_t)i * 1000, 1000);
    }
    expect_end(net, "credit");
    net = make();
    for (uint64_t i = 1; (i < 1000) && (downs == 0); i++) { /* one of each of many */
        data(net, i, 0, 1);
    }
    expect_end(net, "it sent");
}

static void test_unrequested_bytes_end_the_link(void **state)
{
    nx_frame f = announce(1, 10000, 1024);
    nxt_net *net = make();
    nx_msg_stats stats;

    (void)state;
    say(net, &f);
    data(net, 1, 0, 1024);
    data(net, 1, 1024, 1);
    nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
    assert_int_equal(stats.unexpected, 1); /* broken, but a receive shall report it */
    expect_end(net, "not requested");
    net = make();
    say(net, &f);
    data(net, 1, 16, 16); /* a hole */
    expect_end(net, "not requested");
}

static void test_bytes_twice_or_beyond_end_the_link_and_the_receive(void **state)
{
    const struct {
        uint64_t off;
        size_t len;
    } bad[] = {{0, 10}, {1025, 10}, {1024, 8977}, {9999, 2}, {20000, 1}, {UINT64_MAX, 1}};
    static uint8_t in[10000];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        nx_frame f = announce(1, 10000, 1024);
        nxt_net *net = make();
        nx_req r;

        recv(net, &r, 1, 0, 5, in, sizeof(in));
        say(net, &f);
        data(net, 1, 0, 1024);
        assert_false(r.done);
        data(net, 1, bad[i].off, bad[i].len);
        assert_true(r.done && (r.err == NEXAR_EPROTO));
        expect_end(net, "twice or out of order");
    }
}

static void test_numbers_with_gaps_end_the_link(void **state)
{
    nx_frame f = announce(2, 100, 0), again = announce(1, 100, 0);
    nxt_net *net = make();

    (void)state;
    say(net, &f);
    expect_end(net, "not consecutive");
    net = make();
    say(net, &again);
    assert_int_equal(downs, 0);
    say(net, &again);
    expect_end(net, "not consecutive");
    net = make();
    data(net, 1000000, 0, 1);
    expect_end(net, "invalid id");
}

static void test_fewer_eager_bytes_than_came_end_the_link(void **state)
{
    nx_frame f = announce(1, 100, 16);
    nxt_net *net = make();

    (void)state;
    data(net, 1, 0, 17);
    assert_int_equal(downs, 0);
    say(net, &f);
    expect_end(net, "more bytes unasked");
}

static void test_a_clear_beyond_the_end_ends_the_link(void **state)
{
    static uint8_t out[50000];
    nx_frame clear = {.type = NX_FRAME_CLEAR, .limit = 50001};
    nxt_net *net = make();
    nx_req s;

    (void)state;
    send(net, &s, 1, 0, 5, out, sizeof(out));
    clear.id = s.send.id;
    say(net, &clear);
    nxt_net_run(net); /* the transport lets go of the eager part */
    assert_true(s.done && (s.err == NEXAR_EPROTO));
    expect_end(net, "beyond the end");
}

static void test_too_many_wants_end_the_link(void **state)
{
    static nx_req sends[200];
    nx_frame want = {.type = NX_FRAME_WANT, .context = user, .tag = 99};
    nxt_net *net = make();

    (void)state;
    for (int i = 0; i < 200; i++) { /* more than node 0 lets in */
        send(net, &sends[i], 1, 0, 5, "x", 1);
    }
    for (int i = 0; (i < 5000) && (downs == 0); i++) {
        say(net, &want);
    }
    expect_end(net, "more WANTs than allowed");
}

/* ---- what is allowed ----------------------------------------------------------------- */

static void test_bytes_may_come_before_their_envelope(void **state)
{
    static uint8_t in[4096];
    nx_msg_stats stats;

    (void)state;
    for (int posted = 0; posted < 2; posted++) {
        nx_frame first = announce(1, 2048, 2048), second = announce(2, 100, 100);
        nxt_net *net = make();
        nx_req r[2];

        for (int i = 0; posted && (i < 2); i++) {
            recv(net, &r[i], 1, 0, 5, in, sizeof(in));
        }
        data(net, 2, 0, 60);
        data(net, 1, 0, 1000);
        data(net, 2, 60, 40);
        say(net, &first);
        data(net, 1, 1000, 1048);
        say(net, &second);
        for (int i = 0; !posted && (i < 2); i++) {
            recv(net, &r[i], 1, 0, 5, in, sizeof(in));
        }
        assert_true(r[0].done && (r[0].bytes == 2048) && r[1].done && (r[1].bytes == 100));
        nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
        assert_int_equal(stats.pool_used, 0);
        assert_int_equal(downs, 0);
        nxt_net_destroy(net);
    }
}

static void test_bytes_of_a_message_that_was_taken_back_are_dropped(void **state)
{
    nx_frame f = announce(1, 10000, 1024),
             retract = {.type = NX_FRAME_RETRACT, .id = nx_id_make(1, NX_CLASS_USER)};
    nxt_net *net = make();
    nx_msg_stats stats;

    (void)state;
    say(net, &f);
    data(net, 1, 0, 100);
    say(net, &retract);
    data(net, 1, 100, 100);
    say(net, &retract);
    nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
    assert_true((stats.pool_used == 0) && (stats.unexpected == 0) && (downs == 0));
    nxt_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_ends_the_link),
        cmocka_unit_test(test_an_empty_frame_ends_the_link),
        cmocka_unit_test(test_frames_in_a_wrong_state_end_the_link),
        cmocka_unit_test(test_the_first_frame_must_be_hello),
        cmocka_unit_test(test_more_messages_than_the_credit_end_the_link),
        cmocka_unit_test(test_more_eager_bytes_than_the_credit_end_the_link),
        cmocka_unit_test(test_unrequested_bytes_end_the_link),
        cmocka_unit_test(test_bytes_twice_or_beyond_end_the_link_and_the_receive),
        cmocka_unit_test(test_numbers_with_gaps_end_the_link),
        cmocka_unit_test(test_fewer_eager_bytes_than_came_end_the_link),
        cmocka_unit_test(test_a_clear_beyond_the_end_ends_the_link),
        cmocka_unit_test(test_too_many_wants_end_the_link),
        cmocka_unit_test(test_bytes_may_come_before_their_envelope),
        cmocka_unit_test(test_bytes_of_a_message_that_was_taken_back_are_dropped),
    };

    nx_log_set_level(NX_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
