/* msg_test.c - the guarantees of messages, one per test, over links that use every liberty of the
 * contract. */
#include "msg/msg.h"

#include <stdlib.h>
#include <string.h>

#include "fake_net.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};
static const nx_context coll = {.comm = 1, .kind = 2, .class = NX_CLASS_COLL};

enum { POOL = 1 << 20, INLINE = NXT_NET_INLINE, EAGER = NXT_NET_EAGER, BIG = 100000 };

static nxt_net *make(uint32_t nodes, uint64_t seed)
{
    return nxt_net_plain(nodes, seed, POOL);
}

/* ---- the path of a message ----------------------------------------------------------- */

static const size_t sizes[] = {0,          1,          31,         32,        33,
                               INLINE - 1, INLINE,     INLINE + 1, EAGER - 1, EAGER,
                               EAGER + 1,  EAGER + 17, 2 * EAGER,  BIG};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void test_messages_of_every_size_arrive_whole_and_in_order(void **state)
{
    static uint8_t out[SIZES][BIG], in[SIZES][BIG];

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        nxt_net *net = make(2, seed);
        nx_req s[SIZES], r[SIZES];

        for (size_t i = 0; i < SIZES; i++) {
            nxt_net_fill(out[i], sizes[i], (unsigned)i);
            memset(in[i], 0, BIG);
            if (seed % 2 == 0) {
                nxt_recv(net, &r[i], (nxt_way){1, 0}, user, 5, in[i], BIG);
            }
        }
        for (size_t i = 0; i < SIZES; i++) {
            nxt_send(net, &s[i], (nxt_way){0, 1}, user, 5, out[i], sizes[i]);
        }
        nxt_net_run(net);
        for (size_t i = 0; (seed % 2 != 0) && (i < SIZES); i++) {
            nxt_recv(net, &r[i], (nxt_way){1, (seed % 3) ? 0 : NX_ANY_PEER}, user,
                     (seed % 5) ? 5 : NX_ANY_TAG, in[i], BIG);
        }
        nxt_net_run(net);
        for (size_t i = 0; i < SIZES; i++) {
            assert_true(s[i].done && (s[i].err == NEXAR_OK));
            assert_true(r[i].done && (r[i].err == NEXAR_OK));
            assert_true((r[i].peer == 0) && (r[i].tag == 5) && (r[i].bytes == sizes[i]));
            assert_memory_equal(in[i], out[i], sizes[i]);
        }
        nxt_net_destroy(net);
    }
}

static void test_a_short_message_is_done_when_the_call_returns(void **state)
{
    nxt_net *net = make(2, 1);
    nx_req s;

    (void)state;
    nxt_send(net, &s, (nxt_way){0, 1}, user, 1, "12345678", 8);
    assert_true(s.done && (s.err == NEXAR_OK));
    nxt_net_destroy(net);
}

/* The link's limit applies if permitted; the limit is never less than the setting. */
static void test_a_link_sets_the_limit_of_short_messages(void **state)
{
    static uint8_t out[EAGER], in[EAGER];

    (void)state;
    nxt_net_fill(out, EAGER, 5);
    for (int way = 0; way < 4; way++) {
        const uint32_t best = (way < 2) ? 4 * INLINE : INLINE / 2;
        const size_t most = (way == 1) ? best : INLINE;
        nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 2,
                                                        .pool = POOL,
                                                        .inline_max = INLINE,
                                                        .inline_auto = (way % 2 == 1),
                                                        .frame_best = best,
                                                        .eager_max = EAGER});
        nx_req s, r;

        assert_non_null(net);
        assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 1, "\x40", 1), NEXAR_OK);
        nxt_net_run(net);
        for (size_t len = most; len <= most + 1; len++) {
            nxt_send(net, &s, (nxt_way){0, 1}, user, 3, out, len);
            assert_int_equal(s.done, len == most);
            nxt_recv(net, &r, (nxt_way){1, 0}, user, 3, in, EAGER);
            nxt_net_run(net);
            assert_true(s.done && r.done && (r.bytes == len));
            assert_memory_equal(in, out, len);
        }
        nxt_net_destroy(net);
    }
}

