/*
 * aead_test.c - nexar's own AES-GCM against published vectors, and against GnuTLS for every length
 * and alignment.
 *
 * Vectors: FIPS 197 appendix C; the test cases of "The Galois/Counter Mode of
 * Operation" (McGrew, Viega) that NIST publishes with SP 800-38D.
 */
#include "aead.h"

#include <gnutls/crypto.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "hex.h"
#include "unit.h"

enum { ROOM = 300000, SHIFTS = 64, HEAD_MOST = 600 };

static uint8_t plain[ROOM], sealed[ROOM], theirs[ROOM], opened[ROOM], head[HEAD_MOST];
static nx_random_seeded random_source;

/* ---- published vectors --------------------------------------------------------------- */

typedef struct vector {
    const char *key, *nonce, *head, *plain, *sealed, *tag;
} vector;

#define ZEROS_12 "000000000000000000000000"
#define ZEROS_16 "00000000000000000000000000000000"
#define KEY_16   "feffe9928665731c6d6a8f9467308308"
#define NONCE    "cafebabefacedbaddecaf888"
#define HEAD     "feedfacedeadbeeffeedfacedeadbeefabaddad2"
#define TEXT_60                                                        \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" \
    "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"
#define SEALED_128_60                                                  \
    "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e" \
    "21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091"
#define SEALED_256_60                                                  \
    "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" \
    "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"

static const vector vectors[] = {
    {ZEROS_16, ZEROS_12, "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
    {ZEROS_16, ZEROS_12, "", ZEROS_16, "0388dace60b6a392f328c2b971b2fe78",
     "ab6e47d42cec13bdf53a67b21257bddf"},
    {KEY_16, NONCE, "", TEXT_60 "1aafd255", SEALED_128_60 "473f5985",
     "4d5c2af327cd64a62cf35abd2ba6fab4"},
    {KEY_16, NONCE, HEAD, TEXT_60, SEALED_128_60, "5bc94fbc3221a5db94fae95ae7121a47"},
    {ZEROS_16 ZEROS_16, ZEROS_12, "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
    {ZEROS_16 ZEROS_16, ZEROS_12, "", ZEROS_16, "cea7403d4d606b6e074ec5d3baf39d18",
     "d0d1c8a799996bf0265b98b5d48ab919"},
    {KEY_16 KEY_16, NONCE, "", TEXT_60 "1aafd255", SEALED_256_60 "898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"},
    {KEY_16 KEY_16, NONCE, HEAD, TEXT_60, SEALED_256_60, "76fc6ece0f4e1768cddf8853bb2d551b"},
};

static void test_published_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        const vector *v = &vectors[i];
        uint8_t key[32], nonce[16], want[96];
        nx_aead *a = nx_aead_create(key, nxt_unhex(v->key, key));
        nx_aead_text text = {.nonce = nonce, .head = head, .in = plain};
        size_t n = nxt_unhex(v->sealed, want);

        assert_non_null(a);
        (void)nxt_unhex(v->nonce, nonce);
        text.head_len = nxt_unhex(v->head, head);
        text.len = nxt_unhex(v->plain, plain);
        n += nxt_unhex(v->tag, want + n);
        assert_true(nx_aead_seal(a, &text, sealed));
        assert_memory_equal(sealed, want, n);
        text.in = want;
        text.len = n;
        assert_true(nx_aead_open(a, &text, opened));
        assert_memory_equal(opened, plain, n - NX_AEAD_TAG);
        nx_aead_destroy(a);
    }
}

