/* alloc_test.c - memory is zeroed and aligned; allocations fail on overflow and on injection. */
#include "base/alloc.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "unit.h"

static void test_memory_is_cleared_and_never_null_for_nothing(void **state)
{
    unsigned char *bytes = nx_calloc(100, 3);
    void *nothing[] = {nx_zalloc(0), nx_calloc(0, 8), nx_grow(NULL, 0, 8), nx_alloc_aligned(64, 0)};

    (void)state;
    assert_true(bytes != NULL);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(bytes[i], 0);
    }
    nx_free(bytes);
    for (int i = 0; i < 4; i++) {
        assert_true(nothing[i] != NULL);
        nx_free(nothing[i]);
    }
    nx_free(NULL);
}

static void test_sizes_that_overflow_are_refused(void **state)
{
    void *old = nx_zalloc(8);

    (void)state;
    assert_true(nx_calloc(SIZE_MAX / 2, 3) == NULL);
    assert_true(nx_grow(old, SIZE_MAX / 2, 3) == NULL);
    assert_true(nx_alloc_aligned(64, SIZE_MAX - 5) == NULL);
    nx_free(old);
}

static void test_alignment_is_kept(void **state)
{
    (void)state;
    for (size_t align = 16; align <= 4096; align *= 2) {
        char *p = nx_alloc_aligned(align, 100);

        assert_true(p != NULL);
        assert_int_equal((uintptr_t)p % align, 0);
        memset(p, 'x', 100);
        nx_free(p);
    }
}

static void *allocate_elsewhere(void *arg)
{
    void *p = nx_zalloc(1);

    *(bool *)arg = (p != NULL);
    nx_free(p);
    return NULL;
}

static void test_the_ordered_failure_comes_once_and_in_this_thread_only(void **state)
{
    bool worked_elsewhere = false;
    pthread_t other;
    void *a, *b, *c;

    (void)state;
    nx_alloc_fail_after(1);
    assert_int_equal(pthread_create(&other, NULL, allocate_elsewhere, &worked_elsewhere), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    a = nx_zalloc(1);
    assert_false(nx_alloc_failed());
    b = nx_strdup("b");
    assert_true(nx_alloc_failed());
    c = nx_strdup("c");
    assert_true(worked_elsewhere);
    assert_true(a != NULL);
    assert_true(b == NULL);
    assert_string_equal(c, "c");
    nx_alloc_fail_after(-1);
    assert_false(nx_alloc_failed());
    nx_free(a);
    nx_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_is_cleared_and_never_null_for_nothing),
        cmocka_unit_test(test_sizes_that_overflow_are_refused),
        cmocka_unit_test(test_alignment_is_kept),
        cmocka_unit_test(test_the_ordered_failure_comes_once_and_in_this_thread_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
