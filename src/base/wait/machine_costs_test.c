/* machine_costs_test.c - costs are measured once, are positive, and are ordered as expected. */
#include "base/wait/machine_costs.h"

#include <pthread.h>

#include "unit.h"

enum { THREADS = 4 };

static void *get(void *arg)
{
    (void)arg;
    return (void *)(uintptr_t)nx_machine_costs_get(); // NOLINT(performance-no-int-to-ptr)
}

static void test_all_threads_get_the_same_costs(void **state)
{
    const nx_machine_costs *costs = nx_machine_costs_get();
    pthread_t threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, get, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *its;

        assert_int_equal(pthread_join(threads[i], &its), 0);
        assert_ptr_equal(its, costs);
    }
}

/* Bounds that hold on every machine, however loaded. */
static void test_costs_are_plausible(void **state)
{
    const nx_machine_costs *costs = nx_machine_costs_get();

    (void)state;
    assert_true((costs->pause_ns > 0) && (costs->pause_ns < 100000));
    assert_true(costs->yield_ns > 0);
    assert_true((costs->handover_ns > 0) && (costs->handover_ns < 1000000));
    assert_true((costs->park_ns > 0) && (costs->park_ns < 10000000));
    assert_true(costs->copy_ns > 0);
    assert_true((costs->cache_bytes == 0) || (costs->cache_bytes >= 4096));
}

static void test_times_of_lengths_are_in_proportion(void **state)
{
    const nx_machine_costs c = {.copy_ns = 1000, .read_ns = 3000, .cache_bytes = 32 << 20};
    const nx_machine_costs unknown = {0};

    (void)state;
    assert_int_equal(nx_machine_costs_copy(&c, 0), 0);
    assert_int_equal(nx_machine_costs_copy(&c, NX_COSTS_BLOCK / 2), 500);
    assert_int_equal(nx_machine_costs_read(&c, 4 * (uint64_t)NX_COSTS_BLOCK), 12000);
    assert_true(nx_machine_costs_read(&c, UINT64_C(1) << 50) > UINT64_C(1) << 40); /* no overflow */
    assert_int_equal(nx_machine_costs_past_cache(&c), 8 << 20);
    assert_true(nx_machine_costs_past_cache(&unknown) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_threads_get_the_same_costs),
        cmocka_unit_test(test_costs_are_plausible),
        cmocka_unit_test(test_times_of_lengths_are_in_proportion),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
