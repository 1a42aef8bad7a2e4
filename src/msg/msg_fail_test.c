/* msg_fail_test.c - failed peers, broken links, no memory: every request ends. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "fake_net.h"
#include "msg/msg.h"
#include "oom.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};
static const nx_context coll = {.comm = 1, .kind = 2, .class = NX_CLASS_COLL};

enum { POOL = 1 << 20, INLINE = 1000, EAGER = 8192, BIG = 100000 };

static int downs;
static nexar_err down_err;

static void on_peer_down(nxt_net *net, uint32_t node, uint32_t peer, nexar_err err, const char *why)
{
    (void)net;
    (void)node;
    (void)peer;
    assert_true(why[0] != 0);
    downs++;
    down_err = err;
}

static bool holds; /* requests of a peer whose link has ended wait for the test's decision */

static nxt_net *make(uint32_t nodes, uint64_t seed, size_t pool)
{
    downs = 0;
    return nxt_net_create(&(nxt_net_config){.nodes = nodes,
                                            .seed = seed,
                                            .pool = pool,
                                            .inline_max = INLINE,
                                            .eager_max = EAGER,
                                            .fragment_max = 5000,
                                            .holds = holds,
                                            .on_peer_down = on_peer_down});
}

/* ---- death --------------------------------------------------------------------------- */

enum { REQS = 60 };

typedef struct world {
    nxt_net *net;
    nx_random_seeded random;
    nx_req sends[REQS], recvs[REQS], probes[4];
    uint32_t from[REQS], to[REQS], at[REQS], of[REQS];
    uint8_t *out, *in[REQS];
} world;

static uint64_t below(world *w, uint64_t limit)
{
    return nx_random_below(&w->random.random, limit);
}

static void start_world(world *w, uint64_t seed)
{
    static const size_t lengths[] = {0, 8, INLINE, INLINE + 1, EAGER, EAGER + 1, BIG};

    nx_random_seeded_init(&w->random, seed);
    w->net = make(3, seed, (seed % 2) ? POOL : 3 * NX_CLASSES * 1000);
    assert_non_null(w->net);
    w->out = test_calloc(1, BIG);
    assert_non_null(w->out);
    for (int i = 0; i < REQS; i++) {
        w->from[i] = (uint32_t)below(w, 3);
        w->to[i] = (uint32_t)below(w, 3);
        w->at[i] = (uint32_t)below(w, 3);
        w->of[i] = (below(w, 5) == 0) ? NX_ANY_PEER : (uint32_t)below(w, 3);
        w->in[i] = test_malloc(BIG);
        assert_non_null(w->in[i]);
        nxt_send(w->net, &w->sends[i], (nxt_way){w->from[i], w->to[i]}, below(w, 2) ? user : coll,
                 below(w, 3), w->out, lengths[below(w, 7)]);
        nxt_recv(w->net, &w->recvs[i], (nxt_way){w->at[i], w->of[i]}, below(w, 2) ? user : coll,
                 below(w, 3), w->in[i], BIG);
        for (uint64_t n = below(w, 6); n > 0; n--) {
            (void)nxt_net_step(w->net);
        }
    }
    for (uint32_t i = 0; i < 4; i++) {
        w->probes[i] = (nx_req){0};
        nx_msg_probe(nxt_net_msg(w->net, i % 2), &w->probes[i], (i < 2) ? 2 : NX_ANY_PEER, user,
                     99);
    }
}

static void end_world(world *w)
{
    nxt_net_destroy(w->net);
    for (int i = 0; i < REQS; i++) {
        assert_true(w->sends[i].done && w->recvs[i].done);
        test_free(w->in[i]);
    }
    test_free(w->out);
    test_free(w);
}

static void test_a_failure_ends_only_what_needs_the_failed_rank(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        world *w = test_calloc(1, sizeof(*w));

        assert_non_null(w);
        start_world(w, seed);
        for (uint64_t n = below(w, 60); n > 0; n--) {
            (void)nxt_net_step(w->net);
        }
        nxt_net_kill(w->net, 2);
        nxt_net_run(w->net);
        /* Without a link nothing notices: the cluster's failure detector reports it. */
        nx_msg_fail_peer(nxt_net_msg(w->net, 0), 2, NEXAR_EPEER, "no heartbeat");
        nx_msg_fail_peer(nxt_net_msg(w->net, 1), 2, NEXAR_EPEER, "no heartbeat");
        assert_true((downs >= 2) && (down_err == NEXAR_EPEER));
        for (int i = 0; i < REQS; i++) {
            const nx_req *s = &w->sends[i], *r = &w->recvs[i];

            if ((w->from[i] == 2) || (w->to[i] == 2)) {
                assert_true(s->done);
                assert_true((s->err == NEXAR_OK) || (s->why[0] != '\0'));
            } else {
                assert_true(!s->done || (s->err == NEXAR_OK));
            }
            if ((w->at[i] == 2) || (w->of[i] == 2)) {
                assert_true(r->done);
                assert_true((r->err == NEXAR_OK) || (r->why[0] != '\0'));
            } else if (w->of[i] != NX_ANY_PEER) {
                assert_true(!r->done || (r->err == NEXAR_OK));
            }
        }
        assert_true(w->probes[0].done && (w->probes[0].err == NEXAR_EPEER));
        assert_false(w->probes[2].done); /* from any source: it continues to wait */
        end_world(w);
    }
}

