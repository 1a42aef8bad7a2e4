/*
 * msg_flood_test.c - floods: more than fits, received in the most awkward order by a program that
 * waits for one message before it posts the next receive.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_net.h"
#include "msg/msg.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};
static const nx_context coll = {.comm = 1, .kind = 2, .class = NX_CLASS_COLL};

enum { MIB = 1 << 20 };

static void wait(nxt_net *net, const nx_req *r)
{
    while (!r->done) {
        if (!nxt_net_step(net)) {
            fail_msg("deadlock: nothing moves, and tag %d is not there", (int)r->tag);
        }
    }
    assert_int_equal(r->err, NEXAR_OK);
}

/* Receives like a program that does nothing else before. */
static void receive(nxt_net *net, nxt_way way, nx_context c, uint64_t tag, void *data, size_t room,
                    nx_req *r)
{
    nxt_recv(net, r, way, c, tag, data, room);
    wait(net, r);
}

static nx_msg_stats stats_of(nxt_net *net, uint32_t node)
{
    nx_msg_stats stats;

    nx_msg_stats_get(nxt_net_msg(net, node), &stats);
    return stats;
}

/* ---- 10 000 messages of 1 MiB -------------------------------------------------------- */

/* Counts bytes, and checks the first bytes of each fragment. */
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

/* A message of the other class in both directions. */
static void exchange(nxt_net *net, uint64_t tag)
{
    uint8_t out[2000], in[2000];
    nx_req s, r;

    memset(out, (int)tag, sizeof(out));
    nxt_send(net, &s, (nxt_way){0, 1}, coll, tag, out, (tag % 2) ? 8 : sizeof(out));
    receive(net, (nxt_way){1, 0}, coll, tag, in, sizeof(in), &r);
    assert_true((r.bytes > 0) && (in[0] == (uint8_t)tag));
    wait(net, &s);
    nxt_send(net, &s, (nxt_way){1, 0}, coll, tag, out, 8);
    receive(net, (nxt_way){0, 1}, coll, tag, in, sizeof(in), &r);
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
    nx_req *sends = test_calloc((size_t)messages, sizeof(*sends));
    uint8_t *data = test_malloc(MIB + 64 + (size_t)messages);
    nx_msg_stats stats;

    assert_true((net != NULL) && (sends != NULL) && (data != NULL));
    for (size_t i = 0; i < MIB + 64 + (size_t)messages; i++) {
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    for (int i = 0; i < messages; i++) { /* each begins at another offset: they differ */
        nxt_send(net, &sends[i], (nxt_way){0, 1}, user, (uint64_t)i, data + i, MIB);
    }
    nxt_net_run(net);
    stats = stats_of(net, 1);
    assert_true((stats.pool_used > pool / 4 / NX_CLASSES) && (stats.pool_peak <= pool));
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
    test_free(sends);
    test_free(data);
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
    flood(2 * NX_CLASSES * NX_CREDIT_START, 3000);
}

/* ---- small pools, every order -------------------------------------------------------- */

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
    swarm *s = test_calloc(1, sizeof(*s));

    assert_non_null(s);
    s->net = nxt_net_create(&(nxt_net_config){
        .nodes = SENDERS + 1, .seed = seed, .pool = pool, .inline_max = 200, .eager_max = 512});
    assert_non_null(s->net);
    for (uint32_t p = 0; p < SENDERS; p++) {
        for (size_t i = 0; i < EACH; i++) {
            memset(s->data[p][i], (int)(p * 31 + i), sizeof(s->data[p][i]));
            s->data[p][i][0] = (uint8_t)p;
            s->data[p][i][1] = (uint8_t)i;
            nxt_send(s->net, &s->sends[p][i], (nxt_way){p, SENDERS}, user, i % tags, s->data[p][i],
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
    test_free(s);
}

/* Marks the message that |r| received: the oldest of its sender and tag. */
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

/* Two receives, of which some are cancelled while their messages are in flight; one is left, or is
 * posted then. */
static void receive_twice(swarm *s, nxt_way way, uint64_t tag, nx_random_seeded *random, nx_req *r,
                          uint8_t data[600])
{
    nx_msg *m = nxt_net_msg(s->net, SENDERS);
    uint8_t lost[600];
    nx_req victim;

    nxt_recv(s->net, &victim, way, user, tag, lost, sizeof(lost));
    for (uint64_t n = nx_random_below(&random->random, 10); n > 0; n--) {
        (void)nxt_net_step(s->net);
    }
    if (!victim.done && nx_msg_cancel(m, &victim)) {
        for (uint64_t n = nx_random_below(&random->random, 4); n > 0; n--) {
            (void)nxt_net_step(s->net);
        }
        nxt_recv(s->net, r, way, user, tag, data, 600);
        wait(s->net, r);
        return;
    }
    wait(s->net, &victim);
    *r = victim;
    memcpy(data, lost, sizeof(lost));
}

enum { SMALL_POOL = 5 * NX_CLASSES * 1200 };

static void test_tags_in_reverse_from_any_source_are_found_in_every_queue(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);
        uint8_t data[600];
        nx_req r;

        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                receive(s->net, (nxt_way){SENDERS, NX_ANY_PEER}, user, i, data, sizeof(data), &r);
                take(s, &r, data, EACH);
            }
        }
        end_swarm(s, SMALL_POOL);
    }
}

