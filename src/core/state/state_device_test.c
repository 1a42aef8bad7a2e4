/* state_device_test.c - nexar_state_sync of device memory, and a device that fails anywhere. */
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "sim_device.h"
#include "unit.h"

enum { LONG = 200001, SHORT = 30, RANKS = 3, FAILING = 1 };

/* The state of one rank: on the device, and a host buffer to check it. */
typedef struct board {
    nxt_sim_device *device;
    nexar_state tensors[2];
    uint8_t seen[LONG];
} board;

static board *make(nexar_comm *comm)
{
    board *b = calloc(1, sizeof(*b));

    if (b == NULL) {
        abort();
    }
    b->device =
        nxt_sim_device_create(&(nxt_sim_options){.bytes = 4 * LONG, .optional = NXT_SIM_ALL});
    b->tensors[0] = (nexar_state){"long", nxt_sim_device_alloc(b->device, LONG), LONG, NEXAR_U8};
    b->tensors[1] = (nexar_state){"short", nxt_sim_device_alloc(b->device, SHORT), SHORT, NEXAR_U8};
    NXT_OK(comm, nexar_comm_set_device(comm, nxt_sim_device_table(b->device)));
    return b;
}

static void drop(nexar_comm *comm, board *b)
{
    NXT_OK(comm, nexar_comm_set_device(comm, NULL));
    nxt_sim_device_destroy(b->device);
    free(b);
}

static void set(board *b, uint64_t seed)
{
    for (size_t i = 0; i < 2; i++) {
        nxt_fill(b->seen, b->tensors[i].count, seed + i);
        nxt_sim_device_load(b->device, b->tensors[i].ptr, b->seen, b->tensors[i].count);
    }
}

static int is(board *b, uint64_t seed)
{
    int same = 1;

    for (size_t i = 0; i < 2; i++) {
        nxt_sim_device_store(b->device, b->seen, b->tensors[i].ptr, b->tensors[i].count);
        same = same && nxt_filled(b->seen, b->tensors[i].count, seed + i);
    }
    return same;
}

static void sync_devices(nexar_comm *w, void *arg)
{
    board *b = make(w);
    uint64_t revision = (uint64_t)nexar_rank(w);

    (void)arg;
    set(b, 10 * revision);
    NXT_OK(w, nexar_state_sync(w, b->tensors, 2, &revision, NULL));
    NXT_IS(w, is(b, 10 * ((uint64_t)nexar_size(w) - 1)));
    NXT_OK(w, nexar_state_sync(w, b->tensors, 2, &revision, NULL));
    drop(w, b);
}

static void device_memory_becomes_equal(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, sync_devices, NULL);
}

/* All of |host| have |err|. */
static void check_alike(nexar_comm *host, nexar_err err)
{
    int64_t ends[2] = {(int64_t)err, -(int64_t)err};

    NXT_OK(host, nexar_allreduce(host, NEXAR_IN_PLACE, ends, 2, NEXAR_I64, NEXAR_MAX));
    NXT_IS(host, ends[0] == -ends[1]);
}

/* Call number |n| of one device fails; |*failed|: there was such a call. */
static void sync_failing(nexar_comm *w, nexar_comm *host, board *b, int64_t n, int32_t *failed)
{
    const uint64_t rank = (uint64_t)nexar_rank(w);
    uint64_t revision = rank;
    nexar_sync_report r;
    nexar_err err;

    set(b, 10 * rank);
    if (rank == FAILING) {
        nxt_sim_device_fail(b->device, n, NEXAR_EDEVICE);
    }
    err = nexar_state_sync(w, b->tensors, 2, &revision, &r);
    *failed = (rank == FAILING) && nxt_sim_device_failed(b->device);
    nxt_sim_device_fail(b->device, -1, NEXAR_OK);
    NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EDEVICE));
    NXT_IS(w, is(b, 10 * ((err == NEXAR_OK) ? RANKS - 1 : rank)));
    NXT_IS(w, r.updated == (err == NEXAR_OK));
    check_alike(host, err);
    NXT_OK(host, nexar_allreduce(host, NEXAR_IN_PLACE, failed, 1, NEXAR_I32, NEXAR_MAX));
}

static void sync_until_none_fails(nexar_comm *w, void *arg)
{
    nexar_comm *host;
    board *b;
    int32_t failed = 1;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &host));
    b = make(w);
    for (int64_t n = 0; failed != 0; n++) {
        sync_failing(w, host, b, n, &failed);
    }
    drop(w, b);
    nexar_comm_free(host);
}

static void a_device_that_fails_leaves_all_ranks_as_they_were(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, sync_until_none_fails, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_memory_becomes_equal),
        cmocka_unit_test(a_device_that_fails_leaves_all_ranks_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
