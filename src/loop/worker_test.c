/* worker_test.c - jobs run beside the loop, in bounds, and end. */
#include "loop/worker.h"

#include <pthread.h>
#include <stdatomic.h>

#include "unit.h"

enum { JOBS = 200, THREADS = 3 };

typedef struct counted {
    nx_job job;
    nx_loop *loop;
    nx_event done;
    atomic_int *running, *most;
    int ran;
} counted;

static void work(nx_job *job)
{
    counted *c = nx_list_entry(job, counted, job);
    int now = atomic_fetch_add(c->running, 1) + 1;
    int most = atomic_load(c->most);

    while ((now > most) && !atomic_compare_exchange_weak(c->most, &most, now)) {
    }
    c->ran++;
    (void)atomic_fetch_sub(c->running, 1);
}

static void done(nx_job *job)
{
    counted *c = nx_list_entry(job, counted, job);

    nx_event_set(c->loop, &c->done);
}

static void test_all_run(void **state)
{
    static counted jobs[JOBS];
    atomic_int running = 0, most = 0;
    nx_loop *loop;
    nx_worker *w;

    (void)state;
    assert_true(nx_loop_create(&loop, &nx_clock_system) == NEXAR_OK);
    assert_true(nx_worker_create(&w, loop, THREADS) == NEXAR_OK);
    nx_loop_lock(loop);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (counted){
            .job = {.work = work, .done = done}, .loop = loop, .running = &running, .most = &most};
        assert_true(nx_worker_submit(w, &jobs[i].job) == NEXAR_OK);
    }
    for (int i = 0; i < JOBS; i++) {
        assert_true(nx_loop_wait(loop, &jobs[i].done, UINT64_MAX));
        assert_true(jobs[i].ran == 1);
    }
    nx_loop_unlock(loop);
    assert_true((most >= 1) && (most <= THREADS));
    nx_worker_destroy(w);
    nx_loop_destroy(loop);
}

/* A job that occupies the only thread until it is released. */
typedef struct gate {
    nx_job job;
    pthread_mutex_t lock;
    nx_loop *loop;
    nx_event done;
} gate;

static void hold(nx_job *job)
{
    gate *g = nx_list_entry(job, gate, job);

    (void)pthread_mutex_lock(&g->lock);
    (void)pthread_mutex_unlock(&g->lock);
}

static void let_go(nx_job *job)
{
    gate *g = nx_list_entry(job, gate, job);

    nx_event_set(g->loop, &g->done);
}

static void test_cancel_and_end(void **state)
{
    gate first = {.job = {.work = hold, .done = let_go}};
    atomic_int running = 0, most = 0;
    counted taken = {.job = {.work = work, .done = done}, .running = &running, .most = &most};
    counted left = taken;
    nx_loop *loop;
    nx_worker *w;

    (void)state;
    assert_true(nx_loop_create(&loop, &nx_clock_system) == NEXAR_OK);
    assert_true(nx_worker_create(&w, loop, 1) == NEXAR_OK);
    first.loop = taken.loop = left.loop = loop;
    (void)pthread_mutex_init(&first.lock, NULL);
    (void)pthread_mutex_lock(&first.lock);
    nx_loop_lock(loop);
    assert_true(nx_worker_submit(w, &first.job) == NEXAR_OK);
    assert_true(nx_worker_submit(w, &taken.job) == NEXAR_OK);
    assert_true(nx_worker_submit(w, &left.job) == NEXAR_OK);
    assert_true(nx_worker_cancel(w, &taken.job));
    assert_true(!nx_worker_cancel(w, &taken.job));
    assert_true(nx_worker_cancel(w, &left.job));
    (void)pthread_mutex_unlock(&first.lock);
    assert_true(nx_loop_wait(loop, &first.done, UINT64_MAX));
    assert_true(!nx_worker_cancel(w, &first.job));
    nx_loop_unlock(loop);
    nx_worker_destroy(w);
    assert_true((taken.ran == 0) && (left.ran == 0));
    nx_loop_destroy(loop);
    (void)pthread_mutex_destroy(&first.lock);
}

/* From here on threads can be started, or not: no address space is large enough. */
static void set_threads(bool can)
{
    static size_t usual;
    pthread_attr_t attr;

    assert_int_equal(pthread_getattr_default_np(&attr), 0);
    if (usual == 0) {
        assert_int_equal(pthread_attr_getstacksize(&attr, &usual), 0);
    }
    assert_int_equal(pthread_attr_setstacksize(&attr, can ? usual : (size_t)1 << 48), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    (void)pthread_attr_destroy(&attr);
}

static void test_what_others_wait_for_is_refused_where_no_thread_is_free(void **state)
{
    gate first = {.job = {.work = hold, .done = let_go}};
    atomic_int running = 0, most = 0;
    counted later = {.job = {.work = work, .done = done}, .running = &running, .most = &most};
    counted any = later;
    nx_loop *loop;
    nx_worker *w;

    (void)state;
    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    assert_int_equal(nx_worker_create(&w, loop, THREADS), NEXAR_OK);
    first.loop = later.loop = any.loop = loop;
    (void)pthread_mutex_init(&first.lock, NULL);
    (void)pthread_mutex_lock(&first.lock);
    nx_loop_lock(loop);
    set_threads(false);
    assert_int_equal(nx_worker_submit(w, &first.job), NEXAR_ESYS);
    assert_int_equal(nx_worker_submit_free(w, &first.job), NEXAR_ESYS);
    set_threads(true);
    assert_int_equal(nx_worker_submit_free(w, &first.job), NEXAR_OK);
    set_threads(false);
    assert_int_equal(nx_worker_submit_free(w, &later.job), NEXAR_ESYS); /* that thread has work */
    assert_int_equal(nx_worker_submit(w, &any.job), NEXAR_OK);
    (void)pthread_mutex_unlock(&first.lock);
    assert_true(nx_loop_wait(loop, &first.done, UINT64_MAX));
    assert_true(nx_loop_wait(loop, &any.done, UINT64_MAX));
    assert_int_equal(nx_worker_submit_free(w, &later.job), NEXAR_OK); /* the thread is free */
    assert_true(nx_loop_wait(loop, &later.done, UINT64_MAX));
    set_threads(true);
    nx_loop_unlock(loop);
    nx_worker_destroy(w);
    nx_loop_destroy(loop);
    (void)pthread_mutex_destroy(&first.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_run),
        cmocka_unit_test(test_cancel_and_end),
        cmocka_unit_test(test_what_others_wait_for_is_refused_where_no_thread_is_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
