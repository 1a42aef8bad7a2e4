/*
 * call_sim_test.c - calls over the simulated transport, in virtual time: time-outs to the
 * nanosecond, late and strange replies, deaths at every moment.
 *
 * One end is rpc; the other, played here, receives calls and answers as it likes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "msg_pair.h"
#include "rpc/head.h"
#include "rpc/rpc.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum { CALL_KIND = 64, REPLY_KIND = 4, ROOM = 200000 };

static const nx_context calls = {.kind = CALL_KIND, .class = NX_CLASS_CALL};
static const nx_context replies = {.kind = REPLY_KIND, .class = NX_CLASS_REPLY};

typedef struct rig {
    nx_sim_net *net;
    nx_loop *loop;
    nx_msg *msgs[2]; /* 0: rpc's; 1: ours */
    nx_link *links[2];
    nx_rpc *rpc;
} rig;

static void on_peer_down(void *ctx, uint32_t peer, nexar_err err, const char *why)
{
    const rig *r = ctx;

    if (r->rpc != NULL) {
        nx_rpc_peer_down(r->rpc, peer, err, why);
    }
}

static int rank_of(void *owner, uint32_t peer)
{
    (void)owner;
    return (int)peer;
}

static void release(void *owner)
{
    (void)owner;
}

static void make(rig *r, uint64_t seed, const nx_sim_path *path)
{
    nx_rpc_config rc = {.threads = 2,
                        .call_kind = CALL_KIND,
                        .reply_kind = REPLY_KIND,
                        .rank_of = rank_of,
                        .release = release};

    *r = (rig){0};
    assert_int_equal(nx_sim_create(&r->net, seed, NULL), NEXAR_OK);
    assert_int_equal(nx_loop_create(&r->loop, nx_sim_clock(r->net)), NEXAR_OK);
    assert_int_equal(nx_sim_attach(r->net, r->loop), NEXAR_OK);
    nxt_msg_pair(r->net, path,
                 &(nx_msg_config){.loop = r->loop,
                                  .pool = 1 << 20,
                                  .inline_max = 1000,
                                  .eager_max = 16384,
                                  .on_peer_down = on_peer_down,
                                  .ctx = r},
                 r->msgs, r->links);
    rc.loop = r->loop;
    rc.msg = r->msgs[0];
    assert_int_equal(nx_rpc_create(&r->rpc, &rc), NEXAR_OK);
}

static uint64_t now(const rig *r)
{
    return nx_now(nx_sim_clock(r->net));
}

static void end(rig *r)
{
    nx_rpc_end(r->rpc);
    nx_rpc_stop(r->rpc);
    for (int i = 0; i < 2; i++) {
        nx_msg_destroy(r->msgs[i]);
    }
    while (nx_sim_step(r->net)) {
    }
    nx_rpc_destroy(r->rpc);
    assert_int_equal(nx_sim_links(r->net), 0);
    nx_sim_detach(r->net, r->loop);
    nx_loop_destroy(r->loop);
    nx_sim_destroy(r->net);
}

static void start(rig *r, nx_rpc_call *call, const void *data, size_t bytes, uint64_t timeout_ns)
{
    const nx_rpc_target target = {.peer = 1, .comm = 5, .fn = 9};

    *call = (nx_rpc_call){.wanted = true};
    (void)nx_loop_refresh(r->loop);
    nx_rpc_start(r->rpc, call, &target, data, bytes, timeout_ns);
}

static void wait(const rig *r, const bool *done)
{
    while (!*done) {
        if (!nx_sim_step(r->net)) {
            fail_msg("nothing moves, and it is not done");
        }
    }
}

/* Takes the next call; its number. */
static uint64_t take(rig *r, void *data, size_t *bytes)
{
    nx_iov_span span = {.ptr = data, .len = ROOM};
    nx_req req = {0};

    nx_msg_recv(r->msgs[1], &req, 0, calls, NX_ANY_TAG,
                &(nx_sink){.iov = &span, .niov = 1, .room = ROOM});
    wait(r, &req.done);
    assert_int_equal(req.err, NEXAR_OK);
    *bytes = (size_t)req.bytes;
    return req.tag;
}

