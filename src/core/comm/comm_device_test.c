/* comm_device_test.c - every call on device memory, with every adapter, by ranks with
 * a device and ranks without; and what happens when the device fails. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api_call.h"
#include "comm.h"
#include "device/staging.h"
#include "local_world.h"
#include "rand.h"
#include "sched_plan.h"
#include "unit.h"

enum { ROOM = 48 << 20 };

/* Which ranks have a device, and what it offers. */
typedef struct plan {
    unsigned optional;
    bool only_f32;
    bool some; /* only those with an even rank */
    int cases;
    uint64_t seed;
} plan;

static nxt_sim_device *attach(nexar_comm *w, unsigned optional, bool only_f32)
{
    const nxt_sim_options options = {.bytes = ROOM, .optional = optional, .only_f32 = only_f32};
    nxt_sim_device *sim = nxt_sim_device_create(&options);

    NXT_IS(w, sim != NULL);
    NXT_OK(w, nexar_comm_set_device(w, nxt_sim_device_table(sim)));
    return sim;
}

/* The device is not used by |w| any more; it has detected no misuse. */
static void detach(nexar_comm *w, nxt_sim_device *sim)
{
    nxt_sim_counts counts;

    NXT_OK(w, nexar_comm_set_device(w, NULL));
    nxt_sim_device_counts(sim, &counts);
    NXT_IS(w, counts.wrong == 0);
    NXT_IS(w, counts.host_allocs == counts.host_frees);
    nxt_sim_device_destroy(sim);
}

/* ---- collectives --------------------------------------------------------------------- */

static void trial(nexar_comm *w, nx_coll_kind kind, uint64_t seed)
{
    const char *wrong = nxt_api_trial(w, kind, seed);

    nxt_rank_check(w, wrong == NULL, (wrong == NULL) ? "" : wrong, __FILE__, __LINE__);
}

static void every_kind(nexar_comm *w, void *arg)
{
    const plan *p = arg;
    const bool has = !p->some || (nexar_rank(w) % 2 == 0);
    nxt_sim_device *sim = has ? attach(w, p->optional, p->only_f32) : NULL;

    nxt_api_use_device(sim);
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        for (int i = 0; i < p->cases; i++) {
            trial(w, (nx_coll_kind)kind, p->seed + 1000 * (uint64_t)kind + (uint64_t)i);
        }
    }
    nxt_api_use_device(NULL);
    if (has) {
        detach(w, sim);
    }
}

static void test_every_collective_works_on_device_memory(void **state)
{
    plan all = {.optional = NXT_SIM_ALL, .cases = 5};
    plan none = {.optional = 0, .cases = 5, .seed = 50};
    plan few = {.optional = NXT_SIM_REDUCE | NXT_SIM_SCATTER | NXT_SIM_ALLOC,
                .only_f32 = true,
                .cases = 4,
                .seed = 90};

    (void)state;
    for (int n = 1; n <= 4; n++) {
        nxt_local_world(n, NULL, every_kind, &all);
    }
    nxt_local_world(3, NULL, every_kind, &none);
    nxt_local_world(2, NULL, every_kind, &few);
}

static void test_ranks_without_a_device_work_with_those_that_have_one(void **state)
{
    plan p = {.optional = NXT_SIM_ALL, .some = true, .cases = 4, .seed = 7};

    (void)state;
    nxt_local_world(3, NULL, every_kind, &p);
    nxt_local_world(4, NULL, every_kind, &p);
}

static void some_kinds(nexar_comm *w, void *arg)
{
    const nx_coll_kind kinds[] = {NX_ALLREDUCE, NX_REDUCE_SCATTER, NX_ALLTOALLV, NX_SCAN};

    (void)arg;
    for (unsigned mask = 0; mask < NXT_SIM_MASKS; mask++) {
        nxt_sim_device *sim = attach(w, mask, (mask & 3) == 3);

        nxt_api_use_device(sim);
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
            trial(w, kinds[k], 100 * mask + k);
            trial(w, kinds[k], 100 * mask + k + 50);
        }
        nxt_api_use_device(NULL);
        detach(w, sim);
    }
}

static void test_every_subset_of_optional_functions_is_enough(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, some_kinds, NULL);
}

