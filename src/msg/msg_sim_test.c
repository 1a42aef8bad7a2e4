/*
 * msg_sim_test.c - messages over the simulated transport, in virtual time: delay, jitter and loss
 * lose nothing, and the protocol costs no unnecessary round trips.
 */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "msg_pair.h"
#include "unit.h"

static const nx_context user = {.comm = 1, .kind = 1, .class = NX_CLASS_USER};
static const nx_context coll = {.comm = 1, .kind = 2, .class = NX_CLASS_COLL};

#define MS UINT64_C(1000000)

enum { EAGER = 65536, INLINE = 8192 };

/* Two engines and the link between them. */
typedef struct pair {
    nx_sim_net *net;
    nx_loop *loop;
    nx_msg *msgs[2];
    nx_link *links[2];
} pair;

static void make(pair *p, uint64_t seed, const nx_sim_path *path, size_t pool)
{

    assert_int_equal(nx_sim_create(&p->net, seed, NULL), NEXAR_OK);
    assert_int_equal(nx_loop_create(&p->loop, nx_sim_clock(p->net)), NEXAR_OK);
    nxt_msg_pair(
        p->net, path,
        &(nx_msg_config){.loop = p->loop, .pool = pool, .inline_max = INLINE, .eager_max = EAGER},
        p->msgs, p->links);
}

static void run(const pair *p)
{
    while (nx_sim_step(p->net)) {
    }
}

static void end(pair *p)
{
    for (int i = 0; i < 2; i++) {
        nx_msg_destroy(p->msgs[i]);
    }
    run(p);
    assert_int_equal(nx_sim_links(p->net), 0);
    nx_loop_destroy(p->loop);
    nx_sim_destroy(p->net);
}

static uint64_t now(const pair *p)
{
    return nx_now(nx_sim_clock(p->net));
}

static void send(const pair *p, nx_req *r, uint32_t from, nx_context c, uint64_t tag,
                 const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};

    *r = (nx_req){0};
    nx_msg_send(p->msgs[from], r, 1 - from, c, tag, &bytes, 1);
}

static void recv(const pair *p, nx_req *r, uint32_t at, nx_context c, uint64_t tag, void *data,
                 size_t room)
{
    nx_iov_span span = {.ptr = data, .len = room};

    *r = (nx_req){0};
    nx_msg_recv(p->msgs[at], r, 1 - at, c, tag, &(nx_sink){.iov = &span, .niov = 1, .room = room});
}

static void wait(const pair *p, const nx_req *r)
{
    while (!r->done) {
        if (!nx_sim_step(p->net)) {
            fail_msg("deadlock: nothing moves, and tag %d is not there", (int)r->tag);
        }
    }
    assert_int_equal(r->err, NEXAR_OK);
}

/* ---- losing nothing ------------------------------------------------------------------ */

enum { EACH_WAY = 150, LONGEST = 2 << 20 };

typedef struct traffic {
    pair p;
    nx_random_seeded random;
    nx_req s[2][EACH_WAY], r[2][EACH_WAY];
    uint8_t *out, *in[2][EACH_WAY];
} traffic;

static nx_context context_of(int i)
{
    return (i % 2) ? user : coll;
}

static void start(traffic *t, uint32_t from, int i)
{
    uint64_t most = (i % 10 == 0) ? LONGEST : (i % 3 == 0) ? 100000 : 100;
    size_t len = (size_t)nx_random_below(&t->random.random, most);

    t->in[from][i] = test_calloc(1, len + 1);
    assert_non_null(t->in[from][i]);
    if (i % 4 < 2) {
        recv(&t->p, &t->r[from][i], 1 - from, context_of(i), (uint64_t)i, t->in[from][i], len);
    }
    send(&t->p, &t->s[from][i], from, context_of(i), (uint64_t)i, t->out + i, len);
    for (uint64_t n = nx_random_below(&t->random.random, 30); n > 0; n--) {
        (void)nx_sim_step(t->p.net);
    }
}

static void finish(traffic *t, uint32_t from, int i)
{
    nx_req *s = &t->s[from][i], *r = &t->r[from][i];

    if (i % 4 >= 2) {
        recv(&t->p, r, 1 - from, context_of(i), (uint64_t)i, t->in[from][i], s->bytes);
    }
    wait(&t->p, r);
    wait(&t->p, s);
    assert_int_equal(r->bytes, s->bytes);
    assert_memory_equal(t->in[from][i], t->out + i, s->bytes);
    test_free(t->in[from][i]);
}

