/*
 * serve_sim_test.c - the serving end over the simulated transport: callers that send what
 * is no call, take calls back, and die at any moment; and what is refused in the end.
 *
 * One end is rpc with its threads; the caller is played here, by messages.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "msg_pair.h"
#include "rpc/head.h"
#include "rpc/rpc.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum { CALL_KIND = 64, REPLY_KIND = 4, ROOM = 100000, COMM = 5, ECHO = 9 };

static const nx_context calls = {.kind = CALL_KIND, .class = NX_CLASS_CALL};
static const nx_context replies = {.kind = REPLY_KIND, .class = NX_CLASS_REPLY};

typedef struct rig {
    nx_sim_net *net;
    nx_loop *loop;
    nx_msg *msgs[2]; /* 0: ours; 1: rpc's */
    nx_link *links[2];
    nx_rpc *rpc;
    int released;
} rig;

static int rank_of(void *owner, uint32_t peer)
{
    (void)owner;
    return (peer == 0) ? 17 : -1;
}

static int no_rank(void *owner, uint32_t peer)
{
    (void)owner;
    (void)peer;
    return -1;
}

static void release(void *owner)
{
    ((rig *)owner)->released++;
}

static nexar_err echo(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_err err;

    (void)arg;
    assert_int_equal(nx_rpc_caller(call), 17);
    nx_loop_lock(nx_rpc_loop_of(call));
    err = nx_rpc_reply(call, data, bytes);
    nx_loop_unlock(nx_rpc_loop_of(call));
    return err;
}

static void make(rig *r, uint64_t seed, bool member)
{
    static const nx_sim_path path = {.rate = 100000000, .delay_ns = MS, .jitter_ns = MS};
    nx_rpc_config rc = {.threads = 2,
                        .call_kind = CALL_KIND,
                        .reply_kind = REPLY_KIND,
                        .rank_of = member ? rank_of : no_rank,
                        .release = release};

    *r = (rig){0};
    assert_int_equal(nx_sim_create(&r->net, seed, NULL), NEXAR_OK);
    assert_int_equal(nx_loop_create(&r->loop, nx_sim_clock(r->net)), NEXAR_OK);
    nx_loop_lock(r->loop);
    assert_int_equal(nx_sim_attach(r->net, r->loop), NEXAR_OK);
    nxt_msg_pair(
        r->net, &path,
        &(nx_msg_config){.loop = r->loop, .pool = 1 << 17, .inline_max = 1000, .eager_max = 8192},
        r->msgs, r->links);
    rc.loop = r->loop;
    rc.msg = r->msgs[1];
    assert_int_equal(nx_rpc_create(&r->rpc, &rc), NEXAR_OK);
    assert_int_equal(
        nx_rpc_register(r->rpc, COMM, ECHO, &(nx_rpc_handler){.fn = echo, .arg = NULL, .owner = r}),
        NEXAR_OK);
}

/* One event; or, if there is none, the threads get the lock. */
static void step(rig *r)
{
    if (!nx_sim_step(r->net)) {
        nx_loop_unlock(r->loop);
        (void)sched_yield();
        nx_loop_lock(r->loop);
    }
}

static nx_rpc_stats stats_of(const rig *r)
{
    nx_rpc_stats stats;

    nx_rpc_stats_get(r->rpc, &stats);
    return stats;
}

static void end(rig *r)
{
    nx_event closed = {0};

    nx_rpc_close(r->rpc, &closed);
    while (!closed.set) {
        step(r);
    }
    nx_rpc_end(r->rpc);
    nx_loop_unlock(r->loop);
    nx_rpc_stop(r->rpc);
    nx_loop_lock(r->loop);
    for (int i = 0; i < 2; i++) {
        nx_msg_destroy(r->msgs[i]);
    }
    while (nx_sim_step(r->net)) {
    }
    nx_rpc_destroy(r->rpc);
    assert_int_equal(r->released, 1);
    assert_int_equal(nx_sim_links(r->net), 0);
    nx_sim_detach(r->net, r->loop);
    nx_loop_unlock(r->loop);
    nx_loop_destroy(r->loop);
    nx_sim_destroy(r->net);
}

static void send_call(rig *r, nx_req *req, uint64_t id, const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};

    *req = (nx_req){0};
    nx_msg_send(r->msgs[0], req, 1, calls, id, &bytes, 1);
}

static void post_reply(rig *r, nx_req *req, uint64_t id, void *data)
{
    nx_iov_span span = {.ptr = data, .len = ROOM};

    *req = (nx_req){0};
    nx_msg_recv(r->msgs[0], req, 1, replies, id, &(nx_sink){.iov = &span, .niov = 1, .room = ROOM});
}

/* Sends, and waits for the answer. */
static nx_rpc_reply_head exchange(rig *r, uint64_t id, const void *data, size_t len, char *text)
{
    static uint8_t got[ROOM];
    nx_rpc_reply_head head;
    nx_req s, a;

    post_reply(r, &a, id, got);
    send_call(r, &s, id, data, len);
    while (!a.done) {
        step(r);
    }
    assert_int_equal(a.err, NEXAR_OK);
    assert_true(nx_rpc_reply_decode(got, &head));
    memcpy(text, got + NX_RPC_HEAD, (size_t)a.bytes - NX_RPC_HEAD);
    text[a.bytes - NX_RPC_HEAD] = '\0';
    return head;
}

