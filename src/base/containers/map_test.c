/* map_test.c - the map agrees with a plain array; edge cases. */
#include "map.h"

#include <string.h>

#include "base/random.h"
#include "oom.h"
#include "unit.h"

enum { KEYS = 300 };

/* Half the keys count upwards, as ids do; the others collide in their low
 * bits, as pointers do. */
static uint64_t key_of(size_t i)
{
    return (i % 2 == 0) ? i / 2 : (uint64_t)i << 40;
}

static void test_the_map_holds_what_was_put_and_not_taken(void **state)
{
    static char values[KEYS];
    bool in[KEYS] = {false};
    nx_map map = {0};
    nx_random_seeded r;
    size_t n = 0;

    (void)state;
    nx_random_seeded_init(&r, 1);
    for (int turn = 0; turn < 20000; turn++) {
        size_t i = nx_random_below(&r.random, KEYS), check = nx_random_below(&r.random, KEYS);

        if (nx_random_below(&r.random, 2) == 0) {
            assert_int_equal(nx_map_put(&map, key_of(i), &values[i]), NEXAR_OK);
            n += in[i] ? 0 : 1;
            in[i] = true;
        } else {
            assert_true(nx_map_take(&map, key_of(i)) == (in[i] ? &values[i] : NULL));
            n -= in[i] ? 1 : 0;
            in[i] = false;
        }
        assert_int_equal(map.n, n);
        assert_true(nx_map_get(&map, key_of(check)) == (in[check] ? &values[check] : NULL));
    }
    nx_map_fini(&map);
}

static void test_every_value_is_walked_once(void **state)
{
    char seen[KEYS] = {0};
    nx_map map = {0};
    size_t at = 0, n = 0;
    char *value;

    (void)state;
    assert_true(nx_map_next(&map, &at) == NULL);
    for (size_t i = 0; i < KEYS; i++) {
        assert_int_equal(nx_map_put(&map, key_of(i), &seen[i]), NEXAR_OK);
    }
    for (at = 0; (value = nx_map_next(&map, &at)) != NULL; n++) {
        assert_int_equal(*value, 0);
        *value = 1;
    }
    assert_int_equal(n, KEYS);
    nx_map_fini(&map);
}

static void test_what_is_walked_can_be_taken_out(void **state)
{
    static uint64_t values[1000];
    nx_map m = {0};
    const uint64_t *value;
    size_t at = 0;

    (void)state;
    for (uint64_t i = 0; i < 1000; i++) {
        values[i] = i * 37 + 1;
        assert_int_equal(nx_map_put(&m, values[i], &values[i]), NEXAR_OK);
    }
    while ((value = nx_map_next(&m, &at)) != NULL) {
        if (*value % 2 == 0) {
            assert_ptr_equal(nx_map_take(&m, *value), value);
            at--;
        }
    }
    assert_int_equal(m.n, 500);
    for (uint64_t i = 0; i < 1000; i++) {
        assert_ptr_equal(nx_map_get(&m, values[i]), (values[i] % 2 == 0) ? NULL : &values[i]);
    }
    nx_map_fini(&m);
}

static void test_an_empty_map_has_nothing(void **state)
{
    nx_map map = {0};

    (void)state;
    assert_true(nx_map_get(&map, 0) == NULL);
    assert_true(nx_map_take(&map, 0) == NULL);
    nx_map_fini(&map);
}

static void test_putting_again_replaces_and_needs_no_memory(void **state)
{
    char a, b;
    nx_map map = {0};

    (void)state;
    for (uint64_t key = 0; key < 12; key++) {
        assert_int_equal(nx_map_put(&map, key, &a), NEXAR_OK);
    }
    nx_alloc_fail_after(0);
    assert_int_equal(nx_map_put(&map, 5, &b), NEXAR_OK);
    assert_false(nx_alloc_failed());
    nx_alloc_fail_after(-1);
    assert_true(nx_map_get(&map, 5) == &b);
    assert_int_equal(map.n, 12);
    nx_map_fini(&map);
}

static void test_without_memory_the_map_is_as_it_was(void **state)
{
    char value;

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_map map = {0};
        size_t in = 0;

        for (uint64_t key = 0; key < 100; key++) {
            nexar_err err = nx_map_put(&map, key, &value);

            in += (err == NEXAR_OK);
            assert_true(nx_map_get(&map, key) == ((err == NEXAR_OK) ? &value : NULL));
            assert_int_equal(map.n, in);
        }
        assert_int_equal(in, nx_alloc_failed() ? 99 : 100);
        nx_map_fini(&map);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_map_holds_what_was_put_and_not_taken),
        cmocka_unit_test(test_every_value_is_walked_once),
        cmocka_unit_test(test_what_is_walked_can_be_taken_out),
        cmocka_unit_test(test_an_empty_map_has_nothing),
        cmocka_unit_test(test_putting_again_replaces_and_needs_no_memory),
        cmocka_unit_test(test_without_memory_the_map_is_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