/* The eager part of a long message for a posted receive is in flight before the receiver has sent
 * anything. */
static void test_a_posted_receive_costs_no_round_trip(void **state)
{
    static uint8_t out[EAGER], in[EAGER];
    nxt_net *net = make(2, 2);
    nx_msg_stats stats;
    nx_req s, r;
    uint64_t frames;

    (void)state;
    nxt_send(net, &s, (nxt_way){0, 1}, user, 1, "", 0); /* greetings are exchanged */
    nxt_net_run(net);
    nxt_recv(net, &r, (nxt_way){1, 0}, user, 2, in, EAGER);
    frames = nxt_net_frames(net, 1, 0, NX_LANE_CONTROL);
    nxt_send(net, &s, (nxt_way){0, 1}, user, 2, out, EAGER);
    nxt_net_run(net);
    assert_true(r.done && s.done);
    assert_int_equal(nxt_net_frames(net, 1, 0, NX_LANE_CONTROL), frames);
    nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
    assert_true((stats.copied == 0) && (stats.delivered == EAGER)); /* directly to the buffer */
    nxt_net_destroy(net);
}

static void test_a_message_with_another_tag_waits_for_its_own_receive(void **state)
{
    nxt_net *net = make(2, 3);
    nx_req s[2], r[2];
    char in[2][4] = {"", ""};

    (void)state;
    nxt_recv(net, &r[0], (nxt_way){1, 0}, user, 7, in[0], 4);
    nxt_send(net, &s[0], (nxt_way){0, 1}, user, 8, "b", 1);
    nxt_send(net, &s[1], (nxt_way){0, 1}, user, 7, "a", 1);
    nxt_net_run(net);
    assert_true(r[0].done && (in[0][0] == 'a'));
    nxt_recv(net, &r[1], (nxt_way){1, 0}, user, 8, in[1], 4);
    assert_true(r[1].done && (in[1][0] == 'b'));
    nxt_net_destroy(net);
}

static void test_messages_of_different_contexts_never_meet(void **state)
{
    nx_context other_comm = user, other_kind = user;
    nxt_net *net = make(2, 4);
    nx_req s, r[4];
    char in[4] = "";

    (void)state;
    other_comm.comm++;
    other_kind.kind++;
    nxt_recv(net, &r[0], (nxt_way){1, NX_ANY_PEER}, other_comm, NX_ANY_TAG, in, 4);
    nxt_recv(net, &r[1], (nxt_way){1, NX_ANY_PEER}, other_kind, NX_ANY_TAG, in, 4);
    nxt_recv(net, &r[2], (nxt_way){1, NX_ANY_PEER}, coll, NX_ANY_TAG, in, 4);
    nxt_send(net, &s, (nxt_way){0, 1}, user, 7, "a", 1);
    nxt_net_run(net);
    assert_false(r[0].done || r[1].done || r[2].done);
    nxt_recv(net, &r[3], (nxt_way){1, 0}, user, 7, in, 4);
    assert_true(r[3].done);
    nxt_net_destroy(net);
}

