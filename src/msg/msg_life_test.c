/* msg_life_test.c - callbacks, control frames, closing; the long-term cost of an engine. */
#include "msg/msg.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "fake_net.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};

enum { POOL = 1 << 21, INLINE = NXT_NET_INLINE, EAGER = NXT_NET_EAGER, BIG = 100000 };

static nxt_net *make(uint32_t nodes, uint64_t seed)
{
    return nxt_net_plain(nodes, seed, POOL);
}

/* ---- callbacks ----------------------------------------------------------------------- */

typedef struct chain {
    nx_req req; /* first */
    nxt_net *net;
    int left;
    bool inside;
} chain;

/* Frees its own request and starts the next: of short messages to the own rank, which end in the
 * starting call. */
static void on_chain(nx_req *req)
{
    chain *c = (chain *)(void *)req, *next;
    static char in[8];
    nx_iov_span span = {.ptr = in, .len = 8};
    nx_bytes bytes = {.ptr = "x", .len = 1};

    assert_true(req->done && !c->inside);
    if (c->left > 0) {
        next = test_calloc(1, sizeof(*next));
        assert_non_null(next);
        next->net = c->net;
        next->left = c->left - 1;
        next->inside = true;
        next->req.on_done = on_chain;
        if (next->left % 2) {
            nx_msg_recv(nxt_net_msg(c->net, 0), &next->req, 0, user, 1,
                        &(nx_sink){.iov = &span, .niov = 1, .room = 8});
        } else {
            nx_msg_send(nxt_net_msg(c->net, 0), &next->req, 0, user, 1, &bytes, 1);
        }
        next->inside = false; /* its on_done was not called from inside this one */
    } else {
        *(int *)nxt_net_ctx(c->net) = 1;
    }
    test_free(c);
}

static void test_on_done_may_free_its_request_and_start_others(void **state)
{
    int ended = 0;
    nxt_net *net = nxt_net_create(&(nxt_net_config){
        .nodes = 1, .pool = POOL, .inline_max = INLINE, .eager_max = EAGER, .ctx = &ended});
    chain *first = test_calloc(1, sizeof(*first));

    (void)state;
    assert_true((net != NULL) && (first != NULL));
    first->net = net;
    first->left = 100001;
    first->req.on_done = on_chain;
    nx_msg_send(nxt_net_msg(net, 0), &first->req, 0, user, 1, &(nx_bytes){.ptr = "x", .len = 1}, 1);
    assert_int_equal(ended, 1);
    nxt_net_destroy(net);
}

static void test_an_event_is_set_when_the_request_is_done(void **state)
{
    nxt_net *net = make(2, 1);
    nx_event sent = {0}, got = {0};
    nx_req s = {.event = &sent}, r = {.event = &got};
    char in[4];
    nx_iov_span span = {.ptr = in, .len = 4};

    (void)state;
    nx_msg_recv(nxt_net_msg(net, 1), &r, 0, user, 1,
                &(nx_sink){.iov = &span, .niov = 1, .room = 4});
    nx_msg_send(nxt_net_msg(net, 0), &s, 1, user, 1, &(nx_bytes){.ptr = "ab", .len = 2}, 1);
    assert_true(sent.set && !got.set);
    nxt_net_run(net);
    assert_true(got.set);
    nxt_net_destroy(net);
}

/* ---- control, closing ---------------------------------------------------------------- */

static void on_control(nxt_net *net, uint32_t node, uint32_t peer, const void *data, size_t len)
{
    assert_true((node == 1) && (peer == 0) && (len == 3));
    assert_memory_equal(data, "\x40hi", 3);
    ++*(int *)nxt_net_ctx(net);
}

static void test_frames_of_others_pass_on_the_control_lane(void **state)
{
    int seen = 0;
    nxt_net *net = nxt_net_create(
        &(nxt_net_config){.nodes = 2, .pool = POOL, .on_control = on_control, .ctx = &seen});

    (void)state;
    assert_non_null(net);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 1, "\x40hi", 3), NEXAR_OK);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 1, "\x3fhi", 3), NEXAR_EINVAL);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 0, "\x40hi", 3), NEXAR_EINVAL);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), 1, "", 0), NEXAR_EINVAL);
    nxt_net_run(net);
    assert_int_equal(seen, 1);
    nxt_net_destroy(net);
}

