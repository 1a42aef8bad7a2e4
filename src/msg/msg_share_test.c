/* msg_share_test.c - peers join and leave, and the pool always suffices for all. */
#include "msg/msg.h"

#include <stdlib.h>

#include "fake_net.h"
#include "unit.h"

enum { FIRST = 3, ALL = 7, MESSAGES = 400 };
static const size_t POOL = (size_t)1 << 20;
static const nx_context CONTEXT = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};

/* One message from |from| to |to|. */
typedef struct exchange {
    nx_req send, recv;
    uint8_t out[3000], in[3000];
} exchange;

static bool here[ALL];

static void check_pools(nxt_net *net)
{
    for (uint32_t i = 0; i < ALL; i++) {
        nx_msg_stats s;

        if (here[i]) {
            nx_msg_stats_get(nxt_net_msg(net, i), &s);
            assert_true((s.granted <= POOL) && (s.pool_used <= s.granted));
        }
    }
}

static nxt_net *make(uint64_t seed)
{
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = ALL,
                                                    .first = FIRST,
                                                    .seed = seed,
                                                    .pool = POOL,
                                                    .inline_max = 1000,
                                                    .eager_max = 2048});

    assert_non_null(net);
    nxt_net_watch(net, check_pools);
    for (uint32_t i = 0; i < ALL; i++) {
        here[i] = true;
    }
    return net;
}

static uint64_t peers_of(nxt_net *net, uint32_t node)
{
    nx_msg_stats s;

    nx_msg_stats_get(nxt_net_msg(net, node), &s);
    return s.peers;
}

/* Sends among the first |nodes|, half of the messages before any receive. */
static void chatter(nxt_net *net, uint32_t nodes, uint64_t seed)
{
    exchange *all = calloc(MESSAGES, sizeof(*all));
    nx_random_seeded random;

    assert_non_null(all);
    nx_random_seeded_init(&random, seed);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < MESSAGES; i++) {
            exchange *e = &all[i];
            const uint32_t from = i % nodes;
            const uint32_t to = (from + 1 + i / nodes % (nodes - 1)) % nodes;
            const size_t len = 1 + i * 7 % sizeof(e->out);

            if ((turn == 0) || (nx_random_below(&random.random, 2) == 0)) {
                (void)nxt_net_step(net);
            }
            if (turn == 0) {
                e->out[len - 1] = (uint8_t)(i % 251 + 1);
                nxt_send(net, &e->send, (nxt_way){from, to}, CONTEXT, 1000 + i, e->out, len);
            } else {
                nxt_recv(net, &e->recv, (nxt_way){to, from}, CONTEXT, 1000 + i, e->in, len);
            }
        }
    }
    nxt_net_run(net);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const size_t len = 1 + i * 7 % sizeof(all[i].out);

        assert_true(all[i].send.done && (all[i].send.err == NEXAR_OK));
        assert_true(all[i].recv.done && (all[i].recv.err == NEXAR_OK));
        assert_int_equal(all[i].in[len - 1], i % 251 + 1);
    }
    free(all);
}

static void grow_all(nxt_net *net, uint32_t nodes)
{
    for (uint32_t i = 0; i < nodes; i++) {
        assert_int_equal(nx_msg_grow(nxt_net_msg(net, i), nodes), NEXAR_OK);
        check_pools(net);
    }
}

static void test_the_pool_is_enough_for_peers_that_come(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        nxt_net *net = make(seed);

        chatter(net, FIRST, seed);
        for (uint32_t nodes = FIRST + 1; nodes <= ALL; nodes++) {
            grow_all(net, nodes);
            chatter(net, nodes, seed);
        }
        nxt_net_destroy(net);
    }
}