static void test_scattered_memory_is_one_message(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    nxt_net_fill(out, BIG, 3);
    for (uint64_t seed = 0; seed < 30; seed++) {
        nx_random_seeded random;
        nx_bytes bytes[20];
        nx_iov_span spans[20];
        size_t n = 2 + seed % 19, at = 0, most;
        nxt_net *net = make(2, seed);
        nx_req s = {0}, r = {0}, greet;

        nxt_send(net, &greet, (nxt_way){0, 1}, user, 1, "", 0);
        nxt_net_run(net);
        nx_random_seeded_init(&random, seed);
        most = (seed % 3 == 0) ? 40 : (seed % 3 == 1) ? 900 : 5000;
        memset(in, 0, BIG);
        for (size_t i = 0; i < n; i++) {
            bytes[i].ptr = out + at;
            bytes[i].len = (size_t)nx_random_below(&random.random, most);
            at += bytes[i].len;
        }
        for (size_t i = 0, to = 0; i < n; i++) { /* other pieces, with the same sum */
            spans[i].ptr = in + to;
            spans[i].len = (i + 1 < n) ? (at - to) / 3 : at - to;
            to += spans[i].len;
        }
        nx_msg_send(nxt_net_msg(net, 0), &s, 1, user, 9, bytes, n);
        if (seed % 2) {
            nxt_net_run(net);
        }
        nx_msg_recv(nxt_net_msg(net, 1), &r, 0, user, 9,
                    &(nx_sink){.iov = spans, .niov = n, .room = at});
        nxt_net_run(net);
        assert_true(s.done && r.done && (r.err == NEXAR_OK) && (r.bytes == at));
        assert_memory_equal(in, out, at);
        nxt_net_destroy(net);
    }
}

/* 5 GiB, made of one mebibyte repeated. */
static void count_bytes(void *ctx, uint64_t off, const void *data, size_t len)
{
    const uint8_t *p = data;

    assert_true(p[0] == (uint8_t)((off & 0xfffff) / 4096));
    *(uint64_t *)ctx += len;
}

static void test_a_message_above_4_GiB_arrives_whole(void **state)
{
    enum { MIB = 1 << 20, MANY = 5 << 10 };
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 2,
                                                    .pool = POOL,
                                                    .inline_max = INLINE,
                                                    .eager_max = EAGER,
                                                    .fragment_max = 4096,
                                                    .plain = true});
    uint8_t *data = test_malloc(MIB);
    nx_bytes *bytes = test_calloc(MANY, sizeof(*bytes));
    nx_req s = {0}, r = {0};
    uint64_t got = 0;

    (void)state;
    assert_true((net != NULL) && (data != NULL) && (bytes != NULL));
    for (size_t i = 0; i < MIB; i++) {
        data[i] = (uint8_t)(i / 4096);
    }
    for (size_t i = 0; i < MANY; i++) {
        bytes[i] = (nx_bytes){.ptr = data, .len = MIB};
    }
    nx_msg_send(nxt_net_msg(net, 0), &s, 1, user, 1, bytes, MANY);
    nx_msg_recv(nxt_net_msg(net, 1), &r, 0, user, 1,
                &(nx_sink){.take = count_bytes, .ctx = &got, .unit = 16, .room = UINT64_MAX});
    nxt_net_run(net);
    assert_true(s.done && r.done && (r.err == NEXAR_OK));
    assert_true((r.bytes == (uint64_t)MANY * MIB) && (got == r.bytes));
    nxt_net_destroy(net);
    test_free(bytes);
    test_free(data);
}

/* ---- sinks --------------------------------------------------------------------------- */

typedef struct sum {
    uint64_t values[BIG / 8];
} sum;

static void add(void *ctx, uint64_t off, const void *data, size_t len)
{
    sum *s = ctx;

    assert_true((off % 8 == 0) && (len % 8 == 0));
    for (size_t i = 0; i < len / 8; i++) {
        uint64_t v;

        memcpy(&v, (const uint8_t *)data + 8 * i, 8);
        s->values[off / 8 + i] += v;
    }
}