static void test_closing_waits_for_what_has_begun(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        nxt_net *net = make(2, seed);
        nx_event closed = {0};
        nx_req s[2], r, waiting, late;

        nxt_net_fill(out, BIG, (unsigned)seed);
        memset(in, 0, BIG);
        nxt_recv(net, &waiting, (nxt_way){0, 1}, user, 9, in, 8);
        nxt_send(net, &s[0], (nxt_way){0, 1}, user, 2, "short", 5);
        nxt_send(net, &s[1], (nxt_way){0, 1}, user, 1, out, BIG);
        nx_msg_close(nxt_net_msg(net, 0), &closed);
        assert_true(waiting.done && (waiting.err == NEXAR_ECANCELED));
        nxt_send(net, &late, (nxt_way){0, 1}, user, 1, out, 8);
        assert_true(late.done && (late.err == NEXAR_ECANCELED));
        nxt_net_run(net);
        assert_false(closed.set || s[1].done);
        nxt_recv(net, &r, (nxt_way){1, 0}, user, 1, in, BIG);
        nxt_net_run(net);
        assert_true(closed.set && s[1].done && (s[1].err == NEXAR_OK));
        assert_true(r.done && (r.err == NEXAR_OK));
        assert_memory_equal(in, out, BIG);
        assert_null(nx_msg_link(nxt_net_msg(net, 0), 1));
        /* Data sent before the link closed can be received afterwards. */
        nxt_recv(net, &r, (nxt_way){1, 0}, user, 2, in, BIG);
        assert_true(r.done && (r.err == NEXAR_OK) && (memcmp(in, "short", 5) == 0));
        nxt_recv(net, &r, (nxt_way){1, 0}, user, 2, in, BIG);
        assert_true(r.done && (r.err == NEXAR_EPEER));
        nxt_net_destroy(net);
    }
}

static void test_closing_without_links_is_done_at_once(void **state)
{
    nxt_net *net = make(3, 1);
    nx_event closed = {0};

    (void)state;
    nx_msg_close(nxt_net_msg(net, 0), &closed);
    assert_true(closed.set);
    nxt_net_destroy(net);
}

static void test_a_destroyed_engine_ends_its_requests(void **state)
{
    static uint8_t out[BIG], in[BIG];

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        nxt_net *net = make(2, seed);
        nx_req s[2], r[3], probe = {0};

        nxt_send(net, &s[0], (nxt_way){0, 1}, user, 1, out, BIG);
        nxt_send(net, &s[1], (nxt_way){0, 0}, user, 1, out, BIG);
        nxt_recv(net, &r[0], (nxt_way){0, 1}, user, 1, in, BIG);
        nxt_recv(net, &r[1], (nxt_way){0, NX_ANY_PEER}, user, 2, in, BIG);
        nxt_recv(net, &r[2], (nxt_way){1, 0}, user, 1, in, BIG);
        nx_msg_probe(nxt_net_msg(net, 0), &probe, 1, user, 5);
        for (uint64_t i = 0; i < seed; i++) {
            (void)nxt_net_step(net);
        }
        nxt_net_destroy(net);
        assert_true(s[0].done && s[1].done && r[0].done && r[1].done && r[2].done && probe.done);
        assert_int_equal(r[0].err, NEXAR_ECANCELED);
    }
}

static void test_impossible_requests_end_with_a_word(void **state)
{
    nxt_net *net = make(2, 1);
    nx_req r;
    char in[4];

    (void)state;
    nxt_send(net, &r, (nxt_way){0, 2}, user, 1, "a", 1);
    assert_true(r.done && (r.err == NEXAR_EINVAL) && (r.why[0] != '\0'));
    nxt_send(net, &r, (nxt_way){0, 1}, user, NX_ANY_TAG, "a", 1);
    assert_true(r.done && (r.err == NEXAR_EINVAL));
    nxt_recv(net, &r, (nxt_way){0, 2}, user, 1, in, 4);
    assert_true(r.done && (r.err == NEXAR_EINVAL));
    nxt_net_refuse(net, 0, NEXAR_ECONNECT);
    nxt_send(net, &r, (nxt_way){0, 1}, user, 1, "a", 1);
    assert_true(r.done && (r.err == NEXAR_ECONNECT));
    nxt_net_destroy(net);
}

