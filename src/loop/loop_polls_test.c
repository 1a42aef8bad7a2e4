/* loop_polls_test.c - which thread may poll memory itself, and how often. */
#include <sys/eventfd.h>

#include "loop/loop_testing.h"

/* A source in memory that never has data. */
static bool on_spin(nx_fd *self)
{
    (void)self;
    return false;
}

static bool on_idle(nx_fd *self, bool sleep)
{
    (void)self;
    (void)sleep;
    return false;
}

static void on_ready(nx_fd *self, uint32_t events)
{
    (void)self;
    (void)events;
}

typedef struct fixture {
    nx_loop *loop;
    nx_fd source;
} fixture;

/* The kernel has reported nothing, and was asked just now. */
static void make_quiet(fixture *f)
{
    do {
        (void)nx_loop_fds_poll(f->loop);
        (void)nx_loop_refresh(f->loop);
    } while (!nx_loop_fds_quiet(f->loop));
}

static void begin(fixture *f)
{
    f->loop = make(50000);
    f->source = (nx_fd){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                        .on_ready = on_ready,
                        .on_spin = on_spin,
                        .on_idle = on_idle};
    assert_true(f->source.fd >= 0);
    assert_int_equal(nx_loop_fd_add(f->loop, &f->source, EPOLLIN), NEXAR_OK);
    nx_loop_lock(f->loop);
    make_quiet(f);
}

static void end(fixture *f)
{
    nx_loop_fd_remove(f->loop, &f->source);
    nx_loop_unlock(f->loop);
    (void)close(f->source.fd);
    nx_loop_destroy(f->loop);
}

/* Uses up |looks|; returns their number. */
static unsigned use(nx_loop *loop, unsigned looks)
{
    unsigned n = 1;

    while (nx_loop_look_again(loop, &looks)) {
        n++;
    }
    return n;
}

static void test_looks_have_an_end(void **state)
{
    unsigned looks;
    fixture f;

    (void)state;
    begin(&f);
    looks = nx_loop_looks(f.loop);
    assert_true(looks > 1);
    assert_int_equal(use(f.loop, looks), looks);
    end(&f);
}

static void test_what_is_due_comes_first(void **state)
{
    nx_event event = {0};
    fixture f;
    chore c;
    bell b;

    (void)state;
    begin(&f);
    c = (chore){.loop = f.loop, .event = &event};
    nx_task_init(&c.task, on_chore);
    nx_loop_defer(f.loop, &c.task);
    assert_int_equal(nx_loop_looks(f.loop), 0);
    nx_loop_undefer(&c.task);

    b = (bell){.timer.on_expire = on_bell, .loop = f.loop, .event = &event};
    assert_int_equal(nx_loop_timer_set(f.loop, &b.timer, nx_loop_now(f.loop)), NEXAR_OK);
    make_quiet(&f);
    assert_int_equal(nx_loop_looks(f.loop), 0);
    nx_loop_timer_cancel(f.loop, &b.timer);
    make_quiet(&f);
    assert_true(nx_loop_looks(f.loop) > 0);
    end(&f);
}

/* However often a thread polls, the kernel is asked again in time: then the thread must wait. */
static void test_the_kernel_has_its_turn(void **state)
{
    fixture f;
    int n = 0;

    (void)state;
    begin(&f);
    while ((nx_loop_looks(f.loop) > 0) && (n < 100000000)) {
        n++;
    }
    assert_true(n < 100000000);
    end(&f);
}

static void test_threads_that_drive_or_want_the_lock_come_first(void **state)
{
    nx_waiter other = {0};
    unsigned looks;
    fixture f;

    (void)state;
    begin(&f);
    f.loop->driver = &other;
    assert_int_equal(nx_loop_looks(f.loop), 0);
    f.loop->driver = NULL;
    looks = nx_loop_looks(f.loop);
    assert_true(looks > 1);
    atomic_store(&f.loop->wanted, 1);
    assert_false(nx_loop_look_again(f.loop, &looks));
    assert_int_equal(nx_loop_looks(f.loop), 0);
    atomic_store(&f.loop->wanted, 0);
    end(&f);
}

static void set_waits(fixture *f, uint64_t poll_ns, bool crowded)
{
    const nx_wait_policy policy = nxt_waits(poll_ns, crowded);

    nx_loop_set_policy(f->loop, &policy);
}

static void test_without_polling_there_is_one_look(void **state)
{
    fixture f;

    (void)state;
    begin(&f);
    set_waits(&f, 0, false);
    assert_int_equal(nx_loop_looks(f.loop), 1);
    end(&f);
}

/* Ranks outnumber cores, or the last yield let another thread run. */
static void test_where_another_thread_wants_the_core_there_is_one_look(void **state)
{
    fixture f;

    (void)state;
    begin(&f);
    set_waits(&f, 50000, true);
    make_quiet(&f);
    assert_int_equal(nx_loop_looks(f.loop), 1);
    set_waits(&f, 50000, false);
    make_quiet(&f);
    assert_true(nx_loop_looks(f.loop) > 1);
    f.loop->history.shared = true;
    make_quiet(&f);
    assert_int_equal(nx_loop_looks(f.loop), 1);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_have_an_end),
        cmocka_unit_test(test_what_is_due_comes_first),
        cmocka_unit_test(test_the_kernel_has_its_turn),
        cmocka_unit_test(test_threads_that_drive_or_want_the_lock_come_first),
        cmocka_unit_test(test_without_polling_there_is_one_look),
        cmocka_unit_test(test_where_another_thread_wants_the_core_there_is_one_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
