/* cuda_test.c - the CUDA adapter on a stand-in driver: the calls it makes, the PTX it
 * loads, and every call failing once. */
#include "nexar_cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter_check.h"
#include "fake_cuda.h"
#include "reduce/reduce.h"
#include "reduce/reduce_cases.h"
#include "unit.h"

enum { LONG = (2 << 20) + 8, HALVES = 1 << 16 };

static struct {
    void (*get)(nxt_fake_cuda_counts *out);
    void (*break_call)(int64_t n);
} fake;

static nexar_cuda *cuda;
static const nexar_device *dev;

static bool find(void *library, const char *name, void *at)
{
    void *found = dlsym(library, name);

    memcpy(at, &found, sizeof(found));
    return found != NULL;
}

static void open_adapter(void)
{
    assert_int_equal(nexar_cuda_create(0, &cuda), NEXAR_OK);
    dev = nexar_cuda_device(cuda);
}

/* Checks that no driver object is left. */
static void close_adapter(void)
{
    nxt_fake_cuda_counts c;

    nexar_cuda_destroy(cuda);
    cuda = NULL;
    fake.get(&c);
    assert_int_equal(c.contexts + c.events + c.modules + c.host_blocks + c.device_blocks, 0);
}

static void *alloc(size_t bytes)
{
    void *ptr = NULL;

    assert_int_equal(nexar_cuda_alloc(cuda, bytes, &ptr), NEXAR_OK);
    return ptr;
}

/* ---- life and copies ---------------------------------------------------------------------- */

static void test_devices_that_are_not_there_are_refused(void **state)
{
    nexar_cuda *none = NULL;

    (void)state;
    assert_int_equal(nexar_cuda_create(1, &none), NEXAR_EINVAL);
    assert_string_equal(nexar_cuda_last_error(),
                        "create: there is no device 1; there are 1, from 0");
    assert_int_equal(nexar_cuda_create(-1, &none), NEXAR_EINVAL);
    assert_int_equal(nexar_cuda_create(0, NULL), NEXAR_EINVAL);
    assert_null(none);
    nexar_cuda_destroy(NULL);
}

static void test_bytes_come_back(void **state)
{
    static unsigned char in[LONG], out[LONG];
    char *at;

    (void)state;
    open_adapter();
    assert_string_equal(dev->name, "cuda 0 (stand-in)");
    at = alloc(LONG + 13);
    nxt_bytes_make(in, LONG, 1);
    nxt_dev_put(dev, at + 13, in, LONG);
    nxt_dev_get(dev, out, at + 13, LONG);
    assert_memory_equal(in, out, LONG);
    nexar_cuda_free(cuda, at);
    close_adapter();
}

static void test_regions_are_gathered_and_scattered(void **state)
{
    unsigned char in[600], out[600];
    unsigned char *a;
    int stream; /* any address will do */

    (void)state;
    open_adapter();
    a = alloc(4096);
    {
        const nexar_iov regions[] = {{a + 5, 300}, {a, 0}, {a + 1000, 200}, {a + 2000, 17}};

        nxt_bytes_make(in, 600, 2);
        assert_int_equal(dev->scatter(dev->ctx, regions, 4, in, &stream), NEXAR_OK);
        assert_int_equal(dev->gather(dev->ctx, out, regions, 4, &stream), NEXAR_OK);
        assert_int_equal(dev->synchronize(dev->ctx, &stream), NEXAR_OK);
        assert_memory_equal(in, out, 517);
    }
    nexar_cuda_free(cuda, a);
    close_adapter();
}

static void test_pinned_memory_is_known_to_the_driver(void **state)
{
    nxt_fake_cuda_counts before, after;
    char *at, *pinned;

    (void)state;
    open_adapter();
    at = alloc(4096);
    pinned = dev->alloc_host(dev->ctx, 4096);
    assert_non_null(pinned);
    memset(pinned, 7, 4096);
    fake.get(&before);
    nxt_dev_put(dev, at, pinned, 4096);
    fake.get(&after);
    assert_int_equal(after.from_pinned - before.from_pinned, 4096);
    dev->free_host(dev->ctx, pinned);
    nexar_cuda_free(cuda, at);
    close_adapter();
}

/* ---- reductions ------------------------------------------------------------------------------ */

static void test_every_kernel_has_the_bits_of_the_library(void **state)
{
    void *at;

    (void)state;
    open_adapter();
    at = alloc(NXT_PAIRS * sizeof(uint64_t));
    nxt_dev_check_kernels(dev, at);
    nexar_cuda_free(cuda, at);
    close_adapter();
}

static void test_every_half_has_the_bits_of_the_library(void **state)
{
    static uint16_t a[HALVES], b[HALVES];
    uint64_t random = 1;
    void *at;

    (void)state;
    open_adapter();
    at = alloc(sizeof(a));
    for (size_t i = 0; i < HALVES; i++) {
        a[i] = (uint16_t)i;
        b[i] = (uint16_t)nxt_random(&random);
    }
    for (nexar_op o = NEXAR_SUM; o <= NEXAR_MAX; o++) {
        nxt_dev_check_bits(dev, at, a, b, HALVES, NEXAR_F16, o);
        nxt_dev_check_bits(dev, at, a, b, HALVES, NEXAR_BF16, o);
    }
    nexar_cuda_free(cuda, at);
    close_adapter();
}

