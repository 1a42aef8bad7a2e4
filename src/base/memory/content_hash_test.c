/* content_hash_test.c - digests: equal for equal contents, different for all others. */
#include <stdlib.h>
#include <string.h>

#include "base/memory/content_hash.h"
#include "unit.h"

enum { ROOM = 5 * NX_CONTENT_BLOCK + 64, ODD = 4096 };

static uint8_t room[ROOM + 16];
static nx_content_key key;

static int set_up(void **state)
{
    const uint64_t seed[NX_CONTENT_SEED] = {1, 2, 3, 4};

    (void)state;
    nx_content_key_init(&key, seed);
    for (size_t i = 0; i < sizeof(room); i++) {
        room[i] = (uint8_t)(i * 131 + i / 257);
    }
    return 0;
}

static bool same(nx_digest a, nx_digest b)
{
    return nx_digest_equal(&a, &b);
}

static void equal_contents_have_equal_digests_at_any_alignment(void **state)
{
    (void)state;
    for (size_t n = 0; n <= ROOM; n += (n < 70) ? 1 : 113) {
        const nx_digest want = nx_content_hash(&key, room, n);

        for (size_t shift = 1; shift < 9; shift++) {
            uint8_t *copy = malloc(n + shift);

            assert_non_null(copy);
            memcpy(copy + shift, room, n);
            assert_true(same(want, nx_content_hash(&key, copy + shift, n)));
            free(copy);
        }
    }
}

static void the_portable_path_gives_the_same_digests(void **state)
{
    uint8_t ones[ROOM];

    (void)state;
    memset(ones, 0xff, sizeof(ones));
    for (size_t n = 0; n <= ROOM; n += 37) {
        assert_true(same(nx_content_hash(&key, room, n), nx_content_hash_portable(&key, room, n)));
        assert_true(same(nx_content_hash(&key, ones, n), nx_content_hash_portable(&key, ones, n)));
    }
}

/* The digest of a fixed content under a fixed key: the ranks of a job may run on different
 * machines. */
static void a_digest_is_the_same_on_every_machine(void **state)
{
    const nx_digest got = nx_content_hash(&key, room, 3000);

    (void)state;
    assert_int_equal(got.word[0], UINT64_C(0x88cbb886b3354a48));
    assert_int_equal(got.word[1], UINT64_C(0xa3c41a21d6a754e6));
}

static void every_changed_bit_changes_the_digest(void **state)
{
    const size_t n = 2 * NX_CONTENT_BLOCK + 9;
    const nx_digest was = nx_content_hash(&key, room, n);

    (void)state;
    for (size_t bit = 0; bit < 8 * n; bit++) {
        room[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_false(same(was, nx_content_hash(&key, room, n)));
        room[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
}

static void zeros_of_every_length_have_different_digests(void **state)
{
    nx_digest *all = calloc(ODD, sizeof(*all));

    (void)state;
    assert_non_null(all);
    memset(room, 0, sizeof(room));
    for (size_t n = 0; n < ODD; n++) {
        all[n] = nx_content_hash(&key, room, n);
        for (size_t m = 0; m < n; m++) {
            assert_false(same(all[m], all[n]));
        }
    }
    free(all);
}

static void exchanged_words_and_blocks_change_the_digest(void **state)
{
    const nx_digest was = nx_content_hash(&key, room, ROOM);
    uint8_t copy[ROOM];

    (void)state;
    for (size_t step = 8; step <= NX_CONTENT_BLOCK; step *= 2) {
        memcpy(copy, room, sizeof(copy));
        memcpy(copy, room + step, step);
        memcpy(copy + step, room, step);
        assert_false(same(was, nx_content_hash(&key, copy, ROOM)));
    }
}

static void another_key_gives_another_digest(void **state)
{
    nx_content_key other;

    (void)state;
    for (uint64_t bit = 0; bit < NX_CONTENT_SEED * 64; bit++) {
        uint64_t seed[NX_CONTENT_SEED] = {1, 2, 3, 4};

        seed[bit / 64] ^= UINT64_C(1) << bit % 64;
        if (bit != 0) { /* that one is always set */
            nx_content_key_init(&other, seed);
            assert_false(
                same(nx_content_hash(&key, room, 100), nx_content_hash(&other, room, 100)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(equal_contents_have_equal_digests_at_any_alignment, set_up),
        cmocka_unit_test_setup(the_portable_path_gives_the_same_digests, set_up),
        cmocka_unit_test_setup(a_digest_is_the_same_on_every_machine, set_up),
        cmocka_unit_test_setup(every_changed_bit_changes_the_digest, set_up),
        cmocka_unit_test_setup(zeros_of_every_length_have_different_digests, set_up),
        cmocka_unit_test_setup(exchanged_words_and_blocks_change_the_digest, set_up),
        cmocka_unit_test_setup(another_key_gives_another_digest, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