/* Sends what may be a reply; |req| is held. */
static void answer(rig *r, nx_req *req, uint64_t id, const void *data, size_t bytes)
{
    nx_bytes one = {.ptr = data, .len = bytes};

    *req = (nx_req){0};
    nx_msg_send(r->msgs[1], req, 0, replies, id, &one, 1);
}

static uint64_t dropped(const rig *r)
{
    nx_rpc_stats stats;

    nx_rpc_stats_get(r->rpc, &stats);
    return stats.dropped;
}

static void free_call(nx_rpc_call *call)
{
    nx_free(call->reply);
    nx_free(call->text);
}

static const nx_sim_path near_by = {.rate = 1000000000, .delay_ns = MS};

/* ---- replies ---------------------------------------------------------------------------- */

static void test_calls_are_matched_to_their_replies(void **state)
{
    enum { MANY = 40 };
    static uint8_t data[ROOM], got[ROOM];
    nx_sim_path path = {.rate = 100000000, .delay_ns = MS, .jitter_ns = 3 * MS, .piece = 3000};
    nx_rpc_call sent[MANY];
    uint64_t ids[MANY];
    nx_req reqs[MANY];
    uint8_t *bodies[MANY];
    size_t bytes;
    rig r;

    (void)state;
    make(&r, 1, &path);
    for (size_t i = 0; i < MANY; i++) {
        start(&r, &sent[i], data, i * 700, 0);
    }
    for (size_t i = 0; i < MANY; i++) {
        ids[i] = take(&r, got, &bytes);
        assert_int_equal(bytes, NX_RPC_HEAD + i * 700); /* in order: one peer, one thread */
    }
    for (size_t i = MANY; i-- > 0;) { /* in reverse, all at once */
        bodies[i] = test_calloc(1, NX_RPC_HEAD + i * 4000 + 1);
        memset(bodies[i] + NX_RPC_HEAD, (int)i, i * 4000);
        answer(&r, &reqs[i], ids[i], bodies[i], NX_RPC_HEAD + i * 4000);
    }
    for (size_t i = 0; i < MANY; i++) {
        wait(&r, &sent[i].done);
        assert_int_equal(sent[i].err, NEXAR_OK);
        assert_int_equal(sent[i].reply_bytes, i * 4000);
        assert_non_null(sent[i].reply);
        assert_true((i == 0) || ((sent[i].reply[0] == i) && (sent[i].reply[i * 4000 - 1] == i)));
        free_call(&sent[i]);
        wait(&r, &reqs[i].done);
        test_free(bodies[i]);
    }
    end(&r);
}

static void test_strange_replies_end_the_call_or_are_dropped(void **state)
{
    static const struct {
        const char *bytes;
        size_t len;
        nexar_err err;
        const char *text;
    } cases[] = {
        {"", 0, NEXAR_EPROTO, NULL},
        {"\0\0\0\0\0\0\0", 7, NEXAR_EPROTO, NULL},
        {"\x09\0\0\0\0\0\0\0", 8, NEXAR_EPROTO, NULL},
        {"\x02\0\0\0\0\0\0\0", 8, NEXAR_ENOHANDLER, ""},
        {"\x01\0\0\0\xff\xff\xff\xffoh", 10, NEXAR_EREMOTE, "oh"},
        {"\x01\0\0\0\0\0\0\x05oh", 10, NEXAR_EREMOTE, "oh"},
        {"\x03\0\0\0\xff\xff\xff\xfeno", 10, NEXAR_ENOMEM, "no"},
        {"\x01\0\0\0\0\0\0\x05oh\n\033[2J\xc3\xa4\x9b", 18, NEXAR_EREMOTE, "oh??[2J\xc3\xa4?"},
        {"\x03\0\0\0\x7f\xff\xff\xff", 8, NEXAR_EREMOTE, ""},
    };
    static uint8_t got[ROOM];
    rig r;

    (void)state;
    make(&r, 2, &near_by);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nx_rpc_call call;
        nx_req stray, req;
        uint64_t id;
        size_t bytes;

        start(&r, &call, "abc", 3, 0);
        id = take(&r, got, &bytes);
        answer(&r, &stray, id + 1000, cases[i].bytes, cases[i].len); /* nobody's */
        answer(&r, &req, id, cases[i].bytes, cases[i].len);
        wait(&r, &call.done);
        assert_int_equal(call.err, cases[i].err);
        if (cases[i].text != NULL) {
            assert_string_equal(call.text, cases[i].text);
        }
        assert_int_equal(dropped(&r), i + 1);
        assert_null(call.reply);
        free_call(&call);
    }
    end(&r);
}