/* Some receives are cancelled while their messages are in flight: a message that is put back must
 * not have been overtaken. */
static void test_few_tags_in_random_order_keep_the_order_of_each_sender(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
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
            receive_twice(s, (nxt_way){SENDERS, (i % 3 == 0) ? NX_ANY_PEER : p}, tag, &random, &r,
                          data);
            left[r.peer][r.tag]--;
            take(s, &r, data, 3);
        }
        end_swarm(s, SMALL_POOL);
    }
}

/* Receives all of the swarm's messages, one after the other, in reverse. */
static void receive_all(swarm *s)
{
    uint8_t data[600];
    nx_req r;

    for (size_t i = EACH; i-- > 0;) {
        for (uint32_t p = 0; p < SENDERS; p++) {
            receive(s->net, (nxt_way){SENDERS, p}, user, i, data, sizeof(data), &r);
            take(s, &r, data, EACH);
        }
    }
}

/* Receives for later messages are posted before receives that could match now: however many, they
 * must not delay those. */
static void test_receives_for_later_do_not_hide_what_is_there(void **state)
{
    enum { LATER = 1000 };
    static nx_req later[LATER], sends[LATER];
    static uint8_t in[LATER][8];

    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);

        for (size_t i = 0; i < LATER; i++) {
            nxt_recv(s->net, &later[i], (nxt_way){SENDERS, (i % 2) ? 0 : NX_ANY_PEER}, user,
                     100000 + i, in[i], 8);
        }
        receive_all(s);
        for (size_t i = 0; i < LATER; i++) {
            assert_false(later[i].done);
            nxt_send(s->net, &sends[i], (nxt_way){0, SENDERS}, user, 100000 + i, "later", 5);
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
        nx_random_seeded random;
        uint8_t data[600];
        nx_req r;

        nx_random_seeded_init(&random, seed);
        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                receive_twice(s, (nxt_way){SENDERS, p}, i, &random, &r, data);
                take(s, &r, data, EACH);
            }
        }
        end_swarm(s, SMALL_POOL);
    }
}

static void probe(swarm *s, uint32_t p, size_t i)
{
    nx_msg *m = nxt_net_msg(s->net, SENDERS);
    nx_req found = {0};
    int turns = 0;

    if (p % 2 == 0) {
        nx_msg_probe(m, &found, p, user, i);
        wait(s->net, &found);
    } else {
        while (!nx_msg_iprobe(m, p, user, i, &found)) {
            (void)nxt_net_step(s->net);
            assert_true(++turns < 100000);
        }
    }
    assert_true((found.peer == p) && (found.tag == i) && (found.bytes == length_of(p, i)));
}

static void test_probes_find_what_is_held_back(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 4; seed++) {
        swarm *s = make_swarm(seed, SMALL_POOL, EACH);

        for (size_t i = EACH; i-- > 0;) {
            for (uint32_t p = 0; p < SENDERS; p++) {
                probe(s, p, i);
            }
        }
        receive_all(s);
        end_swarm(s, SMALL_POOL);
    }
}

/* Two nodes; |n| messages from 0 to 1 with tags from 0 have arrived or are held back. */
static nxt_net *make_stalled(uint64_t seed, nx_req *sends, size_t n)
{
    nxt_net *net =
        nxt_net_create(&(nxt_net_config){.nodes = 2, .seed = seed, .pool = 2 * NX_CLASSES * 2000});

    assert_non_null(net);
    for (size_t i = 0; i < n; i++) {
        nxt_send(net, &sends[i], (nxt_way){0, 1}, user, i, &sends[i], 4);
    }
    nxt_net_run(net);
    assert_true(stats_of(net, 0).waiting > 0);
    return net;
}

