/* core_count_test.c - who has a core of its own. */
#include "core_count.h"

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
        assert_true(nx_core_count_suffice(sets, n));
    }
    assert_false(nx_core_count_suffice(sets, 5));
}

static void test_ranks_that_are_bound_to_one_core_each_have_it(void **state)
{
    const cpu_set_t sets[4] = {cores(0, 0), cores(1, 1), cores(5, 5), cores(1023, 1023)};

    (void)state;
    assert_true(nx_core_count_suffice(sets, 4));
}

static void test_two_that_are_bound_to_the_same_core_share_it(void **state)
{
    const cpu_set_t sets[3] = {cores(2, 2), cores(0, 7), cores(2, 2)};

    (void)state;
    assert_true(nx_core_count_suffice(sets, 2));
    assert_false(nx_core_count_suffice(sets, 3));
}

/* Whoever may use many gives way to those who may not. */
static void test_those_with_a_choice_make_room(void **state)
{
    const cpu_set_t chain[4] = {cores(0, 3), cores(0, 2), cores(0, 1), cores(0, 0)};
    const cpu_set_t full[4] = {cores(0, 3), cores(0, 1), cores(0, 1), cores(0, 1)};

    (void)state;
    assert_true(nx_core_count_suffice(chain, 4));
    assert_false(nx_core_count_suffice(full, 4));
}

static void test_nothing_and_too_many(void **state)
{
    static cpu_set_t sets[CPU_SETSIZE + 1];
    const cpu_set_t none = cores(1, 0);

    (void)state;
    assert_true(nx_core_count_suffice(sets, 0));
    assert_false(nx_core_count_suffice(&none, 1));
    for (size_t i = 0; i <= CPU_SETSIZE; i++) {
        sets[i] = cores(0, CPU_SETSIZE - 1);
    }
    assert_true(nx_core_count_suffice(sets, CPU_SETSIZE));
    assert_false(nx_core_count_suffice(sets, CPU_SETSIZE + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_that_may_use_all_cores_need_as_many),
        cmocka_unit_test(test_ranks_that_are_bound_to_one_core_each_have_it),
        cmocka_unit_test(test_two_that_are_bound_to_the_same_core_share_it),
        cmocka_unit_test(test_those_with_a_choice_make_room),
        cmocka_unit_test(test_nothing_and_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
