/* wait_policy_test.c - spin, yield, park, with a clock that only the test advances. */
#include "base/wait/wait_policy.h"

#include "unit.h"

static const nx_machine_costs costs = {
    .pause_ns = 25, .yield_ns = 400, .handover_ns = 100, .park_ns = 20000};

static void test_a_wait_spins_then_yields_then_parks(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {0};
    const nx_wait w = nx_wait_begin(&p, &history, 1000);

    (void)state;
    assert_int_equal(p.poll_ns, costs.park_ns);
    assert_true((p.spin_ns > costs.handover_ns) && (p.spin_ns < p.poll_ns));
    assert_int_equal(nx_wait_next(&w, 1000), NX_WAIT_SPIN);
    assert_int_equal(nx_wait_next(&w, 1000 + p.spin_ns - 1), NX_WAIT_SPIN);
    assert_int_equal(nx_wait_next(&w, 1000 + p.spin_ns), NX_WAIT_YIELD);
    assert_int_equal(nx_wait_next(&w, 1000 + p.poll_ns - 1), NX_WAIT_YIELD);
    assert_int_equal(nx_wait_next(&w, 1000 + p.poll_ns), NX_WAIT_PARK);
}

/* The competitive bound: a wait of any length costs at most twice the best choice in hindsight. */
static void test_a_wait_costs_at_most_twice_the_best_choice(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);

    (void)state;
    for (uint64_t length_ns = 1; length_ns < 10 * costs.park_ns; length_ns += 777) {
        nx_wait_history history = {0};
        const nx_wait w = nx_wait_begin(&p, &history, 0);
        const uint64_t best_ns = (length_ns < costs.park_ns) ? length_ns : costs.park_ns;
        uint64_t now_ns = 0;

        while ((now_ns < length_ns) && (nx_wait_next(&w, now_ns) != NX_WAIT_PARK)) {
            now_ns += 10;
        }
        assert_true(now_ns + ((now_ns < length_ns) ? costs.park_ns : 0) <= 2 * best_ns + 10);
    }
}

static void test_with_spin_0_nothing_polls(void **state)
{
    (void)state;
    for (int crowded = 0; crowded < 2; crowded++) {
        const nx_wait_policy p = nx_wait_policy_make(&costs, 0, crowded == 1);
        nx_wait_history history = {0};
        nx_wait w = nx_wait_begin(&p, &history, 5);

        assert_int_equal(nx_wait_polls_of_spin(&p), 0);
        assert_int_equal(nx_wait_polls_of_park(&p), 0);
        assert_int_equal(nx_wait_next(&w, 5), NX_WAIT_PARK);
        nx_wait_woken(&w, 6, true); /* no sleep is short enough to change that */
        assert_int_equal(nx_wait_next(&w, 6), NX_WAIT_PARK);
    }
}

static void test_a_setting_replaces_the_measured_cost(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, 500, false);

    (void)state;
    assert_int_equal(p.poll_ns, 500);
    assert_int_equal(p.spin_ns, 500);
    assert_int_equal(nx_wait_polls_of_spin(&p), 500 / costs.pause_ns);
}

static void test_a_short_sleep_lengthens_the_next_poll_within_a_bound(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    const uint64_t longest_ns = nx_wait_longest(&p);

    (void)state;
    for (uint64_t span_ns = p.poll_ns; span_ns < longest_ns; span_ns += 777) {
        nx_wait_history history = {0};
        nx_wait w = nx_wait_begin(&p, &history, 0);

        nx_wait_woken(&w, span_ns, true);
        assert_true((history.poll_ns > span_ns) && (history.poll_ns <= longest_ns));
        w = nx_wait_begin(&p, &history, 0); /* the same wait again ends without a sleep */
        assert_int_not_equal(nx_wait_next(&w, span_ns), NX_WAIT_PARK);
    }
}

static void test_a_long_sleep_makes_the_next_poll_as_at_first(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {.poll_ns = nx_wait_longest(&p)};
    nx_wait w = nx_wait_begin(&p, &history, 0);

    (void)state;
    nx_wait_woken(&w, nx_wait_longest(&p), true);
    w = nx_wait_begin(&p, &history, 0);
    assert_int_equal(nx_wait_next(&w, p.poll_ns - 1), NX_WAIT_YIELD);
    assert_int_equal(nx_wait_next(&w, p.poll_ns), NX_WAIT_PARK);
}