/* ---- time --------------------------------------------------------------------------------- */

static void test_a_call_ends_when_its_time_is_over(void **state)
{
    static uint8_t data[ROOM], got[ROOM];
    const uint8_t ok[NX_RPC_HEAD] = {0};
    rig r;

    (void)state;
    make(&r, 3, &near_by);
    for (int i = 0; i < 3; i++) {
        /* One that arrives, one that nobody takes, and one of which only the envelope
         * has gone out. */
        uint64_t began = now(&r), id = 0;
        size_t bytes = (i == 2) ? ROOM - NX_RPC_HEAD : 10, len;
        nx_rpc_call call;
        nx_req req;

        start(&r, &call, data, bytes, 500 * MS);
        if (i == 0) {
            id = take(&r, got, &len);
        }
        wait(&r, &call.done);
        assert_int_equal(call.err, NEXAR_ETIMEDOUT);
        assert_string_equal(call.why, "no reply within 0.5 s");
        assert_int_equal(now(&r) - began, 500 * MS);
        if (i == 1) {
            id = take(&r, got, &len); /* too late */
        }
        if (i < 2) {
            answer(&r, &req, id, ok, sizeof(ok));
            while (nx_sim_step(r.net)) {
            }
            assert_true(req.done && (req.err == NEXAR_OK));
        }
    }
    assert_int_equal(dropped(&r), 2);
    end(&r);
}

static void test_a_call_that_is_half_on_its_way_ends_later_and_keeps_its_bytes(void **state)
{
    nx_sim_path slow = {.rate = 100000, .delay_ns = MS}; /* 2 s for all of it */
    static uint8_t data[ROOM], got[ROOM];
    nx_iov_span span = {.ptr = got, .len = ROOM};
    nx_rpc_call call;
    nx_req req = {0};
    rig r;

    (void)state;
    memset(data, 7, sizeof(data));
    make(&r, 4, &slow);
    nx_msg_recv(r.msgs[1], &req, 0, calls, NX_ANY_TAG,
                &(nx_sink){.iov = &span, .niov = 1, .room = ROOM});
    start(&r, &call, data, ROOM - NX_RPC_HEAD, 1000 * MS);
    wait(&r, &call.done);
    assert_int_equal(call.err, NEXAR_ETIMEDOUT);
    assert_true(req.done && (req.err == NEXAR_OK) && (got[ROOM - 1] == 7));
    end(&r);
}

