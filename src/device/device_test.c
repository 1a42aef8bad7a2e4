/* device_test.c - the primitives on a simulated device, with every subset of the
 * optional functions, and with every call failing once. */
#include "device/device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device/staging.h"
#include "oom.h"
#include "reduce/reduce.h"
#include "sim_device.h"
#include "unit.h"

enum {
    ROOM = 8 << 20,
    LONG = NX_CHUNK + NX_CHUNK / 2 + 8, /* bytes: more than one chunk, less than two */
};

typedef struct rig {
    nxt_sim_device *sim;
    nx_device *device;
    nx_devmem mem;
    int stream; /* its address is a device pointer */
} rig;

static void rig_open(rig *r, unsigned optional, bool only_f32)
{
    const nxt_sim_options options = {.bytes = ROOM, .optional = optional, .only_f32 = only_f32};

    r->sim = nxt_sim_device_create(&options);
    assert_non_null(r->sim);
    assert_int_equal(nx_device_create("test", nxt_sim_device_table(r->sim), &r->device), NEXAR_OK);
    r->mem = (nx_devmem){.device = r->device, .stream = &r->stream};
}

static void rig_close(rig *r)
{
    nxt_sim_counts counts;

    nx_device_release(r->device);
    nxt_sim_device_counts(r->sim, &counts);
    assert_int_equal(counts.wrong, 0);
    assert_int_equal(counts.host_allocs, counts.host_frees);
    nxt_sim_device_destroy(r->sim);
}

static unsigned char pattern(size_t i, unsigned seed)
{
    return (unsigned char)((i * 2654435761U + seed * 97U) >> 7);
}

static void make(unsigned char *buf, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++) {
        buf[i] = pattern(i, seed);
    }
}

/* |bytes| of a pattern on the device. */
static unsigned char *on_device(rig *r, size_t bytes, unsigned seed)
{
    unsigned char *host = malloc(bytes), *dev = nxt_sim_device_alloc(r->sim, bytes);

    assert_non_null(host);
    assert_non_null(dev);
    make(host, bytes, seed);
    nxt_sim_device_load(r->sim, dev, host, bytes);
    free(host);
    return dev;
}

static void assert_on_device(rig *r, const void *dev, const void *expected, size_t bytes)
{
    unsigned char *host = malloc(bytes);

    assert_non_null(host);
    nxt_sim_device_store(r->sim, host, dev, bytes);
    assert_memory_equal(host, expected, bytes);
    free(host);
}

/* ---- tables -------------------------------------------------------------------------- */

static void test_required_functions_are_asked_for_by_name(void **state)
{
    nexar_device table = *nexar_cpu_device();
    nx_device *d = NULL;

    (void)state;
    table.to_host = NULL;
    assert_int_equal(nx_device_create("comm_set_device", &table, &d), NEXAR_EINVAL);
    assert_string_equal(nexar_last_error(),
                        "comm_set_device: the device cpu has no to_host; to_host, to_device and "
                        "synchronize are required, the others may be NULL");
    table = *nexar_cpu_device();
    table.to_device = NULL;
    assert_int_equal(nx_device_create("comm_set_device", &table, &d), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "no to_device"));
    table = *nexar_cpu_device();
    table.synchronize = NULL;
    assert_int_equal(nx_device_create("comm_set_device", &table, &d), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "no synchronize"));
    table = *nexar_cpu_device();
    table.name = NULL;
    assert_int_equal(nx_device_create("comm_set_device", &table, &d), NEXAR_EINVAL);
    assert_null(d);
}

static void test_name_is_copied(void **state)
{
    char name[] = "short-lived";
    nexar_device table = *nexar_cpu_device();
    nx_device *d;

    (void)state;
    table.name = name;
    assert_int_equal(nx_device_create("test", &table, &d), NEXAR_OK);
    memset(name, 'x', sizeof(name) - 1);
    assert_string_equal(nx_device_name(d), "short-lived");
    assert_true(nx_device_plain(d));
    nx_device_release(d);
}

static void test_cpu_device_copies(void **state)
{
    const nexar_device *cpu = nexar_cpu_device();
    char to[4] = "", from[4] = "abc";

    (void)state;
    assert_true(cpu->host_addressable);
    assert_int_equal(cpu->to_host(cpu->ctx, to, from, 4, NULL), NEXAR_OK);
    assert_int_equal(cpu->synchronize(cpu->ctx, NULL), NEXAR_OK);
    assert_string_equal(to, "abc");
}

/* ---- primitives ---------------------------------------------------------------------- */