static void call_bytes(uint8_t *out, uint32_t comm, uint16_t fn)
{
    nx_rpc_call_encode(&(nx_rpc_call_head){.comm = comm, .fn = fn}, out);
}

/* ---- what callers send ----------------------------------------------------------------- */

static void test_what_is_no_call_is_refused_and_the_next_one_served(void **state)
{
    uint8_t data[NX_RPC_HEAD + 3];
    char text[600];
    nx_rpc_reply_head h;
    rig r;

    (void)state;
    make(&r, 1, true);
    memcpy(data + NX_RPC_HEAD, (const uint8_t[]){'a', 'b', 'c'}, 3);
    for (size_t len = 0; len < NX_RPC_HEAD; len++) {
        call_bytes(data, COMM, ECHO);
        h = exchange(&r, 10 + len, data, len, text);
        assert_true((h.outcome == NX_RPC_REFUSED) && (h.code == NEXAR_EPROTO));
        assert_string_equal(text, "what came is no call");
    }
    data[NX_RPC_HEAD - 1] = 1;
    h = exchange(&r, 30, data, sizeof(data), text);
    assert_true((h.outcome == NX_RPC_REFUSED) && (h.code == NEXAR_EPROTO));
    call_bytes(data, COMM + 1, ECHO);
    assert_int_equal(exchange(&r, 31, data, sizeof(data), text).outcome, NX_RPC_NO_HANDLER);
    call_bytes(data, COMM, ECHO + 1);
    assert_int_equal(exchange(&r, 32, data, sizeof(data), text).outcome, NX_RPC_NO_HANDLER);
    call_bytes(data, COMM, ECHO);
    assert_int_equal(exchange(&r, 33, data, sizeof(data), text).outcome, NX_RPC_OK);
    assert_string_equal(text, "abc");
    nx_rpc_forget(r.rpc, COMM);
    assert_int_equal(r.released, 1);
    assert_int_equal(exchange(&r, 34, data, sizeof(data), text).outcome, NX_RPC_NO_HANDLER);
    end(&r);
}

static void test_a_peer_that_is_no_member_finds_no_handler(void **state)
{
    uint8_t data[NX_RPC_HEAD];
    char text[600];
    rig r;

    (void)state;
    make(&r, 2, false);
    call_bytes(data, COMM, ECHO);
    assert_int_equal(exchange(&r, 1, data, sizeof(data), text).outcome, NX_RPC_NO_HANDLER);
    end(&r);
}

static void test_a_leaving_rank_refuses(void **state)
{
    uint8_t data[NX_RPC_HEAD];
    nx_event closed = {0};
    char text[600];
    nx_rpc_reply_head h;
    rig r;

    (void)state;
    make(&r, 3, true);
    nx_rpc_close(r.rpc, &closed);
    assert_true(closed.set);
    call_bytes(data, COMM, ECHO);
    h = exchange(&r, 1, data, sizeof(data), text);
    assert_true((h.outcome == NX_RPC_REFUSED) && (h.code == NEXAR_EPEER));
    assert_string_equal(text, "it is leaving");
    end(&r);
}

/* ---- deaths ------------------------------------------------------------------------------ */

enum { MANY = 12 };

/* Calls of all lengths, some taken back; then the link breaks, after |steps| events. */
static void die_after(uint64_t steps)
{
    static uint8_t data[ROOM], got[MANY][ROOM];
    nx_req s[MANY], a[MANY];
    rig r;

    make(&r, steps, true);
    call_bytes(data, COMM, ECHO);
    for (uint64_t i = 0; i < MANY; i++) {
        post_reply(&r, &a[i], i, got[i]);
        send_call(&r, &s[i], i, data, (i % 3 == 0) ? ROOM : (i % 3 == 1) ? 5000 : NX_RPC_HEAD + 1);
    }
    for (uint64_t i = 0; i < steps; i++) {
        step(&r);
        if ((i % 5 == 4) && (i / 5 < MANY)) {
            (void)nx_msg_cancel(r.msgs[0], &s[i / 5]);
        }
    }
    nx_sim_cut(r.links[0]);
    while ((stats_of(&r).accepted > 0) || nx_sim_step(r.net)) {
        step(&r);
    }
    for (int i = 0; i < MANY; i++) {
        assert_true(s[i].done && a[i].done);
    }
    assert_true(stats_of(&r).most <= 2 * 2);
    end(&r);
}

static void test_callers_that_die_or_take_back_leave_nothing(void **state)
{
    (void)state;
    for (uint64_t steps = 0; steps < 200; steps += 3) {
        die_after(steps);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_call_is_refused_and_the_next_one_served),
        cmocka_unit_test(test_a_peer_that_is_no_member_finds_no_handler),
        cmocka_unit_test(test_a_leaving_rank_refuses),
        cmocka_unit_test(test_callers_that_die_or_take_back_leave_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
