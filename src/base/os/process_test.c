/* process_test.c - a process is found by its own identity, and no other process is. */
#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { PATIENCE_MS = 60000 };

/* A process that reports its identity and waits to be killed. */
typedef struct child {
    pid_t pid;
    nx_process is;
} child;

static void start_child(child *c)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no child behind */
        nx_process_self(&c->is);
        (void)!write(pipes[1], &c->is, sizeof(c->is));
        for (;;) {
            (void)pause();
        }
    }
    (void)close(pipes[1]);
    assert_int_equal(read(pipes[0], &c->is, sizeof(c->is)), sizeof(c->is));
    (void)close(pipes[0]);
    assert_int_equal(c->is.pid, c->pid);
}

static void end_child(const child *c)
{
    (void)kill(c->pid, SIGKILL);
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
}

static bool has_ended(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}

/* Whether this kernel has the needed calls. */
static bool can_watch(void)
{
    child c;
    int fd;

    start_child(&c);
    fd = (int)syscall(SYS_pidfd_open, c.pid, 0);
    end_child(&c);
    if (fd >= 0) {
        (void)close(fd);
    }
    return (fd >= 0) && (c.is.space != 0);
}

static void test_the_text_of_a_process_is_read_whatever_its_name_is(void **state)
{
    static const char *const names[] = {"a", "a b", ")", ") R 1 2 3", "((x) (y", "a) S 1 ("};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        nx_process p = {.space = 5};
        char text[256];

        (void)snprintf(text, sizeof(text),
                       "4711 (%s) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 "
                       "18446744073709551615 7 8 9\n",
                       names[i]);
        assert_true(nx_process_parse(text, &p));
        assert_int_equal(p.pid, 4711);
        assert_true(p.started == UINT64_MAX);
        assert_int_equal(p.space, 5);
    }
}

static void test_malformed_text_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "4711",
        "4711 (a",
        "4711 (a)",
        "4711 (a) S 1 2 3",
        "x (a) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 7 8 9",
        " (a) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 7 8 9",
        "99999999999 (a) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 7 8 9",
        "4711 (a) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 -7 8 9",
        "4711 (a) S 1 4711 4711 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 ",
        "4711 (a) S 1 4711 4711 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456789012345678901234567890 8",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        nx_process p = {0};

        assert_false(nx_process_parse(texts[i], &p));
    }
}

static void test_the_end_of_a_process_is_seen(void **state)
{
    child c;
    int fd;

    (void)state;
    if (!can_watch()) {
        skip();
    }
    start_child(&c);
    fd = nx_process_open(&c.is);
    assert_true(fd >= 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    assert_false(has_ended(fd, 0));
    assert_false(nx_process_ended(&c.is));
    (void)kill(c.pid, SIGKILL); /* before the parent waits for it */
    assert_true(has_ended(fd, PATIENCE_MS));
    end_child(&c);
    (void)close(fd);
}

static void test_an_unexpected_exit_is_detected(void **state)
{
    child c;
    int fd;

    (void)state;
    if (!can_watch()) {
        skip();
    }
    start_child(&c);
    (void)kill(c.pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t)c.pid, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    fd = nx_process_open(&c.is);
    assert_true(fd >= 0);
    assert_true(has_ended(fd, 0));
    assert_true(nx_process_ended(&c.is));
    (void)close(fd);
    end_child(&c);
    assert_true(nx_process_ended(&c.is));
    assert_int_equal(nx_process_open(&c.is), -1);
}

static void test_nobody_is_taken_for_another(void **state)
{
    child c;
    nx_process p;

    (void)state;
    if (!can_watch()) {
        skip();
    }
    start_child(&c);
    p = c.is;
    p.started += 1; /* the pid now belongs to another process */
    assert_int_equal(nx_process_open(&p), -1);
    assert_true(nx_process_ended(&p));
    p = c.is;
    p.space += 1;
    assert_int_equal(nx_process_open(&p), -1);
    assert_false(nx_process_ended(&p));
    p = c.is;
    p.space = 0;
    assert_int_equal(nx_process_open(&p), -1);
    p = c.is;
    p.started = 0;
    assert_int_equal(nx_process_open(&p), -1);
    p = c.is;
    p.pid = UINT32_MAX;
    assert_int_equal(nx_process_open(&p), -1);
    nx_process_self(&p);
    assert_int_equal(nx_process_open(&p), -1);
    assert_false(nx_process_ended(&p));
    end_child(&c);
}

static void test_without_descriptors_nobody_is_watched(void **state)
{
    struct rlimit was, none;
    child c;

    (void)state;
    start_child(&c);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = was;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(nx_process_open(&c.is), -1);
    assert_false(nx_process_ended(&c.is));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    end_child(&c);
}

/* Starts a process in a pid namespace of its own, where its pid is 1. |proc|: /proc shows that
 * namespace, otherwise the outer one. False: this machine does not allow it. */
static bool start_apart(child *c, bool proc)
{
    int pipes[2];

    assert_int_equal(pipe(pipes), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (c->pid == 0) {
        pid_t inner;

        (void)close(pipes[0]);
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
            _exit(1);
        }
        inner = fork();
        if (inner == 0) {
            if (!proc || ((mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0) &&
                          (mount("proc", "/proc", "proc", 0, NULL) == 0))) {
                nx_process_self(&c->is);
                (void)!write(pipes[1], &c->is, sizeof(c->is));
            }
            _exit(0);
        }
        (void)close(pipes[1]);
        (void)waitpid(inner, NULL, 0);
        _exit(0);
    }
    (void)close(pipes[1]);
    memset(&c->is, 0, sizeof(c->is));
    (void)!read(pipes[0], &c->is, sizeof(c->is));
    (void)close(pipes[0]);
    assert_int_equal(waitpid(c->pid, NULL, 0), c->pid);
    return c->is.pid != 0;
}

static void test_a_pid_of_another_namespace_is_no_process_here(void **state)
{
    nx_process self, as_if;
    child c = {0}, twin = {0};

    (void)state;
    if (!can_watch() || !start_apart(&c, true)) {
        skip();
    }
    nx_process_self(&self);
    assert_int_equal(c.is.pid, 1);
    assert_true(c.is.space != 0);
    assert_true(c.is.space != self.space);
    assert_int_equal(nx_process_open(&c.is), -1);
    assert_false(nx_process_ended(&c.is));
    /* A process with the pid and the start time of an existing process. */
    start_child(&twin);
    as_if = twin.is;
    as_if.space = c.is.space;
    assert_int_equal(nx_process_open(&as_if), -1);
    end_child(&twin);
}

static void test_with_proc_of_another_namespace_nothing_is_said(void **state)
{
    child c = {0};

    (void)state;
    if (!can_watch() || !start_apart(&c, false)) {
        skip();
    }
    assert_int_equal(c.is.pid, 1);
    assert_int_equal(c.is.space, 0);
    assert_int_equal(c.is.started, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_text_of_a_process_is_read_whatever_its_name_is),
        cmocka_unit_test(test_malformed_text_is_refused),
        cmocka_unit_test(test_the_end_of_a_process_is_seen),
        cmocka_unit_test(test_an_unexpected_exit_is_detected),
        cmocka_unit_test(test_nobody_is_taken_for_another),
        cmocka_unit_test(test_without_descriptors_nobody_is_watched),
        cmocka_unit_test(test_a_pid_of_another_namespace_is_no_process_here),
        cmocka_unit_test(test_with_proc_of_another_namespace_nothing_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
