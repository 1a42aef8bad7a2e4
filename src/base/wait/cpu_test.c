/* cpu_test.c - a thread migrates to another core and may still use all cores. */
#include "base/wait/cpu.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static unsigned by_number(const void *ctx, uint32_t core)
{
    return (core == *(const uint32_t *)ctx) ? 0 : 1;
}

static void test_it_goes_to_every_core_that_it_may_use(void **state)
{
    cpu_set_t own, after;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
        assert_int_equal(nx_cpu_migrate(core), CPU_ISSET(core, &own) != 0);
        assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
        assert_true(CPU_EQUAL(&own, &after));
    }
    assert_true(CPU_ISSET(nx_cpu_current(), &own));
}

static void test_the_least_used_other_core_is_found(void **state)
{
    cpu_set_t own;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    for (uint32_t here = 0; here < CPU_SETSIZE; here++) {
        for (uint32_t core = 0; CPU_ISSET(here, &own) && (core < CPU_SETSIZE); core++) {
            if (CPU_ISSET(core, &own) && (core != here)) {
                assert_int_equal(nx_cpu_least_loaded(here, by_number, &core), core);
            }
        }
    }
}

static void test_a_thread_of_one_core_stays(void **state)
{
    const uint32_t here = nx_cpu_current();
    cpu_set_t own, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    CPU_ZERO(&one);
    CPU_SET(here, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(nx_cpu_least_loaded(here, by_number, &here), here);
    assert_int_equal(sched_setaffinity(0, sizeof(own), &own), 0);
}

static void test_a_running_process_has_a_core_and_a_sleeping_one_has_none(void **state)
{
    const pid_t child = fork();
    uint32_t core = UINT32_MAX;
    cpu_set_t own;
    int status;

    (void)state;
    if (child == 0) {
        for (;;) {
            (void)pause();
        }
    }
    assert_true(child > 0);
    assert_int_equal(sched_getaffinity(0, sizeof(own), &own), 0);
    assert_true(nx_cpu_of((long)getpid(), &core));
    assert_true((core < CPU_SETSIZE) && CPU_ISSET(core, &own));
    while (nx_cpu_of((long)child, &core)) { /* the child must sleep, or the test never ends */
        (void)sched_yield();
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(nx_cpu_of((long)child, &core));
    assert_false(nx_cpu_of(-1, &core));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_goes_to_every_core_that_it_may_use),
        cmocka_unit_test(test_the_least_used_other_core_is_found),
        cmocka_unit_test(test_a_thread_of_one_core_stays),
        cmocka_unit_test(test_a_running_process_has_a_core_and_a_sleeping_one_has_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