enum { FULL = 20, LYING = 7, TURNS = 60, EACH_TURN = 3 };

typedef struct stream {
    nx_req sends[FULL], extra[TURNS][EACH_TURN], recvs[TURNS][EACH_TURN];
    uint8_t data[8];
} stream;

/* Receives first, then, after a while, their messages. */
static void take_turn(nxt_net *net, stream *s, uint64_t turn, nx_random_seeded *random)
{
    uint64_t tag = 100 + EACH_TURN * turn;

    for (uint64_t i = 0; i < EACH_TURN; i++) {
        nxt_recv(net, &s->recvs[turn][i], (nxt_way){1, 0}, user, tag + i, s->data, 8);
    }
    for (uint64_t i = 0; i < EACH_TURN; i++) {
        for (uint64_t n = nx_random_below(&random->random, 10); n > 0; n--) {
            (void)nxt_net_step(net);
        }
        nxt_send(net, &s->extra[turn][i], (nxt_way){0, 1}, user, tag + i, s->data, 8);
    }
    if (turn % 3 == 0) {
        wait(net, &s->recvs[turn][0]);
    }
}

/* The window stays full of messages without receives; the queue behind it fills and empties, as do
 * receives for messages that have not arrived. */
static void test_a_queue_that_fills_again_is_asked_again(void **state)
{
    static stream s;

    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        nxt_net *net = make_stalled(seed, s.sends, FULL);
        nx_random_seeded random;

        nx_random_seeded_init(&random, seed);
        for (uint64_t i = FULL; i-- > LYING;) { /* the queue is emptied */
            receive(net, (nxt_way){1, 0}, user, i, s.data, 8, &s.recvs[0][0]);
        }
        for (uint64_t turn = 0; turn < TURNS; turn++) {
            take_turn(net, &s, turn, &random);
        }
        for (uint64_t i = 0; i < TURNS * EACH_TURN; i++) {
            wait(net, &s.recvs[i / EACH_TURN][i % EACH_TURN]);
            wait(net, &s.extra[i / EACH_TURN][i % EACH_TURN]);
        }
        assert_int_equal(stats_of(net, 1).unexpected, LYING);
        nxt_net_destroy(net);
    }
}

/* Credit returns while a message is fetched that will be put back: later messages of the same name
 * must wait for it. */
static void test_nothing_overtakes_what_may_be_put_back(void **state)
{
    enum { FILL = 8, BEHIND = 30 };

    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        static nx_req sends[FILL], behind[BEHIND];
        nxt_net *net = make_stalled(seed, sends, FILL);
        nx_req r, victim;
        uint32_t data = 0;

        for (uint32_t i = 0; i < BEHIND; i++) {
            static uint32_t numbers[BEHIND];

            numbers[i] = i;
            nxt_send(net, &behind[i], (nxt_way){0, 1}, user, 50, &numbers[i], 4);
        }
        nxt_net_run(net);
        nxt_recv(net, &victim, (nxt_way){1, 0}, user, 50, &data, 4);
        for (uint64_t n = 0; n < seed % 3; n++) {
            (void)nxt_net_step(net);
        }
        if (nx_msg_cancel(nxt_net_msg(net, 1), &victim)) {
            for (uint64_t i = 0; i < 7; i++) {
                receive(net, (nxt_way){1, 0}, user, i, &data, 4, &r);
            }
        } else {
            wait(net, &victim);
        }
        for (uint32_t i = (victim.err == NEXAR_OK) ? 1 : 0; i < BEHIND; i++) {
            receive(net, (nxt_way){1, 0}, user, 50, &data, 4, &r);
            assert_int_equal(data, i);
        }
        nxt_net_run(net);
        nxt_net_destroy(net);
    }
}

