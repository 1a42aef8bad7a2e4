/*
 * loop_threads_test.c - many threads in one loop: no thread is forgotten.
 *
 * Every wait has a deadline that only a lost wake-up can reach; most of the tests
 * run once sleeping and once spinning.
 */
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#include "base/random.h"
#include "loop/loop_testing.h"

enum { THREADS = 8, ROUNDS = 300 };

/* ---- ping-pong between threads ------------------------------------------------ */

/* A thread that waits for its own event, clears it and sets the next one's. */
typedef struct runner {
    nx_loop *loop;
    nx_event *mine, *next;
    int rounds;
    pthread_t thread;
} runner;

static void *run_relay(void *arg)
{
    runner *r = arg;

    nx_loop_lock(r->loop);
    for (int i = 0; i < r->rounds; i++) {
        must_come(r->loop, r->mine, "the baton came");
        r->mine->set = false;
        nx_event_set(r->loop, r->next);
    }
    nx_loop_unlock(r->loop);
    return NULL;
}

static void relay(uint64_t spin_ns, bool background)
{
    nx_loop *loop = make(spin_ns);
    nx_event events[THREADS] = {0};
    runner runners[THREADS];

    if (background) {
        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (runner){
            .loop = loop, .mine = &events[i], .next = &events[(i + 1) % THREADS], .rounds = ROUNDS};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_relay, &runners[i]), 0);
    }
    nx_loop_lock(loop);
    nx_event_set(loop, &events[0]);
    nx_loop_unlock(loop);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
    }
    assert_true(events[0].set);
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

static void test_a_baton_goes_round_all_threads(void **state)
{
    (void)state;
    relay(0, false);
    relay(20000, false);
    relay(20000, true);
}

/* ---- passing the duty on ------------------------------------------------------- */

static bool drives_or_parks(const nx_loop *loop, size_t waiters)
{
    size_t n = 0;

    nx_list_for_each (at, &loop->waiters) {
        n++;
    }
    return (n == waiters) && loop->sleeping;
}

static void wait_until_there(nx_loop *loop, size_t waiters)
{
    bool there = false;

    while (!there) {
        nx_loop_lock(loop);
        there = drives_or_parks(loop, waiters);
        nx_loop_unlock(loop);
        (void)usleep(100);
    }
}

/* The driver leaves and does not return; the next waiter's event needs a driver. */
static void test_a_waiting_thread_follows_a_driver_that_leaves(void **state)
{
    nx_loop *loop = make(0);
    nx_event events[THREADS + 1] = {0};
    runner runners[THREADS];

    (void)state;
    for (size_t i = 0; i < THREADS; i++) {
        runners[i] =
            (runner){.loop = loop, .mine = &events[i], .next = &events[THREADS], .rounds = 1};
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_relay, &runners[i]), 0);
        wait_until_there(loop, i + 1);
    }
    for (size_t i = 0; i < THREADS; i++) { /* the first runner drives, and leaves first */
        nx_loop_lock(loop);
        nx_event_set(loop, &events[i]);
        nx_loop_unlock(loop);
        if (i + 1 < THREADS) {
            wait_until_there(loop, THREADS - i - 1);
        }
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(runners[i].thread, NULL), 0);
    }
    assert_true(loop->driver == NULL);
    nx_loop_destroy(loop);
}

/* ---- random waits, timers and deadlines ---------------------------------------- */

/* Waits in every possible form: for its own timer, for a deadline, for work that it defers; and
 * computes, so that the driver changes all the time. */
typedef struct worker {
    nx_loop *loop;
    uint64_t seed;
    pthread_t thread;
    chore chore;
} worker;

static void wait_for_timer(worker *w, uint64_t delay_ns)
{
    nx_event event = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = w->loop, .event = &event};

    must(nx_loop_timer_set(w->loop, &b.timer, nx_loop_now(w->loop) + delay_ns) == NEXAR_OK, "set");
    must_come(w->loop, &event, "the timer rang");
}

static void wait_for_task(worker *w, bool let_go)
{
    nx_event event = {0};

    w->chore.event = &event;
    nx_loop_defer(w->loop, &w->chore.task);
    if (let_go) { /* another thread runs it then */
        nx_loop_unlock(w->loop);
        nx_loop_lock(w->loop);
    }
    must_come(w->loop, &event, "the work was done");
}

