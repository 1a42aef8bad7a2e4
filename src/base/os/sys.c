/* sys.c - the calls off the message path, and descriptors above 2. */
#include "sys.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>

#include "base/clock.h"

/* ---- descriptors --------------------------------------------------------------------- */

int nx_sys_dup(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

int nx_sys_lift(int fd)
{
    int lifted, code;

    if ((fd < 0) || (fd > STDERR_FILENO)) {
        return fd;
    }
    lifted = nx_sys_dup(fd);
    code = errno;
    (void)nx_sys_close(fd);
    errno = code;
    return lifted;
}

int nx_sys_openat(int dir, const char *path, int flags, mode_t mode)
{
    int fd;

    do {
        fd = openat(dir, path, flags | O_CLOEXEC, mode);
    } while ((fd < 0) && (errno == EINTR));
    return nx_sys_lift(fd);
}

int nx_sys_open(const char *path, int flags, mode_t mode)
{
    return nx_sys_openat(AT_FDCWD, path, flags, mode);
}

int nx_sys_mkostemp(char *path)
{
    static const char pattern[] = "XXXXXX";
    char *end = path + strlen(path) - (sizeof(pattern) - 1);
    int fd;

    while (((fd = mkostemp(path, O_CLOEXEC)) < 0) && (errno == EINTR)) {
        memcpy(end, pattern, sizeof(pattern) - 1); /* mkostemp has replaced the X's in |path| */
    }
    return nx_sys_lift(fd);
}

int nx_sys_socket(int family, int type, int protocol)
{
    return nx_sys_lift(socket(family, type | SOCK_CLOEXEC, protocol));
}

int nx_sys_accept(int fd)
{
    int got;

    do {
        got = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while ((got < 0) && ((errno == EINTR) || (errno == ECONNABORTED)));
    return nx_sys_lift(got);
}

int nx_sys_connect(int fd, const struct sockaddr_storage *to, socklen_t len)
{
    bool interrupted = false;

    while (connect(fd, (const struct sockaddr *)to, len) != 0) {
        if (errno != EINTR) {
            return (interrupted && (errno == EISCONN)) ? 0 : -1;
        }
        interrupted = true;
    }
    return 0;
}

int nx_sys_eventfd(unsigned count)
{
    return nx_sys_lift(eventfd(count, EFD_CLOEXEC | EFD_NONBLOCK));
}

int nx_sys_epoll_create(void)
{
    return nx_sys_lift(epoll_create1(EPOLL_CLOEXEC));
}

int nx_sys_memfd_create(const char *name, unsigned flags)
{
    return nx_sys_lift(memfd_create(name, flags | MFD_CLOEXEC));
}

int nx_sys_pidfd_open(pid_t pid)
{
#ifdef SYS_pidfd_open
    return nx_sys_lift((int)syscall(SYS_pidfd_open, pid, 0));
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

int nx_sys_pidfd_send_signal(int fd, int number)
{
#ifdef SYS_pidfd_send_signal
    return (int)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
#else
    (void)fd;
    (void)number;
    errno = ENOSYS;
    return -1;
#endif
}

int nx_sys_signalfd(const sigset_t *set)
{
    return nx_sys_lift(signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK));
}

int nx_sys_pipe(int ends[2], int flags)
{
    int made[2], code;

    if (pipe2(made, flags | O_CLOEXEC) != 0) {
        return -1;
    }
    made[0] = nx_sys_lift(made[0]);
    made[1] = nx_sys_lift(made[1]);
    if ((made[0] < 0) || (made[1] < 0)) {
        code = errno;
        (void)nx_sys_close((made[0] < 0) ? made[1] : made[0]);
        errno = code;
        return -1;
    }
    ends[0] = made[0];
    ends[1] = made[1];
    return 0;
}

void nx_sys_hold_standard(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDONLY);
    } while (((fd >= 0) && (fd <= STDERR_FILENO)) || ((fd < 0) && (errno == EINTR)));
    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
}

/* ---- files --------------------------------------------------------------------------- */

ssize_t nx_sys_read_all(int fd, void *to, size_t len)
{
    size_t done = 0;
    ssize_t n = 1;

    while ((n > 0) && (done < len)) {
        n = nx_sys_read(fd, (uint8_t *)to + done, len - done);
        done += (n > 0) ? (size_t)n : 0;
    }
    return (n < 0) ? -1 : (ssize_t)done;
}

int nx_sys_write_all(int fd, const void *from, size_t len)
{
    size_t done = 0;

    while (done < len) {
        const ssize_t n = nx_sys_write(fd, (const uint8_t *)from + done, len - done);

        if (n < 0) {
            return -1;
        }
        done += (size_t)n;
    }
    return 0;
}

int nx_sys_fsync(int fd)
{
    int result;

    do {
        result = fsync(fd);
    } while ((result != 0) && (errno == EINTR));
    return result;
}

int nx_sys_ftruncate(int fd, off_t size)
{
    int result;

    do {
        result = ftruncate(fd, size);
    } while ((result != 0) && (errno == EINTR));
    return result;
}

int nx_sys_fallocate(int fd, int mode, off_t off, off_t len)
{
    int result;

    do {
        result = fallocate(fd, mode, off, len);
    } while ((result != 0) && (errno == EINTR));
    return result;
}

int nx_sys_dup2(int fd, int to)
{
    int result;

    do {
        result = dup2(fd, to);
    } while ((result < 0) && (errno == EINTR));
    return result;
}

/* ---- processes, time, the rest ------------------------------------------------------- */

pid_t nx_sys_waitpid(pid_t pid, int *status, int options)
{
    pid_t got;

    do {
        got = waitpid(pid, status, options);
    } while ((got < 0) && (errno == EINTR));
    return got;
}

int nx_sys_waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    int result;

    do {
        result = waitid(type, id, info, options);
    } while ((result != 0) && (errno == EINTR));
    return result;
}

/* The clock is read only after a signal, and only if there is a timeout. */
int nx_sys_poll(struct pollfd *fds, nfds_t n, uint64_t timeout_ns)
{
    const bool timed = (timeout_ns != 0) && (timeout_ns != UINT64_MAX);
    const uint64_t from_ns = timed ? nx_now(&nx_clock_system) : 0;
    uint64_t left_ns = timeout_ns;

    for (;;) {
        const struct timespec ts = nx_sys_timespec(left_ns);
        const int got = ppoll(fds, n, (left_ns == UINT64_MAX) ? NULL : &ts, NULL);

        if ((got >= 0) || (errno != EINTR)) {
            return got;
        }
        if (timed) {
            const uint64_t gone_ns = nx_now(&nx_clock_system) - from_ns;

            left_ns = (gone_ns < timeout_ns) ? timeout_ns - gone_ns : 0;
        }
    }
}

void nx_sys_nap(uint64_t span_ns)
{
    (void)nx_sys_poll(NULL, 0, span_ns);
}

int nx_sys_random(void *to, size_t bytes)
{
    uint8_t *at = to;

    while (bytes > 0) {
        const ssize_t n = getrandom(at, bytes, 0);

        if ((n < 0) && (errno != EINTR)) {
            return -1;
        }
        at += (n > 0) ? n : 0;
        bytes -= (n > 0) ? (size_t)n : 0;
    }
    return 0;
}

void nx_sys_futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *ts)
{
    (void)syscall(SYS_futex, word, op, value, ts, NULL, FUTEX_BITSET_MATCH_ANY);
}
