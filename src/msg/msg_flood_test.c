/*
 * msg_flood_test.c - floods: more than fits, received in the most awkward order by
 * a program that waits for one message before it asks for the next.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_net.h"
#include "msg/msg.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};
static const nx_context coll = {.comm = 1, .kind = 2, .class = NX_CLASS_COLL};

enum { MIB = 1 << 20 };

static void send(nxt_net *net, nx_req *r, uint32_t from, uint32_t to, nx_context c, uint64_t tag,
                 const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};

    *r = (nx_req){0};
    nx_msg_send(nxt_net_msg(net, from), r, to, c, tag, &bytes, 1);
}

static void wait(nxt_net *net, const nx_req *r)
{
    while (!r->done) {
        if (!nxt_net_step(net)) {
            fail_msg("deadlock: nothing moves, and tag %d is not there", (int)r->tag);
        }
    }
    assert_int_equal(r->err, NEXAR_OK);
}

static void receive(nxt_net *net, uint32_t at, uint32_t from, nx_context c, uint64_t tag,
                    void *data, size_t room, nx_req *r)
{
    nx_iov_span span = {.ptr = data, .len = room};

    *r = (nx_req){0};
    nx_msg_recv(nxt_net_msg(net, at), r, from, c, tag,
                &(nx_sink){.iov = &span, .niov = 1, .room = room});
    wait(net, r);
}

static nx_msg_stats stats_of(nxt_net *net, uint32_t node)
{
    nx_msg_stats stats;

    nx_msg_stats_get(nxt_net_msg(net, node), &stats);
    return stats;
}

/* ---- 10 000 messages of 1 MiB --------------------------------------------------------- */

/* Counts bytes, and looks at the first ones of each fragment. */
typedef struct counter {
    uint64_t bytes;
    const uint8_t *expected;
} counter;

static void count(void *ctx, uint64_t off, const void *data, size_t len)
{
    counter *c = ctx;

    c->bytes += len;
    assert_memory_equal(data, c->expected + off, (len < 64) ? len : 64);
}

/* A message of the other class there and back. */
static void exchange(nxt_net *net, uint64_t tag)
{
    uint8_t out[2000], in[2000];
    nx_req s, r;

    memset(out, (int)tag, sizeof(out));
    send(net, &s, 0, 1, coll, tag, out, (tag % 2) ? 8 : sizeof(out));
    receive(net, 1, 0, coll, tag, in, sizeof(in), &r);
    assert_true((r.bytes > 0) && (in[0] == (uint8_t)tag));
    wait(net, &s);
    send(net, &s, 1, 0, coll, tag, out, 8);
    receive(net, 0, 1, coll, tag, in, sizeof(in), &r);
    wait(net, &s);
}

static void flood(size_t pool, int messages)
{
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 2,
                                                    .pool = pool,
                                                    .inline_max = 8192,
                                                    .eager_max = 65536,
                                                    .fragment_max = MIB,
                                                    .plain = true});
    nx_req *sends = calloc((size_t)messages, sizeof(*sends));
    uint8_t *data = malloc(MIB + 64 + (size_t)messages);
    nx_msg_stats stats;

    assert_true((net != NULL) && (sends != NULL) && (data != NULL));
    for (size_t i = 0; i < MIB + 64 + (size_t)messages; i++) {
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    for (int i = 0; i < messages; i++) { /* each begins elsewhere: they differ */
        send(net, &sends[i], 0, 1, user, (uint64_t)i, data + i, MIB);
    }
    nxt_net_run(net);
    stats = stats_of(net, 1);
    assert_true((stats.pool_used > pool / 8) && (stats.pool_peak <= pool));
    assert_int_equal(stats.unexpected + stats_of(net, 0).waiting, messages);
    for (int i = messages; i-- > 0;) {
        counter c = {.expected = data + i};
        nx_req r = {0};

        if (i % 10 == 0) {
            exchange(net, (uint64_t)i);
        }
        nx_msg_recv(nxt_net_msg(net, 1), &r, 0, user, (uint64_t)i,
                    &(nx_sink){.take = count, .ctx = &c, .unit = 1, .room = MIB});
        wait(net, &r);
        assert_int_equal(c.bytes, MIB);
    }
    nxt_net_run(net);
    for (int i = 0; i < messages; i++) {
        assert_true(sends[i].done && (sends[i].err == NEXAR_OK));
    }
    stats = stats_of(net, 1);
    assert_true((stats.pool_used == 0) && (stats.pool_peak <= pool) && (stats.unexpected == 0));
    print_message("    pool %zu: peak %llu, pulled %llu, credit frames %llu\n", pool,
                  (unsigned long long)stats.pool_peak, (unsigned long long)stats.pulled,
                  (unsigned long long)stats.credit_frames);
    nxt_net_destroy(net);
    free(sends);
    free(data);
}

static void test_10000_messages_of_1_MiB_are_received_in_reverse_beside_collectives(void **state)
{
    (void)state;
    flood((size_t)64 << 20, 10000);
}

