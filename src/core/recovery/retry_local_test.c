/*
 * retry_local_test.c - retry=on with ranks as threads of one process, where the test chooses the
 * time of a failure: requests, threads that wait in the queue, devices that fail.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <nexar.h>

#include "base/containers/list.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "core/request.h"
#include "local_world.h"
#include "procs.h"
#include "sim_device.h"
#include "unit.h"

enum { RANKS = 4, GOES = 1, LENGTH = 600, ROOM = 1 << 20 };

static _Atomic int ready;

static void in_world(int n, void (*fn)(nexar_comm *w, void *arg), void *arg)
{
    nexar_config *cfg = NULL;

    atomic_store(&ready, 0);
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    nxt_local_world(n, cfg, fn, arg);
    nexar_config_free(cfg);
}

/* Removes this rank without a goodbye. */
static void go(nexar_comm *w)
{
    nx_loop_lock(w->world->loop);
    nx_failure_quit(w->world, "it goes, as the test wants");
    nx_loop_unlock(w->world->loop);
}

/* ---- requests --------------------------------------------------------------------------- */

static void check_gathered(nexar_comm *w, const int32_t *all)
{
    for (int i = 0; i < RANKS; i++) {
        NXT_IS(w, all[i] == ((i == GOES) ? -1 : 10 + i));
    }
}

static void wait_for_requests(nexar_comm *w, void *arg)
{
    const int me = nexar_rank(w);
    int32_t mine = 10 + me, all[RANKS] = {-1, -1, -1, -1}, sum = 0;
    nexar_request *gathers = NULL, *sums = NULL;
    nexar_change change;

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    if (me == GOES) {
        nxt_await(&ready, RANKS - 1);
        go(w);
        return;
    }
    NXT_OK(w, nexar_iallgather(w, &mine, all, 1, NEXAR_I32, &gathers));
    NXT_OK(w, nexar_iallreduce(w, &mine, &sum, 1, NEXAR_I32, NEXAR_SUM, &sums));
    (void)atomic_fetch_add(&ready, 1);
    NXT_OK(w, nexar_wait(&gathers, NULL));
    check_gathered(w, all);
    NXT_IS(w, nexar_size(w) == RANKS - 1);
    NXT_OK(w, nexar_wait(&sums, NULL));
    NXT_IS(w, sum == 10 + 12 + 13);
    NXT_OK(w, nexar_last_change(w, &change));
    NXT_IS(w, (change.old_size == RANKS) && (change.failed == 1));
    NXT_OK(w, nexar_barrier(w));
}

static void test_requests_are_run_again(void **state)
{
    (void)state;
    in_world(RANKS, wait_for_requests, NULL);
}

/* Waits until requests on |w| have rebuilt its communicator with |size| ranks. */
static void await_rebuilt(nexar_comm *w, uint32_t size)
{
    bool there = false;

    while (!there) {
        nx_loop_lock(w->world->loop);
        there = (w->active->size == size) && (w->retry.queued == 0);
        nx_loop_unlock(w->world->loop);
        (void)sched_yield();
    }
}

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)why;
    atomic_store((_Atomic int *)arg, rank);
}

static _Atomic int called[RANKS]; /* outlives late calls */

/* The communicator is rebuilt while the application does something else.  The application sees no
 * change before it waits for the request. */