/* Idle credit of the first peers returns: the last peer gets its fair share. */
static void test_a_late_peer_gets_its_share(void **state)
{
    static uint8_t large[64 << 10];
    nx_req sends[16];
    uint32_t done = 0;
    nx_msg_stats s;
    nxt_net *net = make(5);

    (void)state;
    chatter(net, FIRST, 5);
    grow_all(net, ALL);
    nxt_net_run(net);
    for (int i = 0; i < 16; i++) {
        nxt_send(net, &sends[i], (nxt_way){ALL - 1, 0}, CONTEXT, 7, large, 1000);
        nxt_net_run(net);
        done += sends[i].done;
    }
    /* More than the initially free credit covers; the first peer had to wait for its window. */
    assert_true(done >= 15);
    nx_msg_stats_get(nxt_net_msg(net, 0), &s);
    assert_true(s.granted <= POOL);
    nxt_net_destroy(net);
}

static void test_a_peer_that_is_gone_costs_nothing(void **state)
{
    uint8_t byte = 9, got = 0;
    nx_req r;
    nxt_net *net = make(3);

    (void)state;
    grow_all(net, ALL);
    chatter(net, ALL, 3);
    nxt_send(net, &r, (nxt_way){5, 0}, CONTEXT, 1, &byte, 1);
    nxt_net_run(net);
    assert_int_equal(peers_of(net, 0), ALL);
    here[5] = here[6] = false;
    nxt_net_kill(net, 5);
    nxt_net_kill(net, 6);
    nxt_net_run(net);
    for (uint32_t peer = 5; peer < ALL; peer++) {
        nx_msg_retire(nxt_net_msg(net, 0), peer, NEXAR_EPEER, "dead");
    }
    assert_int_equal(peers_of(net, 0), ALL - 1); /* a message of 5 has arrived */
    nxt_recv(net, &r, (nxt_way){0, 5}, CONTEXT, 1, &got, 1);
    assert_true(r.done && (r.err == NEXAR_OK) && (got == 9));
    assert_int_equal(nx_msg_grow(nxt_net_msg(net, 0), ALL), NEXAR_OK);
    assert_int_equal(peers_of(net, 0), ALL - 2);
    for (uint32_t peer = 5; peer < ALL; peer++) {
        nxt_recv(net, &r, (nxt_way){0, peer}, CONTEXT, 1, &got, 1);
        assert_true(r.done && (r.err == NEXAR_EPEER));
        nxt_send(net, &r, (nxt_way){0, peer}, CONTEXT, 1, &got, 1);
        assert_true(r.done && (r.err == NEXAR_EPEER));
        assert_int_equal(nx_msg_send_control(nxt_net_msg(net, 0), peer, "ABC", 3), NEXAR_EPEER);
        nx_msg_retire(nxt_net_msg(net, 0), peer, NEXAR_EPEER, "dead");
        nx_msg_fail_peer(nxt_net_msg(net, 0), peer, NEXAR_EPEER, "dead");
        assert_null(nx_msg_link(nxt_net_msg(net, 0), peer));
    }
    nx_msg_fail_context(nxt_net_msg(net, 0), CONTEXT, false, NEXAR_EREVOKED, "over");
    chatter(net, 5, 3);
    nxt_net_destroy(net);
}

static void test_a_pool_that_is_too_small_is_an_error(void **state)
{
    nx_msg *m = NULL;
    const nx_msg_config c = {
        .peers = 2, .grows = true, .pool = 4 * (size_t)NX_CLASSES * NX_CREDIT_START};

    (void)state;
    assert_int_equal(nx_msg_create(&m, &c), NEXAR_OK);
    assert_int_equal(nx_msg_grow(m, 4), NEXAR_OK);
    assert_int_equal(nx_msg_grow(m, 5), NEXAR_EINVAL);
    nx_msg_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_pool_is_enough_for_peers_that_come),
        cmocka_unit_test(test_a_late_peer_gets_its_share),
        cmocka_unit_test(test_a_peer_that_is_gone_costs_nothing),
        cmocka_unit_test(test_a_pool_that_is_too_small_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