static void test_delay_jitter_and_loss_lose_nothing(void **state)
{
    traffic *t = test_calloc(1, sizeof(*t));

    (void)state;
    assert_non_null(t);
    t->out = test_malloc(LONGEST + EACH_WAY);
    assert_non_null(t->out);
    for (size_t i = 0; i < LONGEST + EACH_WAY; i++) {
        t->out[i] = (uint8_t)(i * 11 + i / 257);
    }
    for (uint64_t seed = 0; seed < 8; seed++) {
        nx_sim_path path = {.rate = (seed % 2) ? 100000000 : 0,
                            .delay_ns = seed * 20 * MS,
                            .jitter_ns = (seed % 3) * 3 * MS,
                            .loss_ppm = (uint32_t)(seed % 4) * 15000,
                            .retry_ns = 30 * MS,
                            .piece = 1000 + 9000 * (size_t)seed};

        nx_random_seeded_init(&t->random, seed);
        make(&t->p, seed, &path, (seed % 2) ? 0 : 1 << 18);
        for (int i = 0; i < 2 * EACH_WAY; i++) {
            start(t, (uint32_t)(i % 2), i / 2);
        }
        for (int i = 2 * EACH_WAY; i-- > 0;) { /* the late receives in reverse */
            finish(t, (uint32_t)(i % 2), i / 2);
        }
        end(&t->p);
    }
    test_free(t->out);
    test_free(t);
}

static void test_a_flood_of_10000_is_received_in_reverse_while_collectives_run(void **state)
{
    enum { MANY = 10000, LEN = 10000 };
    nx_sim_path path = {.rate = 1000000000, .delay_ns = MS / 10, .jitter_ns = MS / 100};
    nx_req *s = test_calloc(MANY, sizeof(*s));
    uint8_t *out = test_calloc(1, LEN + MANY), in[LEN];
    nx_msg_stats stats;
    uint64_t slowest = 0;
    pair p;

    (void)state;
    assert_true((s != NULL) && (out != NULL));
    make(&p, 1, &path, 1 << 20);
    for (int i = 0; i < MANY; i++) {
        out[i] = (uint8_t)i;
        out[i + 1] = (uint8_t)(i >> 8);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        send(&p, &s[i], 0, user, i, out + i, LEN);
    }
    for (uint64_t i = MANY; i-- > 0;) {
        nx_req r, cs, cr;
        uint64_t began = now(&p);
        char byte;

        if (i % 20 == 0) { /* beside it, a collective's message there and back */
            recv(&p, &cr, 0, coll, i, &byte, 1);
            send(&p, &cs, 0, coll, i, "x", 1);
            recv(&p, &r, 1, coll, i, &byte, 1);
            wait(&p, &r);
            wait(&p, &cs);
            send(&p, &cs, 1, coll, i, "y", 1);
            wait(&p, &cr);
            wait(&p, &cs);
            slowest = (now(&p) - began > slowest) ? now(&p) - began : slowest;
        }
        recv(&p, &r, 1, user, i, in, LEN);
        wait(&p, &r);
        assert_memory_equal(in, out + i, LEN);
    }
    nx_msg_stats_get(p.msgs[1], &stats);
    assert_true((stats.pool_peak <= 1 << 20) && (stats.pulled > MANY / 2));
    assert_true(slowest < 5 * MS); /* 0.2 ms in a network without traffic */
    end(&p);
    test_free(s);
    test_free(out);
}

/* ---- time ---------------------------------------------------------------------------- */

/* A message to a posted receive takes one delay, whatever its size within the eager part; a longer
 * message takes one round trip more. */
static void test_a_posted_receive_costs_one_delay(void **state)
{
    nx_sim_path path = {.rate = 1000000000, .delay_ns = 50 * MS};
    static const size_t lengths[] = {0, 8, INLINE, INLINE + 1, EAGER, EAGER + 1};
    static uint8_t out[EAGER + 1], in[EAGER + 1];
    pair p;

    (void)state;
    make(&p, 1, &path, 0);
    run(&p);
    for (size_t i = 0; i < 6; i++) {
        uint64_t began = now(&p);
        nx_req s, r;

        recv(&p, &r, 1, user, 1, in, sizeof(in));
        send(&p, &s, 0, user, 1, out, lengths[i]);
        wait(&p, &r);
        assert_true(now(&p) - began < ((lengths[i] > EAGER) ? 152 : 52) * MS);
        wait(&p, &s);
    }
    end(&p);
}