static void test_blocks_are_those_of_the_standard(void **state)
{
    static const char *const wants[] = {"69c4e0d86a7b0430d8cdb78070b4c55a",
                                        "8ea2b7ca516745bfeafc49904b496089"};
    uint8_t key[32], in[16], out[16], want[16];

    (void)state;
    for (size_t i = 0; i < sizeof(key); i++) {
        key[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (uint8_t)(0x11 * i);
    }
    for (size_t i = 0; i < 2; i++) {
        nx_aead *a = nx_aead_create(key, 16 * (i + 1));

        assert_non_null(a);
        nx_aead_block(a, in, out);
        (void)nxt_unhex(wants[i], want);
        assert_memory_equal(out, want, 16);
        nx_aead_destroy(a);
    }
}

/* ---- against GnuTLS ------------------------------------------------------------------ */

typedef struct pair {
    uint8_t key[32], nonce[NX_AEAD_NONCE];
    nx_aead *own;
    gnutls_aead_cipher_hd_t other;
} pair;

static void pair_open(pair *p, size_t len)
{
    gnutls_datum_t key = {.data = p->key, .size = (unsigned int)len};

    nx_random_fill(&random_source.random, p->key, sizeof(p->key));
    p->own = nx_aead_create(p->key, len);
    assert_non_null(p->own);
    assert_int_equal(
        gnutls_aead_cipher_init(
            &p->other, (len == 16) ? GNUTLS_CIPHER_AES_128_GCM : GNUTLS_CIPHER_AES_256_GCM, &key),
        0);
}

static void pair_close(pair *p)
{
    nx_aead_destroy(p->own);
    gnutls_aead_cipher_deinit(p->other);
}

/* Seals |len| bytes by both, opens them by nexar's own, separately and in place. */
static void compare(pair *p, size_t head_len, size_t len, size_t from, size_t to)
{
    nx_aead_text text = {.nonce = p->nonce,
                         .head = head + from,
                         .head_len = head_len,
                         .in = plain + from,
                         .len = len};
    size_t n = len + NX_AEAD_TAG;
    uint8_t *out = sealed + to;

    nx_random_fill(&random_source.random, p->nonce, sizeof(p->nonce));
    assert_int_equal(gnutls_aead_cipher_encrypt(p->other, p->nonce, sizeof(p->nonce), text.head,
                                                head_len, NX_AEAD_TAG, text.in, len, theirs, &n),
                     0);
    out[n] = 0x5a;
    assert_true(nx_aead_seal(p->own, &text, out));
    assert_memory_equal(out, theirs, n);
    assert_int_equal(out[n], 0x5a);
    memcpy(opened + to, text.in, len);
    text.in = opened + to;
    assert_true(nx_aead_seal(p->own, &text, opened + to));
    assert_memory_equal(opened + to, theirs, n);

    text.in = out;
    text.len = n;
    opened[len] = 0x5a;
    assert_true(nx_aead_open(p->own, &text, opened));
    assert_memory_equal(opened, plain + from, len);
    assert_int_equal(opened[len], 0x5a);
    assert_true(nx_aead_open(p->own, &text, out));
    assert_memory_equal(out, plain + from, len);
}

static void test_every_length_is_as_by_gnutls(void **state)
{
    static const size_t large[] = {8191, 16384, 61440, 65507, 65536, 65537, 262144, 299000};

    (void)state;
    for (size_t key_len = 16; key_len <= 32; key_len += 16) {
        pair p = {0};

        pair_open(&p, key_len);
        for (size_t len = 0; len <= 4096; len++) {
            compare(&p, len % 40, len, 0, 0);
        }
        for (size_t i = 0; i < sizeof(large) / sizeof(large[0]); i++) {
            compare(&p, 13, large[i], 3, 5);
        }
        pair_close(&p);
    }
}

static void test_every_alignment_is_as_by_gnutls(void **state)
{
    static const size_t lengths[] = {1,   15,  16,  17,  127, 128, 129,
                                     255, 256, 257, 511, 512, 513, 1400};

    (void)state;
    for (size_t key_len = 16; key_len <= 32; key_len += 16) {
        pair p = {0};

        pair_open(&p, key_len);
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            for (size_t from = 0; from < SHIFTS; from++) {
                compare(&p, 20, lengths[i], from, (from * 7 + i) % SHIFTS);
            }
        }
        pair_close(&p);
    }
}