static void look_before_waiting(nexar_comm *w, void *arg)
{
    const int me = nexar_rank(w), other = (me == 3) ? 0 : 3;
    int32_t mine = 10 + me, all[RANKS] = {-1, -1, -1, -1}, again[RANKS] = {-1, -1, -1, -1};
    nexar_request *first = NULL, *second = NULL;
    nexar_change change;
    size_t off, n = RANKS;
    int failed[RANKS];

    (void)arg;
    atomic_store(&called[me], -1);
    NXT_OK(w, nexar_on_failure(w, on_failure, (void *)&called[me]));
    NXT_OK(w, nexar_barrier(w));
    if (me == GOES) {
        nxt_await(&ready, RANKS - 1);
        go(w);
        nxt_await(&ready, 2 * (RANKS - 1)); /* otherwise it would have left in order */
        return;
    }
    NXT_OK(w, nexar_iallgather(w, &mine, all, 1, NEXAR_I32, &first));
    (void)atomic_fetch_add(&ready, 1);
    await_rebuilt(w, RANKS - 1);
    NXT_IS(w, (nexar_rank(w) == me) && (nexar_size(w) == RANKS));
    NXT_OK(w, nexar_last_change(w, &change));
    NXT_IS(w, (change.old_size == RANKS) && (change.new_size == RANKS) && (change.failed == 0));
    NXT_OK(w, nexar_comm_failed(w, failed, &n)); /* it may count as a rank that has left */
    NXT_IS(w, (n == 0) || ((n == 1) && (failed[0] == GOES)));
    NXT_IS(w, (atomic_load(&called[me]) == GOES) || (atomic_load(&called[me]) == -1));
    nexar_shard(w, RANKS, RANKS - 1, &off, &n);
    NXT_IS(w, (off == RANKS - 1) && (n == 1));
    NXT_IS(w, nexar_send(w, &mine, sizeof(mine), other, 5) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_send(w, &mine, sizeof(mine), RANKS, 5) == NEXAR_EINVAL);
    NXT_IS(w, nexar_recv(w, &mine, sizeof(mine), NEXAR_ANY_SOURCE, 5, NULL) == NEXAR_EREVOKED);
    NXT_IS(w, nexar_rpc_call(w, other, 1, NULL, 0, NULL, NULL) == NEXAR_EREVOKED);
    /* So a call uses the earlier ranks. */
    NXT_IS(w, nexar_igather(w, &mine, again, 1, NEXAR_I32, RANKS, &second) == NEXAR_EINVAL);
    NXT_OK(w, nexar_igather(w, &mine, again, 1, NEXAR_I32, RANKS - 1, &second));
    NXT_OK(w, nexar_wait(&first, NULL));
    check_gathered(w, all);
    NXT_IS(w, nexar_size(w) == RANKS - 1);
    NXT_IS(w, nexar_rank(w) == ((me > GOES) ? me - 1 : me));
    NXT_OK(w, nexar_last_change(w, &change));
    NXT_IS(w, (change.old_rank == me) && (change.new_rank == nexar_rank(w)));
    NXT_OK(w, nexar_wait(&second, NULL));
    if (me == RANKS - 1) {
        check_gathered(w, again);
    }
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, nexar_on_failure(w, NULL, NULL));
    (void)atomic_fetch_add(&ready, 1);
}

static void test_the_application_is_notified_when_it_waits(void **state)
{
    (void)state;
    in_world(RANKS, look_before_waiting, NULL);
}

/* Waits until |req| has ended, without claiming it. */
static void await_done(nexar_comm *w, const nexar_request *req)
{
    bool done = false;

    while (!done) {
        nx_loop_lock(w->world->loop);
        done = req->done;
        nx_loop_unlock(w->world->loop);
        (void)sched_yield();
    }
}

/* All ranks have contributed to the first request.  The second has completed, and has rebuilt the
 * communicator, before the first is waited for: the first still reports all ranks. */
static void wait_late(nexar_comm *w, void *arg)
{
    int32_t one = 1, sums[2] = {0};
    nexar_request *first = NULL, *second = NULL;

    (void)arg;
    NXT_OK(w, nexar_iallreduce(w, &one, &sums[0], 1, NEXAR_I32, NEXAR_SUM, &first));
    if (nexar_rank(w) == GOES) {
        NXT_OK(w, nexar_wait(&first, NULL));
        nxt_await(&ready, RANKS - 1);
        go(w);
        return;
    }
    NXT_OK(w, nexar_iallreduce(w, &one, &sums[1], 1, NEXAR_I32, NEXAR_SUM, &second));
    await_done(w, first); /* all have completed it when one leaves */
    (void)atomic_fetch_add(&ready, 1);
    await_rebuilt(w, RANKS - 1);
    NXT_OK(w, nexar_wait(&first, NULL));
    NXT_IS(w, (nexar_size(w) == RANKS) && (sums[0] == RANKS));
    NXT_OK(w, nexar_wait(&second, NULL));
    NXT_IS(w, (nexar_size(w) == RANKS - 1) && (sums[1] == RANKS - 1));
}

static void test_a_request_reports_the_ranks_that_contributed(void **state)
{
    (void)state;
    in_world(RANKS, wait_late, NULL);
}

/* One rank has returned, and exits before all others have its confirmation; it may never have had a
 * link to one of them. */
