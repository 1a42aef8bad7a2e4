/*
 * loop_threads_test.c - many threads in one loop: nobody is forgotten.
 *
 * Every wait has a deadline that only a lost wake-up can reach; most of the tests
 * run once sleeping and once spinning.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/random.h"
#include "loop/internal.h"
#include "loop/loop.h"
#include "unit.h"

#define MS UINT64_C(1000000)

enum { THREADS = 8, ROUNDS = 300 };

static const uint64_t PATIENCE_NS = UINT64_C(60000000000);

static uint64_t soon(const nx_loop *loop)
{
    return nx_loop_now(loop) + PATIENCE_NS;
}

/* cmocka's assertions are for the thread of the test. */
static void must(bool condition, const char *what)
{
    if (!condition) {
        print_error("in a thread: %s\n", what);
        abort();
    }
}

static nx_loop *make(uint64_t spin_ns)
{
    nx_loop *loop = NULL;

    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    nx_loop_set_spin(loop, spin_ns);
    return loop;
}

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
        must(nx_loop_wait(r->loop, r->mine, soon(r->loop)), "the baton came");
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

/* ---- random waits, timers and deadlines ---------------------------------------- */

typedef struct bell {
    nx_timer timer;
    nx_loop *loop;
    nx_event *event;
} bell;

static void on_bell(nx_timer *self, uint64_t now_ns)
{
    bell *b = nx_list_entry(self, bell, timer);

    (void)now_ns;
    nx_event_set(b->loop, b->event);
}

/* Waits in every way there is: for a timer of its own, for a deadline, for work
 * that it defers; and computes, so that the driver changes all the time. */
typedef struct worker {
    nx_loop *loop;
    uint64_t seed;
    pthread_t thread;
    nx_task task;
    nx_event *task_event;
} worker;

static void on_worker_task(nx_task *self)
{
    worker *w = nx_list_entry(self, worker, task);

    nx_event_set(w->loop, w->task_event);
}

static void wait_for_timer(worker *w, uint64_t delay_ns)
{
    nx_event event = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = w->loop, .event = &event};

    must(nx_loop_timer_set(w->loop, &b.timer, nx_loop_now(w->loop) + delay_ns) == NEXAR_OK, "set");
    must(nx_loop_wait(w->loop, &event, soon(w->loop)), "the timer rang");
}

static void wait_for_task(worker *w, bool let_go)
{
    nx_event event = {0};

    w->task_event = &event;
    nx_loop_defer(w->loop, &w->task);
    if (let_go) { /* somebody else runs it then */
        nx_loop_unlock(w->loop);
        nx_loop_lock(w->loop);
    }
    must(nx_loop_wait(w->loop, &event, soon(w->loop)), "the work was done");
}

