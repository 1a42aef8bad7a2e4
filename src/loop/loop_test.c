/* loop_test.c - one thread: descriptors, timers, deferred work, waiting by the clock. */
#include "loop/loop.h"

#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "loop_inner.h"
#include "oom.h"
#include "unit.h"
#include "waits.h"

#define MS UINT64_C(1000000)

static const uint64_t PATIENCE_NS = UINT64_C(20000000000); /* a hang, not a slow machine */

/* A loop, locked, with a clock that the test moves or the system's. */
typedef struct fixture {
    nx_clock_manual clock;
    nx_loop *loop;
} fixture;

static void begin(fixture *f, bool manual)
{
    nx_clock_manual_init(&f->clock, 1000);
    assert_int_equal(nx_loop_create(&f->loop, manual ? &f->clock.clock : &nx_clock_system),
                     NEXAR_OK);
    nx_loop_lock(f->loop);
}

static void set_waits(fixture *f, uint64_t poll_ns, bool crowded)
{
    const nx_wait_policy policy = nxt_waits(poll_ns, crowded);

    nx_loop_set_policy(f->loop, &policy);
}

static void end(fixture *f)
{
    nx_loop_unlock(f->loop);
    nx_loop_destroy(f->loop);
}

/* ---- timers ----------------------------------------------------------------- */

typedef struct bell {
    nx_timer timer;
    nx_loop *loop;
    int *order; /* number of timers that expired before it */
    int turn;   /* the iteration at |order|; -1: not yet */
    uint64_t again_ns;
    nx_event *event;
} bell;

static void on_bell(nx_timer *self, uint64_t now_ns)
{
    bell *a = nx_list_entry(self, bell, timer);

    assert_int_equal(now_ns, nx_loop_now(a->loop));
    a->turn = (*a->order)++;
    if (a->again_ns != UINT64_MAX) {
        assert_int_equal(nx_loop_timer_set(a->loop, self, a->again_ns), NEXAR_OK);
    }
    if (a->event != NULL) {
        nx_event_set(a->loop, a->event);
    }
}

static bell make_bell(nx_loop *loop, int *order)
{
    return (bell){.timer = {.on_expire = on_bell},
                  .loop = loop,
                  .order = order,
                  .turn = -1,
                  .again_ns = UINT64_MAX};
}

static void test_timers_expire_in_the_order_of_their_times(void **state)
{
    static const uint64_t times[] = {50, 20, 40, 20, 30};
    static const int turns[] = {4, 0, 3, 1, 2};
    bell bells[5];
    fixture f;
    int order = 0;

    (void)state;
    begin(&f, true);
    for (int i = 0; i < 5; i++) {
        bells[i] = make_bell(f.loop, &order);
        assert_int_equal(nx_loop_timer_set(f.loop, &bells[i].timer, 1000 + times[i]), NEXAR_OK);
    }
    nx_loop_kick(f.loop);
    assert_int_equal(order, 0);
    f.clock.ns = 1029;
    nx_loop_kick(f.loop);
    assert_int_equal(order, 2);
    f.clock.ns = 1050;
    nx_loop_kick(f.loop);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(bells[i].turn, turns[i]);
    }
    end(&f);
}

static void test_a_timer_can_be_moved_and_cancelled(void **state)
{
    bell a, b;
    fixture f;
    int order = 0;

    (void)state;
    begin(&f, true);
    a = make_bell(f.loop, &order);
    b = make_bell(f.loop, &order);
    assert_int_equal(nx_loop_timer_set(f.loop, &a.timer, 1010), NEXAR_OK);
    assert_int_equal(nx_loop_timer_set(f.loop, &a.timer, 1090), NEXAR_OK);
    assert_int_equal(nx_loop_timer_set(f.loop, &b.timer, 1010), NEXAR_OK);
    nx_loop_timer_cancel(f.loop, &b.timer);
    nx_loop_timer_cancel(f.loop, &b.timer);
    f.clock.ns = 1050;
    nx_loop_kick(f.loop);
    assert_int_equal(order, 0);
    f.clock.ns = 1090;
    nx_loop_kick(f.loop);
    assert_int_equal(a.turn, 0);
    assert_int_equal(b.turn, -1);
    end(&f);
}