static void plain_kinds(nexar_comm *w, void *arg)
{
    (void)arg;
    NXT_OK(w, nexar_comm_set_device(w, nexar_cpu_device()));
    trial(w, NX_ALLREDUCE, 5);
    trial(w, NX_ALLGATHERV, 6);
}

static void test_host_memory_is_a_device_too(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, plain_kinds, NULL);
}

/* ---- several at once, buckets, shards, streams --------------------------------------- */

enum { OUTSTANDING = 24, LENGTH = 50000 };

static void many_at_once(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    static _Thread_local int32_t host[LENGTH];
    nexar_request *reqs[OUTSTANDING];
    int32_t *dev[OUTSTANDING];
    const int n = nexar_size(w);

    (void)arg;
    for (int i = 0; i < OUTSTANDING; i++) {
        dev[i] = nxt_sim_device_alloc(sim, sizeof(host));
        NXT_IS(w, dev[i] != NULL);
        for (int k = 0; k < LENGTH; k++) {
            host[k] = i * 1000 + k + nexar_rank(w);
        }
        nxt_sim_device_load(sim, dev[i], host, sizeof(host));
        NXT_OK(w,
               nexar_iallreduce(w, NEXAR_IN_PLACE, dev[i], LENGTH, NEXAR_I32, NEXAR_SUM, &reqs[i]));
    }
    for (int i = OUTSTANDING - 1; i >= 0; i--) {
        NXT_OK(w, nexar_wait(&reqs[i], NULL));
        nxt_sim_device_store(sim, host, dev[i], sizeof(host));
        for (int k = 0; k < LENGTH; k++) {
            NXT_IS(w, host[k] == n * (i * 1000 + k) + n * (n - 1) / 2);
        }
    }
    detach(w, sim);
}

static void test_many_collectives_are_on_their_way_at_once(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, many_at_once, NULL);
}

/* The functions that the device has, and the number of tensors of each length. */
typedef struct bucket_plan {
    unsigned optional;
    size_t tensors, each;
} bucket_plan;

static void buckets(nexar_comm *w, void *arg)
{
    enum { TENSORS = 200, MOST = 20000 };
    const bucket_plan *p = arg;
    nxt_sim_device *sim = attach(w, p->optional, false);
    nexar_tensor tensors[TENSORS];
    float *host = nxt_calloc(MOST, sizeof(*host));
    const size_t n = (size_t)nexar_size(w);
    nx_device_stats stats;
    size_t bytes = 0;

    for (size_t i = 0; i < p->tensors; i++) {
        tensors[i].count = (i * 7919) % p->each;
        tensors[i].ptr = nxt_sim_device_alloc(sim, tensors[i].count * sizeof(float) + 1);
        for (size_t k = 0; k < tensors[i].count; k++) {
            host[k] = (float)(k * (size_t)(nexar_rank(w) + 1) + i);
        }
        nxt_sim_device_load(sim, tensors[i].ptr, host, tensors[i].count * sizeof(float));
        bytes += tensors[i].count * sizeof(float);
    }
    NXT_OK(w, nexar_allreduce_bucketed(w, tensors, p->tensors, NEXAR_F32, NEXAR_SUM));
    for (size_t i = 0; i < p->tensors; i++) {
        nxt_sim_device_store(sim, host, tensors[i].ptr, tensors[i].count * sizeof(float));
        for (size_t k = 0; k < tensors[i].count; k++) {
            const size_t want = k * n * (n + 1) / 2 + i * n;

            NXT_IS(w, host[k] == (float)want);
        }
    }
    nx_device_stats_get(w->device, &stats);
    if (p->each * sizeof(float) <= NX_CALL_DEVICE_SHORT) { /* packed: one copy in each direction */
        NXT_IS(w, (stats.to_host == bytes) && (stats.to_device == bytes));
    } else {
        NXT_IS(w, stats.to_host > bytes);
    }
    free(host);
    detach(w, sim);
}