static void test_the_same_where_not_even_their_envelopes_fit(void **state)
{
    (void)state;
    flood((size_t)1 << 20, 10000);
    flood(4 * NX_CREDIT_START, 3000);
}

/* ---- small pools, every order ------------------------------------------------------------ */

enum { SENDERS = 4, EACH = 300 };

typedef struct swarm {
    nxt_net *net;
    nx_req sends[SENDERS][EACH];
    uint8_t data[SENDERS][EACH][600];
    bool taken[SENDERS][EACH];
} swarm;

static size_t length_of(uint32_t sender, size_t i)
{
    return 2 + (i * 37 + sender * 11) % 598;
}

/* Everybody floods node SENDERS; tags are |tags| in number. */
static swarm *make_swarm(uint64_t seed, size_t pool, uint64_t tags)
{
    swarm *s = calloc(1, sizeof(*s));

    assert_non_null(s);
    s->net = nxt_net_create(&(nxt_net_config){
        .nodes = SENDERS + 1, .seed = seed, .pool = pool, .inline_max = 200, .eager_max = 512});
    assert_non_null(s->net);
    for (uint32_t p = 0; p < SENDERS; p++) {
        for (size_t i = 0; i < EACH; i++) {
            memset(s->data[p][i], (int)(p * 31 + i), sizeof(s->data[p][i]));
            s->data[p][i][0] = (uint8_t)p;
            s->data[p][i][1] = (uint8_t)i;
            send(s->net, &s->sends[p][i], p, SENDERS, user, i % tags, s->data[p][i],
                 length_of(p, i));
        }
    }
    nxt_net_run(s->net);
    return s;
}

static void end_swarm(swarm *s, size_t pool)
{
    nx_msg_stats stats;

    nxt_net_run(s->net);
    for (uint32_t p = 0; p < SENDERS; p++) {
        for (size_t i = 0; i < EACH; i++) {
            assert_true(s->sends[p][i].done && (s->sends[p][i].err == NEXAR_OK));
            assert_true(s->taken[p][i]);
        }
    }
    stats = stats_of(s->net, SENDERS);
    assert_true((stats.pool_used == 0) && (stats.pool_peak <= pool) && (stats.pulled > 0));
    nxt_net_destroy(s->net);
    free(s);
}

/* Marks the message that |r| got: the oldest of its sender and tag. */
static void take(swarm *s, const nx_req *r, const uint8_t *data, uint64_t tags)
{
    size_t i = (size_t)r->tag;

    while (s->taken[r->peer][i]) {
        i += tags;
        assert_true(i < EACH);
    }
    assert_int_equal(r->bytes, length_of(r->peer, i));
    assert_memory_equal(data, s->data[r->peer][i], length_of(r->peer, i));
    s->taken[r->peer][i] = true;
}

enum { SMALL_POOL = 5 * 2 * 1200 };

static void test_tags_in_reverse_from_anybody_are_found_in_every_queue(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);
        uint8_t data[600];
        nx_req r;

        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                receive(s->net, SENDERS, NX_ANY_PEER, user, i, data, sizeof(data), &r);
                take(s, &r, data, EACH);
            }
        }
        end_swarm(s, SMALL_POOL);
    }
}

static void test_few_tags_in_random_order_keep_the_order_of_each_sender(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 8; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, 3);
        size_t left[SENDERS][3];
        nx_random_seeded random;
        uint8_t data[600];
        nx_req r;

        nx_random_seeded_init(&random, seed);
        for (uint32_t p = 0; p < SENDERS; p++) {
            left[p][0] = left[p][1] = left[p][2] = EACH / 3;
        }
        for (size_t i = 0; i < SENDERS * (size_t)EACH; i++) {
            uint32_t p = (uint32_t)nx_random_below(&random.random, SENDERS);
            uint64_t tag = nx_random_below(&random.random, 3);

            while (left[p][tag] == 0) {
                p = (tag == 2) ? (p + 1) % SENDERS : p;
                tag = (tag + 1) % 3;
            }
            receive(s->net, SENDERS, (i % 3 == 0) ? NX_ANY_PEER : p, user, tag, data, sizeof(data),
                    &r);
            left[r.peer][r.tag]--;
            take(s, &r, data, 3);
        }
        end_swarm(s, SMALL_POOL);
    }
}

/* Receives for what is sent later wait before those that could be had: they must
 * not stand in their way, however many. */