static void test_a_reply_that_is_half_here_when_time_is_over_is_dropped(void **state)
{
    nx_sim_path slow = {.rate = 100000, .delay_ns = MS};
    static uint8_t reply[ROOM], got[ROOM];
    nx_rpc_call call, other;
    nx_req req, second;
    uint64_t id, began;
    size_t bytes;
    rig r;

    (void)state;
    make(&r, 5, &slow);
    began = now(&r);
    start(&r, &call, "x", 1, 1000 * MS);
    start(&r, &other, "x", 1, 0);
    id = take(&r, got, &bytes);
    answer(&r, &req, id, reply, sizeof(reply));
    wait(&r, &call.done);
    assert_int_equal(call.err, NEXAR_ETIMEDOUT);
    assert_int_equal(now(&r) - began, 1000 * MS);
    assert_null(call.reply);
    assert_false(req.done);
    id = take(&r, got, &bytes);
    answer(&r, &second, id, reply, NX_RPC_HEAD + 5);
    wait(&r, &other.done);
    assert_true((other.err == NEXAR_OK) && (other.reply_bytes == 5));
    free_call(&other);
    wait(&r, &req.done);
    end(&r);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void test_a_cancelled_call_leaves_nothing(void **state)
{
    static uint8_t data[ROOM];

    (void)state;
    for (uint64_t steps = 0; steps < 60; steps++) {
        nx_rpc_stats stats;
        nx_rpc_call call;
        rig r;

        make(&r, steps, &near_by);
        start(&r, &call, data, (steps % 2) ? 10 : ROOM - NX_RPC_HEAD, 0);
        for (uint64_t i = 0; i < steps; i++) {
            (void)nx_sim_step(r.net);
        }
        nx_rpc_cancel(&call);
        while (!call.done && nx_sim_step(r.net)) {
        }
        assert_true(call.done && (call.err == NEXAR_ECANCELED));
        nx_rpc_cancel(&call); /* once is enough */
        nx_rpc_stats_get(r.rpc, &stats);
        assert_int_equal(stats.calls, 0);
        end(&r);
    }
}

/* Calls are answered as they come; the link breaks after |steps| events. */
static void die_after(uint64_t steps)
{
    static uint8_t data[ROOM], got[ROOM], reply[ROOM];
    nx_iov_span span = {.ptr = got, .len = ROOM};
    nx_rpc_call sent[4];
    nx_req in[4] = {{0}}, out[4] = {{0}};
    bool answered[4] = {false};
    rig r;

    make(&r, steps, &(nx_sim_path){.rate = 100000000, .delay_ns = MS, .jitter_ns = MS});
    for (size_t i = 0; i < 4; i++) {
        start(&r, &sent[i], data, (i % 2) ? 10 : ROOM - NX_RPC_HEAD, 0);
        nx_msg_recv(r.msgs[1], &in[i], 0, calls, NX_ANY_TAG,
                    &(nx_sink){.iov = &span, .niov = 1, .room = ROOM});
    }
    for (uint64_t n = 0; n < steps; n++) {
        (void)nx_sim_step(r.net);
        for (size_t i = 0; i < 4; i++) {
            if (in[i].done && !answered[i]) {
                answered[i] = true;
                answer(&r, &out[i], in[i].tag, reply, sizeof(reply));
            }
        }
    }
    nx_sim_cut(r.links[1]);
    while (nx_sim_step(r.net)) {
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(sent[i].done);
        assert_true((sent[i].err == NEXAR_EPEER) || (sent[i].err == NEXAR_OK));
        assert_true((sent[i].err == NEXAR_OK) || (sent[i].why[0] != '\0'));
        free_call(&sent[i]);
    }
    start(&r, &sent[0], data, 1, 0); /* and the next one ends at once */
    assert_true(sent[0].done && (sent[0].err == NEXAR_EPEER));
    end(&r);
}

static void test_a_death_at_any_moment_ends_every_call(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps < 150; steps++) {
        die_after(steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_are_matched_to_their_replies),
        cmocka_unit_test(test_strange_replies_end_the_call_or_are_dropped),
        cmocka_unit_test(test_a_call_ends_when_its_time_is_over),
        cmocka_unit_test(test_a_call_that_is_half_on_its_way_ends_later_and_keeps_its_bytes),
        cmocka_unit_test(test_a_reply_that_is_half_here_when_time_is_over_is_dropped),
        cmocka_unit_test(test_a_cancelled_call_leaves_nothing),
        cmocka_unit_test(test_a_death_at_any_moment_ends_every_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
