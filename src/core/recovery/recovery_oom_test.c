/*
 * recovery_oom_test.c - a rank without memory during a recovery.  Whichever allocation fails, the
 * rank continues with the others or they continue without it; no rank waits indefinitely.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <nexar.h>

#include "base/alloc.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "local_world.h"
#include "retry_queue.h"
#include "unit.h"

/* The rank whose memory is short, a rank with enough memory, and the rank that fails. */
enum { SHORT = 0, OTHER = 1, GOES = 2, RANKS = 3, ERRORS_MOST = 50, LARGE = 20000 };

typedef struct plan {
    const char *name, *retry;
    nexar_err (*op)(nexar_comm **w, int64_t *all_done);
    bool runner; /* the allocation is made by the thread that runs requests */
} plan;

typedef struct member {
    pthread_t thread;
    nexar_comm *w;
} member;

static const plan *current;
static long oom; /* this allocation of SHORT fails */
static _Atomic bool refused;
static _Atomic int armed;
static _Atomic int size_of_other; /* of the final world of OTHER */

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)rank;
    (void)why;
    (void)arg;
}

/* ---- collectives that tell whether all have ended ----------------------------------------- */

static nexar_err op_blocking(nexar_comm **w, int64_t *all_done)
{
    return nexar_allreduce(*w, NEXAR_IN_PLACE, all_done, 1, NEXAR_I64, NEXAR_MIN);
}

static nexar_err op_large(nexar_comm **w, int64_t *all_done)
{
    int64_t *v = malloc(LARGE * sizeof(*v));
    nexar_err err;

    if (v == NULL) {
        abort();
    }
    for (int i = 0; i < LARGE; i++) {
        v[i] = *all_done;
    }
    err = nexar_allreduce(*w, NEXAR_IN_PLACE, v, LARGE, NEXAR_I64, NEXAR_MIN);
    *all_done = v[LARGE / 2];
    free(v);
    return err;
}

/* The block of a failed rank stays unchanged. */
static nexar_err op_blocks(nexar_comm **w, int64_t *all_done)
{
    int64_t all[RANKS] = {1, 1, 1};
    const nexar_err err = nexar_allgather(*w, all_done, all, 1, NEXAR_I64);

    for (int i = 0; i < RANKS; i++) {
        *all_done = (all[i] < *all_done) ? all[i] : *all_done;
    }
    return err;
}

static nexar_err op_compressed(nexar_comm **w, int64_t *all_done)
{
    float done = (float)*all_done, residual = 0;
    const nexar_err err = nexar_allreduce_compressed(*w, &done, 1, NEXAR_F32, NEXAR_AVG,
                                                     NEXAR_COMPRESS_F16, 0, &residual);

    *all_done = (done == 1);
    return err;
}

static nexar_err op_request(nexar_comm **w, int64_t *all_done)
{
    nexar_request *req = NULL;
    nexar_err err = nexar_iallreduce(*w, NEXAR_IN_PLACE, all_done, 1, NEXAR_I64, NEXAR_MIN, &req);

    return (err == NEXAR_OK) ? nexar_wait(&req, NULL) : err;
}

/* Leaves it to the runner: a waiting thread would run them itself. */
static nexar_err test_all(nexar_request *reqs[3])
{
    nexar_err first = NEXAR_OK;

    for (int i = 0; i < 3; i++) {
        nexar_err err = NEXAR_OK;
        bool done = false;

        while (!done) {
            err = nexar_test(&reqs[i], &done, NULL);
            (void)sched_yield();
        }
        first = (first == NEXAR_OK) ? err : first;
    }
    return first;
}

/* Several in flight: in blocks, compressed, and whole vectors.  A call that fails is repeated: all
 * ranks make the same calls. */