static void *run_worker(void *arg)
{
    worker *w = arg;
    nx_random_seeded r;

    nx_random_seeded_init(&r, w->seed);
    w->chore.loop = w->loop;
    nx_task_init(&w->chore.task, on_chore);
    nx_loop_lock(w->loop);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t delay_ns = nx_random_below(&r.random, 300000);
        nx_event never = {0};

        switch (nx_random_below(&r.random, 5)) {
        case 0:
            must(!nx_loop_wait(w->loop, &never, nx_loop_now(w->loop) + delay_ns), "unset");
            break;
        case 1:
            wait_for_task(w, (delay_ns & 1) != 0);
            break;
        case 2:
            nx_loop_unlock(w->loop);
            for (uint64_t n = 0; n < delay_ns / 100; n++) {
                nx_cpu_pause();
            }
            nx_loop_lock(w->loop);
            nx_loop_kick(w->loop);
            break;
        default:
            wait_for_timer(w, delay_ns);
            break;
        }
    }
    nx_loop_unlock(w->loop);
    return NULL;
}

static void mix(uint64_t spin_ns, bool background)
{
    nx_loop *loop = make(spin_ns);
    worker workers[THREADS];

    if (background) {
        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.loop = loop, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    }
    nx_loop_background_stop(loop);
    assert_true(loop->driver == NULL);
    nx_loop_destroy(loop);
}

static void test_every_wait_ends_whichever_thread_drives(void **state)
{
    (void)state;
    mix(0, false);
    mix(20000, false);
    mix(0, true);
    mix(20000, true);
}

/* ---- descriptors under change --------------------------------------------------- */

/* Opens a pipe and fills it. Then removes it, perhaps while the driver's answer from the kernel
 * names it, or waits for it: on its stack, which the next iteration reuses. */
static void *run_taps(void *arg)
{
    worker *w = arg;
    nx_random_seeded r;

    nx_random_seeded_init(&r, w->seed);
    for (int i = 0; i < ROUNDS; i++) {
        tap t;

        nx_loop_lock(w->loop);
        open_tap(&t, w->loop, 3);
        nx_loop_unlock(w->loop);
        must(write(t.write_fd, "abc", 3) == 3, "write");
        nx_loop_lock(w->loop);
        if (nx_random_below(&r.random, 2) == 0) {
            must_come(w->loop, &t.done, "three bytes came");
        }
        close_tap(&t);
        nx_loop_unlock(w->loop);
    }
    return NULL;
}