static void test_a_reducer_adds_every_element_once(void **state)
{
    static uint64_t out[BIG / 8];
    static sum s;

    (void)state;
    for (size_t i = 0; i < BIG / 8; i++) {
        out[i] = i * UINT64_C(0x9e3779b97f4a7c15);
    }
    for (uint64_t seed = 0; seed < 20; seed++) {
        nxt_net *net = make(3, seed);
        nx_req sends[2], recvs[2] = {{0}, {0}};

        memset(&s, 0, sizeof(s));
        for (uint32_t p = 0; p < 2; p++) {
            nx_sink sink = {.take = add, .ctx = &s, .unit = 8, .room = sizeof(out)};

            nxt_send(net, &sends[p], (nxt_way){p, 2}, coll, 4, out, sizeof(out));
            if (seed % 2) {
                nxt_net_run(net);
            }
            nx_msg_recv(nxt_net_msg(net, 2), &recvs[p], p, coll, 4, &sink);
        }
        nxt_net_run(net);
        assert_true(recvs[0].done && recvs[1].done);
        for (size_t i = 0; i < BIG / 8; i++) {
            assert_true(s.values[i] == 2 * out[i]);
        }
        nxt_net_destroy(net);
    }
}

static void test_a_message_that_ends_inside_a_unit_is_a_mismatch(void **state)
{
    static sum s;
    nxt_net *net = make(2, 5);
    nx_req sent, r = {0};

    (void)state;
    nx_msg_recv(nxt_net_msg(net, 1), &r, 0, coll, 4,
                &(nx_sink){.take = add, .ctx = &s, .unit = 8, .room = 800});
    nxt_send(net, &sent, (nxt_way){0, 1}, coll, 4, "123456789", 9);
    nxt_net_run(net);
    assert_true(r.done && (r.err == NEXAR_EMISMATCH) && (r.bytes == 9));
    nxt_net_destroy(net);
}

static void test_a_truncated_message_reports_its_length(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    nxt_net_fill(out, BIG, 9);
    for (uint64_t seed = 0; seed < 60; seed++) {
        static const size_t rooms[] = {0, 1, 500, 5000, EAGER, 50000};
        size_t room = rooms[seed % 6], len = sizes[8 + seed % 6];
        nxt_net *net = make(2, seed);
        nx_req s[2], r[2];

        if (room >= len) {
            nxt_net_destroy(net);
            continue;
        }
        memset(in, 0xcc, BIG);
        if (seed % 2) {
            nxt_recv(net, &r[0], (nxt_way){1, 0}, user, 1, in, room);
        }
        nxt_send(net, &s[0], (nxt_way){0, 1}, user, 1, out, len);
        nxt_send(net, &s[1], (nxt_way){0, 1}, user, 1, "next", 4);
        nxt_net_run(net);
        if (seed % 2 == 0) {
            nxt_recv(net, &r[0], (nxt_way){1, 0}, user, 1, in, room);
        }
        nxt_net_run(net);
        assert_true(s[0].done && (s[0].err == NEXAR_OK));
        assert_true(r[0].done && (r[0].err == NEXAR_ETRUNC) && (r[0].bytes == len));
        assert_non_null(strstr(r[0].why, "room for"));
        assert_memory_equal(in, out, room);
        assert_int_equal(in[room], 0xcc);
        nxt_recv(net, &r[1], (nxt_way){1, 0}, user, 1, in, 4);
        nxt_net_run(net);
        assert_true(r[1].done && (r[1].err == NEXAR_OK) && (memcmp(in, "next", 4) == 0));
        /* Bytes beyond the receiver's room were not even sent. */
        assert_true(nxt_net_part_bytes(net, 0, 1) <= ((room > EAGER) ? room : EAGER) + 4);
        nxt_net_destroy(net);
    }
}

/* ---- to the own rank ----------------------------------------------------------------- */

