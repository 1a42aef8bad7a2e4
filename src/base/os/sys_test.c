/* sys_test.c - the calls under 2,000 signals a second, and with descriptors 0 to 2 closed. */
#include "sys.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "unit.h"

enum { SIZE = 1 << 20, PIECE = 4096, WAIT_NS = 20000000 };

/* ---- signals ------------------------------------------------------------------------- */

static atomic_int signals;

static void on_alarm(int number)
{
    (void)number;
    atomic_fetch_add(&signals, 1);
}

/* The handler lacks SA_RESTART, so every interruptible call is interrupted. */
static void set_alarms(bool on)
{
    const struct sigaction action = {.sa_handler = on ? on_alarm : SIG_IGN};
    const struct itimerval every = {.it_interval = {.tv_usec = on ? 500 : 0},
                                    .it_value = {.tv_usec = on ? 500 : 0}};

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

static uint64_t now_ns(void)
{
    return nx_now(&nx_clock_system);
}

static void test_a_wait_takes_its_whole_time(void **state)
{
    struct pollfd nothing = {.fd = -1};
    uint64_t from_ns = now_ns();
    const int before = atomic_load(&signals);

    (void)state;
    set_alarms(true);
    assert_int_equal(nx_sys_poll(&nothing, 1, WAIT_NS), 0);
    assert_true(now_ns() - from_ns >= WAIT_NS);
    from_ns = now_ns();
    nx_sys_nap(WAIT_NS);
    assert_true(now_ns() - from_ns >= WAIT_NS);
    set_alarms(false);
    assert_true(atomic_load(&signals) > before);
}

static void test_a_poll_without_waiting_tells_what_is(void **state)
{
    const int before = atomic_load(&signals);
    struct pollfd p = {.events = POLLIN};
    int ends[2], polls = 0;

    (void)state;
    assert_int_equal(nx_sys_pipe(ends, 0), 0);
    p.fd = ends[0];
    set_alarms(true);
    while ((atomic_load(&signals) < before + 20) || (polls < 10000)) {
        assert_int_equal(nx_sys_poll(&p, 1, 0), 0);
        polls++;
    }
    set_alarms(false);
    (void)nx_sys_close(ends[0]);
    (void)nx_sys_close(ends[1]);
}

static uint8_t byte_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 4096);
}

/* Runs in another thread with signals blocked: reads or writes SIZE bytes piece by piece. */
static void *take(void *arg)
{
    static uint8_t piece[PIECE];
    const int *fd = arg;
    size_t at = 0;
    ssize_t n;

    while ((n = nx_sys_read(*fd, piece, sizeof(piece))) > 0) {
        for (ssize_t i = 0; i < n; i++, at++) {
            if (piece[i] != byte_at(at)) {
                return NULL;
            }
        }
        nx_sys_nap(100000);
    }
    return (at == SIZE) ? arg : NULL;
}

static void *give(void *arg)
{
    static uint8_t piece[PIECE];
    const int *fd = arg;

    for (size_t at = 0; at < SIZE; at += PIECE) {
        for (size_t i = 0; i < PIECE; i++) {
            piece[i] = byte_at(at + i);
        }
        nx_sys_nap(100000);
        if (nx_sys_write_all(*fd, piece, PIECE) != 0) {
            return NULL;
        }
    }
    (void)nx_sys_close(*fd);
    return arg;
}

static pthread_t start_quietly(void *(*run)(void *), int *fd)
{
    sigset_t all, before;
    pthread_t thread;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    assert_int_equal(pthread_create(&thread, NULL, run, fd), 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return thread;
}

static void test_short_counts_are_continued(void **state)
{
    uint8_t *data = malloc(SIZE);
    pthread_t other;
    int ends[2];
    void *good;

    (void)state;
    assert_non_null(data);
    set_alarms(true);
    assert_int_equal(nx_sys_pipe(ends, 0), 0);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = byte_at(i);
    }
    other = start_quietly(take, &ends[0]);
    assert_int_equal(nx_sys_write_all(ends[1], data, SIZE), 0);
    (void)nx_sys_close(ends[1]);
    assert_int_equal(pthread_join(other, &good), 0);
    assert_non_null(good);
    (void)nx_sys_close(ends[0]);

    assert_int_equal(nx_sys_pipe(ends, 0), 0);
    memset(data, 0, SIZE);
    other = start_quietly(give, &ends[1]);
    assert_int_equal(nx_sys_read_all(ends[0], data, SIZE), SIZE);
    assert_int_equal(nx_sys_read_all(ends[0], data, 1), 0);
    assert_int_equal(pthread_join(other, &good), 0);
    assert_non_null(good);
    for (size_t i = 0; i < SIZE; i++) {
        assert_int_equal(data[i], byte_at(i));
    }
    set_alarms(false);
    (void)nx_sys_close(ends[0]);
    free(data);
}

static void test_a_child_is_awaited_and_its_end_is_seen(void **state)
{
    int status = -1;
    siginfo_t info;
    pid_t pid;

    (void)state;
    for (int i = 0; i < 2; i++) {
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            nx_sys_nap(WAIT_NS);
            _exit(7);
        }
        set_alarms(true);
        if (i == 0) {
            assert_int_equal(nx_sys_waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
            assert_int_equal(info.si_status, 7);
        }
        assert_int_equal(nx_sys_waitpid(pid, &status, 0), pid);
        set_alarms(false);
        assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 7));
    }
}

