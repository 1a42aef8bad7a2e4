/*
 * conn_sim_test.c - connections on bad networks, in virtual time: loss, disorder,
 * duplicates, delay, black holes, cuts.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "quic_sim.h"
#include "sanitized.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { PARTS_MOST = 6000, BLOCK = 1 << 20 };

static uint8_t block[BLOCK];
static nx_tx txs[2][PARTS_MOST];
static nx_bytes bytes[2][PARTS_MOST];
static size_t parts;
static uint64_t frames, total[2], sums[2];

static void queue_parts(nxt_sim *s, int from, size_t n, size_t most)
{
    total[1 - from] = sums[1 - from] = 0;
    for (size_t i = 0; i < n; i++) {
        size_t len = (i % 10 == 0) ? 0 : nx_random_below(&s->random.random, most + 1);
        nx_tx *tx = &txs[from][i];

        bytes[from][i] =
            (nx_bytes){block + nx_random_below(&s->random.random, BLOCK - len + 1), len};
        *tx = (nx_tx){.id = i, .off = i << 33, .len = len, .bytes = &bytes[from][i], .nbytes = 1};
        assert_int_equal(nx_sendq_part(&s->side[from].q, tx), NEXAR_OK);
        total[1 - from] += len;
        sums[1 - from] += nxt_sim_part_sum(tx);
    }
    parts = n;
}

static void queue_frames(nxt_sim *s, int from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        nxt_sim_frame(&s->side[from], NX_LANE_MESSAGE, i);
        nxt_sim_frame(&s->side[from], NX_LANE_CONTROL, i);
    }
    frames = n;
}

static bool all_has_come(const nxt_sim *s)
{
    for (int i = 0; i < 2; i++) {
        const nxt_side *side = &s->side[i];

        if ((side->bytes < total[i]) || (side->sent < parts) ||
            (side->frames[NX_LANE_CONTROL] < frames) || (side->frames[NX_LANE_MESSAGE] < frames) ||
            !nx_sendq_empty(&side->q)) {
            return false;
        }
    }
    return true;
}

static void check(const nxt_sim *s)
{
    for (int i = 0; i < 2; i++) {
        assert_true(s->side[i].bytes == total[i]);
        assert_true(s->side[i].sum == sums[i]);
        assert_int_equal(s->side[i].disordered, 0);
        assert_int_equal(s->side[i].failed, 0);
        assert_int_equal(s->side[i].frames[NX_LANE_CONTROL], frames);
        assert_int_equal(s->side[i].frames[NX_LANE_MESSAGE], frames);
    }
}

/* Parts and frames in both directions over |net|: everything arrives, once and in order. */
static void exchange(const nxt_quic_net *net, uint64_t seed, size_t n, size_t most,
                     uint64_t limit_ns)
{
    nxt_sim s;

    nxt_sim_open(&s, net, seed);
    nxt_sim_connect(&s);
    for (int i = 0; i < 2; i++) {
        queue_parts(&s, i, n, most);
        queue_frames(&s, i, 100);
    }
    assert_true(nxt_sim_run(&s, all_has_come, limit_ns));
    check(&s);
    nxt_sim_close(&s);
}

static void test_a_clean_network_carries_everything(void **state)
{
    nxt_quic_net host = {.interface = 61440, .same_host = true};
    nxt_quic_net lan = {.interface = 1472, .delay_ns = MS / 10};

    (void)state;
    exchange(&host, 1, 200, 300000, SECOND);
    exchange(&lan, 2, 200, 300000, 60 * SECOND);
}

static void test_loss_disorder_and_duplicates_lose_nothing(void **state)
{
    static const uint32_t losses[] = {0, 10000, 50000};
    static const uint64_t delays[] = {0, MS, 20 * MS, 200 * MS};

    (void)state;
    for (size_t l = 0; l < 3; l++) {
        for (size_t d = 0; d < 4; d++) {
            nxt_quic_net net = {.interface = 1472,
                                .delay_ns = delays[d] / 2,
                                .jitter_ns = delays[d] / 4,
                                .loss_ppm = losses[l],
                                .dup_ppm = 20000};

            exchange(&net, l * 10 + d, NXT_SANITIZED ? 30 : 100, 60000, 600 * SECOND);
        }
    }
}

static void test_many_seeds(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < (NXT_SANITIZED ? 110u : 160u); seed++) {
        nxt_quic_net net = {.interface = (seed % 2 == 0) ? 1472 : 61440,
                            .same_host = (seed % 2 == 1),
                            .delay_ns = (seed % 7) * MS,
                            .jitter_ns = (seed % 5) * MS,
                            .loss_ppm = (uint32_t)(seed % 6) * 10000,
                            .dup_ppm = 10000,
                            .window = (seed % 3 == 0) ? 131072 : 0};

        exchange(&net, seed, 40, 100000, 600 * SECOND);
    }
}

