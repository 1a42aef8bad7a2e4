/* loop_background_test.c - the thread that drives when nobody waits. */
#include <signal.h>

#include "loop/loop_testing.h"

static void test_the_background_thread_goes_on_while_nobody_waits(void **state)
{
    nx_loop *loop = make(0);
    nx_event rung = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    nx_event worked = {0};
    chore c = {.loop = loop, .event = &worked};
    tap t;

    (void)state;
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    for (int i = 0; i < 20; i++) {
        rung.set = worked.set = false;
        nx_task_init(&c.task, on_chore);
        nx_loop_lock(loop);
        open_tap(&t, loop, 1);
        assert_int_equal(nx_loop_timer_set(loop, &b.timer, nx_loop_now(loop) + MS), NEXAR_OK);
        nx_loop_defer(loop, &c.task);
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
        must_come(loop, &event, "the event was set");
        assert_true(loop->driver == NULL);
        b.event = &first;
        nx_loop_unlock(loop);
    }
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

/* A thread that sets an event once the background thread rests deeply. */
typedef struct setter {
    nx_loop *loop;
    nx_event *event;
    pthread_t thread;
} setter;

static void *set_after_deep(void *arg)
{
    setter *r = arg;
    bool deep = false;

    while (!deep) { /* the background thread has gone to rest for good */
        nx_loop_lock(r->loop);
        deep = r->loop->background.deep;
        nx_loop_unlock(r->loop);
        (void)usleep(100);
    }
    nx_loop_lock(r->loop);
    nx_event_set(r->loop, r->event);
    nx_loop_unlock(r->loop);
    return NULL;
}

static void test_the_background_thread_comes_back_after_a_long_wait(void **state)
{
    nx_loop *loop = make(0);
    nx_event event = {0}, rung = {0};
    bell b = {.timer = {.on_expire = on_bell}, .loop = loop, .event = &rung};
    setter r = {.loop = loop, .event = &event};

    (void)state;
    assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
    assert_int_equal(pthread_create(&r.thread, NULL, set_after_deep, &r), 0);
    nx_loop_lock(loop);
    must_come(loop, &event, "the event was set");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_background_thread_goes_on_while_nobody_waits),
        cmocka_unit_test(test_a_wait_takes_the_place_of_the_background_thread),
        cmocka_unit_test(test_the_background_thread_comes_back_after_a_long_wait),
        cmocka_unit_test(test_the_background_thread_can_be_stopped_at_any_moment),
        cmocka_unit_test(test_the_background_thread_takes_no_signal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
