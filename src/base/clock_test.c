/* clock_test.c - the system clock advances; the manual clock only when a test sets it. */
#include "base/clock.h"

#include "unit.h"

static void test_the_system_clock_never_goes_backwards(void **state)
{
    uint64_t before = nx_now(&nx_clock_system);

    (void)state;
    assert_true(before > 0);
    for (int i = 0; i < 1000; i++) {
        uint64_t now = nx_now(&nx_clock_system);

        assert_true(now >= before);
        before = now;
    }
}

static void test_the_manual_clock_stands_where_it_is_put(void **state)
{
    nx_clock_manual m;

    (void)state;
    nx_clock_manual_init(&m, 5);
    assert_int_equal(nx_now(&m.clock), 5);
    assert_int_equal(nx_now(&m.clock), 5);
    m.ns += 10;
    assert_int_equal(nx_now(&m.clock), 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_system_clock_never_goes_backwards),
        cmocka_unit_test(test_the_manual_clock_stands_where_it_is_put),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
