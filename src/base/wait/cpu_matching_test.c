/* cpu_matching_test.c - ranks that have their own core, and ranks that migrate. */
#include "base/wait/cpu_matching.h"

#include "base/wait/cpu.h"
#include "unit.h"

/* The cores |first| to |last|. */
static cpu_set_t cores(int first, int last)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (int core = first; core <= last; core++) {
        CPU_SET((size_t)core, &set);
    }
    return set;
}

static void test_ranks_that_may_use_all_cores_need_as_many(void **state)
{
    cpu_set_t sets[5];

    (void)state;
    for (int i = 0; i < 5; i++) {
        sets[i] = cores(0, 3);
    }
    for (uint32_t n = 1; n <= 4; n++) {
        assert_true(nx_cpu_matching_exists(sets, n));
    }
    assert_false(nx_cpu_matching_exists(sets, 5));
}

static void test_ranks_that_are_bound_to_one_core_each_have_it(void **state)
{
    const cpu_set_t sets[4] = {cores(0, 0), cores(1, 1), cores(5, 5), cores(1023, 1023)};

    (void)state;
    assert_true(nx_cpu_matching_exists(sets, 4));
}

static void test_two_that_are_bound_to_the_same_core_share_it(void **state)
{
    const cpu_set_t sets[3] = {cores(2, 2), cores(0, 7), cores(2, 2)};

    (void)state;
    assert_true(nx_cpu_matching_exists(sets, 2));
    assert_false(nx_cpu_matching_exists(sets, 3));
}

/* A rank that may use many cores leaves cores to bound ranks. */
static void test_those_with_a_choice_make_room(void **state)
{
    const cpu_set_t chain[4] = {cores(0, 3), cores(0, 2), cores(0, 1), cores(0, 0)};
    const cpu_set_t full[4] = {cores(0, 3), cores(0, 1), cores(0, 1), cores(0, 1)};

    (void)state;
    assert_true(nx_cpu_matching_exists(chain, 4));
    assert_false(nx_cpu_matching_exists(full, 4));
}

static void test_nothing_and_too_many(void **state)
{
    static cpu_set_t sets[CPU_SETSIZE + 1];
    const cpu_set_t none = cores(1, 0);

    (void)state;
    assert_true(nx_cpu_matching_exists(sets, 0));
    assert_false(nx_cpu_matching_exists(&none, 1));
    for (size_t i = 0; i <= CPU_SETSIZE; i++) {
        sets[i] = cores(0, CPU_SETSIZE - 1);
    }
    assert_true(nx_cpu_matching_exists(sets, CPU_SETSIZE));
    assert_false(nx_cpu_matching_exists(sets, CPU_SETSIZE + 1));
}

static unsigned any(const void *ctx, uint32_t core)
{
    (void)ctx;
    (void)core;
    return 0;
}

/* On a machine with one core no rank can migrate. */
static void test_a_rank_leaves_the_core_with_most_ranks(void **state)
{
    nx_cpu_load load = {{0}};
    cpu_set_t own, one;
    const uint32_t here = nx_cpu_current();

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    assert_false(nx_cpu_rebalance(&load)); /* no core has fewer */
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
        load.ranks[core] = 2; /* the thread may run on any core by now */
    }
    assert_false(nx_cpu_rebalance(&load));
    if (CPU_COUNT(&own) > 1) {
        const uint32_t idle = nx_cpu_least_loaded(here, any, NULL);

        assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
        load.ranks[idle] = 0;
        assert_false(nx_cpu_rebalance(&load)); /* the thread is bound to one core */
        assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
        (void)nx_cpu_rebalance(&load);
        assert_true((nx_cpu_current() == idle) || (CPU_COUNT(&own) > 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_may_use_all_cores_need_as_many),
        cmocka_unit_test(test_ranks_that_are_bound_to_one_core_each_have_it),
        cmocka_unit_test(test_two_that_are_bound_to_the_same_core_share_it),
        cmocka_unit_test(test_those_with_a_choice_make_room),
        cmocka_unit_test(test_nothing_and_too_many),
        cmocka_unit_test(test_a_rank_leaves_the_core_with_most_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