static void test_a_cut_link_ends_the_requests_of_both_ends(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        world *w = test_calloc(1, sizeof(*w));

        assert_non_null(w);
        start_world(w, seed);
        nxt_net_cut(w->net, 0, 1);
        nxt_net_run(w->net);
        assert_int_equal(downs, 2);
        for (int i = 0; i < REQS; i++) {
            if (w->from[i] + w->to[i] == 1) {
                assert_true(w->sends[i].done);
            }
            if ((w->of[i] < 2) && (w->at[i] == 1 - w->of[i])) {
                assert_true(w->recvs[i].done);
            }
        }
        end_world(w);
    }
}

/* Requests that begin now between nodes 0 and 1: a message, its receive, and a probe. */
static void need_each_other(world *w, nx_req later[6])
{
    static uint8_t in[2][8];

    for (uint32_t i = 0; i < 2; i++) {
        later[3 * i] = later[3 * i + 1] = later[3 * i + 2] = (nx_req){0};
        nxt_send(w->net, &later[3 * i], (nxt_way){i, 1 - i}, user, 77, "later", 5);
        nxt_recv(w->net, &later[3 * i + 1], (nxt_way){i, 1 - i}, user, 78, in[i], 8);
        nx_msg_probe(nxt_net_msg(w->net, i), &later[3 * i + 2], 1 - i, user, 79);
    }
}

static void test_what_needs_a_peer_that_is_held_waits_for_the_verdict(void **state)
{
    (void)state;
    holds = true;
    for (uint64_t seed = 0; seed < 200; seed++) {
        world *w = test_calloc(1, sizeof(*w));
        nx_req later[6];

        assert_non_null(w);
        start_world(w, seed);
        nxt_net_cut(w->net, 0, 1);
        nxt_net_run(w->net);
        assert_int_equal(downs, 0);
        need_each_other(w, later);
        nxt_net_run(w->net);
        for (int i = 0; i < 6; i++) {
            assert_false(later[i].done);
        }
        assert_true(nx_msg_cancel(nxt_net_msg(w->net, 0), &later[0]));
        assert_true(nx_msg_cancel(nxt_net_msg(w->net, 0), &later[1]));
        nx_msg_let_go(nxt_net_msg(w->net, 0), 1);
        nx_msg_fail_peer(nxt_net_msg(w->net, 1), 0, NEXAR_EPEER, "no heartbeat");
        nx_msg_fail_peer(nxt_net_msg(w->net, 1), 0, NEXAR_ECONNECT, "again");
        assert_int_equal(downs, 2);
        assert_true(later[2].done && (later[2].err != NEXAR_OK));
        for (int i = 3; i < 6; i++) {
            assert_true(later[i].done && (later[i].err == NEXAR_EPEER));
            assert_string_equal(later[i].why, "no heartbeat");
        }
        for (int i = 0; i < REQS; i++) {
            assert_true((w->from[i] + w->to[i] != 1) || w->sends[i].done);
            assert_true((w->of[i] > 1) || (w->at[i] != 1 - w->of[i]) || w->recvs[i].done);
        }
        end_world(w);
    }
    holds = false;
}

/* Held requests end with the engine. */
static void test_what_waits_for_a_verdict_ends_with_the_engine(void **state)
{
    (void)state;
    holds = true;
    for (uint64_t seed = 0; seed < 50; seed++) {
        world *w = test_calloc(1, sizeof(*w));
        nx_req later[6];

        assert_non_null(w);
        start_world(w, seed);
        nxt_net_cut(w->net, 0, 1);
        nxt_net_run(w->net);
        need_each_other(w, later);
        end_world(w);
        for (int i = 0; i < 6; i++) {
            assert_true(later[i].done && (later[i].err == NEXAR_ECANCELED));
        }
    }
    holds = false;
}

