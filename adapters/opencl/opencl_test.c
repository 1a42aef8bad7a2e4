/* opencl_test.c - the OpenCL adapter on a real implementation: addresses, copies, and reductions,
 * which give the bits of the library's own kernels. */
#include "nexar_opencl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter_check.h"
#include "local_world.h"
#include "reduce/reduce.h"
#include "reduce/reduce_cases.h"
#include "reduce/scalar.h"
#include "unit.h"

enum { HALVES = 1 << 16, LONG = (3 << 20) + 7 }; /* LONG: several pieces */

static nexar_opencl *cl;
static const nexar_device *dev;

static void *alloc(size_t bytes)
{
    void *ptr = NULL;

    assert_int_equal(nexar_opencl_alloc(cl, bytes, &ptr), NEXAR_OK);
    return ptr;
}

/* ---- addresses --------------------------------------------------------------------- */

static void test_addresses_lead_to_their_buffers(void **state)
{
    char *a = alloc(1000), *b = alloc(5000);
    cl_mem of_a, of_b, again;
    size_t off;

    (void)state;
    assert_int_equal(nexar_opencl_buffer(cl, a, &of_a, &off), NEXAR_OK);
    assert_int_equal(off, 0);
    assert_int_equal(nexar_opencl_buffer(cl, b + 4999, &of_b, &off), NEXAR_OK);
    assert_int_equal(off, 4999);
    assert_ptr_not_equal(of_a, of_b);
    nexar_opencl_free(cl, a);
    assert_int_equal(nexar_opencl_buffer(cl, a, &again, &off), NEXAR_EINVAL);
    assert_int_equal(nexar_opencl_buffer(cl, b, &again, &off), NEXAR_OK);
    assert_ptr_equal(again, of_b);
    nexar_opencl_free(cl, b);
    nexar_opencl_free(cl, NULL);
}

static void test_what_lies_in_no_buffer_is_refused(void **state)
{
    char *a = alloc(1000), host[1001] = {0};

    (void)state;
    assert_int_equal(dev->to_device(dev->ctx, a, host, 1001, NULL), NEXAR_EINVAL);
    assert_int_equal(dev->to_host(dev->ctx, host, a + 1000, 1, NULL), NEXAR_EINVAL);
    assert_int_equal(dev->to_host(dev->ctx, host, host, 1, NULL), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_opencl_last_error(), "lie in no buffer"));
    assert_int_equal(nexar_opencl_alloc(cl, 0, (void **)&a), NEXAR_EINVAL);
    nexar_opencl_free(cl, a);
}

static void test_buffer_of_the_program_is_attached(void **state)
{
    unsigned char in[100], out[100];
    void *ptr;
    cl_int code;
    cl_mem mem = clCreateBuffer(nexar_opencl_context(cl), CL_MEM_READ_WRITE, 100, NULL, &code);

    (void)state;
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(nexar_opencl_attach(cl, mem, &ptr), NEXAR_OK);
    nxt_bytes_make(in, 100, 3);
    nxt_dev_put(dev, ptr, in, 100);
    assert_int_equal(
        clEnqueueReadBuffer(nexar_opencl_queue(cl), mem, CL_TRUE, 0, 100, out, 0, NULL, NULL),
        CL_SUCCESS);
    assert_memory_equal(in, out, 100);
    nexar_opencl_free(cl, ptr);
    assert_int_equal(clReleaseMemObject(mem), CL_SUCCESS);
}

static void test_queue_out_of_order_is_refused(void **state)
{
    cl_device_id device;
    nexar_opencl *other = NULL;
    cl_int code;
    cl_command_queue queue;

    (void)state;
    assert_int_equal(clGetCommandQueueInfo(nexar_opencl_queue(cl), CL_QUEUE_DEVICE,
                                           sizeof(cl_device_id), &device, NULL),
                     CL_SUCCESS);
    queue = clCreateCommandQueue(nexar_opencl_context(cl), device,
                                 CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &code);
    if (queue != NULL) { /* not every device has such queues */
        assert_int_equal(nexar_opencl_create(queue, &other), NEXAR_EINVAL);
        assert_null(other);
        assert_int_equal(clReleaseCommandQueue(queue), CL_SUCCESS);
    }
    assert_int_equal(nexar_opencl_create(nexar_opencl_queue(cl), &other), NEXAR_OK);
    assert_ptr_equal(nexar_opencl_queue(other), nexar_opencl_queue(cl));
    nexar_opencl_destroy(other);
    nexar_opencl_destroy(NULL);
}

/* ---- copies ----------------------------------------------------------------------------- */

static void test_bytes_come_back(void **state)
{
    static unsigned char in[LONG], out[LONG];
    char *at = alloc(LONG + 13);

    (void)state;
    nxt_bytes_make(in, LONG, 1);
    nxt_dev_put(dev, at + 13, in, LONG);
    nxt_dev_get(dev, out, at + 13, LONG);
    assert_memory_equal(in, out, LONG);
    nxt_dev_get(dev, out, at + 1013, 500);
    assert_memory_equal(in + 1000, out, 500);
    nexar_opencl_free(cl, at);
}