/* On a long path, with many messages of the size of the eager part in flight, the rate decides, not
 * the round trip. */
static void test_a_stream_of_messages_fills_a_long_path(void **state)
{
    enum { MANY = 400 };
    nx_sim_path path = {.rate = 100000000, .delay_ns = 5 * MS, .window = 1 << 26, .piece = 65536};
    static uint8_t out[EAGER], in[EAGER];
    nx_req *s = test_calloc(MANY, sizeof(*s)), *r = test_calloc(MANY, sizeof(*r));
    uint64_t began, ideal = MANY * (uint64_t)EAGER * 10 + 5 * MS;
    pair p;

    (void)state;
    assert_true((s != NULL) && (r != NULL));
    make(&p, 1, &path, (size_t)64 << 20);
    run(&p);
    began = now(&p);
    for (size_t i = 0; i < MANY; i++) {
        recv(&p, &r[i], 1, user, 1, in, sizeof(in));
    }
    for (size_t i = 0; i < MANY; i++) {
        send(&p, &s[i], 0, user, 1, out, EAGER);
    }
    wait(&p, &r[MANY - 1]);
    assert_true(now(&p) - began < ideal + 20 * MS);
    run(&p);
    end(&p);
    test_free(s);
    test_free(r);
}

/* ---- ends ---------------------------------------------------------------------------- */

static void test_a_cut_ends_every_request(void **state)
{
    static uint8_t out[1 << 20], in[1 << 20];

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        nx_sim_path path = {.rate = 100000000, .delay_ns = MS, .jitter_ns = MS / 2};
        nx_req s[20], r[20];
        pair p;

        make(&p, seed, &path, 1 << 17);
        for (uint64_t i = 0; i < 20; i++) {
            send(&p, &s[i], 0, (i % 2) ? user : coll, i, out, 1000 * (size_t)(i * i * i));
            recv(&p, &r[i], 1, (i % 2) ? user : coll, i + (seed % 2), in, sizeof(in));
        }
        for (uint64_t n = 0; n < seed * 7; n++) {
            (void)nx_sim_step(p.net);
        }
        nx_sim_cut(p.links[0]);
        run(&p);
        for (uint64_t i = 0; i < 20; i++) {
            assert_true(s[i].done && r[i].done);
            assert_true((s[i].err == NEXAR_OK) || (s[i].err == NEXAR_EPEER));
            assert_true((r[i].err == NEXAR_OK) || (r[i].err == NEXAR_EPEER));
        }
        end(&p);
    }
}

static void test_closing_drains_what_was_sent(void **state)
{
    static uint8_t out[1 << 20], in[1 << 20];
    nx_sim_path path = {.rate = 100000000, .delay_ns = 20 * MS};
    nx_event closed = {0};
    nx_req s[3], r[3];
    pair p;

    (void)state;
    make(&p, 3, &path, 0);
    send(&p, &s[0], 0, user, 0, "short", 5);
    send(&p, &s[1], 0, user, 1, out, sizeof(out));
    send(&p, &s[2], 0, user, 2, out, EAGER);
    nx_msg_close(p.msgs[0], &closed);
    recv(&p, &r[1], 1, user, 1, in, sizeof(in));
    wait(&p, &r[1]);
    run(&p);
    assert_true(closed.set);
    for (int i = 0; i < 3; i += 2) {
        recv(&p, &r[i], 1, user, (uint64_t)i, in, sizeof(in));
        assert_true(r[i].done && (r[i].err == NEXAR_OK) && (s[i].err == NEXAR_OK));
    }
    end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delay_jitter_and_loss_lose_nothing),
        cmocka_unit_test(test_a_flood_of_10000_is_received_in_reverse_while_collectives_run),
        cmocka_unit_test(test_a_posted_receive_costs_one_delay),
        cmocka_unit_test(test_a_stream_of_messages_fills_a_long_path),
        cmocka_unit_test(test_a_cut_ends_every_request),
        cmocka_unit_test(test_closing_drains_what_was_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