static void test_every_head_is_as_by_gnutls(void **state)
{
    pair p = {0};

    (void)state;
    pair_open(&p, 16);
    for (size_t head_len = 0; head_len <= HEAD_MOST; head_len++) {
        compare(&p, head_len, 100, 0, 1);
    }
    pair_close(&p);
}

/* There is nothing to fetch, and memory stays unchanged. */
static void test_a_hint_changes_nothing(void **state)
{
    static const uint8_t *const nowhere = (const uint8_t *)(uintptr_t)4096;
    uint8_t nonce[NX_AEAD_NONCE] = {7}, plainly[4096 + NX_AEAD_TAG], there[4096], same[4096];
    nx_aead_text text = {nonce, head, 13, plain, 4096, {0}, {0}};
    pair p = {0};

    (void)state;
    memset(there, 0x5a, sizeof(there));
    memset(same, 0x5a, sizeof(same));
    pair_open(&p, 16);
    assert_true(nx_aead_seal(p.own, &text, plainly));
    for (size_t len = 0; len <= 8192; len += 64) {
        text = (nx_aead_text){nonce, head, 13, plain, 4096, {nowhere, len}, {0}};
        assert_true(nx_aead_seal(p.own, &text, sealed));
        assert_memory_equal(sealed, plainly, sizeof(plainly));
        text =
            (nx_aead_text){nonce, head, 13, sealed, 4096 + NX_AEAD_TAG, {there, len % 4097}, {0}};
        assert_true(nx_aead_open(p.own, &text, opened));
        assert_memory_equal(opened, plain, 4096);
        assert_memory_equal(there, same, sizeof(there));
    }
    pair_close(&p);
}

/* ---- places -------------------------------------------------------------------------- */

enum { AROUND = 64 };
static uint8_t place[ROOM + 2 * AROUND];

/* Opens a sealed text with bytes [from, to) of its |len| going elsewhere. */
static void open_to_place(const pair *p, nx_aead_text *text, size_t from, size_t to)
{
    const size_t len = text->len - NX_AEAD_TAG;

    memset(place, 0x5a, to - from + 2 * (size_t)AROUND);
    memset(opened, 0xa5, len + 1);
    text->place = (nx_aead_place){place + AROUND, from, to};
    assert_true(nx_aead_open(p->own, text, opened));
    assert_memory_equal(opened, plain, from);
    assert_memory_equal(opened + to, plain + to, len - to);
    assert_int_equal(opened[len], 0xa5);
    assert_memory_equal(place + AROUND, plain + from, to - from);
    for (size_t i = 0; i < AROUND; i++) {
        assert_int_equal(place[i], 0x5a);
        assert_int_equal(place[AROUND + to - from + i], 0x5a);
    }
}

/* All places whose ends are some steps from the ends of the text. */
static void open_to_places(const pair *p, nx_aead_text *text)
{
    static const size_t steps[] = {0, 1, 7, 64, 190, 191, 192, 193, 300, 384, 385, 576, 998};
    enum { STEPS = sizeof(steps) / sizeof(steps[0]) };
    const size_t len = text->len - NX_AEAD_TAG;

    for (size_t f = 0; f < STEPS; f++) {
        for (size_t t = 0; t < STEPS; t++) {
            if (steps[f] + steps[t] <= len) {
                open_to_place(p, text, steps[f], len - steps[t]);
                open_to_place(p, text, steps[f], steps[f] + steps[t]);
            }
        }
    }
}

static void test_bytes_go_to_their_place(void **state)
{
    static const size_t lengths[] = {1, 191, 192, 193, 384, 400, 577, 1000, 5000};
    uint8_t nonce[NX_AEAD_NONCE] = {9};
    pair p = {0};

    (void)state;
    pair_open(&p, 16);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        nx_aead_text text = {nonce, head, 13, plain, lengths[i], {0}, {0}};

        assert_true(nx_aead_seal(p.own, &text, sealed));
        text.in = sealed;
        text.len = lengths[i] + NX_AEAD_TAG;
        open_to_places(&p, &text);
    }
    pair_close(&p);
}