static void test_a_timer_that_is_always_due_lets_the_others_expire(void **state)
{
    bell greedy, other;
    fixture f;
    int order = 0;

    (void)state;
    begin(&f, true);
    greedy = make_bell(f.loop, &order);
    other = make_bell(f.loop, &order);
    greedy.again_ns = 0;
    assert_int_equal(nx_loop_timer_set(f.loop, &greedy.timer, 0), NEXAR_OK);
    assert_int_equal(nx_loop_timer_set(f.loop, &other.timer, 1000), NEXAR_OK);
    nx_loop_kick(f.loop);
    assert_int_equal(other.turn, 1);
    assert_int_equal(order, 2);
    nx_loop_kick(f.loop);
    assert_int_equal(order, 3);
    nx_loop_timer_cancel(f.loop, &greedy.timer);
    end(&f);
}

static void test_a_wait_runs_due_timers_without_sleeping(void **state)
{
    nx_event event = {0};
    bell a;
    fixture f;
    int order = 0;

    (void)state;
    begin(&f, true);
    a = make_bell(f.loop, &order);
    a.event = &event;
    assert_int_equal(nx_loop_timer_set(f.loop, &a.timer, 900), NEXAR_OK);
    assert_true(nx_loop_wait(f.loop, &event, UINT64_MAX));
    assert_true(nx_loop_wait(f.loop, &event, 0));
    end(&f);
}

static void test_a_timer_ends_a_sleep_and_is_never_early(void **state)
{
    (void)state;
    for (int coarse = 0; coarse < 2; coarse++) {
        nx_event event = {0};
        bell a;
        fixture f;
        int order = 0;
        uint64_t at_ns;

        begin(&f, false);
        f.loop->coarse = (coarse == 1);
        a = make_bell(f.loop, &order);
        a.event = &event;
        at_ns = nx_loop_now(f.loop) + 3 * MS + 300;
        assert_int_equal(nx_loop_timer_set(f.loop, &a.timer, at_ns), NEXAR_OK);
        assert_true(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + PATIENCE_NS));
        assert_true(nx_now(&nx_clock_system) >= at_ns);
        end(&f);
    }
}

static void test_a_wait_ends_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    for (int spin = 0; spin < 3; spin++) {
        nx_event event = {0};
        fixture f;
        uint64_t deadline_ns;

        begin(&f, false);
        set_waits(&f, (spin > 0) ? 50000 : 0, spin == 2);
        deadline_ns = nx_loop_now(f.loop) + 2 * MS;
        assert_false(nx_loop_wait(f.loop, &event, deadline_ns));
        assert_true(nx_now(&nx_clock_system) >= deadline_ns);
        assert_false(nx_loop_wait(f.loop, &event, deadline_ns));
        assert_true(event.waiter == NULL);
        end(&f);
    }
}

/* ---- deferred work ----------------------------------------------------------- */

typedef struct chore {
    nx_task task;
    nx_loop *loop;
    int runs, again;
    struct chore *drop; /* withdrawn when this one runs */
    nx_event *event;
} chore;

static void on_chore(nx_task *self)
{
    chore *c = nx_list_entry(self, chore, task);

    c->runs++;
    if (c->again-- > 0) {
        nx_loop_defer(c->loop, self);
    }
    if (c->drop != NULL) {
        nx_loop_undefer(&c->drop->task);
    }
    if (c->event != NULL) {
        nx_event_set(c->loop, c->event);
    }
    nx_loop_kick(c->loop); /* does nothing in a callback */
}

