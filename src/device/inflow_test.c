/* inflow_test.c - fragments of any length and order reach the device in bounded memory; every
 * failure ends the message. */
#include "device/inflow.h"

#include <stdlib.h>
#include <string.h>

#include "rand.h"
#include "sim_device.h"
#include "unit.h"

enum {
    MESSAGES = 24,                 /* more messages than chunks */
    LENGTH = 3 * NX_CHUNK + 12345, /* bytes of each */
};

typedef struct flow {
    nx_inflow in;
    nx_devmem mem;
    nx_loop *loop;
    char *dev;
    nx_event done;
    size_t next[2], end[2]; /* bytes still to arrive, of each part */
} flow;

static nexar_err apply(nx_inflow *in, uint64_t off, const void *data, size_t len)
{
    flow *f = nx_list_entry(in, flow, in);

    return nx_device_write(f->mem, f->dev + off, data, len);
}

static void on_done(nx_inflow *in)
{
    flow *f = nx_list_entry(in, flow, in);

    nx_event_set(f->loop, &f->done);
}

static char byte_at(unsigned message, size_t off)
{
    return (char)((off * 31 + message * 7 + (off >> 11)) & 0xff);
}

typedef struct rig {
    nxt_sim_device *sim;
    nx_device *device;
    nx_loop *loop;
    nx_worker *worker;
    flow flows[MESSAGES];
} rig;

static void rig_open(rig *r)
{
    const nxt_sim_options options = {.bytes = (size_t)MESSAGES * (LENGTH + 4096),
                                     .optional = NXT_SIM_ALL};

    memset(r, 0, sizeof(*r));
    r->sim = nxt_sim_device_create(&options);
    assert_non_null(r->sim);
    assert_int_equal(nx_device_create("test", nxt_sim_device_table(r->sim), &r->device), NEXAR_OK);
    assert_int_equal(nx_loop_create(&r->loop, &nx_clock_system), NEXAR_OK);
    assert_int_equal(nx_worker_create(&r->worker, r->loop, NX_DEVICE_THREADS), NEXAR_OK);
    for (unsigned i = 0; i < MESSAGES; i++) {
        flow *f = &r->flows[i];

        f->in.device = r->device;
        f->in.worker = r->worker;
        f->in.apply = apply;
        f->in.on_done = on_done;
        f->mem = (nx_devmem){.device = r->device};
        f->loop = r->loop;
        f->dev = nxt_sim_device_alloc(r->sim, LENGTH);
        assert_non_null(f->dev);
        f->next[1] = f->end[0] = 100000 + (size_t)i * 1000;
        f->end[1] = LENGTH;
    }
}

static void rig_close(rig *r)
{
    nxt_sim_counts counts;

    nx_worker_destroy(r->worker);
    nx_loop_destroy(r->loop);
    nx_device_release(r->device);
    nxt_sim_device_counts(r->sim, &counts);
    assert_int_equal(counts.wrong, 0);
    assert_int_equal(counts.host_allocs, counts.host_frees);
    assert_true(counts.host_allocs <= NX_CHUNKS_RECV + NX_CHUNKS_BOUNCE);
    nxt_sim_device_destroy(r->sim);
}

/* Puts the next fragment of a part of |f|. False: the part is complete. */
static bool put_some(flow *f, unsigned message, unsigned part, size_t most)
{
    static char data[2 * NX_CHUNK];
    size_t left = f->end[part] - f->next[part];
    size_t n = (left < most) ? left : most;

    for (size_t i = 0; i < n; i++) {
        data[i] = byte_at(message, f->next[part] + i);
    }
    nx_inflow_put(&f->in, f->next[part], data, n);
    f->next[part] += n;
    return n != 0;
}

/* Puts all messages and their parts concurrently, in fragments of any length. */
static void put_all(rig *r, uint64_t seed)
{
    nxt_rand rand = {.state = seed};
    unsigned left = MESSAGES;

    while (left != 0) {
        unsigned message = nxt_below(&rand, MESSAGES);
        unsigned part = nxt_below(&rand, 2);
        size_t most = 1 + nxt_below(&rand, (message % 5 == 0) ? 2 * NX_CHUNK : 90000);
        flow *f = &r->flows[message];

        if (!f->in.ended && !put_some(f, message, part, most) &&
            !put_some(f, message, !part, most)) {
            nx_inflow_end(&f->in);
            left--;
        }
    }
}

static void wait_all(rig *r)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_true(nx_loop_wait(r->loop, &r->flows[i].done, UINT64_MAX));
    }
}

/* The first byte that differs from message |i|; LENGTH: none. */
static size_t first_wrong(const char *got, unsigned i)
{
    size_t b = 0;

    while ((b < LENGTH) && (got[b] == byte_at(i, b))) {
        b++;
    }
    return b;
}

static void check_bytes(rig *r)
{
    char *got = malloc(LENGTH);

    assert_non_null(got);
    for (unsigned i = 0; i < MESSAGES; i++) {
        nxt_sim_device_store(r->sim, got, r->flows[i].dev, LENGTH);
        assert_int_equal(first_wrong(got, i), LENGTH);
    }
    free(got);
}

static void test_fragments_of_many_messages_reach_the_device(void **state)
{
    rig r;

    (void)state;
    rig_open(&r);
    nx_loop_lock(r.loop);
    put_all(&r, 1);
    wait_all(&r);
    nx_loop_unlock(r.loop);
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(r.flows[i].in.err, NEXAR_OK);
    }
    check_bytes(&r);
    rig_close(&r);
}

static void test_empty_message_ends_at_once(void **state)
{
    rig r;

    (void)state;
    rig_open(&r);
    nx_loop_lock(r.loop);
    nx_inflow_end(&r.flows[0].in);
    assert_true(r.flows[0].done.set);
    nx_loop_unlock(r.loop);
    rig_close(&r);
}

static void test_failure_ends_the_message_it_hit(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 12; n++) {
        unsigned failed = 0;
        nxt_sim_counts counts;
        rig r;

        rig_open(&r);
        nxt_sim_device_fail(r.sim, n, NEXAR_ESYS);
        nx_loop_lock(r.loop);
        put_all(&r, (uint64_t)n);
        wait_all(&r);
        nx_loop_unlock(r.loop);
        for (unsigned i = 0; i < MESSAGES; i++) {
            if (r.flows[i].in.err != NEXAR_OK) {
                assert_int_equal(r.flows[i].in.err, NEXAR_EDEVICE);
                assert_non_null(strstr(r.flows[i].in.why, "the device sim failed"));
                failed++;
            }
        }
        nxt_sim_device_counts(r.sim, &counts);
        assert_true((failed >= 1) || (counts.host_refusals == 1)); /* ordinary memory is used */
        rig_close(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fragments_of_many_messages_reach_the_device),
        cmocka_unit_test(test_empty_message_ends_at_once),
        cmocka_unit_test(test_failure_ends_the_message_it_hit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
