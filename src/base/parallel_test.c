/* parallel_test.c - every piece is done once, with any number of threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/parallel.h"
#include "unit.h"

enum { PIECES = 1000 };

static atomic_uint calls[PIECES];
static atomic_uint inside;

static void count(void *ctx, size_t index)
{
    (void)ctx;
    atomic_fetch_add(&calls[index], 1);
}

static void every_piece_is_done_once(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads < 9; threads++) {
        memset((void *)calls, 0, sizeof(calls));
        nx_parallel(PIECES, threads, count, NULL);
        for (size_t i = 0; i < PIECES; i++) {
            assert_int_equal(calls[i], 1);
        }
    }
    nx_parallel(0, 4, count, NULL);
}

/* Returns when a second thread is inside. Without a second thread the test never ends. */
static void meet(void *ctx, size_t index)
{
    (void)ctx;
    (void)index;
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < 2) {
    }
}

static void pieces_are_done_at_the_same_time(void **state)
{
    (void)state;
    atomic_store(&inside, 0);
    nx_parallel(2, 2, meet, NULL);
    assert_int_equal(inside, 2);
}

static void there_is_at_least_one_cpu(void **state)
{
    (void)state;
    assert_true(nx_parallel_cpus() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_piece_is_done_once),
        cmocka_unit_test(pieces_are_done_at_the_same_time),
        cmocka_unit_test(there_is_at_least_one_cpu),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