static void test_deferred_work_runs_once_however_often_it_was_asked_for(void **state)
{
    fixture f;
    chore c;

    (void)state;
    begin(&f, true);
    c = (chore){.loop = f.loop};
    nx_task_init(&c.task, on_chore);
    nx_loop_defer(f.loop, &c.task);
    nx_loop_defer(f.loop, &c.task);
    assert_int_equal(c.runs, 0);
    nx_loop_kick(f.loop);
    nx_loop_kick(f.loop);
    assert_int_equal(c.runs, 1);
    end(&f);
}

static void test_work_can_be_taken_back_even_by_work_before_it(void **state)
{
    fixture f;
    chore first, second;

    (void)state;
    begin(&f, true);
    first = (chore){.loop = f.loop, .drop = &second};
    second = (chore){.loop = f.loop};
    nx_task_init(&first.task, on_chore);
    nx_task_init(&second.task, on_chore);
    nx_loop_undefer(&second.task);
    nx_loop_defer(f.loop, &first.task);
    nx_loop_defer(f.loop, &second.task);
    nx_loop_kick(f.loop);
    assert_int_equal(first.runs, 1);
    assert_int_equal(second.runs, 0);
    end(&f);
}

static void test_a_wait_continues_with_work_that_defers_itself(void **state)
{
    nx_event event = {0};
    fixture f;
    chore c, last;

    (void)state;
    begin(&f, false);
    c = (chore){.loop = f.loop, .again = 100};
    nx_task_init(&c.task, on_chore);
    nx_loop_defer(f.loop, &c.task);
    assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + MS));
    while (c.runs < 101) {
        assert_false(nx_loop_wait(f.loop, &event, 0));
    }
    last = (chore){.loop = f.loop, .event = &event};
    nx_task_init(&last.task, on_chore);
    nx_loop_defer(f.loop, &last.task);
    assert_true(nx_loop_wait(f.loop, &event, UINT64_MAX));
    end(&f);
}

/* ---- descriptors -------------------------------------------------------------- */

typedef struct tap {
    nx_fd fd;
    nx_loop *loop;
    int calls, spins;
    uint32_t events;
    struct tap *drop; /* removed when this one is ready */
    bool keep;        /* leaves the byte unread */
    nx_event *event;
} tap;

static void on_tap(nx_fd *self, uint32_t events)
{
    tap *t = nx_list_entry(self, tap, fd);
    char byte;

    t->calls++;
    t->events = events;
    if (((events & EPOLLIN) != 0) && !t->keep) {
        assert_int_equal(read(self->fd, &byte, 1), 1);
    }
    if (t->drop != NULL) {
        nx_loop_fd_remove(t->loop, &t->drop->fd);
    }
    if (t->event != NULL) {
        nx_event_set(t->loop, t->event);
    }
}

static bool on_tap_spin(nx_fd *self)
{
    tap *t = nx_list_entry(self, tap, fd);

    t->spins++;
    if (t->spins < 3) {
        return false;
    }
    on_tap(self, EPOLLIN);
    return true;
}

static void open_tap(fixture *f, tap *t, int *other)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    *t = (tap){.fd = {.fd = ends[0], .on_ready = on_tap}, .loop = f->loop};
    *other = ends[1];
    assert_int_equal(nx_loop_fd_add(f->loop, &t->fd, EPOLLIN), NEXAR_OK);
}

static void close_tap(fixture *f, tap *t, int other)
{
    nx_loop_fd_remove(f->loop, &t->fd);
    nx_loop_fd_remove(f->loop, &t->fd);
    assert_int_equal(close(t->fd.fd), 0);
    assert_int_equal(close(other), 0);
}

static void test_a_descriptor_is_reported_until_it_is_read(void **state)
{
    fixture f;
    tap t;
    int other;

    (void)state;
    begin(&f, true);
    open_tap(&f, &t, &other);
    nx_loop_kick(f.loop);
    assert_int_equal(t.calls, 0);
    t.keep = true;
    assert_int_equal(write(other, "x", 1), 1);
    nx_loop_kick(f.loop);
    t.keep = false;
    nx_loop_kick(f.loop);
    nx_loop_kick(f.loop);
    assert_int_equal(t.calls, 2);
    assert_int_equal(t.events, EPOLLIN);
    close_tap(&f, &t, other);
    end(&f);
}

