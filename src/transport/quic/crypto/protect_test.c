/*
 * protect_test.c - the keys of RFC 9001's examples, and connections whose packets nexar's own AEAD,
 * GnuTLS, or one of each protects; key updates in flight.
 */
#include "protect.h"

#include <string.h>

#include "aead.h"
#include "hex.h"
#include "quic_sim.h"
#include "transport/quic/conn/conn_impl.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

/* ---- RFC 9001, appendix A ------------------------------------------------------------ */

static void derive(const char *secret, nx_protect_keys *keys)
{
    ngtcp2_crypto_md md;
    uint8_t bytes[32];

    (void)ngtcp2_crypto_md_init(&md, (void *)(intptr_t)GNUTLS_DIG_SHA256);
    assert_true(nx_protect_derive(&md, bytes, nxt_unhex(secret, bytes), 16, keys));
}

static void same(const uint8_t *got, const char *want)
{
    uint8_t bytes[256];
    size_t n = nxt_unhex(want, bytes);

    assert_memory_equal(got, bytes, n);
}

#define CLIENT_SECRET "c00cf151ca5be075ed0ebfb5c80323c42d6b7db67881289af4008f1f6c357aea"
#define SERVER_SECRET "3c199828fd139efd216c155ad844cc81fb82fa8d7446fa7d78be803acdda951b"

static void test_keys_are_those_of_the_standard(void **state)
{
    nx_protect_keys keys;

    (void)state;
    derive(CLIENT_SECRET, &keys);
    same(keys.key, "1f369613dd76d5467730efcbe3b1a22d");
    same(keys.iv, "fa044b2f42a3fd3b46fb255c");
    same(keys.hp, "9f50449e04a0e810283a1e9933adedd2");
    derive(SERVER_SECRET, &keys);
    same(keys.key, "cf3a5331653c364c88f0f379b6067e37");
    same(keys.iv, "0ac1493ca1905853b0bba03e");
    same(keys.hp, "c206b8d9b9f0f37644430b490eeaa314");
}

/* The server's first packet, A.3: number 1, header of 20 bytes. */
static void test_a_packet_is_that_of_the_standard(void **state)
{
    static const char want[] =
        "5a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f5ede4cf73c3ec2493a1839b3"
        "dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795d77d06ed"
        "bb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee";
    uint8_t head[20], packet[256], mask[16];
    nx_aead_text text = {.head = head, .in = packet};
    nx_protect_keys keys;
    nx_aead *a;

    (void)state;
    if (!nx_aead_usable()) {
        skip();
    }
    derive(SERVER_SECRET, &keys);
    keys.iv[11] ^= 1;
    text.nonce = keys.iv;
    text.head_len = nxt_unhex("c1000000010008f067a5502a4262b50040750001", head);
    text.len =
        nxt_unhex("02000000000600405a020000560303eefce7f7b37ba1d1632e96677825ddf73988cfc79825df5"
                  "66dc5430b9a045a1200130100002e00330024001d00209d3c940d89690b84d08a60993c144eca"
                  "684d1081287c834d5311bcf32bb9da1a002b00020304",
                  packet);
    a = nx_aead_create(keys.key, 16);
    assert_non_null(a);
    assert_true(nx_aead_seal(a, &text, packet));
    same(packet, want);
    nx_aead_destroy(a);

    a = nx_aead_create(keys.hp, 16);
    assert_non_null(a);
    nx_aead_block(a, packet + 2, mask); /* the number has two bytes: sampled two on */
    same(mask, "2ec0d8356a");
    nx_aead_destroy(a);
}

/* ---- connections --------------------------------------------------------------------- */

enum { PARTS = 16, PART = 50000 };

static uint8_t block[PART];
static nx_tx txs[2][2][PARTS];
static nx_bytes bytes[PARTS];
static uint64_t want_bytes, want_sum;
static int updater;

