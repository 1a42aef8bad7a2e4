/* sim_test.c - the virtual network alone: time, randomness, cuts. */
#include "transport/sim/sim.h"

#include <string.h>

#include "oom.h"
#include "unit.h"

#define MS  UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)

/* One end: counts its upcalls. */
typedef struct end {
    int ups, frames, sents, downs;
    uint64_t bytes, hash; /* of all data, in order of arrival */
    nexar_err sent_err, down_err;
    nx_event *event;
    nx_loop *loop;
} end;

static void mix(end *e, uint64_t v)
{
    e->hash = (e->hash ^ v) * UINT64_C(0x100000001b3);
}

static void on_up(void *ctx, nx_link *link)
{
    (void)link;
    ((end *)ctx)->ups++;
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    end *e = ctx;

    (void)link;
    (void)data;
    e->frames++;
    mix(e, ((uint64_t)lane << 32) | len);
    if (e->event != NULL) {
        nx_event_set(e->loop, e->event);
    }
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    end *e = ctx;

    (void)link;
    (void)data;
    e->bytes += len;
    mix(e, id);
    mix(e, off);
    mix(e, len);
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    end *e = ctx;

    (void)link;
    (void)tx;
    e->sents++;
    e->sent_err = err;
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    end *e = ctx;

    (void)link;
    assert_true(strlen(why) > 0);
    e->downs++;
    e->down_err = err;
}

static const nx_link_up up = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down};

typedef struct pair {
    nx_sim_net *net;
    nx_link *links[2];
    end ends[2];
} pair;

static void begin(pair *p, uint64_t seed, const nx_sim_path *path, nx_loop *loop)
{
    nx_sim_end ends[2] = {{&up, &p->ends[0]}, {&up, &p->ends[1]}};

    *p = (pair){0};
    assert_int_equal(nx_sim_create(&p->net, seed, loop), NEXAR_OK);
    assert_int_equal(nx_sim_pair(p->net, path, ends, p->links), NEXAR_OK);
}

static uint64_t now(const pair *p)
{
    return nx_now(nx_sim_clock(p->net));
}

static void run(pair *p)
{
    while (nx_sim_step(p->net)) {
    }
}

static nx_tx make_tx(uint64_t id, const nx_bytes *bytes)
{
    return (nx_tx){.id = id, .len = bytes->len, .bytes = bytes, .nbytes = 1};
}

static void say(nx_link *link, const char *text)
{
    nx_bytes bytes = {text, strlen(text)};

    assert_int_equal(nx_link_send_frame(link, NX_LANE_MESSAGE, &bytes, 1), NEXAR_OK);
}

static char block[MIB];

static void test_a_transfer_takes_the_time_that_rate_and_delay_say(void **state)
{
    nx_sim_path path = {.rate = 100 * MIB, .delay_ns = 5 * MS, .window = 8 * MIB, .piece = 65536};
    nx_bytes bytes = {block, sizeof(block)};
    nx_tx tx = make_tx(1, &bytes);
    uint64_t begin_ns, took_ns;
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    run(&p);
    begin_ns = now(&p);
    assert_int_equal(nx_link_send_part(p.links[0], &tx), NEXAR_OK);
    run(&p);
    took_ns = now(&p) - begin_ns;
    assert_int_equal(p.ends[1].bytes, MIB);
    assert_true((took_ns > 20 * MS) && (took_ns < 23 * MS)); /* 10 on the wire, 2 x 5 */
    nx_sim_destroy(p.net);
}

static void test_the_same_seed_gives_the_same_run(void **state)
{
    nx_sim_path path = {.delay_ns = MS, .jitter_ns = MS, .loss_ppm = 20000, .retry_ns = 3 * MS};
    uint64_t hashes[3];

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        nx_bytes bytes = {block, 100000};
        nx_tx txs[20];
        pair p;

        begin(&p, i / 2, &path, NULL);
        for (uint64_t n = 0; n < 20; n++) {
            txs[n] = make_tx(n, &bytes);
            assert_int_equal(nx_link_send_part(p.links[0], &txs[n]), NEXAR_OK);
            say(p.links[0], "x");
        }
        run(&p);
        assert_int_equal(p.ends[0].sents, 20);
        assert_int_equal(p.ends[1].bytes, 20 * 100000);
        hashes[i] = p.ends[1].hash;
        nx_sim_destroy(p.net);
    }
    assert_true(hashes[0] == hashes[1]);
    assert_true(hashes[0] != hashes[2]);
}

static void test_no_more_than_the_window_is_on_its_way(void **state)
{
    nx_sim_path path = {.delay_ns = MS, .window = 20000, .piece = 1000};
    nx_bytes bytes = {block, sizeof(block)};
    nx_tx tx = make_tx(1, &bytes);
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    assert_int_equal(nx_link_send_part(p.links[0], &tx), NEXAR_OK);
    while (nx_sim_step(p.net)) {
        nx_link_info info;

        p.links[0]->ops->info(p.links[0], &info);
        assert_true(info.bytes_sent <= tx.acked + 21000);
    }
    assert_int_equal(p.ends[0].sents, 1);
    nx_sim_destroy(p.net);
}

static void test_a_blocked_end_receives_nothing_until_it_is_unblocked(void **state)
{
    nx_sim_path path = {.delay_ns = MS};
    nx_bytes bytes = {block, 100};
    nx_tx tx = make_tx(1, &bytes);
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    run(&p);
    nx_sim_block(p.links[1], true);
    say(p.links[0], "one");
    say(p.links[1], "other way");
    assert_int_equal(nx_link_send_part(p.links[1], &tx), NEXAR_OK);
    run(&p);
    assert_int_equal(p.ends[1].frames, 0);
    assert_int_equal(p.ends[0].frames, 1);
    assert_int_equal(p.ends[0].bytes, 100);
    assert_int_equal(p.ends[1].sents, 0); /* the acknowledgement is held too */
    nx_sim_block(p.links[1], false);
    run(&p);
    assert_int_equal(p.ends[1].frames, 1);
    assert_int_equal(p.ends[1].sents, 1);
    nx_sim_destroy(p.net);
}