static void go_at_once(nexar_comm *w, void *arg)
{
    int32_t one = 1, sums[2] = {0};

    (void)arg;
    NXT_OK(w, nexar_allreduce(w, &one, &sums[0], 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, sums[0] == RANKS);
    if (nexar_rank(w) == GOES) {
        go(w);
        return;
    }
    NXT_OK(w, nexar_allreduce(w, &one, &sums[1], 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, (nexar_size(w) == RANKS - 1) && (sums[1] == RANKS - 1));
}

static void test_a_rank_that_exits_before_its_last_frame_is_detected(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        in_world(RANKS, go_at_once, NULL);
    }
}

/* ---- freed communicators with requests ---------------------------------------------------- */

/* Rank 0 calls later than the others, so that their requests wait. */
static void leave_requests(nexar_comm *w, void *arg)
{
    int32_t one = 1, sums[3] = {0};
    nexar_request *reqs[3] = {NULL};
    nexar_comm *c = NULL;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    if (nexar_rank(w) == 0) {
        nxt_await(&ready, RANKS - 1);
    }
    for (int i = 0; i < 3; i++) {
        NXT_OK(w, nexar_iallreduce(c, &one, &sums[i], 1, NEXAR_I32, NEXAR_SUM, &reqs[i]));
    }
    nexar_comm_free(c); /* operations in flight end first */
    (void)atomic_fetch_add(&ready, 1);
    NXT_OK(w, nexar_wait_all(3, reqs));
    NXT_IS(w, (sums[0] == RANKS) && (sums[2] == RANKS));
    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_OK(w, nexar_iallreduce(c, &one, &sums[0], 1, NEXAR_I32, NEXAR_SUM, &reqs[0]));
    NXT_OK(w, nexar_comm_agree(c, &(uint64_t){1}));
    NXT_IS(w, sums[0] == RANKS); /* which has ended before */
    NXT_OK(w, nexar_wait(&reqs[0], NULL));
    nexar_comm_free(c);
}

static void test_a_communicator_is_freed_when_its_requests_have_ended(void **state)
{
    (void)state;
    in_world(RANKS, leave_requests, NULL);
}

static int32_t kept[RANKS][2];

/* No thread waits for them: finalize does. */
static void finalize_with_requests(nexar_comm *w, void *arg)
{
    const int me = nexar_rank(w);
    nexar_request *req;

    (void)arg;
    kept[me][0] = kept[me][1] = 1;
    NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, &kept[me][0], 1, NEXAR_I32, NEXAR_SUM, &req));
    NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, &kept[me][1], 1, NEXAR_I32, NEXAR_SUM, &req));
}

static void test_finalize_waits_for_requests(void **state)
{
    (void)state;
    in_world(RANKS, finalize_with_requests, NULL);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(kept[i][0], RANKS);
        assert_int_equal(kept[i][1], RANKS);
    }
}

static void revoke_with_requests(nexar_comm *w, void *arg)
{
    int32_t one = 1, sums[3] = {0};
    nexar_request *reqs[3] = {NULL};
    nexar_comm *c = NULL;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    if (nexar_rank(w) == 0) { /* the others wait for it */
        nxt_await(&ready, RANKS - 1);
        NXT_OK(w, nexar_comm_revoke(c));
    } else {
        for (int i = 0; i < 3; i++) {
            NXT_OK(w, nexar_iallreduce(c, &one, &sums[i], 1, NEXAR_I32, NEXAR_SUM, &reqs[i]));
        }
        (void)atomic_fetch_add(&ready, 1);
        for (int i = 0; i < 3; i++) {
            NXT_IS(w, nexar_wait(&reqs[i], NULL) == NEXAR_EREVOKED);
        }
    }
    nexar_comm_free(c);
    NXT_OK(w, nexar_barrier(w));
}

static void test_revoking_ends_all_requests(void **state)
{
    (void)state;
    in_world(RANKS, revoke_with_requests, NULL);
}