static void test_a_place_of_what_is_false_is_zero(void **state)
{
    uint8_t nonce[NX_AEAD_NONCE] = {9}, zero[4000] = {0};
    nx_aead_text text = {nonce, head, 13, plain, 4000, {0}, {0}};
    pair p = {0};

    (void)state;
    pair_open(&p, 16);
    assert_true(nx_aead_seal(p.own, &text, sealed));
    sealed[3000] ^= 1;
    text.in = sealed;
    text.len = 4000 + NX_AEAD_TAG;
    text.place = (nx_aead_place){place, 100, 3999};
    memset(place, 0x5a, 4000);
    assert_false(nx_aead_open(p.own, &text, opened));
    assert_memory_equal(place, zero, 3899);
    assert_int_equal(place[3899], 0x5a);
    assert_memory_equal(opened, zero, 4000);
    pair_close(&p);
}

static void test_a_peek_shows_any_part_of_a_text(void **state)
{
    uint8_t nonce[NX_AEAD_NONCE] = {9};
    nx_aead_text text = {nonce, head, 13, plain, 1000, {0}, {0}};

    (void)state;
    for (size_t key_len = 16; key_len <= 32; key_len += 16) {
        pair p = {0};

        pair_open(&p, key_len);
        text.in = plain;
        text.len = 1000;
        assert_true(nx_aead_seal(p.own, &text, sealed));
        text.in = sealed;
        text.len = 1000 + NX_AEAD_TAG;
        for (size_t from = 0; from <= 1000; from += (from % 5) + 1) {
            for (size_t to = from; to <= 1000; to += (to % 11) + 1) {
                opened[to - from] = 0x5a;
                nx_aead_peek(p.own, &text, from, to, opened);
                assert_memory_equal(opened, plain + from, to - from);
                assert_int_equal(opened[to - from], 0x5a);
            }
        }
        pair_close(&p);
    }
}

/* ---- what is refused ----------------------------------------------------------------- */

static void test_a_flipped_bit_anywhere_is_refused(void **state)
{
    static const size_t lengths[] = {0, 1, 16, 40, 256, 300, 777};
    uint8_t nonce[NX_AEAD_NONCE] = {7}, bytes[13] = {1, 2, 3};
    uint8_t zero[1024] = {0};
    pair p = {0};

    (void)state;
    pair_open(&p, 16);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        size_t len = lengths[i], n = len + NX_AEAD_TAG;
        nx_aead_text text = {nonce, bytes, sizeof(bytes), plain, len, {0}, {0}};

        assert_true(nx_aead_seal(p.own, &text, sealed));
        text.in = sealed;
        text.len = n;
        for (size_t bit = 0; bit < 8 * (n + sizeof(bytes) + sizeof(nonce)); bit++) {
            size_t at = bit / 8;
            uint8_t *byte = (at < n)                   ? &sealed[at]
                            : (at < n + sizeof(bytes)) ? &bytes[at - n]
                                                       : &nonce[at - n - sizeof(bytes)];

            *byte ^= (uint8_t)(1 << (bit % 8));
            memset(opened, 0xff, len);
            assert_false(nx_aead_open(p.own, &text, opened));
            assert_memory_equal(opened, zero, len);
            *byte ^= (uint8_t)(1 << (bit % 8));
        }
        assert_true(nx_aead_open(p.own, &text, opened));
        text.len = n - 1; /* cut short */
        assert_false(nx_aead_open(p.own, &text, opened));
        text.len = NX_AEAD_TAG - 1;
        assert_false(nx_aead_open(p.own, &text, opened));
        text.len = n;
        text.head_len--;
        assert_false(nx_aead_open(p.own, &text, opened));
    }
    pair_close(&p);
}