/* The yield returns at once: no other thread wants the core. */
static void test_a_wait_spins_only_on_a_core_of_its_own(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {0};
    nx_wait w = nx_wait_begin(&p, &history, 0);

    (void)state;
    nx_wait_yielded(&w, 5 * costs.yield_ns);
    assert_int_equal(nx_wait_next(&w, 0), NX_WAIT_YIELD);
    nx_wait_yielded(&w, costs.yield_ns);
    assert_int_equal(nx_wait_next(&w, 0), NX_WAIT_SPIN);
    assert_int_equal(nx_wait_next(&w, p.spin_ns), NX_WAIT_YIELD);
}

static void test_where_ranks_outnumber_cores_a_wait_yields_between_all_polls(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, true);
    nx_wait_history history = {0};
    nx_wait w = nx_wait_begin(&p, &history, 0);

    (void)state;
    assert_int_equal(nx_wait_next(&w, 0), NX_WAIT_YIELD);
    nx_wait_yielded(&w, costs.yield_ns);
    assert_int_equal(nx_wait_next(&w, 0), NX_WAIT_YIELD);
    assert_int_equal(nx_wait_next(&w, p.poll_ns), NX_WAIT_PARK);
}

static void test_a_yield_is_timed(void **state)
{
    nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, true);
    nx_wait_history history = {0};
    nx_wait w = nx_wait_begin(&p, &history, 0);

    (void)state;
    p.yield_ns = 0; /* every yield takes longer */
    nx_wait_relax(&w, NX_WAIT_SPIN);
    assert_false(history.shared);
    nx_wait_relax(&w, NX_WAIT_YIELD);
    assert_true(history.shared);
}

/* A transfer whose arrivals are |gap_ns| apart; the wait has exceeded its polling time. */
static nx_wait_step after_arrivals(const nx_wait_policy *p, nx_wait_history *history,
                                   uint64_t gap_ns)
{
    nx_wait w = nx_wait_begin(p, history, 0);
    uint64_t now_ns = 0;

    for (int i = 0; i < 100; i++) {
        now_ns += gap_ns;
        nx_wait_arrived(&w, now_ns);
    }
    return nx_wait_next(&w, now_ns);
}

static void test_a_long_transfer_polls_only_if_its_arrivals_are_close(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {0};

    (void)state;
    assert_int_not_equal(after_arrivals(&p, &history, p.poll_ns / 2), NX_WAIT_PARK);
    assert_int_equal(after_arrivals(&p, &history, p.poll_ns * 3 / 2), NX_WAIT_PARK);
}

static void test_one_preemption_does_not_stop_the_polls_of_a_transfer(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {0};
    nx_wait w = nx_wait_begin(&p, &history, 0);
    uint64_t now_ns = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        now_ns += (i == 50) ? 1000 * p.poll_ns : p.poll_ns / 4;
        nx_wait_arrived(&w, now_ns);
    }
    assert_int_not_equal(nx_wait_next(&w, now_ns), NX_WAIT_PARK);
}

/* Sleeps between distant arrivals do not lengthen polling. */
static void test_sleeps_of_a_slow_transfer_do_not_lengthen_the_next_poll(void **state)
{
    const nx_wait_policy p = nx_wait_policy_make(&costs, NX_WAIT_AUTO, false);
    nx_wait_history history = {0};
    nx_wait w = nx_wait_begin(&p, &history, 0);

    (void)state;
    for (int i = 1; i < 20; i++) {
        nx_wait_woken(&w, (uint64_t)i * 2 * p.poll_ns, true);
    }
    history.poll_ns = 0;
    nx_wait_woken(&w, 20 * 2 * p.poll_ns, true);
    assert_int_equal(history.poll_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_spins_then_yields_then_parks),
        cmocka_unit_test(test_a_wait_costs_at_most_twice_the_best_choice),
        cmocka_unit_test(test_with_spin_0_nothing_polls),
        cmocka_unit_test(test_a_setting_replaces_the_measured_cost),
        cmocka_unit_test(test_a_short_sleep_lengthens_the_next_poll_within_a_bound),
        cmocka_unit_test(test_a_long_sleep_makes_the_next_poll_as_at_first),
        cmocka_unit_test(test_a_wait_spins_only_on_a_core_of_its_own),
        cmocka_unit_test(test_where_ranks_outnumber_cores_a_wait_yields_between_all_polls),
        cmocka_unit_test(test_a_yield_is_timed),
        cmocka_unit_test(test_a_long_transfer_polls_only_if_its_arrivals_are_close),
        cmocka_unit_test(test_one_preemption_does_not_stop_the_polls_of_a_transfer),
        cmocka_unit_test(test_sleeps_of_a_slow_transfer_do_not_lengthen_the_next_poll),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