static void test_receives_for_later_do_not_hide_what_is_there(void **state)
{
    enum { LATER = 1000 };
    static nx_req later[LATER], sends[LATER];
    static uint8_t in[LATER][8];

    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);
        uint8_t data[600];
        nx_req r;

        for (size_t i = 0; i < LATER; i++) {
            nx_iov_span span = {.ptr = in[i], .len = 8};

            later[i] = (nx_req){0};
            nx_msg_recv(nxt_net_msg(s->net, SENDERS), &later[i], (i % 2) ? 0 : NX_ANY_PEER, user,
                        100000 + i, &(nx_sink){.iov = &span, .niov = 1, .room = 8});
        }
        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                receive(s->net, SENDERS, p, user, i, data, sizeof(data), &r);
                take(s, &r, data, EACH);
                if (i == EACH / 2) {
                    assert_false(later[0].done);
                }
            }
        }
        for (size_t i = 0; i < LATER; i++) {
            send(s->net, &sends[i], 0, SENDERS, user, 100000 + i, "later", 5);
        }
        nxt_net_run(s->net);
        for (size_t i = 0; i < LATER; i++) {
            assert_true(later[i].done && (later[i].err == NEXAR_OK) && sends[i].done);
        }
        end_swarm(s, SMALL_POOL);
    }
}

static void test_receives_cancelled_while_they_fetch_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 10; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);
        nx_msg *m = nxt_net_msg(s->net, SENDERS);
        nx_random_seeded random;
        uint8_t data[600], lost[600];
        nx_req r;

        nx_random_seeded_init(&random, seed);
        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                nx_iov_span span = {.ptr = lost, .len = sizeof(lost)};
                nx_req victim = {0};

                nx_msg_recv(m, &victim, p, user, i,
                            &(nx_sink){.iov = &span, .niov = 1, .room = sizeof(lost)});
                for (uint64_t n = nx_random_below(&random.random, 8); n > 0; n--) {
                    (void)nxt_net_step(s->net);
                }
                if (!victim.done && nx_msg_cancel(m, &victim)) {
                    receive(s->net, SENDERS, p, user, i, data, sizeof(data), &r);
                    take(s, &r, data, EACH);
                } else {
                    wait(s->net, &victim);
                    take(s, &victim, lost, EACH);
                }
            }
        }
        end_swarm(s, SMALL_POOL);
    }
}

static void test_probes_find_what_is_held_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);
        nx_msg *m = nxt_net_msg(s->net, SENDERS);
        uint8_t data[600];

        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                nx_req probe = {0}, r;

                if (p % 2 == 0) {
                    nx_msg_probe(m, &probe, p, user, i);
                    wait(s->net, &probe);
                } else {
                    int turns = 0;

                    while (!nx_msg_iprobe(m, p, user, i, &probe)) {
                        (void)nxt_net_step(s->net);
                        assert_true(++turns < 100000);
                    }
                }
                assert_true((probe.peer == p) && (probe.tag == i));
                assert_int_equal(probe.bytes, length_of(p, i));
                receive(s->net, SENDERS, p, user, i, data, sizeof(data), &r);
                take(s, &r, data, EACH);
            }
        }
        end_swarm(s, SMALL_POOL);
    }
}

static void test_empty_messages_are_fetched_too(void **state)
{
    enum { MANY = 2000 };
    static nx_req sends[MANY];
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 2, .pool = 4 * NX_CREDIT_START});
    nx_req r;

    (void)state;
    assert_non_null(net);
    for (size_t i = 0; i < MANY; i++) {
        send(net, &sends[i], 0, 1, user, i, "", 0);
    }
    for (size_t i = MANY; i-- > 0;) {
        receive(net, 1, 0, user, i, NULL, 0, &r);
    }
    nxt_net_run(net);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(sends[i].done && (sends[i].err == NEXAR_OK));
    }
    nxt_net_destroy(net);
}

/* ---- frames ------------------------------------------------------------------------------- */

static void test_credit_is_told_once_for_many_messages(void **state)
{
    enum { MANY = 20000 };
    nxt_net *net = nxt_net_create(
        &(nxt_net_config){.nodes = 2, .pool = 1 << 22, .inline_max = 1000, .plain = true});
    nx_req s, r;
    uint8_t data[8];

    (void)state;
    assert_non_null(net);
    for (int i = 0; i < MANY; i++) {
        send(net, &s, 0, 1, user, 1, "12345678", 8);
        receive(net, 1, 0, user, 1, data, 8, &r);
        wait(net, &s);
    }
    assert_true(nxt_net_frames(net, 1, 0, NX_LANE_CONTROL) < MANY / 500);
    assert_int_equal(nxt_net_frames(net, 0, 1, NX_LANE_MESSAGE), MANY);
    assert_int_equal(nxt_net_frames(net, 0, 1, NX_LANE_CONTROL), 1); /* the greeting */
    nxt_net_destroy(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_10000_messages_of_1_MiB_are_received_in_reverse_beside_collectives),
        cmocka_unit_test(test_the_same_where_not_even_their_envelopes_fit),
        cmocka_unit_test(test_tags_in_reverse_from_anybody_are_found_in_every_queue),
        cmocka_unit_test(test_few_tags_in_random_order_keep_the_order_of_each_sender),
        cmocka_unit_test(test_receives_for_later_do_not_hide_what_is_there),
        cmocka_unit_test(test_receives_cancelled_while_they_fetch_lose_nothing),
        cmocka_unit_test(test_probes_find_what_is_held_back),
        cmocka_unit_test(test_empty_messages_are_fetched_too),
        cmocka_unit_test(test_credit_is_told_once_for_many_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