static void test_a_bucket_of_device_tensors_is_one_allreduce(void **state)
{
    unsigned masks[] = {0, NXT_SIM_ALL, NXT_SIM_REDUCE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        bucket_plan few = {.optional = masks[i], .tensors = 9, .each = 20000};
        bucket_plan many = {.optional = masks[i], .tensors = 200, .each = 997};

        nxt_local_world(3, NULL, buckets, &many);
        nxt_local_world(3, NULL, buckets, &few);
    }
}

/* Doubles a shard in place, as a kernel would. */
static nexar_err double_it(void *shard, size_t offset, size_t count, void *arg)
{
    nxt_sim_device *sim = arg;
    int32_t *host = malloc(count * sizeof(*host) + 1);

    (void)offset;
    if (host == NULL) {
        return NEXAR_ENOMEM;
    }
    nxt_sim_device_store(sim, host, shard, count * sizeof(*host));
    for (size_t i = 0; i < count; i++) {
        host[i] *= 2;
    }
    nxt_sim_device_load(sim, shard, host, count * sizeof(*host));
    free(host);
    return NEXAR_OK;
}

static void shards(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    const int n = nexar_size(w);
    int32_t host[1001], *dev = nxt_sim_device_alloc(sim, sizeof(host));
    nexar_request *req;

    (void)arg;
    for (int later = 0; later < 2; later++) {
        for (int i = 0; i < 1001; i++) {
            host[i] = i + nexar_rank(w);
        }
        nxt_sim_device_load(sim, dev, host, sizeof(host));
        if (later) {
            NXT_OK(w, nexar_iallreduce_rs_ag(w, dev, 1001, NEXAR_I32, NEXAR_SUM, double_it, sim,
                                             &req));
            NXT_OK(w, nexar_wait(&req, NULL));
        } else {
            NXT_OK(w, nexar_allreduce_rs_ag(w, dev, 1001, NEXAR_I32, NEXAR_SUM, double_it, sim));
        }
        nxt_sim_device_store(sim, host, dev, sizeof(host));
        for (int i = 0; i < 1001; i++) {
            NXT_IS(w, host[i] == 2 * (n * i + n * (n - 1) / 2));
        }
    }
    detach(w, sim);
}

static void test_the_hook_has_its_shard_on_the_device(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        nxt_local_world(n, NULL, shards, NULL);
    }
}

/* Work that the program has put on the stream comes first; communicators made from this one have
 * its device and stream. */
/* Small integers are exact in f16 and bf16. */
static void squeezed(nexar_comm *w, void *arg)
{
    enum { COUNT = 1000 };
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    const int n = nexar_size(w);
    float host[COUNT], *dev = nxt_sim_device_alloc(sim, sizeof(host));
    float *residual = nxt_sim_device_alloc(sim, sizeof(host));
    nexar_request *req = NULL;

    (void)arg;
    for (int turn = 0; turn < 2; turn++) {
        memset(host, 0, sizeof(host));
        nxt_sim_device_load(sim, residual, host, sizeof(host));
        for (int i = 0; i < COUNT; i++) {
            host[i] = (float)(i % 8);
        }
        nxt_sim_device_load(sim, dev, host, sizeof(host));
        if (turn == 0) {
            NXT_OK(w, nexar_allreduce_compressed(w, dev, COUNT, NEXAR_F32, NEXAR_SUM,
                                                 NEXAR_COMPRESS_BF16, 0, residual));
        } else {
            NXT_OK(w, nexar_iallreduce_compressed(w, dev, COUNT, NEXAR_F32, NEXAR_SUM,
                                                  NEXAR_COMPRESS_F16, 0, residual, &req));
            NXT_OK(w, nexar_wait(&req, NULL));
        }
        nxt_sim_device_store(sim, host, dev, sizeof(host));
        for (int i = 0; i < COUNT; i++) {
            NXT_IS(w, host[i] == (float)(n * (i % 8)));
        }
        nxt_sim_device_store(sim, host, residual, sizeof(host));
        for (int i = 0; i < COUNT; i++) {
            NXT_IS(w, host[i] == 0);
        }
    }
    detach(w, sim);
}

static void test_compression_takes_tensors_of_a_device(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, squeezed, NULL);
}