/* A younger WANT by name does not take the message of an older wildcard receive. */
static void test_wishes_are_told_in_the_order_of_posting(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        static nx_req sends[40];
        nx_context other = {.comm = 9, .kind = 1, .class = NX_CLASS_USER};
        nxt_net *net = nxt_net_create(
            &(nxt_net_config){.nodes = 2, .seed = seed, .pool = 2 * NX_CLASSES * 2000});
        nx_req any, named;
        uint8_t data[2][8];

        assert_non_null(net);
        nxt_recv(net, &any, (nxt_way){1, (seed % 2) ? NX_ANY_PEER : 0}, other, NX_ANY_TAG, data[0],
                 8);
        nxt_recv(net, &named, (nxt_way){1, (seed % 3) ? 0 : NX_ANY_PEER}, other, 30, data[1], 8);
        for (size_t i = 0; i < 40; i++) { /* the first messages are unexpected, and fill it */
            nxt_send(net, &sends[i], (nxt_way){0, 1}, (i < 20) ? user : other, i, data, 8);
        }
        wait(net, &named);
        wait(net, &any);
        assert_true((any.tag == 20) && (named.tag == 30));
        nxt_net_destroy(net);
    }
}

/* More WANTs have become void, at the other peer each time, than may be open. */
static void test_void_wishes_do_not_use_up_what_may_be_open(void **state)
{
    enum { MANY = 5000 };
    static nx_req sends[2][MANY];
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = 3, .pool = 3 * NX_CLASSES * 2000});
    uint8_t data[8];
    nx_req r;

    (void)state;
    assert_non_null(net);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint64_t i = 0; i < MANY; i++) {
            nxt_send(net, &sends[p][i], (nxt_way){p, 2}, user, p * MANY + i, data, 8);
        }
    }
    nxt_net_run(net);
    for (uint32_t p = 0; p < 2; p++) {
        for (uint64_t i = MANY; i-- > 0;) {
            receive(net, (nxt_way){2, NX_ANY_PEER}, user, p * MANY + i, data, 8, &r);
        }
    }
    nxt_net_run(net);
    assert_int_equal(stats_of(net, 2).messages_received, 2 * MANY);
    nxt_net_destroy(net);
}

static void test_empty_messages_are_fetched_too(void **state)
{
    enum { MANY = 2000 };
    static nx_req sends[MANY];
    nxt_net *net =
        nxt_net_create(&(nxt_net_config){.nodes = 2, .pool = 2 * NX_CLASSES * NX_CREDIT_START});
    nx_req r;

    (void)state;
    assert_non_null(net);
    for (size_t i = 0; i < MANY; i++) {
        nxt_send(net, &sends[i], (nxt_way){0, 1}, user, i, "", 0);
    }
    for (size_t i = MANY; i-- > 0;) {
        receive(net, (nxt_way){1, 0}, user, i, NULL, 0, &r);
    }
    nxt_net_run(net);
    for (size_t i = 0; i < MANY; i++) {
        assert_true(sends[i].done && (sends[i].err == NEXAR_OK));
    }
    nxt_net_destroy(net);
}

/* ---- frames -------------------------------------------------------------------------- */

static void test_one_credit_frame_serves_many_messages(void **state)
{
    enum { MANY = 20000 };
    nxt_net *net = nxt_net_create(
        &(nxt_net_config){.nodes = 2, .pool = 1 << 23, .inline_max = 1000, .plain = true});
    nx_req s, r;
    uint8_t data[8];

    (void)state;
    assert_non_null(net);
    for (int i = 0; i < MANY; i++) {
        nxt_send(net, &s, (nxt_way){0, 1}, user, 1, "12345678", 8);
        receive(net, (nxt_way){1, 0}, user, 1, data, 8, &r);
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
        cmocka_unit_test(test_tags_in_reverse_from_any_source_are_found_in_every_queue),
        cmocka_unit_test(test_few_tags_in_random_order_keep_the_order_of_each_sender),
        cmocka_unit_test(test_receives_for_later_do_not_hide_what_is_there),
        cmocka_unit_test(test_receives_cancelled_while_they_fetch_lose_nothing),
        cmocka_unit_test(test_probes_find_what_is_held_back),
        cmocka_unit_test(test_a_queue_that_fills_again_is_asked_again),
        cmocka_unit_test(test_nothing_overtakes_what_may_be_put_back),
        cmocka_unit_test(test_wishes_are_told_in_the_order_of_posting),
        cmocka_unit_test(test_void_wishes_do_not_use_up_what_may_be_open),
        cmocka_unit_test(test_empty_messages_are_fetched_too),
        cmocka_unit_test(test_one_credit_frame_serves_many_messages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
