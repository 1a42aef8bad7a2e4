/* msg_stream_test.c - messages whose sender produces their bytes in parts. */
#include "msg/msg.h"

#include <stdlib.h>
#include <string.h>

#include "fake_net.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};

enum { TOTAL = 100000, STEP = 7000, POOL = 1 << 20, TIGHT = 24 << 10 };

static uint8_t whole[TOTAL], in[TOTAL];

/* Two nodes; in two cases of three they are connected already, and have credit. */
static nxt_net *make(uint64_t seed, size_t pool)
{
    nxt_net *net = nxt_net_plain(2, seed, pool);
    nx_req s, r;

    if (seed % 3 != 0) {
        nxt_recv(net, &r, (nxt_way){1, 0}, user, 9, in, 8);
        nxt_send(net, &s, (nxt_way){0, 1}, user, 9, "12345678", 8);
        nxt_net_run(net);
        assert_true(s.done && r.done);
    }
    return net;
}

/* A sender with one stretch of memory for all parts: each part overwrites the previous one. */
typedef struct source {
    nx_req req;
    nxt_net *net;
    uint8_t memory[STEP];
    uint64_t asked; /* offset of the next part, when |waits| */
    bool waits;
    bool at_once; /* answers inside of on_need */
} source;

static void give(source *s)
{
    const size_t left = TOTAL - (size_t)s->asked, len = (left < STEP) ? left : STEP;

    memcpy(s->memory, whole + s->asked, len);
    s->waits = false;
    nx_msg_send_more(nxt_net_msg(s->net, 0), &s->req, (nx_bytes){.ptr = s->memory, .len = len});
}

static void on_need(nx_req *req, uint64_t off)
{
    source *s = (source *)req; /* its first member */

    assert_false(s->waits);
    assert_true((off > 0) && (off < TOTAL));
    memset(s->memory, 0xee, STEP); /* the memory is the sender's again */
    s->asked = off;
    s->waits = true;
    if (s->at_once) {
        give(s);
    }
}

static void begin(source *s, nxt_net *net, uint64_t tag, bool at_once)
{
    memset(s, 0, sizeof(*s));
    s->net = net;
    s->at_once = at_once;
    s->req.on_need = on_need;
    memcpy(s->memory, whole, STEP);
    nx_msg_send_stream(nxt_net_msg(net, 0), &s->req, 1, user, tag,
                       (nx_bytes){.ptr = s->memory, .len = STEP}, TOTAL);
}

static void receive(nxt_net *net, nx_req *r, uint64_t tag, size_t room)
{
    memset(in, 0, sizeof(in));
    nxt_recv(net, r, (nxt_way){1, 0}, user, tag, in, room);
}

static void run(nxt_net *net, source *s)
{
    nxt_net_run(net);
    while (s->waits) {
        give(s);
        nxt_net_run(net);
    }
}

static void test_a_stream_arrives_complete_if_posted_before_or_after(void **state)
{
    (void)state;
    nxt_net_fill(whole, TOTAL, 3);
    for (uint64_t seed = 0; seed < 200; seed++) {
        nxt_net *net = make(seed, POOL);
        source s;
        nx_req r;

        if (seed % 2 == 0) {
            receive(net, &r, 5, TOTAL);
        }
        begin(&s, net, 5, seed % 4 < 2);
        run(net, &s);
        if (seed % 2 != 0) {
            assert_false(s.req.done);
            receive(net, &r, 5, TOTAL);
            run(net, &s);
        }
        assert_true(s.req.done && (s.req.err == NEXAR_OK));
        assert_true(r.done && (r.err == NEXAR_OK) && (r.bytes == TOTAL));
        assert_memory_equal(in, whole, TOTAL);
        nxt_net_destroy(net);
    }
}

/* Messages without credit are fetched by name: streams too. */
static void test_it_arrives_behind_a_flood(void **state)
{
    enum { FLOOD = 40 };
    static uint8_t junk[FLOOD][4000], got[4000];

    (void)state;
    nxt_net_fill(whole, TOTAL, 4);
    for (uint64_t seed = 0; seed < 50; seed++) {
        nxt_net *net = make(seed, TIGHT);
        nx_req sends[FLOOD], r, drain;
        source s;

        for (int i = 0; i < FLOOD; i++) {
            nxt_send(net, &sends[i], (nxt_way){0, 1}, user, 1, junk[i], sizeof(junk[i]));
        }
        begin(&s, net, 5, true);
        nxt_net_run(net);
        receive(net, &r, 5, TOTAL);
        run(net, &s);
        assert_true(s.req.done && (s.req.err == NEXAR_OK));
        assert_true(r.done && (r.err == NEXAR_OK) && (r.bytes == TOTAL));
        assert_memory_equal(in, whole, TOTAL);
        for (int i = 0; i < FLOOD; i++) {
            nxt_recv(net, &drain, (nxt_way){1, 0}, user, 1, got, sizeof(got));
            nxt_net_run(net);
            assert_true(drain.done && (drain.err == NEXAR_OK));
        }
        nxt_net_destroy(net);
    }
}