static void streams(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    int32_t host[100], *dev = nxt_sim_device_alloc(sim, sizeof(host));
    nexar_comm *dup;
    int stream;

    (void)arg;
    for (int i = 0; i < 100; i++) {
        host[i] = i;
    }
    NXT_OK(w, nexar_comm_set_stream(w, &stream));
    NXT_OK(w, nexar_comm_dup(w, &dup));
    nxt_sim_device_enqueue(sim, &stream, dev, host, sizeof(host));
    NXT_OK(w, nexar_allreduce(dup, NEXAR_IN_PLACE, dev, 100, NEXAR_I32, NEXAR_SUM));
    nxt_sim_device_store(sim, host, dev, sizeof(host));
    for (int i = 0; i < 100; i++) {
        NXT_IS(w, host[i] == i * nexar_size(w));
    }
    nexar_comm_free(dup);
    detach(w, sim);
}

static void test_work_on_the_stream_comes_before(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, streams, NULL);
}

/* ---- messages ------------------------------------------------------------------------ */

enum { BIG = (3 << 20) + 77, SMALL = 5000, MANY = 40 };

/* |bytes| of device memory with a pattern. */
static char *filled(nxt_sim_device *sim, size_t bytes, uint64_t seed)
{
    char *host = malloc(bytes + 1), *dev = nxt_sim_device_alloc(sim, bytes + 1);

    if ((host == NULL) || (dev == NULL)) {
        abort();
    }
    nxt_fill(host, bytes, seed);
    nxt_sim_device_load(sim, dev, host, bytes);
    free(host);
    return dev;
}

static bool is_filled(nxt_sim_device *sim, const void *dev, size_t bytes, uint64_t seed)
{
    char *host = malloc(bytes + 1);
    bool good;

    if (host == NULL) {
        abort();
    }
    nxt_sim_device_store(sim, host, dev, bytes);
    good = nxt_filled(host, bytes, seed);
    free(host);
    return good;
}

static void exchange(nexar_comm *w, nxt_sim_device *sim, size_t bytes)
{
    const int me = nexar_rank(w), n = nexar_size(w), next = (me + 1) % n, before = (me + n - 1) % n;
    char *out = filled(sim, bytes, (uint64_t)me + 1), *in = filled(sim, bytes, 99);
    nexar_status status;

    NXT_OK(w, nexar_sendrecv(w, out, bytes, next, 3, in, bytes, before, 3, &status));
    NXT_IS(w, (status.bytes == bytes) && (status.source == before));
    NXT_IS(w, is_filled(sim, in, bytes, (uint64_t)before + 1));
    NXT_IS(w, is_filled(sim, out, bytes, (uint64_t)me + 1));
}

/* Sends with one tag keep their order, however long each takes to stage. */
static void in_order(nexar_comm *w, nxt_sim_device *sim)
{
    const int me = nexar_rank(w);
    nexar_request *reqs[MANY];
    char *at[MANY];

    for (int i = 0; i < MANY; i++) {
        const size_t bytes = (i % 3 == 0) ? 700000 : (size_t)i;

        at[i] = filled(sim, bytes, (me == 0) ? (uint64_t)i : 1000);
        if (me == 0) {
            NXT_OK(w, nexar_isend(w, at[i], bytes, 1, 8, &reqs[i]));
        } else if (me == 1) {
            nexar_status status;

            NXT_OK(w, nexar_recv(w, at[i], bytes, (i % 2 == 0) ? 0 : NEXAR_ANY_SOURCE, 8, &status));
            NXT_IS(w, status.bytes == bytes);
            NXT_IS(w, is_filled(sim, at[i], bytes, (uint64_t)i));
        }
    }
    if (me == 0) {
        NXT_OK(w, nexar_wait_all(MANY, reqs));
    }
}

static void regions(nexar_comm *w, nxt_sim_device *sim)
{
    enum { REGIONS = 150 };
    const int me = nexar_rank(w);
    nexar_iov iov[REGIONS];

    for (int i = 0; i < REGIONS; i++) {
        iov[i].bytes = (size_t)((i * 37) % 211);
        iov[i].ptr = filled(sim, iov[i].bytes, (me == 0) ? (uint64_t)i : 500);
    }
    if (me == 0) {
        NXT_OK(w, nexar_sendv(w, iov, REGIONS, 1, 4));
    } else if (me == 1) {
        NXT_OK(w, nexar_recvv(w, iov, REGIONS, 0, 4, NULL));
        for (int i = 0; i < REGIONS; i++) {
            NXT_IS(w, is_filled(sim, iov[i].ptr, iov[i].bytes, (uint64_t)i));
        }
    }
}

