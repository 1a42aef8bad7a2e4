/* outflow_test.c - messages leave the device chunk by chunk, in bounded memory, and every
 * failure ends the message. */
#include "device/outflow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_device.h"
#include "unit.h"

enum {
    MESSAGES = 12,                 /* messages that need more chunks than exist */
    LENGTH = 5 * NX_CHUNK + 12345, /* bytes of each */
};

typedef struct flow {
    nx_outflow out;
    nx_devmem mem;
    nx_loop *loop;
    char *dev;
    unsigned message;
    uint64_t got;
    size_t most; /* bytes of the last on_ready */
    bool wrong, waits;
    nx_event idle;
} flow;

typedef struct rig {
    nxt_sim_device *sim;
    nx_device *device;
    nx_loop *loop;
    nx_worker *worker;
    flow flows[MESSAGES];
} rig;

static char byte_at(unsigned message, uint64_t off)
{
    return (char)((off * 31 + message * 7 + (off >> 11)) & 0xff);
}

static nexar_err stage(nx_outflow *out, uint64_t off, void *host, size_t len)
{
    flow *f = nx_list_entry(out, flow, out);

    return nx_device_read(f->mem, host, f->dev + off, len);
}

static void on_ready(nx_outflow *out, const void *host, size_t len)
{
    flow *f = nx_list_entry(out, flow, out);

    if (out->err != NEXAR_OK) {
        nx_outflow_end(out);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        f->wrong = f->wrong || (((const char *)host)[i] != byte_at(f->message, f->got + i));
    }
    f->got += len;
    f->most = (len > f->most) ? len : f->most;
    f->waits = true;
}

static void on_idle(nx_outflow *out)
{
    flow *f = nx_list_entry(out, flow, out);

    nx_event_set(f->loop, &f->idle);
}

static void rig_open(rig *r)
{
    const nxt_sim_options options = {.bytes = (size_t)MESSAGES * (LENGTH + 4096),
                                     .optional = NXT_SIM_ALL};
    char *bytes = malloc(LENGTH);

    assert_non_null(bytes);
    memset(r, 0, sizeof(*r));
    r->sim = nxt_sim_device_create(&options);
    assert_non_null(r->sim);
    assert_int_equal(nx_device_create("test", nxt_sim_device_table(r->sim), &r->device), NEXAR_OK);
    assert_int_equal(nx_loop_create(&r->loop, &nx_clock_system), NEXAR_OK);
    assert_int_equal(nx_worker_create(&r->worker, r->loop, NX_DEVICE_THREADS), NEXAR_OK);
    for (unsigned i = 0; i < MESSAGES; i++) {
        flow *f = &r->flows[i];

        f->out = (nx_outflow){.device = r->device,
                              .worker = r->worker,
                              .total = LENGTH,
                              .stage = stage,
                              .on_ready = on_ready,
                              .on_idle = on_idle};
        f->mem = (nx_devmem){.device = r->device};
        f->loop = r->loop;
        f->message = i;
        f->dev = nxt_sim_device_alloc(r->sim, LENGTH);
        assert_non_null(f->dev);
        for (size_t b = 0; b < LENGTH; b++) {
            bytes[b] = byte_at(i, b);
        }
        nxt_sim_device_load(r->sim, f->dev, bytes, LENGTH);
    }
    free(bytes);
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
    assert_true(counts.host_allocs <= NX_CHUNKS_SEND + NX_CHUNKS_BOUNCE);
    nxt_sim_device_destroy(r->sim);
}

static void start_all(rig *r)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        nx_outflow *out = &r->flows[i].out;
        const nexar_err err = nx_outflow_start(out);

        if (err != NEXAR_OK) {
            out->err = err;
            (void)snprintf(out->why, sizeof(out->why), "%s", nexar_last_error());
            r->flows[i].idle.set = true;
        }
    }
}

/* Takes the available data of |f| and requests more, or ends the message after |until| bytes. */
static void take(flow *f, uint64_t until)
{
    if (!f->waits) {
        return;
    }
    f->waits = false;
    if (f->got < until) {
        nx_outflow_next(&f->out);
    } else {
        nx_outflow_end(&f->out);
    }
}

/* Starts all messages and takes data as it arrives. Ends each message after at least |until|
 * bytes. */
static void run_all(rig *r, uint64_t until)
{
    unsigned left = MESSAGES;
    nx_event never = {0};

    start_all(r);
    while (left > 0) {
        left = 0;
        for (unsigned i = 0; i < MESSAGES; i++) {
            take(&r->flows[i], until);
            left += !r->flows[i].idle.set;
        }
        (void)nx_loop_wait(r->loop, &never, nx_loop_now(r->loop) + 100000);
    }
}

static void test_many_messages_leave_the_device_in_chunks(void **state)
{
    rig r;

    (void)state;
    rig_open(&r);
    nx_loop_lock(r.loop);
    run_all(&r, LENGTH);
    nx_loop_unlock(r.loop);
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_int_equal(r.flows[i].got, LENGTH);
        assert_int_equal(r.flows[i].most, NX_CHUNK);
        assert_false(r.flows[i].wrong);
    }
    rig_close(&r);
}

static void test_one_can_end_at_any_chunk(void **state)
{
    (void)state;
    for (uint64_t until = 1; until < LENGTH; until += NX_CHUNK) {
        rig r;

        rig_open(&r);
        nx_loop_lock(r.loop);
        run_all(&r, until);
        nx_loop_unlock(r.loop);
        for (unsigned i = 0; i < MESSAGES; i++) {
            assert_true((r.flows[i].got >= until) && (r.flows[i].got < until + NX_CHUNK));
            assert_false(r.flows[i].wrong);
        }
        rig_close(&r);
    }
}

static void test_failure_ends_the_message_it_hit(void **state)
{
    unsigned failed = 0;

    (void)state;
    for (int64_t n = 0; n < 40; n += 3) {
        rig r;

        rig_open(&r);
        nxt_sim_device_fail(r.sim, n, NEXAR_ESYS);
        nx_loop_lock(r.loop);
        run_all(&r, LENGTH);
        nx_loop_unlock(r.loop);
        for (unsigned i = 0; i < MESSAGES; i++) {
            const flow *f = &r.flows[i];

            assert_false(f->wrong);
            if (f->out.err != NEXAR_OK) {
                assert_int_equal(f->out.err, NEXAR_EDEVICE);
                assert_non_null(strstr(f->out.why, "the device sim failed"));
                failed++;
            } else {
                assert_int_equal(f->got, LENGTH);
            }
        }
        rig_close(&r);
    }
    assert_true(failed >= 8); /* the first calls may only allocate staging memory */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_messages_leave_the_device_in_chunks),
        cmocka_unit_test(test_one_can_end_at_any_chunk),
        cmocka_unit_test(test_failure_ends_the_message_it_hit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