static void check_copies(rig *r)
{
    unsigned char *dev = on_device(r, LONG, 1);
    static unsigned char host[LONG], expected[LONG];

    make(expected, LONG, 1);
    assert_int_equal(nx_device_read(r->mem, host, dev, LONG), NEXAR_OK);
    assert_memory_equal(host, expected, LONG);
    make(host, LONG, 2);
    assert_int_equal(nx_device_write(r->mem, dev + 3, host, LONG - 3), NEXAR_OK);
    memcpy(expected + 3, host, LONG - 3);
    assert_on_device(r, dev, expected, LONG);
    assert_int_equal(nx_device_read(r->mem, NULL, NULL, 0), NEXAR_OK);
    assert_int_equal(nx_device_write(r->mem, NULL, NULL, 0), NEXAR_OK);
}

/* Overlapping moves, in both directions. */
static void check_moves(rig *r)
{
    static unsigned char expected[2 * LONG];
    unsigned char *dev = on_device(r, sizeof(expected), 3);

    make(expected, sizeof(expected), 3);
    assert_int_equal(nx_device_copy(r->mem, dev + 100, dev, LONG), NEXAR_OK);
    memmove(expected + 100, expected, LONG);
    assert_int_equal(nx_device_copy(r->mem, dev, dev + 5000, LONG), NEXAR_OK);
    memmove(expected, expected + 5000, LONG);
    assert_on_device(r, dev, expected, sizeof(expected));
}

static void check_regions(rig *r)
{
    static unsigned char host[4096], expected[4096], back[8192];
    unsigned char *dev = on_device(r, 8192, 4);
    const nexar_iov regions[] = {
        {dev + 7, 1000}, {dev + 4000, 0}, {dev + 2000, 3}, {dev + 5001, 500}};
    unsigned char all[8192];

    make(all, 8192, 4);
    memcpy(expected, all + 7, 1000);
    memcpy(expected + 1000, all + 2000, 3);
    memcpy(expected + 1003, all + 5001, 500);
    assert_int_equal(nx_device_gather(r->mem, host, regions, 4), NEXAR_OK);
    assert_memory_equal(host, expected, 1503);
    make(host, sizeof(host), 5);
    assert_int_equal(nx_device_scatter(r->mem, regions, 4, host), NEXAR_OK);
    memcpy(all + 7, host, 1000);
    memcpy(all + 2000, host + 1000, 3);
    memcpy(all + 5001, host + 1003, 500);
    nxt_sim_device_store(r->sim, back, dev, 8192);
    assert_memory_equal(back, all, 8192);
    assert_int_equal(nx_device_gather(r->mem, NULL, NULL, 0), NEXAR_OK);
    assert_int_equal(nx_device_scatter(r->mem, regions + 1, 1, NULL), NEXAR_OK);
}

static void check_arithmetic(rig *r, nexar_dtype dtype, nexar_op op)
{
    static unsigned char host[LONG], expected[LONG];
    const size_t n = LONG / nexar_dtype_size(dtype);
    unsigned char *dev = on_device(r, LONG, 6);

    make(expected, LONG, 6);
    make(host, LONG, 7);
    assert_int_equal(nx_device_reduce(r->mem, dev, host, n, dtype, op), NEXAR_OK);
    nx_reduce(expected, expected, host, n, dtype, op);
    assert_on_device(r, dev, expected, LONG);
    assert_int_equal(nx_device_divide(r->mem, dev, n, dtype, 3), NEXAR_OK);
    nx_reduce_divide(expected, n, dtype, 3);
    assert_on_device(r, dev, expected, LONG);
    assert_int_equal(nx_device_fill(r->mem, dev, n - 1, dtype, op), NEXAR_OK);
    nx_reduce_identity(expected, n - 1, dtype, op);
    assert_on_device(r, dev, expected, LONG);
    assert_int_equal(nx_device_reduce(r->mem, NULL, NULL, 0, dtype, op), NEXAR_OK);
}

static void test_primitives_work_with_every_subset_of_functions(void **state)
{
    (void)state;
    for (unsigned mask = 0; mask < NXT_SIM_MASKS; mask++) {
        rig r;

        rig_open(&r, mask, (mask & NXT_SIM_GATHER) != 0);
        check_copies(&r);
        check_moves(&r);
        check_regions(&r);
        check_arithmetic(&r, NEXAR_F32, NEXAR_SUM);
        check_arithmetic(&r, NEXAR_BF16, NEXAR_AVG);
        check_arithmetic(&r, NEXAR_U64, NEXAR_BXOR);
        rig_close(&r);
    }
}