static void test_complete_messages_of_a_dead_peer_can_be_received(void **state)
{
    static uint8_t out[EAGER], in[BIG];
    nxt_net *net = make(2, 1, POOL);
    nx_req s[4], r[5];

    (void)state;
    assert_non_null(net);
    nxt_send(net, &s[0], (nxt_way){0, 1}, user, 9, "", 0);
    nxt_net_run(net);
    memset(out, 7, sizeof(out));
    nxt_send(net, &s[0], (nxt_way){0, 1}, user, 1, "short", 5);
    nxt_send(net, &s[1], (nxt_way){0, 1}, user, 1, out, EAGER);
    nxt_send(net, &s[2], (nxt_way){0, 1}, user, 1, in, BIG); /* incomplete without a CLEAR */
    nxt_send(net, &s[3], (nxt_way){0, 1}, user, 1, "last", 4);
    nxt_net_run(net);
    nxt_net_kill(net, 0);
    assert_true(s[2].done && (s[2].err != NEXAR_OK));
    nxt_net_run(net);
    for (int i = 0; i < 5; i++) {
        nxt_recv(net, &r[i], (nxt_way){1, 0}, user, 1, in, BIG);
        assert_true(r[i].done);
    }
    assert_true((r[0].err == NEXAR_OK) && (r[0].bytes == 5));
    assert_true((r[1].err == NEXAR_OK) && (r[1].bytes == EAGER));
    assert_true((r[2].err == NEXAR_EPEER) && (r[2].why[0] != '\0')); /* no younger one instead */
    assert_true((r[3].err == NEXAR_OK) && (memcmp(in, "last", 4) == 0));
    assert_int_equal(r[4].err, NEXAR_EPEER);
    nxt_send(net, &s[0], (nxt_way){1, 0}, user, 1, "x", 1);
    assert_true(s[0].done && (s[0].err == NEXAR_EPEER));
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 1), 0, "\x40", 1), NEXAR_EPEER);
    nxt_net_destroy(net);
}

static void on_done_count(nx_req *req)
{
    assert_true(req->done && (downs == 0));
    downs += 100;
}

static void test_callbacks_of_a_failure_run_after_its_consequences(void **state)
{
    nxt_net *net = make(2, 3, POOL);
    nx_req r = {.on_done = on_done_count}, s;
    char in[4];
    nx_iov_span span = {.ptr = in, .len = 4};

    (void)state;
    assert_non_null(net);
    nxt_send(net, &s, (nxt_way){1, 0}, user, 3, "a", 1);
    nxt_net_run(net);
    nx_msg_recv(nxt_net_msg(net, 0), &r, 1, user, 1,
                &(nx_sink){.iov = &span, .niov = 1, .room = 4});
    nxt_net_kill(net, 1);
    nxt_net_run(net);
    assert_int_equal(downs, 101); /* once each */
    assert_int_equal(r.err, NEXAR_EPEER);
    nxt_net_destroy(net);
}

/* ---- no memory ----------------------------------------------------------------------- */

static void test_a_control_frame_that_cannot_be_kept_ends_the_link(void **state)
{
    nxt_net *net = make(2, 3, POOL);
    uint8_t frame[NX_FRAME_MAX] = {0x40};
    nx_req s, r;
    char in[4];
    nexar_err err;

    (void)state;
    assert_non_null(net);
    nxt_send(net, &s, (nxt_way){1, 0}, user, 3, "a", 1);
    nxt_net_run(net);
    nxt_recv(net, &r, (nxt_way){0, 1}, user, 1, in, sizeof(in));
    nx_alloc_fail_after(0);
    do {
        err = nx_msg_send_control(nxt_net_msg(net, 1), 0, frame, sizeof(frame));
    } while (err == NEXAR_OK);
    nx_alloc_fail_after(-1);
    assert_int_equal(err, NEXAR_ENOMEM);
    nxt_net_run(net);
    assert_true(r.done && (r.err == NEXAR_EPEER));
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 1), 0, "\x40", 1), NEXAR_ENOMEM);
    nxt_net_destroy(net);
}

static void test_a_control_frame_to_an_unreachable_peer_fails_the_peer(void **state)
{
    nxt_net *net = make(2, 3, POOL);
    nx_req r;
    char in[4];

    (void)state;
    assert_non_null(net);
    nxt_recv(net, &r, (nxt_way){1, 0}, user, 1, in, sizeof(in));
    nxt_net_refuse(net, 1, NEXAR_ENOTSUP);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 1), 0, "\x40", 1), NEXAR_ENOTSUP);
    assert_true(r.done && (r.err == NEXAR_ENOTSUP));
    assert_int_equal(downs, 1);
    assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 1), 0, "\x40", 1), NEXAR_ENOTSUP);
    assert_int_equal(downs, 1);
    nxt_net_destroy(net);
}

enum { PAIRS = 12 };