static void test_a_key_seals_no_more_than_it_may(void **state)
{
    uint8_t nonce[NX_AEAD_NONCE] = {0};
    nx_aead_text text = {nonce, head, 13, plain, 61440, {0}, {0}};
    uint64_t each;
    pair p = {0};

    (void)state;
    pair_open(&p, 32);
    assert_true(nx_aead_seal(p.own, &text, sealed));
    each = nx_aead_used(p.own);
    assert_true(each == 61440 / 16 + 1 + 2);
    assert_true(NX_AEAD_BLOCKS_MAX / each >=
                (UINT64_C(1) << 23)); /* ngtcp2's limit is reached first */
    nx_aead_set_used(p.own, NX_AEAD_BLOCKS_MAX - each);
    assert_true(nx_aead_seal(p.own, &text, sealed));
    memset(sealed, 0x5a, 64);
    assert_false(nx_aead_seal(p.own, &text, sealed));
    text.len = 0;
    assert_false(nx_aead_seal(p.own, &text, sealed));
    assert_int_equal(sealed[0], 0x5a);
    text.in = sealed;
    text.len = NX_AEAD_TAG;
    assert_false(
        nx_aead_open(p.own, &text, opened)); /* the previous text still opens: this one is wrong */
    pair_close(&p);
}

static void test_a_text_that_would_wrap_its_counter_is_refused(void **state)
{
    uint8_t nonce[NX_AEAD_NONCE] = {0};
    nx_aead_text text = {nonce, head, 0, plain, NX_AEAD_TEXT_MAX + 1, {0}, {0}}; /* never read */
    pair p = {0};

    (void)state;
    pair_open(&p, 16);
    assert_false(nx_aead_seal(p.own, &text, sealed));
    text.len += NX_AEAD_TAG;
    assert_false(nx_aead_open(p.own, &text, sealed));
    pair_close(&p);
}

static void test_lack_of_memory_is_reported(void **state)
{
    uint8_t key[16] = {0};

    (void)state;
    nx_alloc_fail_after(0);
    assert_null(nx_aead_create(key, sizeof(key)));
    nx_alloc_fail_after(-1);
}

static void test_the_choice_is_taken(void **state)
{
    (void)state;
    nx_aead_choose(NX_AEAD_GNUTLS);
    assert_false(nx_aead_in_use());
    assert_string_equal(nx_aead_name(), "gnutls");
    nx_aead_choose(NX_AEAD_AUTO);
    assert_true(nx_aead_in_use() == nx_aead_usable());
    assert_string_equal(nx_aead_name(), nx_aead_usable() ? "vaes" : "gnutls");
}

int main(void)
{
    const struct CMUnitTest choice[] = {cmocka_unit_test(test_the_choice_is_taken)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_vectors),
        cmocka_unit_test(test_blocks_are_those_of_the_standard),
        cmocka_unit_test(test_every_length_is_as_by_gnutls),
        cmocka_unit_test(test_every_alignment_is_as_by_gnutls),
        cmocka_unit_test(test_every_head_is_as_by_gnutls),
        cmocka_unit_test(test_a_hint_changes_nothing),
        cmocka_unit_test(test_bytes_go_to_their_place),
        cmocka_unit_test(test_a_place_of_what_is_false_is_zero),
        cmocka_unit_test(test_a_peek_shows_any_part_of_a_text),
        cmocka_unit_test(test_a_flipped_bit_anywhere_is_refused),
        cmocka_unit_test(test_a_key_seals_no_more_than_it_may),
        cmocka_unit_test(test_a_text_that_would_wrap_its_counter_is_refused),
        cmocka_unit_test(test_lack_of_memory_is_reported),
    };
    int failed = cmocka_run_group_tests(choice, NULL, NULL);

    if (!nx_aead_usable()) {
        print_message("this machine has no AES-GCM of ours: nothing more to test\n");
        return failed;
    }
    nx_random_seeded_init(&random_source, 5);
    nx_random_fill(&random_source.random, plain, sizeof(plain));
    nx_random_fill(&random_source.random, head, sizeof(head));
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