static void test_reduction_happens_where_the_adapter_can(void **state)
{
    nx_device_stats stats;
    rig r;

    (void)state;
    rig_open(&r, NXT_SIM_ALL, true);
    check_arithmetic(&r, NEXAR_F32, NEXAR_MAX);
    nx_device_stats_get(r.device, &stats);
    assert_int_equal(stats.reduced_there, LONG / 4);
    assert_int_equal(stats.reduced, 0);
    check_arithmetic(&r, NEXAR_F64, NEXAR_SUM); /* NEXAR_ENOTSUP */
    nx_device_stats_get(r.device, &stats);
    assert_int_equal(stats.reduced_there, LONG / 4);
    assert_int_equal(stats.reduced, LONG / 8);
    rig_close(&r);
}

static void test_work_of_the_stream_comes_before(void **state)
{
    unsigned char *dev, host[64], expected[64];
    rig r;

    (void)state;
    rig_open(&r, NXT_SIM_ALL, false);
    dev = on_device(&r, 64, 1);
    make(expected, 64, 2);
    nxt_sim_device_enqueue(r.sim, &r.stream, dev, expected, 64);
    assert_int_equal(nx_device_read(r.mem, host, dev, 64), NEXAR_OK);
    assert_memory_equal(host, expected, 64);
    rig_close(&r);
}

/* ---- failures ------------------------------------------------------------------------ */

typedef nexar_err (*primitive)(rig *r, unsigned char *dev, unsigned char *host);

// NOLINTNEXTLINE(readability-non-const-parameter): as the others
static nexar_err do_copy(rig *r, unsigned char *dev, unsigned char *host)
{
    (void)host;
    return nx_device_copy(r->mem, dev + LONG, dev, LONG);
}

// NOLINTNEXTLINE(readability-non-const-parameter): as the others
static nexar_err do_reduce(rig *r, unsigned char *dev, unsigned char *host)
{
    return nx_device_reduce(r->mem, dev, host, LONG / 4, NEXAR_F32, NEXAR_SUM);
}

static nexar_err do_regions(rig *r, unsigned char *dev, unsigned char *host)
{
    const nexar_iov regions[] = {{dev, 100}, {dev + 300, 100}};
    nexar_err err = nx_device_gather(r->mem, host, regions, 2);

    return (err == NEXAR_OK) ? nx_device_scatter(r->mem, regions, 2, host) : err;
}

static nexar_err do_read_write(rig *r, unsigned char *dev, unsigned char *host)
{
    nexar_err err = nx_device_read(r->mem, host, dev, 100);

    return (err == NEXAR_OK) ? nx_device_write(r->mem, dev, host, 100) : err;
}

/* Whether alloc_host failed and ordinary memory was used. */
static bool has_done_without(const rig *r)
{
    nxt_sim_counts counts;

    nxt_sim_device_counts(r->sim, &counts);
    return counts.host_refusals != 0;
}

static void check_failures(primitive what, unsigned mask)
{
    static unsigned char host[LONG];
    int64_t n = 0;
    bool more = true;

    for (; more; n++) {
        unsigned char *dev;
        nexar_err err;
        rig r;

        rig_open(&r, mask, false);
        dev = on_device(&r, (size_t)2 * LONG, 1);
        nxt_sim_device_fail(r.sim, n, NEXAR_ESYS);
        err = what(&r, dev, host);
        more = nxt_sim_device_failed(r.sim);
        assert_int_equal(err, (more && !has_done_without(&r)) ? NEXAR_EDEVICE : NEXAR_OK);
        if (err != NEXAR_OK) {
            assert_non_null(strstr(nexar_last_error(), "the device sim failed: its "));
        }
        nxt_sim_device_fail(r.sim, -1, NEXAR_OK);
        assert_int_equal(what(&r, dev, host), NEXAR_OK); /* the device remains usable */
        rig_close(&r);
    }
    assert_true(n > 1);
}

static void test_every_call_that_fails_is_reported(void **state)
{
    static const primitive all[] = {do_copy, do_reduce, do_regions, do_read_write};

    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        check_failures(all[i], 0);
        check_failures(all[i], NXT_SIM_ALL);
    }
}