static void test_messages_to_oneself_arrive_posted_or_not(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    nxt_net_fill(out, BIG, 1);
    for (size_t i = 0; i < SIZES; i++) {
        nxt_net *net = make(1, i);
        nx_msg_stats stats;
        nx_req s[2], r[2], first;

        nxt_recv(net, &r[0], (nxt_way){0, 0}, user, 3, in, BIG);
        nxt_send(net, &s[0], (nxt_way){0, 0}, user, 3, out, sizes[i]);
        assert_true(s[0].done && r[0].done && (r[0].bytes == sizes[i]) && (r[0].peer == 0));
        assert_memory_equal(in, out, sizes[i]);
        memset(in, 0, BIG);
        nxt_send(net, &first, (nxt_way){0, 0}, user, 3, "x", 1);
        nxt_send(net, &s[1], (nxt_way){0, 0}, user, 3, out, sizes[i]);
        assert_int_equal(s[1].done, sizes[i] <= INLINE);
        nxt_recv(net, &r[1], (nxt_way){0, NX_ANY_PEER}, user, NX_ANY_TAG, in, BIG);
        assert_true(r[1].done && (in[0] == 'x'));
        nxt_recv(net, &r[1], (nxt_way){0, NX_ANY_PEER}, user, NX_ANY_TAG, in, BIG);
        assert_true(s[1].done && r[1].done && (r[1].bytes == sizes[i]));
        assert_memory_equal(in, out, sizes[i]);
        nx_msg_stats_get(nxt_net_msg(net, 0), &stats);
        assert_true((stats.pool_used == 0) && (stats.pool_peak <= POOL));
        nxt_net_destroy(net);
    }
}

static void test_short_messages_to_oneself_beyond_the_pool_wait_by_reference(void **state)
{
    enum { MANY = 2000 };
    static nx_req s[MANY];
    nxt_net *net = make(1, 1);
    nx_msg_stats stats;
    size_t waiting = 0;
    uint8_t in[INLINE];

    (void)state;
    for (size_t i = 0; i < MANY; i++) {
        static const uint8_t out[INLINE];

        nxt_send(net, &s[i], (nxt_way){0, 0}, user, i, out, INLINE);
        waiting += s[i].done ? 0 : 1;
    }
    assert_true((waiting > MANY / 2) && (waiting < MANY));
    nx_msg_stats_get(nxt_net_msg(net, 0), &stats);
    assert_true(stats.pool_peak <= POOL);
    for (size_t i = MANY; i-- > 1;) {
        nx_req r;

        nxt_recv(net, &r, (nxt_way){0, 0}, user, i, in, INLINE);
        assert_true(r.done && s[i].done);
    }
    nxt_net_destroy(net); /* ends the remaining link */
    assert_true(s[0].done);
}

/* ---- probing and cancelling ---------------------------------------------------------- */

static void test_a_probe_tells_of_the_message_and_leaves_it(void **state)
{
    static uint8_t out[BIG], in[BIG];
    nxt_net *net = make(2, 8);
    nx_req s, probe[2] = {{0}, {0}}, r, found;

    (void)state;
    assert_false(nx_msg_iprobe(nxt_net_msg(net, 1), 0, user, 6, &found));
    nx_msg_probe(nxt_net_msg(net, 1), &probe[0], NX_ANY_PEER, user, NX_ANY_TAG);
    assert_false(probe[0].done);
    nxt_send(net, &s, (nxt_way){0, 1}, user, 6, out, BIG);
    nxt_net_run(net);
    assert_true(probe[0].done && (probe[0].peer == 0) && (probe[0].tag == 6));
    assert_int_equal(probe[0].bytes, BIG);
    nx_msg_probe(nxt_net_msg(net, 1), &probe[1], 0, user, 6);
    assert_true(probe[1].done && (probe[1].bytes == BIG));
    assert_true(nx_msg_iprobe(nxt_net_msg(net, 1), NX_ANY_PEER, user, 6, &found));
    assert_true((found.peer == 0) && (found.tag == 6) && (found.bytes == BIG));
    assert_false(s.done);
    nxt_recv(net, &r, (nxt_way){1, 0}, user, 6, in, BIG);
    nxt_net_run(net);
    assert_true(r.done && s.done);
    assert_false(nx_msg_iprobe(nxt_net_msg(net, 1), 0, user, 6, &found));
    nxt_net_destroy(net);
}