static void test_only_events_that_are_watched_are_reported(void **state)
{
    fixture f;
    tap t;
    int other;

    (void)state;
    begin(&f, true);
    open_tap(&f, &t, &other);
    assert_int_equal(nx_loop_fd_change(f.loop, &t.fd, 0), NEXAR_OK);
    assert_int_equal(write(other, "x", 1), 1);
    nx_loop_kick(f.loop);
    assert_int_equal(t.calls, 0);
    assert_int_equal(nx_loop_fd_change(f.loop, &t.fd, EPOLLIN), NEXAR_OK);
    assert_int_equal(nx_loop_fd_change(f.loop, &t.fd, EPOLLIN), NEXAR_OK);
    nx_loop_kick(f.loop);
    assert_int_equal(t.calls, 1);
    close_tap(&f, &t, other);
    end(&f);
}

/* Both are in the same answer of the kernel. */
static void test_a_removed_descriptor_gets_no_call_even_if_it_was_ready(void **state)
{
    fixture f;
    tap a, b;
    int other_a, other_b;

    (void)state;
    begin(&f, true);
    open_tap(&f, &a, &other_a);
    open_tap(&f, &b, &other_b);
    a.drop = &b;
    b.drop = &a;
    assert_int_equal(write(other_a, "x", 1), 1);
    assert_int_equal(write(other_b, "x", 1), 1);
    nx_loop_kick(f.loop);
    nx_loop_kick(f.loop);
    assert_int_equal(a.calls + b.calls, 1);
    close_tap(&f, &a, other_a);
    close_tap(&f, &b, other_b);
    end(&f);
}

static void test_a_ready_descriptor_ends_a_wait(void **state)
{
    (void)state;
    for (int spin = 0; spin < 4; spin++) {
        nx_event event = {0};
        fixture f;
        tap t;
        int other;

        begin(&f, false);
        open_tap(&f, &t, &other);
        t.event = &event;
        set_waits(&f, (spin > 0) ? PATIENCE_NS : 0, spin == 3);
        assert_int_equal(write(other, "x", 1), 1);
        if (spin == 2) {
            nx_loop_fd_remove(f.loop, &t.fd);
            t.fd.on_spin = on_tap_spin;
            assert_int_equal(nx_loop_fd_add(f.loop, &t.fd, EPOLLIN), NEXAR_OK);
        }
        assert_true(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + PATIENCE_NS));
        assert_int_equal(t.calls, 1);
        assert_int_equal(t.spins, (spin == 2) ? 3 : 0);
        close_tap(&f, &t, other);
        end(&f);
    }
}

/* Memory that always has data, or never. */
typedef struct source {
    nx_fd fd;
    bool always;
    unsigned asked;
} source;

static bool on_source_spin(nx_fd *self)
{
    source *s = nx_list_entry(self, source, fd);

    s->asked++;
    return s->always;
}

static bool on_source_idle(nx_fd *self, bool sleep)
{
    return sleep && nx_list_entry(self, source, fd)->always;
}

static void on_source_ready(nx_fd *self, uint32_t events)
{
    (void)self;
    (void)events;
}

/* The kernel has reported nothing for long, and is asked rarely: but it is asked, in waits that
 * memory ends immediately, and by calls that only send. */
