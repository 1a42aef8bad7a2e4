/* loop_background_test.c - the thread that drives when no thread waits. */
#include <signal.h>

#include "loop/loop_testing.h"

static void test_the_background_thread_continues_while_no_thread_waits(void **state)
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

/* The background thread sleeps indefinitely; a wait must not wait for it. */
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

    while (!deep) { /* the background thread sleeps until signalled */
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

/* Keeps the lock until another thread wants it. */
typedef struct hog {
    nx_timer timer;
    nx_loop *loop;
    _Atomic bool runs;
} hog;

static void on_hog(nx_timer *self, uint64_t now_ns)
{
    hog *h = nx_list_entry(self, hog, timer);

    (void)now_ns;
    atomic_store(&h->runs, true);
    while (atomic_load(&h->loop->wanted) == 0) {
    }
}

/* It yields to the thread that stops it, and must not go to sleep then. */
static void test_the_background_thread_is_stopped_while_it_gives_way(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        nx_loop *loop = make(100000);
        hog h = {.timer = {.on_expire = on_hog}, .loop = loop};

        nx_loop_lock(loop);
        assert_int_equal(nx_loop_timer_set(loop, &h.timer, 0), NEXAR_OK);
        nx_loop_unlock(loop);
        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
        while (!atomic_load(&h.runs)) {
        }
        nx_loop_background_stop(loop);
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
    /* If the signal were unblocked there, its default action would end this process. */
    assert_int_equal(pthread_kill(loop->background.thread, SIGUSR1), 0);
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

/* ---- streams of short messages --------------------------------------------------- */

/* Work that counts how often it was run. */
typedef struct work {
    nx_task task;
    int runs;
} work;

static void on_work(nx_task *self)
{
    nx_list_entry(self, work, task)->runs++;
}

static nx_clock_manual by_hand;

static void begin_stream(nx_loop **loop, work *w, bool patient)
{
    nx_clock_manual_init(&by_hand, MS);
    *w = (work){0};
    nx_task_init(&w->task, on_work);
    w->task.patient = patient;
    assert_int_equal(nx_loop_create(loop, &by_hand.clock), NEXAR_OK);
    assert_int_equal(nx_loop_background_start(*loop), NEXAR_OK);
    nx_loop_lock(*loop); /* held all the time, so that the thread does nothing */
}

static void end_stream(nx_loop *loop)
{
    nx_loop_unlock(loop);
    nx_loop_background_stop(loop);
    nx_loop_destroy(loop);
}

/* |n| messages of |bytes|, |gap_ns| apart. */
static void send_many(nx_loop *loop, work *w, int n, size_t bytes, uint64_t gap_ns)
{
    for (int i = 0; i < n; i++) {
        nx_loop_defer(loop, &w->task);
        nx_loop_flush(loop, bytes);
        by_hand.ns += gap_ns;
    }
}

static void test_of_a_stream_the_first_go_at_once_and_the_rest_together(void **state)
{
    nx_loop *loop;
    work w;

    (void)state;
    begin_stream(&loop, &w, true);
    send_many(loop, &w, 8, 100, 10);
    assert_int_equal(w.runs, 8);
    send_many(loop, &w, 163, 100, 10);
    assert_int_equal(w.runs, 8);
    send_many(loop, &w, 1, 100, 10); /* more than 16 KiB */
    assert_int_equal(w.runs, 9);
    send_many(loop, &w, 3, 100, 8000); /* 20 us */
    assert_int_equal(w.runs, 9);
    send_many(loop, &w, 1, 100, 8000);
    assert_int_equal(w.runs, 10);
    send_many(loop, &w, 1, 17000, 10); /* a long message needs no company */
    assert_int_equal(w.runs, 11);
    end_stream(loop);
}

static void test_what_is_held_back_goes_with_the_next_wait_or_kick(void **state)
{
    nx_loop *loop;
    work w;

    (void)state;
    for (int form = 0; form < 2; form++) {
        nx_event never = {0};

        begin_stream(&loop, &w, true);
        send_many(loop, &w, 20, 100, 10);
        assert_int_equal(w.runs, 8);
        if (form == 0) {
            nx_loop_kick(loop);
        } else {
            (void)nx_loop_wait(loop, &never, nx_loop_now(loop));
        }
        assert_int_equal(w.runs, 9);
        /* The next window resumes the stream. */
        send_many(loop, &w, 20, 100, 10);
        assert_int_equal(w.runs, 9);
        nx_loop_kick(loop);
        end_stream(loop);
    }
}

static void test_messages_that_are_no_stream_go_at_once(void **state)
{
    nx_loop *loop;
    work w;

    (void)state;
    begin_stream(&loop, &w, true);
    send_many(loop, &w, 100, 100, 20000); /* distant in time */
    assert_int_equal(w.runs, 100);
    for (int i = 0; i < 100; i++) { /* each call is waited for */
        send_many(loop, &w, 1, 100, 10);
        nx_loop_kick(loop);
    }
    assert_int_equal(w.runs, 200);
    send_many(loop, &w, 100, 0, 10); /* as for work that must not wait */
    assert_int_equal(w.runs, 300);
    end_stream(loop);
    begin_stream(&loop, &w, false); /* delaying gains nothing */
    send_many(loop, &w, 100, 100, 10);
    assert_int_equal(w.runs, 100);
    end_stream(loop);
}

/* A thread sends several messages and then computes: the background thread sends the rest. */
static void test_the_end_of_a_stream_goes_without_another_call(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        nx_loop *loop = make(0);
        nx_event worked = {0};
        chore c = {.loop = loop, .event = &worked};
        bool held = false;

        nx_task_init(&c.task, on_chore);
        c.task.patient = true;
        assert_int_equal(nx_loop_background_start(loop), NEXAR_OK);
        while (!held) { /* a busy machine makes gaps */
            nx_loop_lock(loop);
            nx_loop_defer(loop, &c.task);
            worked.set = false;
            nx_loop_flush(loop, 1);
            held = !worked.set;
            nx_loop_unlock(loop);
        }
        assert_true(eventually(loop, &worked));
        nx_loop_background_stop(loop);
        nx_loop_destroy(loop);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_background_thread_continues_while_no_thread_waits),
        cmocka_unit_test(test_a_wait_takes_the_place_of_the_background_thread),
        cmocka_unit_test(test_the_background_thread_comes_back_after_a_long_wait),
        cmocka_unit_test(test_the_background_thread_can_be_stopped_at_any_moment),
        cmocka_unit_test(test_the_background_thread_is_stopped_while_it_gives_way),
        cmocka_unit_test(test_the_background_thread_takes_no_signal),
        cmocka_unit_test(test_of_a_stream_the_first_go_at_once_and_the_rest_together),
        cmocka_unit_test(test_what_is_held_back_goes_with_the_next_wait_or_kick),
        cmocka_unit_test(test_messages_that_are_no_stream_go_at_once),
        cmocka_unit_test(test_the_end_of_a_stream_goes_without_another_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