static void odd_ends(nexar_comm *w, nxt_sim_device *sim)
{
    const int me = nexar_rank(w);
    char *at = filled(sim, SMALL, 1), *other = filled(sim, SMALL, 2);
    nexar_request *req;
    nexar_status status;

    /* To this rank itself, and longer than the receive. */
    NXT_OK(w, nexar_isend(w, at, SMALL, me, 20, &req));
    NXT_IS(w, nexar_recv(w, other, SMALL / 2, me, 20, &status) == NEXAR_ETRUNC);
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_IS(w, status.bytes == SMALL);
    NXT_IS(w, is_filled(sim, other, SMALL / 2, 1));
    /* A receive without a message. */
    NXT_OK(w, nexar_irecv(w, other, SMALL, me, 21, &req));
    NXT_OK(w, nexar_cancel(req));
    NXT_IS(w, nexar_wait(&req, NULL) == NEXAR_ECANCELED);
    /* Nothing at all. */
    NXT_OK(w, nexar_isend(w, NULL, 0, me, 22, &req));
    NXT_OK(w, nexar_recv(w, NULL, 0, me, 22, &status));
    NXT_IS(w, status.bytes == 0);
    NXT_OK(w, nexar_wait(&req, NULL));
    /* A send after the device was lost stays behind earlier ones. */
    if (me == 0) {
        char host[4] = "abc";

        NXT_OK(w, nexar_isend(w, at, SMALL, 1, 23, &req));
        NXT_OK(w, nexar_comm_set_device(w, NULL));
        NXT_OK(w, nexar_send(w, host, 4, 1, 23));
        NXT_OK(w, nexar_wait(&req, NULL));
        NXT_OK(w, nexar_comm_set_device(w, nxt_sim_device_table(sim)));
    } else if (me == 1) {
        NXT_OK(w, nexar_recv(w, other, SMALL, 0, 23, &status));
        NXT_IS(w, status.bytes == SMALL);
        NXT_OK(w, nexar_recv(w, other, SMALL, 0, 23, &status));
        NXT_IS(w, status.bytes == 4);
    }
}

static void messages(nexar_comm *w, void *arg)
{
    const unsigned *mask = arg;
    nxt_sim_device *sim = attach(w, *mask, false);

    exchange(w, sim, BIG);
    exchange(w, sim, SMALL);
    exchange(w, sim, 1);
    nxt_sim_device_reset(sim);
    in_order(w, sim);
    nxt_sim_device_reset(sim);
    regions(w, sim);
    odd_ends(w, sim);
    NXT_OK(w, nexar_barrier(w));
    detach(w, sim);
}

static void test_messages_go_from_device_to_device(void **state)
{
    unsigned masks[] = {NXT_SIM_ALL, 0, NXT_SIM_GATHER | NXT_SIM_FREE};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        nxt_local_world(2, NULL, messages, &masks[i]);
    }
    nxt_local_world(3, NULL, messages, &masks[0]);
}