static void test_memory_that_is_busy_does_not_hide_descriptors(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        const bool waits = (form < 2);
        source s = {.fd = {.on_ready = on_source_ready,
                           .on_spin = on_source_spin,
                           .on_idle = on_source_idle},
                    .always = (form % 2 == 0)};
        nx_event event = {0}, never = {0};
        uint64_t deadline_ns;
        fixture f;
        int other, ends[2];
        tap t;

        begin(&f, false);
        assert_int_equal(pipe(ends), 0);
        s.fd.fd = ends[0];
        assert_int_equal(nx_loop_fd_add(f.loop, &s.fd, EPOLLIN), NEXAR_OK);
        open_tap(&f, &t, &other);
        t.event = &event;
        set_waits(&f, MS / 20, false);
        while (f.loop->silent < 100) {
            (void)nx_loop_wait(f.loop, &never, nx_loop_now(f.loop) + MS / 100);
        }
        assert_true(s.asked > 100);
        assert_int_equal(write(other, "x", 1), 1);
        deadline_ns = nx_loop_refresh(f.loop) + PATIENCE_NS;
        if (waits) {
            assert_true(nx_loop_wait(f.loop, &event, deadline_ns));
        }
        while (!event.set && (nx_loop_refresh(f.loop) < deadline_ns)) {
            nx_loop_flush(f.loop, 1);
        }
        assert_true(event.set && (nx_loop_now(f.loop) < deadline_ns));
        nx_loop_fd_remove(f.loop, &s.fd);
        assert_int_equal(close(ends[0]), 0);
        assert_int_equal(close(ends[1]), 0);
        close_tap(&f, &t, other);
        end(&f);
    }
}

static void test_a_short_sleep_makes_the_next_wait_poll_longer(void **state)
{
    nx_event event = {0};
    fixture f;

    (void)state;
    begin(&f, false);
    set_waits(&f, MS / 4, false);
    for (int i = 0; (i < 1000) && (f.loop->history.poll_ns <= MS / 4);
         i++) { /* one iteration may be long */
        assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + MS / 2));
    }
    assert_true((f.loop->history.poll_ns > MS / 4) &&
                (f.loop->history.poll_ns <= nx_wait_longest(&f.loop->policy)));
    assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + 40 * MS));
    assert_int_equal(f.loop->history.poll_ns, 0);
    end(&f);
}

/* Sleeps until the deadline: a wait that polls reads the clock and sees it stand still. */
static void test_without_polling_a_wait_asks_no_source(void **state)
{
    nx_event event = {0};
    fixture f;
    tap t;
    int other;

    (void)state;
    begin(&f, false);
    open_tap(&f, &t, &other);
    nx_loop_fd_remove(f.loop, &t.fd);
    t.fd.on_spin = on_tap_spin;
    assert_int_equal(nx_loop_fd_add(f.loop, &t.fd, EPOLLIN), NEXAR_OK);
    assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + 5 * MS));
    assert_true(t.spins <= 1); /* the last iteration, at the deadline */
    close_tap(&f, &t, other);
    end(&f);
}

static bool count_call(void *ctx)
{
    (*(unsigned *)ctx)++;
    return false;
}

static void test_a_wait_that_yields_may_migrate(void **state)
{
    nx_event event = {0};
    unsigned calls = 0;
    fixture f;

    (void)state;
    for (int crowded = 0; crowded < 2; crowded++) {
        begin(&f, false);
        set_waits(&f, 2 * MS, crowded == 1);
        nx_loop_set_migration(f.loop, count_call, &calls);
        calls = 0;
        for (int i = 0; (i < 1000) && (calls == 0); i++) {
            assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + MS));
        }
        assert_true(calls > 0);
        nx_loop_set_migration(f.loop, NULL, NULL);
        calls = 0;
        assert_false(nx_loop_wait(f.loop, &event, nx_loop_now(f.loop) + MS));
        assert_true(calls == 0);
        end(&f);
    }
}

static bool take_a_while(void *ctx)
{
    const clock_t until = clock() + CLOCKS_PER_SEC / 1000; /* CPU time; there is one thread */

    while (clock() <= until) {
    }
    return count_call(ctx);
}