static void test_regions_are_gathered_and_scattered(void **state)
{
    unsigned char in[1000], out[1000], all[1000];
    unsigned char *a = alloc(1000), *b = alloc(1000);
    const nexar_iov regions[] = {{a + 5, 300}, {b, 0}, {b + 100, 200}, {a + 600, 17}};

    (void)state;
    nxt_bytes_make(in, 1000, 2);
    nxt_dev_put(dev, a, in, 1000);
    assert_int_equal(dev->scatter(dev->ctx, regions, 4, in, NULL), NEXAR_OK);
    assert_int_equal(dev->gather(dev->ctx, out, regions, 4, NULL), NEXAR_OK);
    assert_int_equal(dev->synchronize(dev->ctx, NULL), NEXAR_OK);
    assert_memory_equal(in, out, 517);
    nxt_dev_get(dev, all, a, 1000);
    assert_memory_equal(all + 5, in, 300);
    assert_memory_equal(all + 600, in + 500, 17);
    assert_memory_equal(all + 305, in + 305, 295);
    nexar_opencl_free(cl, a);
    nexar_opencl_free(cl, b);
}

static void test_pinned_memory_is_memory(void **state)
{
    char *at = alloc(4096), out[4096];
    char *pinned = dev->alloc_host(dev->ctx, 4096);

    (void)state;
    assert_non_null(pinned);
    memset(pinned, 0x5a, 4096);
    nxt_dev_put(dev, at, pinned, 4096);
    nxt_dev_get(dev, out, at, 4096);
    assert_memory_equal(out, pinned, 4096);
    dev->free_host(dev->ctx, pinned);
    nexar_opencl_free(cl, at);
}

/* ---- reductions ----------------------------------------------------------------------------- */

static void test_special_and_random_pairs_have_the_bits_of_the_library(void **state)
{
    void *at = alloc(NXT_PAIRS * sizeof(uint64_t));

    (void)state;
    nxt_dev_check_kernels(dev, at);
    nexar_opencl_free(cl, at);
}

/* Every half with each special value. */
static void check_halves(void *at, nexar_dtype dtype, nexar_op op)
{
    static uint16_t a[HALVES], b[HALVES];
    uint64_t specials[NXT_SPECIALS_MAX];
    size_t n = nxt_specials(dtype, specials);

    for (size_t i = 0; i < HALVES; i++) {
        a[i] = (uint16_t)i;
    }
    for (size_t s = 0; s < n; s++) {
        for (size_t i = 0; i < HALVES; i++) {
            b[i] = (uint16_t)specials[s];
        }
        nxt_dev_check_bits(dev, at, a, b, HALVES, dtype, op);
    }
}

static void test_every_half_has_the_bits_of_the_library(void **state)
{
    void *at = alloc(HALVES * sizeof(uint16_t));

    (void)state;
    for (nexar_op o = NEXAR_SUM; o <= NEXAR_MAX; o++) {
        check_halves(at, NEXAR_F16, o);
        check_halves(at, NEXAR_BF16, o);
    }
    nexar_opencl_free(cl, at);
}

static void test_long_vectors_at_an_offset_are_reduced_whole(void **state)
{
    static unsigned char a[LONG], b[LONG], got[LONG];
    const size_t n = (LONG - 64) / 8;
    unsigned char *at = alloc(LONG);

    (void)state;
    nxt_bytes_make(a, LONG, 1);
    nxt_bytes_make(b, LONG, 2);
    nxt_dev_put(dev, at, a, LONG);
    assert_int_equal(nxt_dev_reduce(dev, at + 24, b, n, NEXAR_I64, NEXAR_SUM), NEXAR_OK);
    nxt_dev_get(dev, got, at, LONG);
    nx_reduce(a + 24, a + 24, b, n, NEXAR_I64, NEXAR_SUM);
    assert_memory_equal(a, got, LONG);
    nexar_opencl_free(cl, at);
}

static void test_what_kernels_cannot_do_is_said(void **state)
{
    char *at = alloc(64), host[64] = {0};

    (void)state;
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, NEXAR_F32, NEXAR_AVG), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, NEXAR_F32, NEXAR_BXOR), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at + 2, host, 8, NEXAR_F32, NEXAR_SUM), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 8, (nexar_dtype)99, NEXAR_SUM), NEXAR_ENOTSUP);
    assert_int_equal(nxt_dev_reduce(dev, at, host, 17, NEXAR_F32, NEXAR_SUM), NEXAR_EINVAL);
    nexar_opencl_free(cl, at);
}

/* ---- threads, each with its own queue ----------------------------------------------------
 */

typedef struct thread {
    pthread_t id;
    cl_command_queue queue;
    uint32_t *at;
    bool good;
} thread;

enum { THREADS = 3, ROUNDS = 20, WORDS = 300000 };