static void test_thousands_of_parts_share_a_connection(void **state)
{
    nxt_quic_net net = {.interface = 1472, .delay_ns = MS, .loss_ppm = 5000};

    (void)state;
    exchange(&net, 7, PARTS_MOST, 1500, 600 * SECOND);
}

/* ---- the size of datagrams ----------------------------------------------------------- */

static bool nothing_is_left(const nxt_sim *s)
{
    (void)s;
    return false;
}

/* The largest datagram of the path is found, up to the interface's limit. */
static void test_the_path_is_searched_for_its_mtu(void **state)
{
    static const struct {
        size_t interface, path, found, by_0_12;
    } cases[] = {
        {1252, 0, 1252, 1232},     {1471, 0, 1471, 1444},    {1472, 0, 1472, 1444},
        {8972, 0, 8972, 1444},     {8972, 1472, 1472, 1444}, {8972, 1452, 1452, 1444},
        {61440, 8952, 8952, 1444}, {1472, 1300, 1232, 1232}, {1472, 1200, 1200, 1200},
        {1232, 0, 1232, 1232},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nxt_quic_net net = {.interface = cases[i].interface, .mtu = cases[i].path, .delay_ns = MS};
        nx_link_info info;
        nxt_sim s;

        nxt_sim_open(&s, &net, i);
        nxt_sim_connect(&s);
        queue_frames(&s, 0, 100);
        queue_frames(&s, 1, 100);
        (void)nxt_sim_run(&s, nothing_is_left, 20 * SECOND);
        nx_conn_info(s.side[0].conn, &info);
        assert_int_equal(info.mtu, NX_NG_IS_0_12 ? cases[i].by_0_12 : cases[i].found);
        assert_true(s.side[0].longest <= cases[i].interface);
        nxt_sim_close(&s);
    }
}

static uint64_t some_bytes;

static bool some_has_come(const nxt_sim *s)
{
    return s->side[1].bytes >= some_bytes;
}

/* The path drops datagrams of a size that it carried before. */
static void test_a_black_hole_is_got_round(void **state)
{
    nxt_quic_net net = {.interface = 8972, .delay_ns = 5 * MS};
    nxt_sim s;

    (void)state;
    nxt_sim_open(&s, &net, 3);
    nxt_sim_connect(&s);
    queue_parts(&s, 0, 300, 100000);
    queue_parts(&s, 1, 300, 100000);
    queue_frames(&s, 0, 10);
    queue_frames(&s, 1, 10);
    some_bytes = total[1] / 3;
    assert_true(nxt_sim_run(&s, some_has_come, 60 * SECOND));
    assert_true(s.side[0].longest > (NX_NG_IS_0_12 ? 1400 : 8000));
    s.net.mtu = 1400;
    assert_true(nxt_sim_run(&s, all_has_come, 600 * SECOND));
    check(&s);
    nxt_sim_close(&s);
}

/* ---- ends ---------------------------------------------------------------------------- */

static bool both_are_dead(const nxt_sim *s)
{
    return (nx_conn_get_state(s->side[0].conn) == NX_CONN_DEAD) &&
           (nx_conn_get_state(s->side[1].conn) == NX_CONN_DEAD);
}

static void test_a_cut_is_noticed_after_the_idle_time(void **state)
{
    nxt_quic_net net = {.interface = 1472, .delay_ns = MS};
    const char *why;
    nxt_sim s;

    (void)state;
    nxt_sim_open(&s, &net, 4);
    nxt_sim_connect(&s);
    queue_frames(&s, 0, 10);
    assert_false(nxt_sim_run(&s, both_are_dead, 300 * SECOND)); /* kept alive though idle */
    s.net.cut = true;
    assert_true(nxt_sim_run(&s, both_are_dead, 45 * SECOND));
    assert_int_equal(nx_conn_error(s.side[0].conn, &why), NEXAR_EPEER);
    assert_true(strlen(why) > 0);
    nxt_sim_close(&s);
}

static void test_a_short_cut_is_survived(void **state)
{
    nxt_quic_net net = {.interface = 1472, .delay_ns = MS};
    nxt_sim s;

    (void)state;
    nxt_sim_open(&s, &net, 5);
    nxt_sim_connect(&s);
    queue_parts(&s, 0, 100, 100000);
    queue_parts(&s, 1, 100, 100000);
    queue_frames(&s, 0, 10);
    queue_frames(&s, 1, 10);
    some_bytes = total[1] / 2;
    assert_true(nxt_sim_run(&s, some_has_come, 60 * SECOND));
    s.net.cut = true;
    assert_false(nxt_sim_run(&s, all_has_come, 8 * SECOND));
    s.net.cut = false;
    assert_true(nxt_sim_run(&s, all_has_come, 60 * SECOND));
    check(&s);
    nxt_sim_close(&s);
}

static bool all_is_given_back(const nxt_sim *s)
{
    return s->side[0].sent == parts;
}