static void test_sentence_names_adapter_function_and_code(void **state)
{
    unsigned char *dev, host[16];
    rig r;

    (void)state;
    rig_open(&r, 0, false);
    dev = on_device(&r, 16, 1);
    nxt_sim_device_fail(r.sim, 0, NEXAR_ESYS);
    assert_int_equal(nx_device_read(r.mem, host, dev, 16), NEXAR_EDEVICE);
    assert_string_equal(nexar_last_error(),
                        "the device sim failed: its to_host returned NEXAR_ESYS (-16)");
    rig_close(&r);
}

static void test_out_of_memory_is_reported(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        const nexar_device *cpu = nexar_cpu_device();
        nx_device *d;
        char buf[8] = {0};
        nexar_err err = nx_device_create("test", cpu, &d);

        if (err == NEXAR_OK) {
            err = nx_device_fill((nx_devmem){.device = d}, buf, 8, NEXAR_I8, NEXAR_BAND);
            nx_device_release(d);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
    }
}

/* ---- staging ------------------------------------------------------------------------- */

static void test_staging_is_bounded_and_reused(void **state)
{
    nx_chunk *chunks[NX_CHUNKS_SEND + 1];
    nx_device_stats stats;
    rig r;

    (void)state;
    rig_open(&r, NXT_SIM_ALL, false);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i <= NX_CHUNKS_SEND; i++) {
            assert_int_equal(nx_staging_try(r.device, NX_STAGE_SEND, &chunks[i]), NEXAR_OK);
            assert_true((chunks[i] == NULL) == (i == NX_CHUNKS_SEND));
        }
        for (int i = 0; i < NX_CHUNKS_SEND; i++) {
            memset(chunks[i]->ptr, i, NX_CHUNK);
            nx_staging_give(r.device, chunks[i]);
        }
    }
    nx_device_stats_get(r.device, &stats);
    assert_int_equal(stats.pinned, (uint64_t)NX_CHUNKS_SEND * NX_CHUNK);
    rig_close(&r);
}

static void test_where_no_pinned_memory_is_left_other_memory_does(void **state)
{
    nx_chunk *chunks[2];
    nxt_sim_counts counts;
    rig r;

    (void)state;
    rig_open(&r, NXT_SIM_ALL, false);
    nxt_sim_device_fail(r.sim, 0, NEXAR_ESYS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(nx_staging_try(r.device, NX_STAGE_SEND, &chunks[i]), NEXAR_OK);
        assert_non_null(chunks[i]);
        memset(chunks[i]->ptr, i, NX_CHUNK);
        assert_true(chunks[i]->theirs == (i == 1));
    }
    nxt_sim_device_counts(r.sim, &counts);
    assert_int_equal(counts.host_allocs, 1);
    for (int i = 0; i < 2; i++) {
        nx_staging_give(r.device, chunks[i]);
    }
    rig_close(&r); /* each chunk returns to the list of its stage */
}

static void *bounce_often(void *arg)
{
    rig *r = arg;
    unsigned char *dev = on_device(r, 64, 1);
    int failed = 0;

    for (int i = 0; i < 200; i++) {
        failed += (nx_device_divide(r->mem, dev, 16, NEXAR_I32, 1) != NEXAR_OK);
    }
    return (failed == 0) ? NULL : r;
}

static void test_threads_share_the_chunks_to_compute_in(void **state)
{
    pthread_t threads[2 * NX_CHUNKS_BOUNCE + 1];
    const size_t n = sizeof(threads) / sizeof(threads[0]);
    nx_device_stats stats;
    rig r;

    (void)state;
    rig_open(&r, 0, false);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, bounce_often, &r), 0);
    }
    for (size_t i = 0; i < n; i++) {
        void *failed;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    nx_device_stats_get(r.device, &stats);
    assert_true(stats.pinned <= (uint64_t)NX_CHUNKS_BOUNCE * NX_CHUNK);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_required_functions_are_asked_for_by_name),
        cmocka_unit_test(test_name_is_copied),
        cmocka_unit_test(test_cpu_device_copies),
        cmocka_unit_test(test_primitives_work_with_every_subset_of_functions),
        cmocka_unit_test(test_reduction_happens_where_the_adapter_can),
        cmocka_unit_test(test_work_of_the_stream_comes_before),
        cmocka_unit_test(test_every_call_that_fails_is_reported),
        cmocka_unit_test(test_sentence_names_adapter_function_and_code),
        cmocka_unit_test(test_out_of_memory_is_reported),
        cmocka_unit_test(test_staging_is_bounded_and_reused),
        cmocka_unit_test(test_where_no_pinned_memory_is_left_other_memory_does),
        cmocka_unit_test(test_threads_share_the_chunks_to_compute_in),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