/* A world that ends while messages are in flight to a device. */
static void left_behind(nexar_comm *w, void *arg)
{
    nxt_sim_device **sims = arg;
    const int me = nexar_rank(w);
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    char *at = filled(sim, BIG, 1);
    nexar_request *req;

    sims[me] = sim;
    if (me == 0) {
        NXT_OK(w, nexar_send(w, at, BIG, 1, 1)); /* it has matched by then */
    } else {
        NXT_OK(w, nexar_irecv(w, at, BIG, 0, 1, &req));
        NXT_OK(w, nexar_irecv(w, at, BIG, 0, 2, &req));
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_world_ends_with_messages_on_their_way(void **state)
{
    nxt_sim_device *sims[2];

    (void)state;
    for (int i = 0; i < 5; i++) {
        nxt_local_world(2, NULL, left_behind, sims);
        nxt_sim_device_destroy(sims[0]);
        nxt_sim_device_destroy(sims[1]);
    }
}

/* ---- failures ------------------------------------------------------------------------ */

/* The failing call, and its number. */
typedef struct faults {
    unsigned optional;
    nx_coll_kind kind;
    size_t count;
    atomic_bool more;
    atomic_int errors;
} faults;

static nexar_err one_call(nexar_comm *comm, const faults *f, void *a, void *b)
{
    switch ((int)f->kind) {
    case NX_BROADCAST:
        return nexar_broadcast(comm, a, f->count, NEXAR_F64, 0);
    case NX_REDUCE_SCATTER:
        return nexar_reduce_scatter(comm, a, b, f->count, NEXAR_F64, NEXAR_AVG);
    case NX_ALLTOALL:
        return nexar_alltoall(comm, a, b, f->count, NEXAR_F64);
    case NX_EXSCAN:
        return nexar_exscan(comm, a, b, f->count, NEXAR_F64, NEXAR_MAX);
    default:
        return nexar_allreduce(comm, a, b, f->count, NEXAR_F64, NEXAR_AVG);
    }
}

static uint64_t refusals(nxt_sim_device *sim)
{
    nxt_sim_counts counts;

    nxt_sim_device_counts(sim, &counts);
    return counts.host_refusals;
}

/* Call |n| of rank 1's device fails in one collective.  Rank 1 gets an error, and so does each rank
 * that still needs data from it; none hangs.  If the call was alloc_host, other memory is used. */
static void fail_call(nexar_comm *w, nxt_sim_device *sim, faults *f, int64_t n)
{
    const size_t room = f->count * sizeof(double) * (size_t)nexar_size(w);
    const uint64_t refused = refusals(sim);
    void *a = filled(sim, room, 1), *b = filled(sim, room, 2);
    nexar_comm *dup;
    nexar_err err;

    NXT_OK(w, nexar_comm_dup(w, &dup));
    if (nexar_rank(w) == 1) {
        nxt_sim_device_fail(sim, n, NEXAR_ESYS);
    }
    err = one_call(dup, f, a, b);
    if (nexar_rank(w) == 1) {
        const bool more = nxt_sim_device_failed(sim);
        const bool failed = more && (refusals(sim) == refused);

        NXT_IS(w, err == (failed ? NEXAR_EDEVICE : NEXAR_OK));
        NXT_IS(w, !failed || (strstr(nexar_last_error(), "rank 1: the device sim failed") != NULL));
        nxt_sim_device_fail(sim, -1, NEXAR_OK);
        atomic_store(&f->more, more);
    } else {
        NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EDEVICE));
        atomic_fetch_add(&f->errors, err != NEXAR_OK);
    }
    nexar_comm_free(dup);
    NXT_OK(w, nexar_barrier(w));
    nxt_sim_device_reset(sim);
}

static void fail_each(nexar_comm *w, void *arg)
{
    faults *f = arg;
    nxt_sim_device *sim = attach(w, f->optional, false);
    bool more = true;

    for (int64_t n = 0; more; n++) {
        fail_call(w, sim, f, n);
        more = atomic_load(&f->more);
        NXT_OK(w, nexar_barrier(w)); /* all ranks have read it */
    }
    detach(w, sim);
}

static void test_every_call_of_the_device_may_fail(void **state)
{
    const nx_coll_kind kinds[] = {NX_ALLREDUCE, NX_BROADCAST, NX_REDUCE_SCATTER, NX_ALLTOALL,
                                  NX_EXSCAN};

    (void)state;
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        faults f = {.optional = NXT_SIM_ALL, .kind = kinds[k], .count = 30000};
        faults bare = {.optional = 0, .kind = kinds[k], .count = 500};

        nxt_local_world(3, NULL, fail_each, &f);
        nxt_local_world(2, NULL, fail_each, &bare);
        assert_true((f.errors > 0) || (kinds[k] == NX_BROADCAST));
    }
}