static void test_a_cut_takes_both_ends_down(void **state)
{
    nx_sim_path path = {.delay_ns = MS};
    nx_bytes bytes = {block, sizeof(block)};
    nx_tx tx = make_tx(1, &bytes);
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    assert_int_equal(nx_link_send_part(p.links[0], &tx), NEXAR_OK);
    nx_sim_cut(p.links[1]);
    nx_sim_cut(p.links[0]);
    run(&p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(p.ends[i].downs, 1);
        assert_int_equal(p.ends[i].down_err, NEXAR_EPEER);
        nx_link_close(p.links[i], i == 0);
    }
    assert_int_equal(p.ends[0].sents, 1);
    assert_int_equal(p.ends[0].sent_err, NEXAR_EPEER);
    run(&p);
    assert_int_equal(nx_sim_links(p.net), 0);
    nx_sim_destroy(p.net);
}

static void test_a_killed_end_is_called_no_more(void **state)
{
    nx_sim_path path = {.delay_ns = MS};
    nx_bytes bytes = {block, sizeof(block)};
    nx_tx txs[2] = {make_tx(1, &bytes), make_tx(2, &bytes)};
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    run(&p);
    assert_int_equal(nx_link_send_part(p.links[0], &txs[0]), NEXAR_OK);
    assert_int_equal(nx_link_send_part(p.links[1], &txs[1]), NEXAR_OK);
    nx_sim_kill(p.links[0]);
    run(&p);
    assert_int_equal(p.ends[0].sents + p.ends[0].downs, 0);
    assert_int_equal(p.ends[1].sents, 1);
    assert_int_equal(p.ends[1].downs, 1);
    assert_int_equal(nx_sim_links(p.net), 1);
    nx_sim_destroy(p.net);
}

typedef struct bell {
    nx_timer timer;
    uint64_t rang_ns;
} bell;

static void on_bell(nx_timer *self, uint64_t now_ns)
{
    nx_list_entry(self, bell, timer)->rang_ns = now_ns;
}

static void test_timers_of_attached_loops_are_part_of_the_virtual_time(void **state)
{
    nx_sim_path path = {.delay_ns = 10 * MS};
    bell b = {.timer = {.on_expire = on_bell}};
    nx_loop *loop = NULL;
    uint64_t begin_ns;
    pair p;

    (void)state;
    begin(&p, 1, &path, NULL);
    begin_ns = now(&p);
    assert_int_equal(nx_loop_create(&loop, nx_sim_clock(p.net)), NEXAR_OK);
    assert_int_equal(nx_sim_attach(p.net, loop), NEXAR_OK);
    nx_loop_lock(loop);
    assert_int_equal(nx_loop_timer_set(loop, &b.timer, begin_ns + 5 * MS), NEXAR_OK);
    assert_true(nx_sim_step(p.net));
    assert_int_equal(b.rang_ns, begin_ns + 5 * MS);
    assert_int_equal(p.ends[0].ups, 0);
    run(&p);
    assert_int_equal(p.ends[0].ups, 1);
    assert_int_equal(now(&p), begin_ns + 20 * MS);
    nx_sim_detach(p.net, loop);
    nx_loop_unlock(loop);
    nx_loop_destroy(loop);
    nx_sim_destroy(p.net);
}

static void test_a_net_on_a_loop_runs_automatically(void **state)
{
    nx_sim_path path = {.delay_ns = MS / 10};
    nx_event event = {0};
    nx_loop *loop = NULL;
    pair p;

    (void)state;
    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(loop);
    begin(&p, 1, &path, loop);
    p.ends[1].event = &event;
    p.ends[1].loop = loop;
    say(p.links[0], "hello");
    assert_true(nx_loop_wait(loop, &event, nx_loop_now(loop) + UINT64_C(20000000000)));
    assert_int_equal(p.ends[1].ups, 1);
    nx_sim_destroy(p.net);
    nx_loop_unlock(loop);
    nx_loop_destroy(loop);
}

static void test_without_memory_a_pair_is_not_made(void **state)
{
    nx_sim_path path = {0};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_sim_net *net = NULL;
        nx_link *links[2];

        if (nx_sim_create(&net, 1, NULL) != NEXAR_OK) {
            assert_true(nx_alloc_failed());
            continue;
        }
        if (nx_sim_pair(net, &path, NULL, links) != NEXAR_OK) {
            assert_true(nx_alloc_failed());
            assert_int_equal(nx_sim_links(net), 0);
        }
        nx_sim_destroy(net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_transfer_takes_the_time_that_rate_and_delay_say),
        cmocka_unit_test(test_the_same_seed_gives_the_same_run),
        cmocka_unit_test(test_no_more_than_the_window_is_on_its_way),
        cmocka_unit_test(test_a_blocked_end_receives_nothing_until_it_is_unblocked),
        cmocka_unit_test(test_a_cut_takes_both_ends_down),
        cmocka_unit_test(test_a_killed_end_is_called_no_more),
        cmocka_unit_test(test_timers_of_attached_loops_are_part_of_the_virtual_time),
        cmocka_unit_test(test_a_net_on_a_loop_runs_automatically),
        cmocka_unit_test(test_without_memory_a_pair_is_not_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