static void *reduce_often(void *arg)
{
    thread *t = arg;
    uint32_t *ones = malloc(WORDS * sizeof(*ones));
    bool good = (ones != NULL);

    for (size_t i = 0; good && (i < WORDS); i++) {
        ones[i] = (uint32_t)i;
    }
    for (int r = 0; good && (r < ROUNDS); r++) {
        good =
            (dev->reduce(dev->ctx, t->at, ones, WORDS, NEXAR_U32, NEXAR_SUM, t->queue) == NEXAR_OK);
    }
    good = good && (dev->synchronize(dev->ctx, t->queue) == NEXAR_OK);
    t->good = good;
    free(ones);
    return NULL;
}

static void thread_start(thread *t)
{
    static const uint32_t zeros[WORDS];
    cl_device_id device;
    cl_int code;

    assert_int_equal(clGetCommandQueueInfo(nexar_opencl_queue(cl), CL_QUEUE_DEVICE,
                                           sizeof(cl_device_id), &device, NULL),
                     CL_SUCCESS);
    t->queue = clCreateCommandQueue(nexar_opencl_context(cl), device, 0, &code);
    assert_non_null(t->queue);
    t->at = alloc(WORDS * sizeof(uint32_t));
    nxt_dev_put(dev, t->at, zeros, sizeof(zeros));
    assert_int_equal(pthread_create(&t->id, NULL, reduce_often, t), 0);
}

static void test_threads_reduce_on_queues_of_their_own(void **state)
{
    static uint32_t got[WORDS];
    thread threads[THREADS];

    (void)state;
    for (int i = 0; i < THREADS; i++) {
        thread_start(&threads[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i].id, NULL), 0);
        assert_true(threads[i].good);
        nxt_dev_get(dev, got, threads[i].at, sizeof(got));
        for (uint32_t w = 0; w < WORDS; w++) {
            assert_int_equal(got[w], w * ROUNDS);
        }
        nexar_opencl_free(cl, threads[i].at);
        assert_int_equal(clReleaseCommandQueue(threads[i].queue), CL_SUCCESS);
    }
}

/* ---- a world ------------------------------------------------------------------------------------
 */

enum { ELEMENTS = 200000 };

static void sum_and_pass_on(nexar_comm *w, void *arg)
{
    static _Thread_local uint16_t host[ELEMENTS];
    const int me = nexar_rank(w), n = nexar_size(w);
    void *a = NULL, *b = NULL;

    (void)arg;
    NXT_OK(w, nexar_comm_set_device(w, dev));
    NXT_OK(w, nexar_opencl_alloc(cl, sizeof(host), &a));
    NXT_OK(w, nexar_opencl_alloc(cl, sizeof(host), &b));
    for (int i = 0; i < ELEMENTS; i++) { /* small integers: exact in bf16 */
        host[i] = (uint16_t)(nx_f32_bits((float)(i % 16 + me)) >> 16);
    }
    NXT_OK(w, dev->to_device(dev->ctx, a, host, sizeof(host), NULL));
    NXT_OK(w, nexar_allreduce(w, a, b, ELEMENTS, NEXAR_BF16, NEXAR_SUM));
    NXT_OK(w, nexar_sendrecv(w, b, sizeof(host), (me + 1) % n, 1, a, sizeof(host), (me + n - 1) % n,
                             1, NULL));
    NXT_OK(w, dev->to_host(dev->ctx, host, a, sizeof(host), NULL));
    NXT_OK(w, dev->synchronize(dev->ctx, NULL));
    for (int i = 0; i < ELEMENTS; i++) {
        const int want = n * (i % 16) + n * (n - 1) / 2;

        NXT_IS(w, nx_f32_of_bf16(host[i]) == (float)want);
    }
    NXT_OK(w, nexar_comm_set_device(w, NULL));
    nexar_opencl_free(cl, a);
    nexar_opencl_free(cl, b);
}

static void test_ranks_reduce_and_send_what_is_on_the_device(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sum_and_pass_on, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_lead_to_their_buffers),
        cmocka_unit_test(test_what_lies_in_no_buffer_is_refused),
        cmocka_unit_test(test_buffer_of_the_program_is_attached),
        cmocka_unit_test(test_queue_out_of_order_is_refused),
        cmocka_unit_test(test_bytes_come_back),
        cmocka_unit_test(test_regions_are_gathered_and_scattered),
        cmocka_unit_test(test_pinned_memory_is_memory),
        cmocka_unit_test(test_special_and_random_pairs_have_the_bits_of_the_library),
        cmocka_unit_test(test_every_half_has_the_bits_of_the_library),
        cmocka_unit_test(test_long_vectors_at_an_offset_are_reduced_whole),
        cmocka_unit_test(test_what_kernels_cannot_do_is_said),
        cmocka_unit_test(test_threads_reduce_on_queues_of_their_own),
        cmocka_unit_test(test_ranks_reduce_and_send_what_is_on_the_device),
    };
    int failed;

    if (nexar_opencl_create(NULL, &cl) != NEXAR_OK) {
        (void)fprintf(stderr, "skipped: %s\n", nexar_opencl_last_error());
        return 77;
    }
    dev = nexar_opencl_device(cl);
    (void)fprintf(stderr, "on %s\n", dev->name);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    nexar_opencl_destroy(cl);
    return failed;
}