static void fail_message(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL & ~NXT_SIM_ALLOC, false);
    char *at = filled(sim, BIG, 1);

    (void)arg;
    for (int64_t n = 0; n < 4; n++) { /* rank 0 sends, rank 1's device fails, then rank 0's */
        if (nexar_rank(w) == 1) {
            nxt_sim_device_fail(sim, n, NEXAR_ESYS);
            NXT_IS(w, nexar_recv(w, at, BIG, 0, 1, NULL) == NEXAR_EDEVICE);
            NXT_IS(w, strstr(nexar_last_error(), "the device sim failed") != NULL);
            nxt_sim_device_fail(sim, -1, NEXAR_OK);
            NXT_OK(w, nexar_recv(w, at, BIG, 0, 2, NULL));
        } else {
            NXT_OK(w, nexar_send(w, at, BIG, 1, 1));
            nxt_sim_device_fail(sim, n % 2, NEXAR_ESYS);
            NXT_IS(w, nexar_send(w, at, BIG, 1, 9) == NEXAR_EDEVICE);
            nxt_sim_device_fail(sim, -1, NEXAR_OK);
            NXT_OK(w, nexar_send(w, at, BIG, 1, 2));
        }
    }
    NXT_OK(w, nexar_barrier(w));
    detach(w, sim);
}

static void test_a_message_that_the_device_fails_ends_alone(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, fail_message, NULL);
}

/* Long enough for several chunks. */
enum { LONG_COUNT = 250000, LONG_BYTES = LONG_COUNT * 8 };

/* A long message whose sender's device fails half way: both ends get an error, and the link stays
 * up. */
static void fail_midway(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    char *at = filled(sim, LONG_BYTES, 1), *other = filled(sim, LONG_BYTES, 2);

    (void)arg;
    for (int64_t n = 0; n < 10; n++) {
        nexar_request *req;
        nexar_err err;

        NXT_OK(w, nexar_barrier(w));
        if (nexar_rank(w) == 1) {
            NXT_OK(w, nexar_irecv(w, other, LONG_BYTES, 0, 1, &req));
            NXT_OK(w, nexar_recv(w, at, LONG_BYTES, 0, 2, NULL));
            NXT_IS(w, is_filled(sim, at, LONG_BYTES, 1));
            (void)nexar_cancel(req); /* the first may never have been announced */
            err = nexar_wait(&req, NULL);
            NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_ECANCELED));
        } else {
            nxt_sim_device_fail(sim, n, NEXAR_ESYS);
            err = nexar_send(w, at, LONG_BYTES, 1, 1);
            NXT_IS(w, (err == NEXAR_OK) ||
                          ((err == NEXAR_EDEVICE) && nxt_sim_device_failed(sim) &&
                           (strstr(nexar_last_error(), "the device sim failed") != NULL)));
            nxt_sim_device_fail(sim, -1, NEXAR_OK);
            NXT_OK(w, nexar_send(w, at, LONG_BYTES, 1, 2));
        }
    }
    NXT_OK(w, nexar_barrier(w));
    detach(w, sim);
}

static void test_a_long_message_that_the_device_fails_is_taken_back(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, fail_midway, NULL);
}

/* Whatever is called, its host memory is bounded. */
static void in_chunks(nexar_comm *w, void *arg)
{
    nxt_sim_device *sim = attach(w, NXT_SIM_ALL, false);
    const size_t n = (size_t)nexar_size(w), each = LONG_COUNT / n;
    void *a = filled(sim, LONG_BYTES, 1), *b = filled(sim, LONG_BYTES, 2);
    nxt_sim_counts counts;

    (void)arg;
    NXT_OK(w, nexar_broadcast(w, a, LONG_COUNT, NEXAR_F64, 0));
    NXT_OK(w, nexar_gather(w, a, b, each, NEXAR_F64, 0));
    NXT_OK(w, nexar_scatter(w, a, b, each, NEXAR_F64, 0));
    NXT_OK(w, nexar_allgather(w, a, b, each, NEXAR_F64));
    NXT_OK(w, nexar_alltoall(w, a, b, each, NEXAR_F64));
    NXT_OK(w, nexar_reduce(w, a, b, LONG_COUNT, NEXAR_F64, NEXAR_MAX, 0));
    NXT_OK(w, nexar_allreduce(w, a, b, LONG_COUNT, NEXAR_F64, NEXAR_MAX));
    NXT_OK(w, nexar_reduce_scatter(w, a, b, each, NEXAR_F64, NEXAR_MAX));
    NXT_OK(w, nexar_scan(w, a, b, LONG_COUNT, NEXAR_F64, NEXAR_MAX));
    exchange(w, sim, LONG_BYTES);
    NXT_OK(w, nexar_barrier(w));
    nxt_sim_device_counts(sim, &counts);
    NXT_IS(w, counts.longest <= NX_CHUNK);
    detach(w, sim);
}