static void test_descriptors_come_and_go_while_others_drive(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        nx_loop *loop = make((turn == 0) ? 0 : 20000);
        worker workers[THREADS];

        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
        for (int i = 0; i < THREADS; i++) {
            workers[i] = (worker){.loop = loop, .seed = (uint64_t)i};
            assert_int_equal(pthread_create(&workers[i].thread, NULL, run_taps, &workers[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        }
        nx_loop_background_stop(loop);
        nx_loop_destroy(loop);
    }
}

/* ---- the lock ---------------------------------------------------------------------- */

/* One thread spins in a long wait; the other threads must still get the lock. */
static void *run_locks(void *arg)
{
    runner *r = arg;

    for (int i = 0; i < r->rounds; i++) {
        nx_loop_lock(r->loop);
        nx_loop_kick(r->loop);
        nx_loop_unlock(r->loop);
    }
    return NULL;
}

static void test_a_spinning_thread_lets_others_in(void **state)
{
    nx_loop *loop = make(PATIENCE_NS);
    nx_event event = {0};
    runner spinner = {.loop = loop, .mine = &event, .next = &event, .rounds = 1};
    runner locker = {.loop = loop, .rounds = 2000};

    (void)state;
    assert_int_equal(pthread_create(&spinner.thread, NULL, run_relay, &spinner), 0);
    assert_int_equal(pthread_create(&locker.thread, NULL, run_locks, &locker), 0);
    assert_int_equal(pthread_join(locker.thread, NULL), 0);
    nx_loop_lock(loop);
    nx_event_set(loop, &event);
    nx_loop_unlock(loop);
    assert_int_equal(pthread_join(spinner.thread, NULL), 0);
    nx_loop_destroy(loop);
}

/* Work for another thread, requested repeatedly by a thread that tests whether it is done. */
typedef struct errand {
    nx_loop *loop;
    sem_t begin;
    int done; /* with the lock */
} errand;

enum { ERRANDS = 200 };

/* Both on one core, where a woken thread does not preempt the other. */
static void share_core(void)
{
    const struct sched_param param = {0};
    cpu_set_t all, one;
    size_t core = 0;

    must(sched_getaffinity(0, sizeof(all), &all) == 0, "no affinity");
    while (!CPU_ISSET(core, &all)) {
        core++;
    }
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    must(sched_setaffinity(0, sizeof(one), &one) == 0, "not pinned");
    must(sched_setscheduler(0, SCHED_BATCH, &param) == 0, "no SCHED_BATCH");
}

static void *run_errands(void *arg)
{
    errand *e = arg;

    share_core();
    for (int i = 0; i < ERRANDS; i++) {
        must(sem_wait(&e->begin) == 0, "sem_wait");
        for (int k = 0; k < 3; k++) { /* it needs the lock more than once */
            nx_loop_lock(e->loop);
            e->done += (k == 2);
            nx_loop_unlock(e->loop);
        }
    }
    return NULL;
}

/* The number of fruitless polls. */
static void *look_for_errands(void *arg)
{
    errand *e = arg;
    uintptr_t vain = 0;

    share_core();
    for (int i = 0; i < ERRANDS; i++) {
        bool done = false;

        must(sem_post(&e->begin) == 0, "sem_post");
        while (!done) {
            nx_loop_lock(e->loop);
            nx_loop_kick(e->loop);
            done = (e->done > i);
            nx_loop_pass(e->loop, true);
            vain += !done;
        }
    }
    return (void *)vain; // NOLINT(performance-no-int-to-ptr)
}

static void test_a_thread_that_tests_again_and_again_lets_the_other_work(void **state)
{
    errand e = {.loop = make(0)};
    pthread_t doer, tester;
    void *vain = NULL;

    (void)state;
    assert_int_equal(sem_init(&e.begin, 0, 0), 0);
    assert_int_equal(pthread_create(&doer, NULL, run_errands, &e), 0);
    assert_int_equal(pthread_create(&tester, NULL, look_for_errands, &e), 0);
    assert_int_equal(pthread_join(tester, &vain), 0);
    assert_int_equal(pthread_join(doer, NULL), 0);
    printf("%zu looks in vain at %d errands\n", (size_t)(uintptr_t)vain, (int)ERRANDS);
    assert_in_range((uintptr_t)vain, 0,
                    100 * ERRANDS); /* thousands each, if a thread kept the core */
    (void)sem_destroy(&e.begin);
    nx_loop_destroy(e.loop);
}

/* Neither a timer later than the driver's next one, nor work that the caller runs itself, costs a
 * wake-up. */
static void test_the_driver_is_woken_only_for_what_it_would_miss(void **state)
{
    nx_loop *loop = make(0);
    nx_event event = {0}, rung = {0}, worked = {0};
    runner r = {.loop = loop, .mine = &event, .next = &event, .rounds = 1};
    bell early = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    bell late = early;
    chore c = {.loop = loop, .event = &worked};
    bool sleeping = false;

    (void)state;
    nx_task_init(&c.task, on_chore);
    nx_loop_lock(loop);
    assert_int_equal(nx_loop_timer_set(loop, &early.timer, soon(loop)), NEXAR_OK);
    nx_loop_unlock(loop);
    assert_int_equal(pthread_create(&r.thread, NULL, run_relay, &r), 0);
    while (!sleeping) {
        nx_loop_lock(loop);
        sleeping = loop->sleeping;
        nx_loop_unlock(loop);
    }
    nx_loop_lock(loop);
    assert_int_equal(nx_loop_timer_set(loop, &late.timer, soon(loop) + MS), NEXAR_OK);
    nx_loop_defer(loop, &c.task);
    nx_loop_kick(loop);
    assert_true(worked.set);
    nx_loop_unlock(loop);
    nx_loop_lock(loop);
    assert_true(loop->sleeping && !loop->woken);
    assert_int_equal(nx_loop_timer_set(loop, &early.timer, 0), NEXAR_OK);
    nx_loop_unlock(loop);
    assert_true(eventually(loop, &rung));
    nx_loop_lock(loop);
    nx_loop_timer_cancel(loop, &late.timer);
    nx_event_set(loop, &event);
    nx_loop_unlock(loop);
    assert_int_equal(pthread_join(r.thread, NULL), 0);
    nx_loop_destroy(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_baton_goes_round_all_threads),
        cmocka_unit_test(test_a_waiting_thread_follows_a_driver_that_leaves),
        cmocka_unit_test(test_every_wait_ends_whichever_thread_drives),
        cmocka_unit_test(test_descriptors_come_and_go_while_others_drive),
        cmocka_unit_test(test_a_spinning_thread_lets_others_in),
        cmocka_unit_test(test_a_thread_that_tests_again_and_again_lets_the_other_work),
        cmocka_unit_test(test_the_driver_is_woken_only_for_what_it_would_miss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