static void test_a_config_that_cannot_work_is_refused(void **state)
{
    nx_msg_config good = {.peers = 10, .self = 9, .pool = POOL}, c;
    nx_msg *m = NULL;

    (void)state;
    c = good;
    c.self = 10;
    assert_int_equal(nx_msg_create(&m, &c), NEXAR_EINVAL);
    c = good;
    c.inline_max = NX_INLINE_MAX + 1;
    assert_int_equal(nx_msg_create(&m, &c), NEXAR_EINVAL);
    c = good;
    c.pool = 10000;
    assert_int_equal(nx_msg_create(&m, &c), NEXAR_EINVAL);
    assert_null(m);
    c = good;
    c.pool = 0;
    assert_int_equal(nx_msg_create(&m, &c), NEXAR_OK);
    nx_msg_destroy(m);
}

static void test_messages_of_a_forgotten_communicator_hold_no_credit(void **state)
{
    static uint8_t out[BIG], in[BIG];
    const nx_context gone = {.comm = 7, .kind = 1, .class = NX_CLASS_USER};

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        static const size_t lengths[] = {0, 8, 500, EAGER, EAGER + 1, BIG};
        nxt_net *net = make(2, seed);
        nx_req s[6], own[6], kept, r;
        nx_msg_stats stats;

        for (uint64_t i = 0; i < 6; i++) {
            nxt_send(net, &s[i], (nxt_way){0, 1}, gone, i, out, lengths[i]);
            nxt_send(net, &own[i], (nxt_way){1, 1}, gone, i, out, lengths[i]);
        }
        nxt_send(net, &kept, (nxt_way){0, 1}, user, 1, out, BIG);
        for (uint64_t i = 0; i < 3 * seed; i++) { /* more and more of it has arrived */
            (void)nxt_net_step(net);
        }
        nx_msg_forget(nxt_net_msg(net, 1), gone.comm);
        nxt_net_run(net);
        nx_msg_forget(nxt_net_msg(net, 1), gone.comm);
        nxt_net_run(net);
        for (int i = 0; i < 6; i++) {
            assert_true(s[i].done && (s[i].err == NEXAR_OK));
            assert_true(own[i].done && (own[i].err == NEXAR_OK));
        }
        nxt_recv(net, &r, (nxt_way){1, 0}, user, 1, in, BIG);
        nxt_net_run(net);
        assert_true(r.done && (r.err == NEXAR_OK) && kept.done);
        nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
        assert_true((stats.pool_used == 0) && (stats.unexpected == 0));
        nxt_net_destroy(net);
    }
}

static bool is_closed; /* the communicator of the next test, at its receivers */

static nx_verdict judge(void *ctx, nx_context context)
{
    (void)ctx;
    return (is_closed && (context.comm == 7)) ? NX_DROP : NX_KEEP;
}

static void test_messages_that_come_too_late_hold_no_credit(void **state)
{
    static uint8_t out[BIG], in[BIG];
    const nx_context gone = {.comm = 7, .kind = 1, .class = NX_CLASS_USER};
    static const size_t lengths[] = {0, 8, 500, EAGER, EAGER + 1, BIG};

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 2,
                                                        .seed = seed,
                                                        .pool = 2 * NX_CLASSES * 20000,
                                                        .inline_max = NXT_NET_INLINE,
                                                        .eager_max = EAGER,
                                                        .on_unexpected = judge});
        nx_msg_stats stats;

        assert_non_null(net);
        is_closed = false;
        for (uint64_t i = 0; i < 300; i++) { /* far more than the credit */
            nx_req s, r;

            if (i == 3) {
                is_closed = true;
                nx_msg_forget(nxt_net_msg(net, 1), gone.comm);
            }
            nxt_send(net, &s, (nxt_way){0, 1}, gone, i, out, lengths[(seed + i) % 6]);
            nxt_net_run(net);
            if (i < 3) { /* before the close they are held */
                nxt_recv(net, &r, (nxt_way){1, 0}, gone, i, in, BIG);
                nxt_net_run(net);
                assert_true(r.done && (r.err == NEXAR_OK));
            }
            assert_true(s.done && (s.err == NEXAR_OK));
        }
        nx_msg_stats_get(nxt_net_msg(net, 1), &stats);
        assert_true((stats.pool_used == 0) && (stats.unexpected == 0));
        nxt_net_destroy(net);
    }
}

