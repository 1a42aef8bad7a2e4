/* random_test.c - seeded numbers match the reference; both sources are uniform. */
#include "base/random.h"

#include <string.h>

#include "unit.h"

/* First outputs of the reference xoshiro256** whose state is splitmix64 of 0. */
static void test_a_seed_gives_the_reference_numbers(void **state)
{
    nx_random_seeded r;

    (void)state;
    nx_random_seeded_init(&r, 0);
    assert_int_equal(r.s[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(nx_random_seeded_next(&r), UINT64_C(0x99ec5f36cb75f2b4));
    assert_int_equal(nx_random_seeded_next(&r), UINT64_C(0xbf6e1f784956452a));
}

static void test_bytes_are_the_numbers_lowest_byte_first(void **state)
{
    static const unsigned char want[] = {0xb4, 0xf2, 0x75, 0xcb, 0x36, 0x5f,
                                         0xec, 0x99, 0x2a, 0x45, 0x56};
    unsigned char bytes[sizeof(want)];
    nx_random_seeded r;

    (void)state;
    nx_random_seeded_init(&r, 0);
    nx_random_fill(&r.random, bytes, sizeof(bytes));
    assert_memory_equal(bytes, want, sizeof(want));
}

static void test_below_is_below_and_reaches_everything(void **state)
{
    int seen[7] = {0};
    nx_random_seeded r;

    (void)state;
    nx_random_seeded_init(&r, 42);
    for (int i = 0; i < 7000; i++) {
        uint64_t x = nx_random_below(&r.random, 7);

        assert_true(x < 7);
        seen[x]++;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(seen[i], 800, 1200);
    }
    assert_int_equal(nx_random_below(&r.random, 1), 0);
    assert_true(nx_random_below(&r.random, UINT64_MAX) < UINT64_MAX);
}

static void test_the_kernel_gives_other_bytes_each_time(void **state)
{
    unsigned char a[32] = {0}, b[32] = {0};

    (void)state;
    nx_random_fill(&nx_random_system, a, sizeof(a));
    nx_random_fill(&nx_random_system, b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    nx_random_fill(&nx_random_system, a, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_seed_gives_the_reference_numbers),
        cmocka_unit_test(test_bytes_are_the_numbers_lowest_byte_first),
        cmocka_unit_test(test_below_is_below_and_reaches_everything),
        cmocka_unit_test(test_the_kernel_gives_other_bytes_each_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