static void test_a_receive_that_has_not_matched_can_be_cancelled(void **state)
{
    nxt_net *net = make(2, 9);
    nx_msg *m = nxt_net_msg(net, 1);
    nx_req s, r[2], probe = {0};
    char in[4] = "";

    (void)state;
    nxt_recv(net, &r[0], (nxt_way){1, 0}, user, 1, in, 4);
    nxt_recv(net, &r[1], (nxt_way){1, NX_ANY_PEER}, user, 1, in, 4);
    nx_msg_probe(m, &probe, 0, user, 1);
    assert_true(nx_msg_cancel(m, &r[0]) && nx_msg_cancel(m, &probe));
    assert_true(r[0].done && (r[0].err == NEXAR_ECANCELED) && probe.done);
    nxt_send(net, &s, (nxt_way){0, 1}, user, 1, "a", 1);
    nxt_net_run(net);
    assert_true(r[1].done && (r[1].err == NEXAR_OK));
    assert_true(nx_msg_cancel(m, &r[0]));
    assert_false(nx_msg_cancel(m, &r[1]));
    nxt_net_destroy(net);
}

static void test_a_long_send_can_be_cancelled_until_it_is_asked_for(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        nxt_net *net = make(2, seed);
        nx_req s, r, next;
        nx_msg_stats stats;
        bool cancelled;

        nxt_send(net, &s, (nxt_way){0, 1}, user, 1, out, BIG);
        if (seed % 3 == 0) {
            nxt_recv(net, &r, (nxt_way){1, 0}, user, 1, in, BIG);
        }
        for (uint64_t i = 0; i < seed % 16; i++) {
            (void)nxt_net_step(net);
        }
        cancelled = nx_msg_cancel(nxt_net_msg(net, 0), &s);
        nxt_send(net, &next, (nxt_way){0, 1}, user, 1, "next", 4);
        nxt_net_run(net);
        assert_true(s.done && (s.err == (cancelled ? NEXAR_ECANCELED : NEXAR_OK)));
        if ((seed % 3 == 0) && r.done && (r.err == NEXAR_ECANCELED)) {
            assert_true(cancelled); /* it had matched */
            assert_non_null(strstr(r.why, "cancelled"));
        } else if (seed % 3 == 0) {
            assert_true(r.done && (r.bytes == (cancelled ? 4 : BIG)));
        }
        nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
        assert_true(stats.unexpected <= ((seed % 3 == 0) ? 1 : cancelled ? 1 : 2));
        while (stats.unexpected > 0) {
            nxt_recv(net, &r, (nxt_way){1, 0}, user, 1, in, BIG);
            nxt_net_run(net);
            assert_true(r.done);
            nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
        }
        assert_int_equal(stats.pool_used, 0);
        nxt_net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_of_every_size_arrive_whole_and_in_order),
        cmocka_unit_test(test_a_short_message_is_done_when_the_call_returns),
        cmocka_unit_test(test_a_link_sets_the_limit_of_short_messages),
        cmocka_unit_test(test_a_posted_receive_costs_no_round_trip),
        cmocka_unit_test(test_a_message_with_another_tag_waits_for_its_own_receive),
        cmocka_unit_test(test_messages_of_different_contexts_never_meet),
        cmocka_unit_test(test_scattered_memory_is_one_message),
        cmocka_unit_test(test_a_message_above_4_GiB_arrives_whole),
        cmocka_unit_test(test_a_reducer_adds_every_element_once),
        cmocka_unit_test(test_a_message_that_ends_inside_a_unit_is_a_mismatch),
        cmocka_unit_test(test_a_truncated_message_reports_its_length),
        cmocka_unit_test(test_messages_to_oneself_arrive_posted_or_not),
        cmocka_unit_test(test_short_messages_to_oneself_beyond_the_pool_wait_by_reference),
        cmocka_unit_test(test_a_probe_tells_of_the_message_and_leaves_it),
        cmocka_unit_test(test_a_receive_that_has_not_matched_can_be_cancelled),
        cmocka_unit_test(test_a_long_send_can_be_cancelled_until_it_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
