/* slurm_test.c - counts per node, and detection of an allocation. */
#include "slurm.h"

#include <stdlib.h>

#include "unit.h"

static void expect(const char *text, size_t n, const uint32_t *counts)
{
    uint32_t got[8] = {0};
    size_t many = 0;

    assert_true(nx_slurm_counts(text, got, 8, &many));
    assert_int_equal(many, n);
    assert_memory_equal(got, counts, n * sizeof(*counts));
}

static void counts_are_repeated(void **state)
{
    static const uint32_t one[] = {4}, three[] = {4, 4, 3}, mixed[] = {1, 2, 2, 2, 7};

    (void)state;
    expect("4", 1, one);
    expect("4(x2),3", 3, three);
    expect("1,2(x3),7", 5, mixed);
}

static void other_texts_are_refused(void **state)
{
    static const char *const bad[] = {"",     "x",      "4(",   "4(x",   "4(x)",
                                      "4(x2", "4,",     ",4",   "4(x0)", "-1",
                                      "4 ",   "4(x2)3", "9999", "4(y2)", "4(x99999999)"};
    uint32_t got[8];
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (nx_slurm_counts(bad[i], got, 8, &n)) {
            fail_msg("accepted: %s", bad[i]);
        }
    }
}

/* NULL: not set.  One thread. */
static void set(const char *name, const char *value)
{
    if (value == NULL) {
        (void)unsetenv(name); // NOLINT(concurrency-mt-unsafe)
    } else {
        (void)setenv(name, value, 1); // NOLINT(concurrency-mt-unsafe)
    }
}

static void steps_are_no_allocations(void **state)
{
    (void)state;
    set("SLURM_JOB_ID", NULL);
    set("SLURM_STEP_ID", NULL);
    set("SLURMD_NODENAME", NULL);
    assert_false(nx_slurm_allocated());
    set("SLURM_JOB_ID", "7");
    set("SLURM_JOB_NODELIST", "n[1-2]");
    assert_true(nx_slurm_allocated());
    set("SLURM_STEP_ID", "0");
    assert_false(nx_slurm_allocated());
    set("SLURM_STEP_ID", "4294967290"); /* an interactive shell of salloc */
    assert_true(nx_slurm_allocated());
    set("SLURM_JOB_NODELIST", "localhost");
    assert_false(nx_slurm_allocated());
    set("SLURM_JOB_NODELIST", "n1");
    assert_true(nx_slurm_allocated());
    set("SLURMD_NODENAME", "n1");
    assert_false(nx_slurm_allocated());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_are_repeated),
        cmocka_unit_test(other_texts_are_refused),
        cmocka_unit_test(steps_are_no_allocations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