/* The update follows the requests, which succeed; then one rank leaves. */
static void update_with_requests(nexar_comm *w, void *arg)
{
    const int me = nexar_rank(w);
    int32_t one = 1, sum = 0;
    nexar_request *req = NULL;
    nexar_change change;

    (void)arg;
    NXT_OK(w, nexar_iallreduce(w, &one, &sum, 1, NEXAR_I32, NEXAR_SUM, &req));
    NXT_OK(w, nexar_comm_update(&w, &change));
    NXT_IS(w, (change.new_size == RANKS) && (sum == RANKS));
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_OK(w, nexar_iallreduce(w, &one, &sum, 1, NEXAR_I32, NEXAR_SUM, &req));
    if (me == GOES) {
        NXT_OK(w, nexar_wait(&req, NULL)); /* otherwise it is freed with the world */
        go(w);
        return;
    }
    while (nexar_size(w) == RANKS) {
        NXT_OK(w, nexar_comm_update(&w, &change));
    }
    NXT_IS(w, sum == RANKS);
    NXT_OK(w, nexar_wait(&req, NULL)); /* of a world that has ended */
    NXT_OK(w, nexar_barrier(w));
}

static void test_an_update_waits_for_requests(void **state)
{
    (void)state;
    in_world(RANKS, update_with_requests, NULL);
}

/* ---- order -------------------------------------------------------------------------------- */

static void *sum_up(void *arg)
{
    nexar_comm *w = arg;
    int32_t one = 1, sum = 0;

    NXT_OK(w, nexar_allreduce(w, &one, &sum, 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, sum == RANKS - 1);
    return NULL;
}

/* Calls for four ranks. */
static void *gather_all(void *arg)
{
    nexar_comm *w = arg;
    int32_t mine = 10 + nexar_rank(w), all[RANKS] = {-1, -1, -1, -1};

    NXT_OK(w, nexar_allgather(w, &mine, all, 1, NEXAR_I32));
    check_gathered(w, all);
    return NULL;
}

static void *gather_at_last(void *arg)
{
    nexar_comm *w = arg;
    const int me = nexar_rank(w);
    int32_t mine = 10 + me, all[RANKS] = {-1, -1, -1, -1};

    NXT_OK(w, nexar_gather(w, &mine, all, 1, NEXAR_I32, RANKS - 1));
    if (me == RANKS - 1) {
        check_gathered(w, all);
    }
    return NULL;
}

static void *gather_at_gone(void *arg)
{
    nexar_comm *w = arg;
    int32_t mine = 10 + nexar_rank(w), all[RANKS] = {-1, -1, -1, -1};

    NXT_SAYS(w, nexar_gather(w, &mine, all, 1, NEXAR_I32, GOES), NEXAR_EPEER,
             "its root has failed");
    return NULL;
}

/* Waits until a thread is at the front of |w|'s queue, and, with |queued|, another one waits behind
 * it. */
static void await_turns(nexar_comm *w, bool queued)
{
    bool there = false;

    while (!there) {
        nx_loop_lock(w->world->loop);
        there = w->retry.busy && (!queued || !nx_list_empty(&w->retry.turns));
        nx_loop_unlock(w->world->loop);
        (void)sched_yield();
    }
}

/* A second thread calls with the current ranks; when it reaches the front one has failed. */
static void take_turns(nexar_comm *w, void *arg)
{
    void *(*const *calls)(void *) = arg;
    pthread_t first, second;

    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == GOES) {
        nxt_await(&ready, RANKS - 1);
        go(w);
        return;
    }
    NXT_IS(w, pthread_create(&first, NULL, sum_up, w) == 0);
    await_turns(w, false);
    NXT_IS(w, pthread_create(&second, NULL, *calls, w) == 0);
    await_turns(w, true);
    (void)atomic_fetch_add(&ready, 1);
    NXT_IS(w, pthread_join(first, NULL) == 0);
    NXT_IS(w, pthread_join(second, NULL) == 0);
    NXT_IS(w, nexar_size(w) == RANKS - 1);
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_call_that_waits_is_for_the_ranks_that_were(void **state)
{
    static void *(*calls[])(void *) = {gather_all, gather_at_last, gather_at_gone};

    (void)state;
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        in_world(RANKS, take_turns, &calls[i]);
    }
}

/* ---- compressed: all or nothing --------------------------------------------------------- */

enum { THREE = 3, FAILS = 1 };

static _Atomic int verdicts[THREE];
static _Atomic bool has_failed;

typedef struct tensor {
    float buf[LENGTH], left[LENGTH];
} tensor;

