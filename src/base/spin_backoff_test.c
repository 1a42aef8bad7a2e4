/* spin_backoff_test.c - longer than what a sleep took, within bounds. */
#include "spin_backoff.h"

#include "unit.h"

static const nx_spin_backoff p = {.times = 20, .most_ns = 2000000};

/* So that the next wait of that length ends without a sleep; never less than at first. */
static void test_who_slept_for_a_short_time_stays_awake_longer(void **state)
{
    const uint64_t first_ns = 50000, most_ns = p.times * first_ns;

    (void)state;
    assert_int_equal(nx_spin_backoff_after(p, first_ns, 0), first_ns);
    for (uint64_t waited_ns = first_ns; waited_ns < most_ns; waited_ns += 777) {
        const uint64_t now_ns = nx_spin_backoff_after(p, first_ns, waited_ns);

        assert_true((now_ns > waited_ns) && (now_ns >= first_ns) && (now_ns <= most_ns));
    }
}

static void test_who_waited_long_begins_anew(void **state)
{
    const uint64_t first_ns = 50000;

    (void)state;
    assert_int_equal(nx_spin_backoff_after(p, first_ns, p.times * first_ns), first_ns);
    assert_int_equal(nx_spin_backoff_after(p, first_ns, UINT64_MAX), first_ns);
}

static void test_the_bound_holds_unless_more_was_asked_for(void **state)
{
    (void)state;
    assert_int_equal(nx_spin_backoff_most(p, 1000), 20000);
    assert_int_equal(nx_spin_backoff_most(p, p.most_ns), p.most_ns);
    assert_int_equal(nx_spin_backoff_after(p, p.most_ns / 2, p.most_ns - 1), p.most_ns);
    for (uint64_t first_ns = p.most_ns; first_ns < UINT64_C(2000000000); first_ns *= 3) {
        assert_int_equal(nx_spin_backoff_after(p, first_ns, first_ns + 1), first_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_slept_for_a_short_time_stays_awake_longer),
        cmocka_unit_test(test_who_waited_long_begins_anew),
        cmocka_unit_test(test_the_bound_holds_unless_more_was_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