/* A callback that takes 1 ms is not called again for 100 ms. */
static void test_migrations_take_a_hundredth_of_the_time(void **state)
{
    unsigned calls = 0;
    fixture f;

    (void)state;
    begin(&f, false);
    nx_loop_set_migration(f.loop, take_a_while, &calls);
    const uint64_t begun_ns = nx_now(&nx_clock_system);

    assert_false(nx_loop_migrate(f.loop, begun_ns));
    assert_int_equal(calls, 1);
    assert_false(nx_loop_migrate(f.loop, begun_ns + 99 * MS));
    assert_int_equal(calls, 1);
    assert_false(nx_loop_migrate(f.loop, begun_ns + 3600 * 1000 * MS));
    assert_int_equal(calls, 2);
    end(&f);
}

static void test_a_closed_descriptor_cannot_be_watched(void **state)
{
    nx_fd fd = {.fd = -1, .on_ready = on_tap};
    fixture f;

    (void)state;
    begin(&f, true);
    assert_int_equal(nx_loop_fd_add(f.loop, &fd, EPOLLIN), NEXAR_ESYS);
    nx_loop_fd_remove(f.loop, &fd);
    end(&f);
}

static void test_without_memory_nothing_is_watched_and_nothing_is_lost(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_loop *loop = NULL;
        nx_fd fd = {.fd = STDIN_FILENO, .on_ready = on_tap};
        nx_timer timer = {.on_expire = on_bell};
        int ends[2];

        assert_int_equal(pipe(ends), 0);
        fd.fd = ends[0];
        if (nx_loop_create(&loop, &nx_clock_system) != NEXAR_OK) {
            assert_true(nx_alloc_failed());
        } else {
            nexar_err err = nx_loop_fd_add(loop, &fd, EPOLLIN);

            nx_loop_lock(loop);
            assert_int_equal(err, (fd.id != 0) ? NEXAR_OK : NEXAR_ENOMEM);
            err = nx_loop_timer_set(loop, &timer, UINT64_MAX - 1);
            assert_int_equal(err, nx_heap_holds(&timer.item) ? NEXAR_OK : NEXAR_ENOMEM);
            nx_loop_kick(loop);
            nx_loop_fd_remove(loop, &fd);
            nx_loop_timer_cancel(loop, &timer);
            nx_loop_unlock(loop);
            nx_loop_destroy(loop);
        }
        assert_int_equal(close(ends[0]), 0);
        assert_int_equal(close(ends[1]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timers_expire_in_the_order_of_their_times),
        cmocka_unit_test(test_a_timer_can_be_moved_and_cancelled),
        cmocka_unit_test(test_a_timer_that_is_always_due_lets_the_others_expire),
        cmocka_unit_test(test_a_wait_runs_due_timers_without_sleeping),
        cmocka_unit_test(test_a_timer_ends_a_sleep_and_is_never_early),
        cmocka_unit_test(test_a_wait_ends_at_its_deadline_and_not_before),
        cmocka_unit_test(test_deferred_work_runs_once_however_often_it_was_asked_for),
        cmocka_unit_test(test_work_can_be_taken_back_even_by_work_before_it),
        cmocka_unit_test(test_a_wait_continues_with_work_that_defers_itself),
        cmocka_unit_test(test_a_descriptor_is_reported_until_it_is_read),
        cmocka_unit_test(test_only_events_that_are_watched_are_reported),
        cmocka_unit_test(test_a_removed_descriptor_gets_no_call_even_if_it_was_ready),
        cmocka_unit_test(test_a_ready_descriptor_ends_a_wait),
        cmocka_unit_test(test_memory_that_is_busy_does_not_hide_descriptors),
        cmocka_unit_test(test_a_short_sleep_makes_the_next_wait_poll_longer),
        cmocka_unit_test(test_without_polling_a_wait_asks_no_source),
        cmocka_unit_test(test_a_wait_that_yields_may_migrate),
        cmocka_unit_test(test_migrations_take_a_hundredth_of_the_time),
        cmocka_unit_test(test_a_closed_descriptor_cannot_be_watched),
        cmocka_unit_test(test_without_memory_nothing_is_watched_and_nothing_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