static void fill(tensor *t, int rank)
{
    for (int i = 0; i < LENGTH; i++) {
        t->buf[i] = (float)(i % 50 + rank);
        t->left[i] = (float)(rank - i % 3);
    }
}

static bool is_same(const tensor *a, const tensor *b)
{
    bool same = true;

    for (int i = 0; i < LENGTH; i++) {
        same = same && (a->buf[i] == b->buf[i]) && (a->left[i] == b->left[i]);
    }
    return same;
}

static nexar_err squeeze(nexar_comm *w, nxt_sim_device *sim, tensor *t)
{
    tensor *dev = (sim == NULL) ? t : nxt_sim_device_alloc(sim, sizeof(*t));
    nexar_err err;

    if (sim != NULL) {
        nxt_sim_device_load(sim, dev, t, sizeof(*t));
    }
    err = nexar_allreduce_compressed(w, dev->buf, LENGTH, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_BF16,
                                     0, dev->left);
    if (sim != NULL) {
        nxt_sim_device_store(sim, t, dev, sizeof(*t));
        nxt_sim_device_reset(sim);
    }
    return err;
}

/* Call |n| of the device fails: all ranks have the result, or none has and all memory is
 * unchanged. */
static void squeeze_once(nexar_comm *w, nxt_sim_device *sim, int64_t n)
{
    tensor t, was, all = {0};
    nexar_err err;

    fill(&t, nexar_rank(w));
    was = t;
    if (sim != NULL) {
        nxt_sim_device_fail(sim, n, NEXAR_EDEVICE);
    }
    err = squeeze(w, sim, &t);
    if ((err != NEXAR_OK) && (strchr(nexar_last_error(), '#') == NULL) && (sim != NULL)) {
        NXT_IS(w, is_same(&t, &was)); /* nothing was begun, and the others wait */
        err = squeeze(w, sim, &t);
    }
    atomic_store(&verdicts[nexar_rank(w)], (int)err);
    if (sim != NULL) {
        atomic_store(&has_failed, nxt_sim_device_failed(sim));
        nxt_sim_device_fail(sim, -1, NEXAR_OK);
    }
    NXT_OK(w, nexar_barrier(w));
    for (int r = 0; r < THREE; r++) {
        tensor its;

        NXT_IS(w, atomic_load(&verdicts[r]) == (int)err);
        fill(&its, r);
        for (int i = 0; i < LENGTH; i++) {
            all.buf[i] += its.buf[i] + its.left[i];
        }
    }
    NXT_IS(w, is_same(&t, (err == NEXAR_OK) ? &all : &was));
    NXT_OK(w, nexar_barrier(w)); /* all have checked */
}

static void squeeze_with_failures(nexar_comm *w, void *arg)
{
    const nxt_sim_options options = {.bytes = ROOM};
    nxt_sim_device *sim = NULL;

    (void)arg;
    if (nexar_rank(w) == FAILS) {
        sim = nxt_sim_device_create(&options);
        NXT_IS(w, sim != NULL);
        NXT_OK(w, nexar_comm_set_device(w, nxt_sim_device_table(sim)));
    }
    for (int64_t n = 0; (n == 0) || atomic_load(&has_failed); n++) {
        squeeze_once(w, sim, n);
    }
    if (sim != NULL) {
        NXT_OK(w, nexar_comm_set_device(w, NULL));
        nxt_sim_device_destroy(sim);
    }
}

static void test_a_compressed_allreduce_that_fails_changes_nothing_on_any_rank(void **state)
{
    (void)state;
    in_world(THREE, squeeze_with_failures, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_are_run_again),
        cmocka_unit_test(test_the_application_is_notified_when_it_waits),
        cmocka_unit_test(test_a_request_reports_the_ranks_that_contributed),
        cmocka_unit_test(test_a_rank_that_exits_before_its_last_frame_is_detected),
        cmocka_unit_test(test_a_communicator_is_freed_when_its_requests_have_ended),
        cmocka_unit_test(test_finalize_waits_for_requests),
        cmocka_unit_test(test_revoking_ends_all_requests),
        cmocka_unit_test(test_an_update_waits_for_requests),
        cmocka_unit_test(test_a_call_that_waits_is_for_the_ranks_that_were),
        cmocka_unit_test(test_a_compressed_allreduce_that_fails_changes_nothing_on_any_rank),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