static void test_no_copy_is_longer_than_a_chunk(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        nxt_local_world(n, NULL, in_chunks, NULL);
    }
}

/* ---- arguments, overlap -------------------------------------------------------------- */

static void arguments(nexar_comm *w, void *arg)
{
    nexar_device bad = *nexar_cpu_device();

    (void)arg;
    bad.to_host = NULL;
    NXT_IS(w, nexar_comm_set_device(w, &bad) == NEXAR_EINVAL);
    NXT_IS(w, strstr(nexar_last_error(), "comm_set_device: the device cpu has no to_host") != NULL);
    NXT_IS(w, nexar_comm_set_device(NULL, nexar_cpu_device()) == NEXAR_EINVAL);
    NXT_IS(w, nexar_comm_set_stream(NULL, NULL) == NEXAR_EINVAL);
    NXT_IS(w, nexar_comm_set_stream(w, NULL) == NEXAR_EINVAL);
    NXT_IS(w, strstr(nexar_last_error(), "has no device") != NULL);
    trial(w, NX_ALLREDUCE, 1); /* as before */
}

static void test_arguments_are_checked(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, arguments, NULL);
}

/* A slow device: counts the messages that arrive meanwhile. */
static void overlap(nexar_comm *w, void *arg)
{
    const nxt_sim_options options = {.bytes = ROOM, .optional = NXT_SIM_ALL, .ns_per_byte = 2};
    nxt_sim_device *sim = nxt_sim_device_create(&options);
    const size_t count = (8 << 20) / sizeof(float);
    nx_device_stats stats;
    float *dev;

    (void)arg;
    NXT_IS(w, sim != NULL);
    NXT_OK(w, nexar_comm_set_device(w, nxt_sim_device_table(sim)));
    dev = nxt_sim_device_alloc(sim, count * sizeof(float));
    for (int i = 0; i < 4; i++) {
        NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, dev, count, NEXAR_F32, NEXAR_SUM));
    }
    nx_device_stats_get(w->device, &stats);
    /* None would, if device calls blocked the network.  The number depends on the free cores. */
    NXT_IS(w, stats.overlapped > 0);
    NXT_IS(w, stats.pinned <=
                  (uint64_t)(NX_CHUNKS_SEND + NX_CHUNKS_RECV + NX_CHUNKS_BOUNCE) * NX_CHUNK);
    detach(w, sim);
}

static void test_the_network_continues_while_the_device_works(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, overlap, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_collective_works_on_device_memory),
        cmocka_unit_test(test_ranks_without_a_device_work_with_those_that_have_one),
        cmocka_unit_test(test_every_subset_of_optional_functions_is_enough),
        cmocka_unit_test(test_host_memory_is_a_device_too),
        cmocka_unit_test(test_many_collectives_are_on_their_way_at_once),
        cmocka_unit_test(test_a_bucket_of_device_tensors_is_one_allreduce),
        cmocka_unit_test(test_the_hook_has_its_shard_on_the_device),
        cmocka_unit_test(test_compression_takes_tensors_of_a_device),
        cmocka_unit_test(test_work_on_the_stream_comes_before),
        cmocka_unit_test(test_messages_go_from_device_to_device),
        cmocka_unit_test(test_world_ends_with_messages_on_their_way),
        cmocka_unit_test(test_every_call_of_the_device_may_fail),
        cmocka_unit_test(test_a_message_that_the_device_fails_ends_alone),
        cmocka_unit_test(test_a_long_message_that_the_device_fails_is_taken_back),
        cmocka_unit_test(test_no_copy_is_longer_than_a_chunk),
        cmocka_unit_test(test_arguments_are_checked),
        cmocka_unit_test(test_the_network_continues_while_the_device_works),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