static void test_random_bytes_come_whole(void **state)
{
    uint8_t *data = calloc(1, SIZE);
    size_t zeros = 0;

    (void)state;
    assert_non_null(data);
    set_alarms(true);
    assert_int_equal(nx_sys_random(data, SIZE), 0);
    set_alarms(false);
    for (size_t i = SIZE - 4096; i < SIZE; i++) {
        zeros += (data[i] == 0);
    }
    assert_true(zeros < 256);
    free(data);
}

static void test_an_event_is_set_until_it_is_cleared(void **state)
{
    const int fd = nx_sys_eventfd(0);

    (void)state;
    assert_true(fd >= 0);
    assert_false(nx_sys_event_clear(fd));
    nx_sys_event_set(fd);
    nx_sys_event_set(fd);
    assert_true(nx_sys_event_clear(fd));
    assert_false(nx_sys_event_clear(fd));
    (void)nx_sys_close(fd);
}

/* ---- descriptors 0 to 2 -------------------------------------------------------------- */

static bool is_closed(int fd)
{
    return (fcntl(fd, F_GETFD) < 0) && (errno == EBADF);
}

/* Whether |fd| is above 2 and close-on-exec, and descriptors 0 to 2 are still closed. */
static bool good(int fd)
{
    return (fd > 2) && (fcntl(fd, F_GETFD) == FD_CLOEXEC) && is_closed(0) && is_closed(1) &&
           is_closed(2);
}

static int accepted(void)
{
    struct sockaddr_storage to = {.ss_family = AF_UNIX};
    socklen_t len = sizeof(sa_family_t); /* the kernel assigns a name */
    const int listener = nx_sys_socket(AF_UNIX, SOCK_SEQPACKET, 0);
    const int caller = nx_sys_socket(AF_UNIX, SOCK_SEQPACKET, 0);

    if (!good(listener) || !good(caller) ||
        (bind(listener, (const struct sockaddr *)&to, len) != 0) || (listen(listener, 1) != 0)) {
        return -1;
    }
    len = sizeof(to);
    if ((getsockname(listener, (struct sockaddr *)&to, &len) != 0) ||
        (nx_sys_connect(caller, &to, len) != 0)) {
        return -1;
    }
    return nx_sys_accept(listener);
}

/* Runs in its own process. Returns 0, or the number of the failed step. */
static int open_all(void)
{
    char path[] = "/tmp/nexar-sys-XXXXXX";
    int fds[12], n = 0, ends[2] = {-1, -1}, status = nx_sys_pipe(ends, O_NONBLOCK);
    sigset_t none;

    (void)sigemptyset(&none);
    fds[n++] = (status == 0) ? ends[0] : -1;
    fds[n++] = (status == 0) ? ends[1] : -1;
    fds[n++] = nx_sys_open("/dev/null", O_RDWR, 0);
    fds[n++] = nx_sys_mkostemp(path);
    (void)unlink(path);
    fds[n++] = nx_sys_eventfd(0);
    fds[n++] = nx_sys_epoll_create();
    fds[n++] = nx_sys_memfd_create("test", 0);
    fds[n++] = nx_sys_pidfd_open(getpid());
    fds[n++] = nx_sys_signalfd(&none);
    fds[n++] = nx_sys_dup(ends[0]);
    fds[n++] = accepted();
    fds[n++] = nx_sys_lift(open("/dev/null", O_RDONLY | O_CLOEXEC)); // NOLINT: 0
    for (int i = 0; i < n; i++) {
        if (!good(fds[i]) && ((i != 7) || (errno != ENOSYS))) {
            return i + 1;
        }
    }
    return 0;
}

/* No descriptor above 2 is free: the calls fail and leave descriptors 0 to 2 closed. */
static int open_too_many(void)
{
    const struct rlimit few = {.rlim_cur = 3, .rlim_max = 3};
    int ends[2];

    if (setrlimit(RLIMIT_NOFILE, &few) != 0) {
        return 1;
    }
    if ((nx_sys_eventfd(0) != -1) || ((errno != EMFILE) && (errno != EINVAL))) {
        return 2;
    }
    if (nx_sys_pipe(ends, 0) != -1) {
        return 3;
    }
    return (is_closed(0) && is_closed(1) && is_closed(2)) ? 0 : 4;
}

/* A program asks to hold descriptors 0 to 2. */
static int hold(void)
{
    nx_sys_hold_standard();
    return ((fcntl(0, F_GETFD) == 0) && (fcntl(1, F_GETFD) == 0) && (fcntl(2, F_GETFD) == 0) &&
            is_closed(3))
               ? 0
               : 1;
}

static int closed_run(int (*run)(void))
{
    const pid_t pid = fork();
    int status;

    assert_true(pid >= 0);
    if (pid == 0) {
        for (int fd = 0; fd < 64; fd++) {
            (void)close(fd);
        }
        _exit(run());
    }
    assert_int_equal(nx_sys_waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_no_descriptor_takes_the_place_of_0_to_2(void **state)
{
    (void)state;
    assert_int_equal(closed_run(open_all), 0);
    assert_int_equal(closed_run(open_too_many), 0);
    assert_int_equal(closed_run(hold), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_takes_its_whole_time),
        cmocka_unit_test(test_a_poll_without_waiting_tells_what_is),
        cmocka_unit_test(test_short_counts_are_continued),
        cmocka_unit_test(test_a_child_is_awaited_and_its_end_is_seen),
        cmocka_unit_test(test_random_bytes_come_whole),
        cmocka_unit_test(test_an_event_is_set_until_it_is_cleared),
        cmocka_unit_test(test_no_descriptor_takes_the_place_of_0_to_2),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