static nexar_err op_requests(nexar_comm **w, int64_t *all_done)
{
    int64_t all[RANKS] = {1, 1, 1};
    float ones[4] = {1, 1, 1, 1}, residual[4] = {0};
    nexar_request *reqs[3] = {NULL};
    nexar_err err = NEXAR_OK;

    for (int tries = 0; (reqs[0] == NULL) && (tries < 2); tries++) {
        err = nexar_iallgather(*w, all_done, all, 1, NEXAR_I64, &reqs[0]);
        NXT_IS(*w, (err == NEXAR_OK) || (err == NEXAR_ENOMEM));
    }
    for (int tries = 0; (reqs[1] == NULL) && (tries < 2); tries++) {
        err = nexar_iallreduce_compressed(*w, ones, 4, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_F16, 0,
                                          residual, &reqs[1]);
        NXT_IS(*w, (err == NEXAR_OK) || (err == NEXAR_ENOMEM));
    }
    for (int tries = 0; (reqs[2] == NULL) && (tries < 2); tries++) {
        err = nexar_ibarrier(*w, &reqs[2]);
        NXT_IS(*w, (err == NEXAR_OK) || (err == NEXAR_ENOMEM));
    }
    err = current->runner ? test_all(reqs) : nexar_wait_all(3, reqs);
    for (int i = 0; i < RANKS; i++) {
        *all_done = (all[i] < *all_done) ? all[i] : *all_done;
    }
    return err;
}

/* A rank that has the result does not need the others. */
static nexar_err op_update(nexar_comm **w, int64_t *all_done)
{
    const nexar_err err = nexar_comm_update(w, NULL);

    *all_done = (err == NEXAR_OK) && (nexar_size(*w) < RANKS);
    return err;
}

/* ---- ranks ------------------------------------------------------------------------------ */

static bool is_expected(nexar_err err)
{
    return (err == NEXAR_EPEER) || (err == NEXAR_ENOMEM) || (err == NEXAR_EREVOKED) ||
           (err == NEXAR_ECONNECT) || (err == NEXAR_ESYS) || (err == NEXAR_EPROTO);
}

/* Waits until all survivors have a result without the failed rank or, on the rank whose memory is
 * short, until it is certain that it was excluded. */
static void work(nexar_comm **w, bool is_short)
{
    bool done = false;
    int errors = 0;

    while (!is_short || (errors < ERRORS_MOST)) {
        int64_t all_done = done;
        const nexar_err err = current->op(w, &all_done);

        if (err != NEXAR_OK) {
            NXT_IS(*w, is_expected(err));
            errors++;
            continue;
        }
        errors = 0;
        if (all_done == 1) {
            break;
        }
        done = (nexar_size(*w) < RANKS);
    }
}

/* ---- allocations of the thread that runs requests ----------------------------------------- */

static void arm(nx_job *job)
{
    (void)job;
    nx_alloc_fail_after(oom);
}

static void disarm(nx_job *job)
{
    (void)job;
    atomic_store(&refused, nx_alloc_failed());
    nx_alloc_fail_after(-1);
}

typedef struct errand {
    nx_job job;
    nx_event event;
    nx_loop *loop;
} errand;

static void errand_done(nx_job *job)
{
    errand *e = nx_list_entry(job, errand, job);

    nx_event_set(e->loop, &e->event);
}

static void on_runner(nexar_comm *w, void (*what)(nx_job *job))
{
    errand e = {.job = {.work = what, .done = errand_done}, .loop = w->world->loop};

    nx_loop_lock(e.loop);
    NXT_OK(w, nx_worker_submit(w->retry.runner->worker, &e.job));
    (void)nx_loop_wait(e.loop, &e.event, UINT64_MAX);
    nx_loop_unlock(e.loop);
}

/* The very first is a request, if there is to be a runner. */
static nexar_err begin(nexar_comm *w)
{
    nexar_request *req = NULL;

    if (!current->runner) {
        return nexar_barrier(w);
    }
    NXT_OK(w, nexar_ibarrier(w, &req));
    return nexar_wait(&req, NULL);
}