static void test_calls_belong_to_no_communicator_that_is_forgotten(void **state)
{
    const nx_context call = {.comm = 7, .kind = 64, .class = NX_CLASS_CALL};
    nxt_net *net = make(2, 1);
    nx_req s, r;
    char in[8];

    (void)state;
    nxt_send(net, &s, (nxt_way){0, 1}, call, 1, "call", 4);
    nxt_net_run(net);
    nx_msg_forget(nxt_net_msg(net, 1), call.comm);
    nxt_recv(net, &r, (nxt_way){1, 0}, call, 1, in, sizeof(in));
    assert_true(r.done && (r.err == NEXAR_OK) && (r.bytes == 4));
    nxt_net_destroy(net);
}

/* ---- the long run -------------------------------------------------------------------- */

/* Tags that are never reused, unexpected and expected, cancels: nothing stays. */
static void one_round(nxt_net *net, uint64_t i)
{
    static uint8_t out[BIG], in[BIG];
    nx_req s[3], r[3], never;

    nxt_recv(net, &never, (nxt_way){1, NX_ANY_PEER}, user, 3 * i + UINT64_C(1) * 1000000000, in, 1);
    nxt_recv(net, &r[0], (nxt_way){1, 0}, user, 3 * i, in, BIG);
    for (uint64_t k = 0; k < 3; k++) {
        nxt_send(net, &s[k], (nxt_way){0, 1}, user, 3 * i + k, out, (k == 0) ? BIG : 500 * k);
    }
    nxt_net_run(net);
    for (uint64_t k = 1; k < 3; k++) {
        nxt_recv(net, &r[k], (nxt_way){1, 0}, user, 3 * i + k, in, BIG);
    }
    assert_true(nx_msg_cancel(nxt_net_msg(net, 1), &never));
    nxt_net_run(net);
    for (int k = 0; k < 3; k++) {
        assert_true(s[k].done && r[k].done && (r[k].err == NEXAR_OK));
    }
}

static void test_memory_does_not_grow_with_the_number_of_messages(void **state)
{
    nxt_net *net = make(2, 1);
    size_t before, after;

    (void)state;
    for (uint64_t i = 0; i < 500; i++) {
        one_round(net, i);
    }
    before = mallinfo2().uordblks;
    for (uint64_t i = 500; i < 20500; i++) {
        one_round(net, i);
    }
    after = mallinfo2().uordblks;
    assert_true(after <= before + 20000); /* less than a byte per round; the heap keeps some */
    nxt_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_on_done_may_free_its_request_and_start_others),
        cmocka_unit_test(test_an_event_is_set_when_the_request_is_done),
        cmocka_unit_test(test_frames_of_others_pass_on_the_control_lane),
        cmocka_unit_test(test_closing_waits_for_what_has_begun),
        cmocka_unit_test(test_closing_without_links_is_done_at_once),
        cmocka_unit_test(test_a_destroyed_engine_ends_its_requests),
        cmocka_unit_test(test_messages_of_a_forgotten_communicator_hold_no_credit),
        cmocka_unit_test(test_messages_that_come_too_late_hold_no_credit),
        cmocka_unit_test(test_calls_belong_to_no_communicator_that_is_forgotten),
        cmocka_unit_test(test_impossible_requests_end_with_a_word),
        cmocka_unit_test(test_a_config_that_cannot_work_is_refused),
        cmocka_unit_test(test_memory_does_not_grow_with_the_number_of_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