static void test_cancelled_parts_come_back_and_the_window_too(void **state)
{
    nxt_quic_net net = {
        .interface = 1472, .delay_ns = 10 * MS, .loss_ppm = 20000, .window = 200000};
    nxt_sim s;

    (void)state;
    nxt_sim_open(&s, &net, 6);
    nxt_sim_connect(&s);
    for (int round = 0; round < 10; round++) {
        s.side[0].sent = 0;
        queue_parts(&s, 0, 20, 100000);
        some_bytes = s.side[1].bytes + 50000;
        assert_true(nxt_sim_run(&s, some_has_come, 60 * SECOND));
        for (size_t i = 0; i < parts; i += 2) {
            nx_sendq_cancel(&s.side[0].q, &txs[0][i]);
        }
        assert_true(nxt_sim_run(&s, all_is_given_back, 60 * SECOND));
    }
    nxt_sim_close(&s);
}

/* A peer need not be nexar, nor a member: it may send any reason. */
static void test_the_reason_of_a_peer_is_one_line_of_plain_text(void **state)
{
    static const char reason[] =
        "so\nnexar seed: all 2 ranks have joined\r\033]0;x\a\xc3\xa4\x9b"
        "2J\177 and more of it, up to where there is no room for it: "
        "0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789012345678901234567890123456789";
    nxt_quic_net net = {.interface = 1472, .delay_ns = MS / 10};
    uint8_t buf[NX_DATAGRAM_MIN];
    const char *why;
    nxt_sim s;
    size_t len;

    (void)state;
    nxt_sim_open(&s, &net, 12);
    nxt_sim_connect(&s);
    len = nx_conn_close(s.side[0].conn, NX_CLOSE_REFUSED, reason, buf, sizeof(buf), s.now_ns);
    assert_true(len > 0);
    nx_conn_read(s.side[1].conn, &(struct sockaddr_storage){0}, buf, len, s.now_ns);
    assert_int_equal(nx_conn_get_state(s.side[1].conn), NX_CONN_DEAD);
    assert_int_equal(nx_conn_error(s.side[1].conn, &why), NEXAR_EAUTH);
    assert_memory_equal(
        why, "refused by the peer: so?nexar seed: all 2 ranks have joined??]0;x????2J? ", 72);
    assert_true(strlen(why) < NX_CONN_WHY);
    for (const char *c = why; *c != '\0'; c++) {
        assert_in_range(*c, 0x20, 0x7e);
    }
    nxt_sim_close(&s);
}

static bool five_gib_have_come(const nxt_sim *s)
{
    return (s->side[1].bytes == total[1]) && nx_sendq_empty(&s->side[0].q);
}

/* One part whose stream is longer than 32 bits can count. */
static void test_a_part_of_more_than_four_gib_arrives(void **state)
{
    enum { BLOCKS = 4400 };
    nxt_quic_net net = {.interface = 61440, .same_host = true, .window = 4 << 20};
    nx_bytes *list = nx_calloc(BLOCKS, sizeof(*list));
    nx_tx tx = {.id = 1, .len = (uint64_t)BLOCKS * BLOCK, .bytes = list, .nbytes = BLOCKS};
    nxt_sim s;

    (void)state;
    if (NXT_SANITIZED || (getenv("NXT_LONG") == NULL)) { /* NOLINT(concurrency-mt-unsafe) */
        nx_free(list);
        skip();
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        list[i] = (nx_bytes){block, BLOCK};
    }
    nxt_sim_open(&s, &net, 8);
    nxt_sim_connect(&s);
    total[1] = tx.len;
    assert_int_equal(nx_sendq_part(&s.side[0].q, &tx), NEXAR_OK);
    assert_true(nxt_sim_run(&s, five_gib_have_come, 600 * SECOND));
    assert_true(s.side[1].sum == nxt_sim_part_sum(&tx));
    nxt_sim_close(&s);
    nx_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_clean_network_carries_everything),
        cmocka_unit_test(test_loss_disorder_and_duplicates_lose_nothing),
        cmocka_unit_test(test_many_seeds),
        cmocka_unit_test(test_thousands_of_parts_share_a_connection),
        cmocka_unit_test(test_the_path_is_searched_for_its_mtu),
        cmocka_unit_test(test_a_black_hole_is_got_round),
        cmocka_unit_test(test_a_cut_is_noticed_after_the_idle_time),
        cmocka_unit_test(test_a_short_cut_is_survived),
        cmocka_unit_test(test_cancelled_parts_come_back_and_the_window_too),
        cmocka_unit_test(test_the_reason_of_a_peer_is_one_line_of_plain_text),
        cmocka_unit_test(test_a_part_of_more_than_four_gib_arrives),
    };
    nx_random_seeded r;

    nx_random_seeded_init(&r, 11);
    nx_random_fill(&r.random, block, sizeof(block));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
