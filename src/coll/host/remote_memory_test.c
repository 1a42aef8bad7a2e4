/* remote_memory_test.c - reads of another process's memory succeed only while that process
 * lives. */
#include "remote_memory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pid_space.h"
#include "unit.h"

enum { BYTES = 100000, CHOSEN = 4000 };

static uint8_t theirs[BYTES]; /* at the same address in all processes forked here */

/* Forks a process that has |value| in |theirs| and waits to be killed; -1: not possible. */
static pid_t start(pid_t pid, int value)
{
    int ready[2];
    char byte = 0;

    if (pipe(ready) != 0) {
        return -1;
    }
    pid = (pid == 0) ? fork() : nxt_pid_space_fork(pid);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        memset(theirs, value, sizeof(theirs));
        (void)!write(ready[1], "x", 1);
        for (;;) {
            (void)pause();
        }
    }
    if ((pid > 0) && (read(ready[0], &byte, 1) != 1)) {
        pid = -1;
    }
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

static bool end(pid_t pid)
{
    return (kill(pid, SIGKILL) == 0) && (waitpid(pid, NULL, 0) == pid);
}

/* The result of a read of all of |theirs|, and in pieces. */
static int read_all(const nx_remote_memory *f, uint8_t *to)
{
    return nx_remote_memory_read(f, (uint64_t)(uintptr_t)theirs, to, BYTES);
}

static int gather(const nx_remote_memory *f, uint8_t *to)
{
    const struct iovec from[2] = {{.iov_base = theirs, .iov_len = 1000},
                                  {.iov_base = theirs + 5000, .iov_len = 3000}};
    const struct iovec own[3] = {{.iov_base = to, .iov_len = 500},
                                 {.iov_base = to + 600, .iov_len = 3400},
                                 {.iov_base = to + 5000, .iov_len = 100}};

    return nx_remote_memory_gather(f, from, 2, own, 3);
}

static bool all_are(const uint8_t *at, int value)
{
    for (size_t i = 0; i < BYTES; i++) {
        if (at[i] != value) {
            return false;
        }
    }
    return true;
}

static void test_the_memory_of_a_process_is_read(void **state)
{
    static uint8_t got[BYTES];
    const pid_t pid = start(0, 7);
    nx_remote_memory f = {0};

    (void)state;
    assert_true(pid > 0);
    f.process = nx_pidfd_open(pid);
    if (f.process != NULL) {
        assert_int_equal(read_all(&f, got), 0);
        assert_true(all_are(got, 7));
        memset(got, 0, sizeof(got));
        assert_int_equal(gather(&f, got), 0);
        assert_true((got[499] == 7) && (got[500] == 0) && (got[600] == 7) && (got[3999] == 7) &&
                    (got[4000] == 0) && (got[5099] == 7) && (got[5100] == 0));
        assert_int_equal(nx_remote_memory_read(&f, 16, got, 100), EFAULT);
    }
    assert_true(end(pid));
    if (f.process != NULL) {
        assert_int_equal(read_all(&f, got), ESRCH);
        assert_int_equal(gather(&f, got), ESRCH);
    }
    nx_pidfd_unref(f.process);
}

static void test_a_process_that_is_not_pinned_is_not_read(void **state)
{
    const nx_remote_memory f = {0};
    uint8_t byte;

    (void)state;
    assert_int_equal(nx_remote_memory_read(&f, (uint64_t)(uintptr_t)theirs, &byte, 1), EPERM);
    assert_null(nx_pidfd_open(-1));
    assert_null(nx_pidfd_open(0));
}

static void test_the_own_process_needs_no_descriptor(void **state)
{
    nx_remote_memory f = {.process = nx_pidfd_open(getpid())};
    uint8_t byte = 1;

    (void)state;
    assert_non_null(f.process);
    assert_int_equal(nx_pidfd_fd(f.process), -1);
    assert_int_equal(nx_remote_memory_read(&f, (uint64_t)(uintptr_t)theirs, &byte, 1), 0);
    assert_int_equal(byte, 0);
    nx_pidfd_unref(f.process);
}

/* A process exits, and another gets its id: no read of that one counts. */
static int reuse(void *arg)
{
    static uint8_t got[BYTES];
    pid_t pid = start(CHOSEN, 7);
    nx_remote_memory f = {0}, stranger = {0};
    bool ok;

    (void)arg;
    f.process = nx_pidfd_open(pid);
    if (f.process == NULL) {
        return (pid == CHOSEN) && end(pid) ? 0 : 1;
    }
    ok = (read_all(&f, got) == 0) && all_are(got, 7) && end(pid);
    pid = start(CHOSEN, 9);
    ok = ok && (pid == CHOSEN) && (read_all(&f, got) == ESRCH) && (gather(&f, got) == ESRCH);
    /* The process exists, and its memory could be read. */
    stranger.process = nx_pidfd_open(pid);
    ok = ok && (stranger.process != NULL) && (read_all(&stranger, got) == 0) && all_are(got, 9);
    ok = ok && (read_all(&f, got) == ESRCH) && end(pid);
    nx_pidfd_unref(f.process);
    nx_pidfd_unref(stranger.process);
    return ok ? 0 : 1;
}

static void test_the_memory_of_a_process_that_got_its_id_is_not_taken_for_it(void **state)
{
    const int code = nxt_pid_space_run(reuse, NULL);

    (void)state;
    if (code < 0) {
        print_message("process ids cannot be chosen here: nothing was tested\n");
        return;
    }
    assert_int_equal(code, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_memory_of_a_process_is_read),
        cmocka_unit_test(test_a_process_that_is_not_pinned_is_not_read),
        cmocka_unit_test(test_the_own_process_needs_no_descriptor),
        cmocka_unit_test(test_the_memory_of_a_process_that_got_its_id_is_not_taken_for_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
