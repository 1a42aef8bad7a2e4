/*
 * conn_direct_decrypt_test.c - parts decrypted in place: all of them on a good network, and none
 * wrong on a network that loses, delays, duplicates, or changes packets.
 */
#include <string.h>

#include "base/alloc.h"
#include "quic_sim.h"
#include "sanitized.h"
#include "transport/quic/crypto/aead.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { PARTS = 30, MOST = 300000 };

static uint8_t source[2][PARTS * MOST], memory[2][PARTS * MOST];
static uint64_t got[2][PARTS];
static nx_tx txs[2][PARTS];
static nx_bytes bytes[2][PARTS];
static nxt_places places[2];
static uint64_t total[2];

/* Queues the data from |i| to the other side; with |few| every part is smaller than a packet. */
static void queue(nxt_sim *s, int i, bool few, unsigned int fickle)
{
    nx_random_fill(&s->random.random, source[i], sizeof(source[i]));
    memset(memory[i], 0, sizeof(memory[i]));
    memset(got[i], 0, sizeof(got[i]));
    places[i] = (nxt_places){
        .memory = memory[i], .stride = MOST, .n = PARTS, .got = got[i], .fickle = fickle};
    s->side[i].places = &places[i];
    total[1 - i] = 0;
    for (size_t k = 0; k < PARTS; k++) {
        size_t len = nx_random_below(&s->random.random, few ? 50000 : MOST + 1);

        bytes[i][k] = (nx_bytes){source[i] + k * MOST, len};
        txs[i][k] = (nx_tx){.id = k, .len = len, .bytes = &bytes[i][k], .nbytes = 1};
        assert_int_equal(nx_sendq_part(&s->side[i].q, &txs[i][k]), NEXAR_OK);
        nxt_sim_frame(&s->side[i], NX_LANE_MESSAGE, k);
        total[1 - i] += len;
    }
}

static bool all_has_come(const nxt_sim *s)
{
    return (s->side[0].bytes >= total[0]) && (s->side[1].bytes >= total[1]) &&
           nx_sendq_empty(&s->side[0].q) && nx_sendq_empty(&s->side[1].q);
}

static bool never(const nxt_sim *s)
{
    (void)s;
    return false;
}

/* Everything is at its destination, and nothing else changed; returns the share that was decrypted
 * in place. */
static double exchange(const nxt_quic_net *net, uint64_t seed, bool few, unsigned int fickle)
{
    nxt_sim s;

    nxt_sim_open(&s, net, seed);
    s.net.flip_ppm =
        0; /* an acceptor that answers a forged first packet is busy with it: endpoint_test */
    nxt_sim_connect(&s);
    s.net.flip_ppm = net->flip_ppm;
    queue(&s, 0, few, fickle);
    queue(&s, 1, few, fickle);
    assert_true(nxt_sim_run(&s, all_has_come, 600 * SECOND));
    (void)nxt_sim_run(&s, never, SECOND); /* packets still on the wire */
    for (int i = 0; i < 2; i++) {
        assert_true(s.side[i].bytes == total[i]);
        assert_int_equal(s.side[i].disordered, 0);
        assert_int_equal(s.side[i].frames[NX_LANE_MESSAGE], PARTS);
        for (size_t k = 0; k < PARTS; k++) {
            const size_t len = txs[1 - i][k].len;

            assert_true(got[i][k] == len);
            assert_memory_equal(memory[i] + k * MOST, source[1 - i] + k * MOST, len);
        }
    }
    nxt_sim_close(&s);
    return (double)(places[0].straight + places[1].straight) / (double)(total[0] + total[1]);
}

static void test_large_parts_go_straight(void **state)
{
    nxt_quic_net host = {.interface = 61440, .same_host = true};
    nxt_quic_net jumbo = {.interface = 8972, .delay_ns = MS / 10};

    (void)state;
    if (!nx_aead_usable()) {
        skip();
    }
    assert_true(exchange(&host, 1, false, 0) > 0.8);
    assert_true(exchange(&host, 2, true, 0) > 0.5); /* two in a packet: only one of them in place */
    assert_true(NX_NG_IS_0_12 || (exchange(&jumbo, 3, false, 0) > 0.5));
}

static void test_by_gnutls_none_does(void **state)
{
    nxt_quic_net host = {.interface = 61440, .same_host = true};

    (void)state;
    nx_aead_choose(NX_AEAD_GNUTLS);
    assert_true(exchange(&host, 4, false, 0) == 0);
    nx_aead_choose(NX_AEAD_AUTO);
}

/* Asked for a destination, the receiver has one; asked again, it has none, or the reverse. */
static void test_a_place_that_is_given_up_is_not_used(void **state)
{
    nxt_quic_net host = {.interface = 61440, .same_host = true};

    (void)state;
    assert_true(exchange(&host, 5, false, 1) == 0);
    for (unsigned int fickle = 2; fickle < 6; fickle++) {
        (void)exchange(&host, 5 + fickle, false, fickle);
    }
}

static void test_bad_networks_and_forgers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (NXT_SANITIZED ? 14u : 60u); seed++) {
        nxt_quic_net net = {.interface = (seed % 3 == 0) ? 8972 : 61440,
                            .same_host = (seed % 3 != 0),
                            .delay_ns = (seed % 4) * MS,
                            .jitter_ns = (seed % 5) * MS,
                            .loss_ppm = (uint32_t)(seed % 4) * 20000,
                            .dup_ppm = (uint32_t)(seed % 2) * 50000,
                            .flip_ppm = (uint32_t)(seed % 7) * 100000,
                            .window = (seed % 3 == 1) ? 262144 : 4 << 20};

        (void)exchange(&net, 100 + seed, seed % 5 == 0, (unsigned int)(seed % 4));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_large_parts_go_straight),
        cmocka_unit_test(test_by_gnutls_none_does),
        cmocka_unit_test(test_a_place_that_is_given_up_is_not_used),
        cmocka_unit_test(test_bad_networks_and_forgers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