static void run_short(nexar_comm **w)
{
    if (current->runner) {
        on_runner(*w, arm);
        atomic_store(&armed, 1);
        work(w, true);
        on_runner(*w, disarm);
        return;
    }
    nx_alloc_fail_after(oom);
    atomic_store(&armed, 1);
    work(w, true);
    atomic_store(&refused, nx_alloc_failed());
    nx_alloc_fail_after(-1);
}

static void *rank_main(void *arg)
{
    member *r = arg;
    const int me = nexar_rank(r->w);
    nexar_err err;

    NXT_OK(r->w, nexar_on_failure(r->w, on_failure, NULL));
    err = begin(r->w); /* which SHORT may have left, and more */
    NXT_IS(r->w, (err == NEXAR_OK) || is_expected(err));
    if (me == GOES) {
        while (atomic_load(&armed) == 0) {
            (void)sched_yield();
        }
        nx_loop_lock(r->w->world->loop);
        nx_failure_quit(r->w->world, "it goes, as the test wants");
        nx_loop_unlock(r->w->world->loop);
    } else if (me == SHORT) {
        run_short(&r->w);
    } else {
        work(&r->w, false);
        atomic_store(&size_of_other, nexar_size(r->w));
    }
    (void)nexar_finalize(r->w);
    return NULL;
}

static void run_once(const nexar_config *cfg)
{
    nexar_comm *worlds[RANKS];
    member ranks[RANKS];

    atomic_store(&armed, 0);
    atomic_store(&refused, false);
    assert_int_equal(nexar_init_local(RANKS, cfg, worlds), NEXAR_OK);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (member){.w = worlds[i]};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(pthread_join(ranks[i].thread, NULL), 0);
    }
    assert_in_range(atomic_load(&size_of_other), 1, RANKS - 1);
}

static void run_plan(const plan *p)
{
    nexar_config *cfg;
    long both = 0;

    current = p;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", p->retry), NEXAR_OK);
    for (oom = 0; (oom == 0) || atomic_load(&refused); oom++) {
        run_once(cfg);
        both += (atomic_load(&size_of_other) == RANKS - 1);
    }
    printf("%-10s retry=%-3s %3ld allocations could fail; %3ld times it went on with both\n",
           p->name, p->retry, oom - 1, both);
    assert_true((oom > 10) && (both > 0));
    nexar_config_free(cfg);
}

static void test_blocking(void **state)
{
    (void)state;
    run_plan(&(plan){.name = "short", .retry = "off", .op = op_blocking});
    run_plan(&(plan){.name = "long", .retry = "off", .op = op_large});
}

static void test_blocking_with_retry(void **state)
{
    (void)state;
    run_plan(&(plan){.name = "short", .retry = "on", .op = op_blocking});
    run_plan(&(plan){.name = "blocks", .retry = "on", .op = op_blocks});
    run_plan(&(plan){.name = "compressed", .retry = "on", .op = op_compressed});
}

static void test_requests(void **state)
{
    (void)state;
    run_plan(&(plan){.name = "request", .retry = "off", .op = op_request});
}

static void test_requests_with_retry(void **state)
{
    (void)state;
    run_plan(&(plan){.name = "request", .retry = "on", .op = op_request});
    run_plan(&(plan){.name = "requests", .retry = "on", .op = op_requests});
    run_plan(&(plan){.name = "its thread", .retry = "on", .op = op_requests, .runner = true});
}

static void test_updates(void **state)
{
    (void)state;
    run_plan(&(plan){.name = "update", .retry = "off", .op = op_update});
    run_plan(&(plan){.name = "update", .retry = "on", .op = op_update});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocking), cmocka_unit_test(test_blocking_with_retry),
        cmocka_unit_test(test_requests), cmocka_unit_test(test_requests_with_retry),
        cmocka_unit_test(test_updates),
    };

    if (argc > 1) { /* some of them */
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