static void test_a_receiver_with_less_room_has_less_sent(void **state)
{
    (void)state;
    nxt_net_fill(whole, TOTAL, 5);
    for (uint64_t seed = 0; seed < 50; seed++) {
        const size_t room = 20000 + 100 * (size_t)seed;
        nxt_net *net = make(seed, POOL);
        source s;
        nx_req r;

        receive(net, &r, 5, room);
        begin(&s, net, 5, true);
        run(net, &s);
        assert_true(s.req.done && (s.req.err == NEXAR_OK));
        assert_true(r.done && (r.err == NEXAR_ETRUNC) && (r.bytes == TOTAL));
        assert_memory_equal(in, whole, room);
        assert_true(s.asked < room);
        nxt_net_destroy(net);
    }
}

/* After |steps| events the sender gives up, or one of the two nodes fails. */
static void end_midway(uint64_t seed, int steps, int how)
{
    nxt_net *net = make(seed, POOL);
    nx_req r, after = {0}, sent = {0};
    uint8_t word[8] = "again";
    source s;

    receive(net, &r, 5, TOTAL);
    begin(&s, net, 5, true);
    for (int i = 0; (i < steps) && nxt_net_step(net); i++) {
    }
    if (how == 0) {
        const bool was_done = s.req.done;

        nx_msg_send_break(nxt_net_msg(net, 0), &s.req, NEXAR_EDEVICE, "its device failed");
        nxt_net_run(net);
        assert_true(s.req.done && r.done);
        assert_true(was_done ? (s.req.err == NEXAR_OK) : (s.req.err == NEXAR_EDEVICE));
        assert_true(was_done || (strcmp(s.req.why, "its device failed") == 0));
        assert_true((r.err == NEXAR_OK) || (r.err == NEXAR_ECANCELED));
        assert_true(!was_done || (r.err == NEXAR_OK));
        /* The link is as good as before. */
        nxt_recv(net, &after, (nxt_way){1, 0}, user, 6, in, TOTAL);
        nxt_send(net, &sent, (nxt_way){0, 1}, user, 6, word, sizeof(word));
        nxt_net_run(net);
        assert_true(after.done && (after.err == NEXAR_OK));
    } else {
        nxt_net_kill(net, 1);
        nxt_net_run(net);
        assert_true(s.req.done);
        nx_msg_send_more(nxt_net_msg(net, 0), &s.req, (nx_bytes){.ptr = s.memory, .len = STEP});
        nx_msg_send_break(nxt_net_msg(net, 0), &s.req, NEXAR_EDEVICE, "too late");
    }
    nxt_net_destroy(net);
}

static void test_it_can_be_taken_back_and_can_lose_its_peer_at_any_moment(void **state)
{
    (void)state;
    nxt_net_fill(whole, TOTAL, 6);
    for (int steps = 0; steps < 60; steps++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            end_midway(seed, steps, 0);
            end_midway(seed, steps, 1);
        }
    }
}

static void test_one_that_is_not_asked_for_can_be_cancelled_or_broken(void **state)
{
    (void)state;
    nxt_net_fill(whole, TOTAL, 7);
    for (uint64_t seed = 0; seed < 40; seed++) {
        const bool full = (seed % 4 >= 2); /* no credit: it waits in the queue */
        nxt_net *net = make(seed, full ? TIGHT : POOL);
        static uint8_t junk[4000];
        nx_req flood[40];
        source s;

        for (int i = 0; full && (i < 40); i++) {
            nxt_send(net, &flood[i], (nxt_way){0, 1}, user, 1, junk, sizeof(junk));
        }
        begin(&s, net, 5, true);
        nxt_net_run(net);
        assert_false(s.req.done);
        if (seed % 2 == 0) {
            assert_true(nx_msg_cancel(nxt_net_msg(net, 0), &s.req));
        } else {
            nx_msg_send_break(nxt_net_msg(net, 0), &s.req, NEXAR_EDEVICE, "its device failed");
        }
        nxt_net_run(net);
        assert_true(s.req.done);
        assert_int_equal(s.req.err, (seed % 2 == 0) ? NEXAR_ECANCELED : NEXAR_EDEVICE);
        nxt_net_destroy(net);
    }
}

static void test_what_cannot_be_streamed_is_refused(void **state)
{
    nxt_net *net = nxt_net_plain(2, 1, POOL);
    const nx_bytes first = {.ptr = whole, .len = STEP};
    nx_msg *m = nxt_net_msg(net, 0);
    nx_req r = {.on_need = on_need};

    (void)state;
    nx_msg_send_stream(m, &r, 0, user, 5, first, TOTAL); /* to ourselves */
    assert_true(r.done && (r.err == NEXAR_EINVAL));
    nx_msg_send_stream(m, &r, 1, user, 5, first, STEP); /* everything is there */
    assert_true(r.done && (r.err == NEXAR_EINVAL));
    nx_msg_send_stream(m, &r, 7, user, 5, first, TOTAL);
    assert_true(r.done && (r.err == NEXAR_EINVAL));
    nxt_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stream_arrives_complete_if_posted_before_or_after),
        cmocka_unit_test(test_it_arrives_behind_a_flood),
        cmocka_unit_test(test_a_receiver_with_less_room_has_less_sent),
        cmocka_unit_test(test_it_can_be_taken_back_and_can_lose_its_peer_at_any_moment),
        cmocka_unit_test(test_one_that_is_not_asked_for_can_be_cancelled_or_broken),
        cmocka_unit_test(test_what_cannot_be_streamed_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
