/* vec_test.c - arrays grow, keep their elements, and stay valid when an allocation fails. */
#include "vec.h"

#include <stdint.h>

#include "oom.h"
#include "unit.h"

static void test_elements_survive_growth(void **state)
{
    uint32_t *data = NULL;
    size_t room = 0;

    (void)state;
    for (uint32_t n = 0; n < 1000; n++) {
        data = nx_vec_grow(data, &room, n + 1, sizeof(*data));
        assert_true(data != NULL);
        assert_true(room > n);
        data[n] = n;
    }
    for (uint32_t n = 0; n < 1000; n++) {
        assert_int_equal(data[n], n);
    }
    nx_free(data);
}

static void test_room_that_is_there_is_not_asked_for_again(void **state)
{
    size_t room = 0;
    char *data = nx_vec_grow(NULL, &room, 0, 1);

    (void)state;
    assert_true(data != NULL);
    nx_alloc_fail_after(0);
    assert_true(nx_vec_grow(data, &room, room, 1) == data);
    assert_false(nx_alloc_failed());
    nx_alloc_fail_after(-1);
    nx_free(data);
}

static void test_a_refusal_leaves_the_array_as_it_was(void **state)
{
    size_t room = 0, before;
    char *data = nx_vec_grow(NULL, &room, 10, 1);

    (void)state;
    assert_true(data != NULL);
    before = room;
    data[9] = 'x';
    nx_alloc_fail_after(0);
    assert_true(nx_vec_grow(data, &room, 100, 1) == NULL);
    nx_alloc_fail_after(-1);
    assert_true(nx_vec_grow(data, &room, SIZE_MAX, 1) == NULL);
    assert_true(nx_vec_grow(data, &room, SIZE_MAX / 4, 8) == NULL);
    assert_int_equal(room, before);
    assert_int_equal(data[9], 'x');
    nx_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements_survive_growth),
        cmocka_unit_test(test_room_that_is_there_is_not_asked_for_again),
        cmocka_unit_test(test_a_refusal_leaves_the_array_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