typedef struct pairs {
    nx_req sends[PAIRS], recvs[PAIRS];
    uint8_t in[PAIRS][20000];
} pairs;

static void one_of_each(nxt_net *net, pairs *p)
{
    static const size_t lengths[PAIRS] = {8,     40,    INLINE, EAGER, 20000, 0,
                                          20000, EAGER, 600,    20000, 8,     20000};
    static uint8_t out[20000];
    static nx_bytes pieces[PAIRS][12];

    for (int i = 0; i < PAIRS; i++) { /* half of the receives are posted late */
        if (i % 2) {
            nxt_recv(net, &p->recvs[i], (nxt_way){1, (i % 3) ? 0 : NX_ANY_PEER}, user, (uint64_t)i,
                     p->in[i], sizeof(p->in[i]));
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        size_t n = (i % 4 == 0) ? 12 : 1;

        for (size_t k = 0; k < n; k++) {
            pieces[i][k] = (nx_bytes){.ptr = out, .len = lengths[i] / n};
        }
        p->sends[i] = (nx_req){0};
        nx_msg_send(nxt_net_msg(net, 0), &p->sends[i], 1, user, (uint64_t)i, pieces[i], n);
        nxt_net_run(net);
    }
    for (int i = PAIRS; i-- > 0;) {
        if (i % 2 == 0) {
            nxt_recv(net, &p->recvs[i], (nxt_way){1, 0}, user, (uint64_t)i, p->in[i],
                     sizeof(p->in[i]));
            nxt_net_run(net);
        }
    }
}

/* One allocation fails: its request fails, or the link and everything that needs it, and no request
 * waits without need. */
static void check_pairs(const pairs *p)
{
    for (int i = 0; i < PAIRS; i++) {
        const nx_req *s = &p->sends[i], *r = &p->recvs[i];

        assert_true(s->done || (r->err == NEXAR_ENOMEM) || (r->err == NEXAR_EPEER));
        assert_true(r->done || (s->err == NEXAR_ENOMEM) || (s->err == NEXAR_EPEER) ||
                    (r->peer == NX_ANY_PEER));
        assert_true(nx_alloc_failed() || ((s->err == NEXAR_OK) && (r->err == NEXAR_OK)));
    }
}

static void run_pairs(uint64_t seed, size_t pool)
{
    nxt_net *net = make(2, seed, pool);
    pairs *p = test_calloc(1, sizeof(*p));

    assert_non_null(p);
    if (net == NULL) {
        assert_true(nx_alloc_failed());
        test_free(p);
        return;
    }
    one_of_each(net, p);
    check_pairs(p);
    nxt_net_destroy(net);
    for (int i = 0; i < PAIRS; i++) {
        assert_true(p->sends[i].done && p->recvs[i].done);
    }
    test_free(p);
}

static void test_without_memory_a_request_or_a_link_fails_and_nothing_hangs(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        run_pairs((uint64_t)n, POOL);
    }
    NXT_FOR_EACH_OOM (n) {
        run_pairs((uint64_t)n, 2 * NX_CLASSES * NX_CREDIT_START);
    }
}

static void test_without_memory_messages_to_oneself_fail_or_wait(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nxt_net *net = make(1, 1, POOL);
        nx_req s, r;
        uint8_t in[INLINE];

        if (net == NULL) {
            assert_true(nx_alloc_failed());
            continue;
        }
        nxt_send(net, &s, (nxt_way){0, 0}, user, 1, in, INLINE);
        assert_true(!s.done || (s.err == (s.err ? NEXAR_ENOMEM : NEXAR_OK)));
        nxt_recv(net, &r, (nxt_way){0, 0}, user, 1, in, INLINE);
        assert_true(s.done && (r.done == (s.err == NEXAR_OK)));
        nxt_net_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_failure_ends_only_what_needs_the_failed_rank),
        cmocka_unit_test(test_a_cut_link_ends_the_requests_of_both_ends),
        cmocka_unit_test(test_what_needs_a_peer_that_is_held_waits_for_the_verdict),
        cmocka_unit_test(test_what_waits_for_a_verdict_ends_with_the_engine),
        cmocka_unit_test(test_complete_messages_of_a_dead_peer_can_be_received),
        cmocka_unit_test(test_callbacks_of_a_failure_run_after_its_consequences),
        cmocka_unit_test(test_a_control_frame_that_cannot_be_kept_ends_the_link),
        cmocka_unit_test(test_a_control_frame_to_an_unreachable_peer_fails_the_peer),
        cmocka_unit_test(test_without_memory_a_request_or_a_link_fails_and_nothing_hangs),
        cmocka_unit_test(test_without_memory_messages_to_oneself_fail_or_wait),
    };

    nx_log_set_level(NX_LOG_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