static void queue(nxt_sim *s, int from, int batch)
{
    for (size_t i = 0; i < PARTS; i++) {
        nx_tx *tx = &txs[from][batch][i];

        bytes[i] = (nx_bytes){block, PART - i};
        *tx = (nx_tx){.id = i, .len = PART - i, .bytes = &bytes[i], .nbytes = 1};
        assert_int_equal(nx_sendq_part(&s->side[from].q, tx), NEXAR_OK);
        want_bytes += tx->len;
        want_sum += nxt_sim_part_sum(tx);
    }
}

static bool all_has_come(const nxt_sim *s)
{
    return (s->side[0].bytes + s->side[1].bytes == want_bytes) && nx_sendq_empty(&s->side[0].q) &&
           nx_sendq_empty(&s->side[1].q);
}

/* ngtcp2 refuses an update until the last keys have been in use for some probe time-outs. */
static bool update_begun(const nxt_sim *s)
{
    return ngtcp2_conn_initiate_key_update(s->side[updater].conn->ng, s->now_ns) == 0;
}

/* Data in both directions, several times, with new keys from one end or the other in the middle of
 * each but the first; returns the number of nexar's own keys. */
static void exchange(const nxt_quic_net *net, const bool own[2], int updates, unsigned int made[2])
{
    nxt_sim s;

    want_bytes = want_sum = 0;
    nx_aead_choose(own[0] ? NX_AEAD_AUTO : NX_AEAD_GNUTLS); /* the dialler is created immediately */
    nxt_sim_open(&s, net, 3);
    nx_aead_choose(own[1] ? NX_AEAD_AUTO
                          : NX_AEAD_GNUTLS); /* the other side with its first packet */
    nxt_sim_connect(&s);
    nx_aead_choose(NX_AEAD_AUTO);
    for (int u = 0; u <= updates; u++) {
        queue(&s, 0, 0);
        queue(&s, 1, 0);
        updater = u % 2;
        assert_true((u == 0) || nxt_sim_run(&s, update_begun, 600 * SECOND));
        queue(&s, 0, 1); /* with the new keys, if the others are all sent */
        queue(&s, 1, 1);
        assert_true(nxt_sim_run(&s, all_has_come, 600 * SECOND));
    }
    assert_true(s.side[0].sum + s.side[1].sum == want_sum);
    for (int i = 0; i < 2; i++) {
        made[i] = s.side[i].conn->tls.own_keys;
    }
    nxt_sim_close(&s);
}

static void test_either_end_may_have_ours(void **state)
{
    nxt_quic_net host = {.interface = 61440, .same_host = true};
    nxt_quic_net lan = {.interface = 1472, .delay_ns = MS, .loss_ppm = 10000, .dup_ppm = 10000};

    (void)state;
    for (int i = 0; i < 4; i++) {
        bool own[2] = {nx_aead_usable() && ((i & 1) != 0), nx_aead_usable() && ((i & 2) != 0)};
        unsigned int made[2];

        exchange(&host, own, 0, made);
        assert_int_equal(made[0] >= 2, own[0]);
        assert_int_equal(made[1] >= 2, own[1]);
        exchange(&lan, own, 0, made);
    }
}

static void test_keys_are_updated_under_way(void **state)
{
    nxt_quic_net lan = {.interface = 1472, .delay_ns = MS, .jitter_ns = MS, .loss_ppm = 10000};
    enum { UPDATES = 5 };

    (void)state;
    for (int i = 0; i < 4; i++) {
        bool own[2] = {nx_aead_usable() && ((i & 1) != 0), nx_aead_usable() && ((i & 2) != 0)};
        unsigned int made[2];

        exchange(&lan, own, UPDATES, made);
        for (int end = 0; end < 2; end++) {
            assert_true(own[end] ? (made[end] >= 2 + 2 * UPDATES) : (made[end] == 0));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys_are_those_of_the_standard),
        cmocka_unit_test(test_a_packet_is_that_of_the_standard),
        cmocka_unit_test(test_either_end_may_have_ours),
        cmocka_unit_test(test_keys_are_updated_under_way),
    };

    for (size_t i = 0; i < sizeof(block); i++) {
        block[i] = (uint8_t)(i * 37);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