static void *run_worker(void *arg)
{
    worker *w = arg;
    nx_random_seeded r;

    nx_random_seeded_init(&r, w->seed);
    nx_task_init(&w->task, on_worker_task);
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
                nx_loop_pause();
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

static void test_every_wait_ends_whoever_drives(void **state)
{
    (void)state;
    mix(0, false);
    mix(20000, false);
    mix(0, true);
    mix(20000, true);
}

/* ---- descriptors under change --------------------------------------------------- */

/* A pipe whose bytes are counted by whoever drives. */
typedef struct tap {
    nx_fd fd;
    nx_loop *loop;
    int write_fd;
    int got, want;
    nx_event done;
} tap;

static void on_tap(nx_fd *self, uint32_t events)
{
    tap *t = nx_list_entry(self, tap, fd);
    char byte;

    (void)events;
    must(read(self->fd, &byte, 1) == 1, "a byte was there");
    if (++t->got == t->want) {
        nx_event_set(t->loop, &t->done);
    }
}

static void open_tap(tap *t, nx_loop *loop, int want)
{
    int ends[2];

    must(pipe(ends) == 0, "pipe");
    *t = (tap){
        .fd = {.fd = ends[0], .on_ready = on_tap}, .loop = loop, .write_fd = ends[1], .want = want};
    must(nx_loop_fd_add(loop, &t->fd, EPOLLIN) == NEXAR_OK, "add");
}

static void close_tap(tap *t)
{
    nx_loop_fd_remove(t->loop, &t->fd);
    must((close(t->fd.fd) == 0) && (close(t->write_fd) == 0), "close");
}

/* Opens a pipe, fills it, removes it perhaps while the driver's answer from the
 * kernel names it, or waits for it: on its stack, which the next turn reuses. */
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
            must(nx_loop_wait(w->loop, &t.done, soon(w->loop)), "three bytes came");
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

/* ---- the background thread -------------------------------------------------------- */

/* Waits, outside the loop, until the callback of |b| or |t| was seen. */
static bool eventually(nx_loop *loop, const nx_event *event)
{
    uint64_t deadline_ns = nx_now(&nx_clock_system) + PATIENCE_NS;
    bool set = false;

    while (!set && (nx_now(&nx_clock_system) < deadline_ns)) {
        nx_loop_lock(loop);
        set = event->set;
        nx_loop_unlock(loop);
        (void)usleep(100);
    }
    return set;
}

static void test_the_background_thread_goes_on_while_nobody_waits(void **state)
{
    nx_loop *loop = make(0);
    nx_event rung = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    worker w = {.loop = loop};
    nx_event worked = {0};
    tap t;

    (void)state;
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    for (int i = 0; i < 20; i++) {
        rung.set = worked.set = false;
        nx_task_init(&w.task, on_worker_task);
        w.task_event = &worked;
        nx_loop_lock(loop);
        open_tap(&t, loop, 1);
        assert_int_equal(nx_loop_timer_set(loop, &b.timer, nx_loop_now(loop) + MS), NEXAR_OK);
        nx_loop_defer(loop, &w.task);
        nx_loop_unlock(loop);
        assert_int_equal(write(t.write_fd, "x", 1), 1);
        assert_true(eventually(loop, &t.done));
        assert_true(eventually(loop, &rung));
        assert_true(eventually(loop, &worked));
        nx_loop_lock(loop);
        close_tap(&t);
        nx_loop_unlock(loop);
    }
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

/* The background thread sleeps for ever; a wait must not wait for it. */
static void test_a_wait_takes_the_place_of_the_background_thread(void **state)
{
    nx_loop *loop = make(0);
    nx_event first = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &first};

    (void)state;
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    for (int i = 0; i < 20; i++) {
        nx_event event = {0};

        nx_loop_lock(loop);
        first.set = false;
        assert_int_equal(nx_loop_timer_set(loop, &b.timer, 0), NEXAR_OK);
        nx_loop_unlock(loop);
        assert_true(eventually(loop, &first)); /* so it drives */
        nx_loop_lock(loop);
        b.event = &event;
        assert_int_equal(nx_loop_timer_set(loop, &b.timer, nx_loop_now(loop) + MS), NEXAR_OK);
        assert_true(nx_loop_wait(loop, &event, soon(loop)));
        assert_true(loop->driver == NULL);
        b.event = &first;
        nx_loop_unlock(loop);
    }
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

static void *set_after_deep(void *arg)
{
    runner *r = arg;
    bool deep = false;

    while (!deep) { /* the background thread has gone to rest for good */
        nx_loop_lock(r->loop);
        deep = r->loop->background.deep;
        nx_loop_unlock(r->loop);
        (void)usleep(100);
    }
    nx_loop_lock(r->loop);
    nx_event_set(r->loop, r->next);
    nx_loop_unlock(r->loop);
    return NULL;
}

static void test_the_background_thread_comes_back_after_a_long_wait(void **state)
{
    nx_loop *loop = make(0);
    nx_event event = {0}, rung = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    runner r = {.loop = loop, .next = &event};

    (void)state;
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    assert_int_equal(pthread_create(&r.thread, NULL, set_after_deep, &r), 0);
    nx_loop_lock(loop);
    assert_true(nx_loop_wait(loop, &event, soon(loop)));
    assert_int_equal(nx_loop_timer_set(loop, &b.timer, nx_loop_now(loop) + MS), NEXAR_OK);
    nx_loop_unlock(loop);
    assert_true(eventually(loop, &rung));
    assert_int_equal(pthread_join(r.thread, NULL), 0);
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

static void test_the_background_thread_can_be_stopped_at_any_moment(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        nx_loop *loop = make(0);

        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
        if (i % 2 == 1) {
            nx_event never = {0};

            nx_loop_lock(loop);
            (void)nx_loop_wait(loop, &never, nx_loop_now(loop) + (uint64_t)i * 100000);
            nx_loop_unlock(loop);
        }
        nx_loop_background_stop(loop);
        nx_loop_background_stop(loop);
        assert_true(loop->driver == NULL);
        nx_loop_destroy(loop);
    }
}

static void test_the_background_thread_takes_no_signal(void **state)
{
    nx_loop *loop = make(0);
    sigset_t before, after;

    (void)state;
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &before), 0);
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &after), 0);
    assert_int_equal(sigismember(&after, SIGUSR1), sigismember(&before, SIGUSR1));
    /* Unblocked there, its default action would end this process. */
    assert_int_equal(pthread_kill(loop->background.thread, SIGUSR1), 0);
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

/* ---- the lock ---------------------------------------------------------------------- */

/* One thread spins in a wait for as long as it takes; the others must get in. */
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

/* Neither a timer that is later than the one the driver sleeps for, nor work that
 * the caller runs itself, costs a wake-up. */
static void test_the_driver_is_woken_only_for_what_it_would_miss(void **state)
{
    nx_loop *loop = make(0);
    nx_event event = {0}, rung = {0}, worked = {0};
    runner r = {.loop = loop, .mine = &event, .next = &event, .rounds = 1};
    bell early = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    bell late = early;
    worker w = {.loop = loop, .task_event = &worked};
    bool sleeping = false;

    (void)state;
    nx_task_init(&w.task, on_worker_task);
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
    nx_loop_defer(loop, &w.task);
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
        cmocka_unit_test(test_every_wait_ends_whoever_drives),
        cmocka_unit_test(test_descriptors_come_and_go_while_others_drive),
        cmocka_unit_test(test_the_background_thread_goes_on_while_nobody_waits),
        cmocka_unit_test(test_a_wait_takes_the_place_of_the_background_thread),
        cmocka_unit_test(test_the_background_thread_comes_back_after_a_long_wait),
        cmocka_unit_test(test_the_background_thread_can_be_stopped_at_any_moment),
        cmocka_unit_test(test_the_background_thread_takes_no_signal),
        cmocka_unit_test(test_a_spinning_thread_lets_others_in),
        cmocka_unit_test(test_the_driver_is_woken_only_for_what_it_would_miss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