static void test_long_vectors_are_reduced_in_pieces(void **state)
{
    static unsigned char a[LONG], b[LONG], got[LONG];
    nxt_fake_cuda_counts before, after;
    unsigned char *at;

    (void)state;
    open_adapter();
    at = alloc(LONG);
    nxt_bytes_make(a, LONG, 1);
    nxt_bytes_make(b, LONG, 2);
    nxt_dev_put(dev, at, a, LONG);
    fake.get(&before);
    assert_int_equal(nxt_dev_reduce(dev, at + 8, b, LONG / 8 - 1, NEXAR_I64, NEXAR_SUM), NEXAR_OK);
    fake.get(&after);
    assert_int_equal(after.launches - before.launches, 2);
    nxt_dev_get(dev, got, at, LONG);
    nx_reduce(a + 8, a + 8, b, LONG / 8 - 1, NEXAR_I64, NEXAR_SUM);
    assert_memory_equal(a, got, LONG);
    nexar_cuda_free(cuda, at);
    close_adapter();
}

static void test_what_kernels_cannot_do_is_said(void **state)
{
    char *at, host[64] = {0};

    (void)state;
    open_adapter();
    at = alloc(64);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, NEXAR_F32, NEXAR_AVG), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, NEXAR_BF16, NEXAR_BOR), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at + 2, host, 8, NEXAR_F32, NEXAR_SUM), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, (nexar_dtype)99, NEXAR_SUM), NEXAR_ENOTSUP);
    nexar_cuda_free(cuda, at);
    close_adapter();
}

/* ---- threads and failures
 * ------------------------------------------------------------------------ */

typedef struct thread {
    pthread_t id;
    uint32_t *at;
    bool good;
} thread;

enum { THREADS = 3, ROUNDS = 10, WORDS = 3000 };

/* The thread is its own stream; no context is current in it. */
static void *reduce_often(void *arg)
{
    thread *t = arg;
    uint32_t words[WORDS];

    t->good = true;
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = i;
    }
    for (int r = 0; t->good && (r < ROUNDS); r++) {
        t->good = dev->reduce(dev->ctx, t->at, words, WORDS, NEXAR_U32, NEXAR_SUM, t) == NEXAR_OK;
    }
    t->good = (dev->synchronize(dev->ctx, t) == NEXAR_OK) && t->good;
    return NULL;
}

static void test_threads_reduce_on_streams_of_their_own(void **state)
{
    static uint32_t words[WORDS];
    thread threads[THREADS];

    (void)state;
    open_adapter();
    for (int i = 0; i < THREADS; i++) {
        threads[i].at = alloc(sizeof(words));
        memset(words, 0, sizeof(words));
        nxt_dev_put(dev, threads[i].at, words, sizeof(words));
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i].id, NULL, reduce_often, &threads[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].id, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_true(threads[i].good);
        nxt_dev_get(dev, words, threads[i].at, sizeof(words));
        for (uint32_t w = 0; w < WORDS; w++) {
            assert_int_equal(words[w], w * ROUNDS);
        }
        nexar_cuda_free(cuda, threads[i].at);
    }
    close_adapter();
}

/* Runs everything once with call |n| failing. True: call |n| was reached. */
static bool run_failing(int64_t n)
{
    float host[16] = {0};
    nexar_err err;
    void *at = NULL;

    fake.break_call(n);
    err = nexar_cuda_create(0, &cuda);
    if (err == NEXAR_OK) {
        dev = nexar_cuda_device(cuda);
        err = nexar_cuda_alloc(cuda, sizeof(host), &at);
    }
    if (err == NEXAR_OK) {
        err = dev->to_device(dev->ctx, at, host, sizeof(host), NULL);
    }
    if (err == NEXAR_OK) {
        err = dev->reduce(dev->ctx, at, host, 16, NEXAR_F32, NEXAR_SUM, NULL);
    }
    if (err == NEXAR_OK) {
        err = dev->to_host(dev->ctx, host, at, sizeof(host), NULL);
    }
    if (err == NEXAR_OK) {
        err = dev->synchronize(dev->ctx, NULL);
    }
    fake.break_call(-1);
    if (err != NEXAR_OK) {
        assert_int_equal(err, NEXAR_EDEVICE);
        assert_non_null(strstr(nexar_cuda_last_error(), "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        if (cuda != NULL) { /* completes the work left on the stream */
            (void)dev->synchronize(dev->ctx, NULL);
        }
    }
    nexar_cuda_free(cuda, at);
    close_adapter();
    return err != NEXAR_OK;
}

static void test_every_call_that_fails_is_reported(void **state)
{
    int64_t n = 0;

    (void)state;
    cuda = NULL;
    while (run_failing(n)) {
        n++;
    }
    assert_true(n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices_that_are_not_there_are_refused),
        cmocka_unit_test(test_bytes_come_back),
        cmocka_unit_test(test_regions_are_gathered_and_scattered),
        cmocka_unit_test(test_pinned_memory_is_known_to_the_driver),
        cmocka_unit_test(test_every_kernel_has_the_bits_of_the_library),
        cmocka_unit_test(test_every_half_has_the_bits_of_the_library),
        cmocka_unit_test(test_long_vectors_are_reduced_in_pieces),
        cmocka_unit_test(test_what_kernels_cannot_do_is_said),
        cmocka_unit_test(test_threads_reduce_on_streams_of_their_own),
        cmocka_unit_test(test_every_call_that_fails_is_reported),
    };
    void *library = dlopen("libcuda.so.1", RTLD_NOW); /* stays loaded and keeps its counts */

    if ((library == NULL) || !find(library, "nxt_fake_cuda_get", &fake.get) ||
        !find(library, "nxt_fake_cuda_fail", &fake.break_call)) {
        (void)fprintf(stderr, "skipped: libcuda.so.1 is not the stand-in; see CMakeLists.txt\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
