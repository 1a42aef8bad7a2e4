/* interrupt.c - replaces functions of libc and injects faults. */
#include "interrupt.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))

static unsigned one_in; /* 0: calls are not disturbed */
static uint64_t seed;
static atomic_ulong draws, disturbed;

/* The next function of this name in library order. */
#define REAL(name) ((__typeof__(&(name)))real(&real_##name, #name))
#define HAS(name)  static _Atomic(void *) real_##name

typedef void (*function)(void);

static function real(_Atomic(void *) *slot, const char *name)
{
    void *at = atomic_load(slot);
    function result;

    if (at == NULL) {
        at = dlsym(RTLD_NEXT, name);
        if (at == NULL) {
            _exit(127);
        }
        atomic_store(slot, at);
    }
    memcpy(&result, &at, sizeof(result)); /* ISO C allows no such cast */
    return result;
}

HAS(read);
HAS(write);
HAS(recvmsg);
HAS(sendmsg);
HAS(recvmmsg);
HAS(ppoll);
HAS(epoll_wait);
HAS(epoll_pwait2);
HAS(accept4);
HAS(connect);
HAS(open);
HAS(mkostemp);
HAS(close);
HAS(dup2);
HAS(fsync);
HAS(ftruncate);
HAS(fallocate);
HAS(waitpid);
HAS(waitid);
HAS(getrandom);
HAS(process_vm_readv);
HAS(process_vm_writev);
HAS(syscall);

/* ---- when --------------------------------------------------------------------------------- */

static uint64_t draw(void)
{
    uint64_t z = seed + atomic_fetch_add(&draws, 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool now(void)
{
    if ((one_in == 0) || (draw() % one_in != 0)) {
        return false;
    }
    atomic_fetch_add(&disturbed, 1);
    return true;
}

/* Whether this call fails with |code|. */
static bool fails(int code)
{
    if (!now()) {
        return false;
    }
    errno = code;
    return true;
}

/* |n|, or sometimes less, but at least one. */
static size_t fewer(size_t n)
{
    return ((n > 1) && now()) ? 1 + (size_t)(draw() % (n - 1)) : n;
}

/* Whether |fd| is a network socket, which may return EAGAIN even when ready. */
static bool is_network(int fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return (one_in != 0) && (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0) &&
           ((domain == AF_INET) || (domain == AF_INET6));
}

/* Eventfds and datagrams cannot be read or written in parts. */
static bool is_divisible(int fd)
{
    struct stat st;

    return (one_in != 0) && (fstat(fd, &st) == 0) &&
           (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode));
}

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): libc has reserved ones

/* ---- the calls ---------------------------------------------------------------------------- */

PUBLIC ssize_t read(int fd, void *to, size_t len)
{
    if (fails(EINTR)) {
        return -1;
    }
    return REAL(read)(fd, to, is_divisible(fd) ? fewer(len) : len);
}

/* Writes of up to PIPE_BUF bytes are atomic. */
PUBLIC ssize_t write(int fd, const void *from, size_t len)
{
    if (fails(EINTR)) {
        return -1;
    }
    return REAL(write)(fd, from, ((len > PIPE_BUF) && is_divisible(fd)) ? fewer(len) : len);
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    if (fails(EINTR) || (is_network(fd) && fails(EAGAIN))) {
        return -1;
    }
    return REAL(recvmsg)(fd, msg, flags);
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    if (fails(EINTR) || (is_network(fd) && fails(EAGAIN))) {
        return -1;
    }
    return REAL(sendmsg)(fd, msg, flags);
}

PUBLIC int recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags, struct timespec *timeout)
{
    if (fails(EINTR) || ((n > 0) && fails(EAGAIN))) {
        return -1;
    }
    return REAL(recvmmsg)(fd, msgs, (unsigned)fewer(n), flags, timeout);
}

PUBLIC int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    return fails(EINTR) ? -1 : REAL(ppoll)(fds, n, timeout, mask);
}

PUBLIC int epoll_wait(int fd, struct epoll_event *ready, int n, int timeout_ms)
{
    return fails(EINTR) ? -1 : REAL(epoll_wait)(fd, ready, (int)fewer((size_t)n), timeout_ms);
}

PUBLIC int epoll_pwait2(int fd, struct epoll_event *ready, int n, const struct timespec *timeout,
                        const sigset_t *mask)
{
    return fails(EINTR) ? -1 : REAL(epoll_pwait2)(fd, ready, (int)fewer((size_t)n), timeout, mask);
}

/* The headers of glibc declare a union of all address types. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
PUBLIC int accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
    if (fails(EINTR) || fails(EAGAIN)) {
        return -1;
    }
    return REAL(accept4)(fd, from, len, flags);
}

PUBLIC int connect(int fd, const struct sockaddr *to, socklen_t len)
{
    return fails(EINTR) ? -1 : REAL(connect)(fd, to, len);
}

#pragma GCC diagnostic pop

PUBLIC int open(const char *path, int flags, ...)
{
    va_list args;
    mode_t mode;

    va_start(args, flags);
    mode = ((flags & (O_CREAT | O_TMPFILE)) != 0) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return fails(EINTR) ? -1 : REAL(open)(path, flags, mode);
}

PUBLIC int mkostemp(char *path, int flags)
{
    return fails(EINTR) ? -1 : REAL(mkostemp)(path, flags);
}

/* The descriptor is closed in any case. */
PUBLIC int close(int fd)
{
    const int result = REAL(close)(fd);

    return ((result == 0) && fails(EINTR)) ? -1 : result;
}

PUBLIC int dup2(int fd, int to)
{
    return fails(EINTR) ? -1 : REAL(dup2)(fd, to);
}

PUBLIC int fsync(int fd)
{
    return fails(EINTR) ? -1 : REAL(fsync)(fd);
}

PUBLIC int ftruncate(int fd, off_t len)
{
    return fails(EINTR) ? -1 : REAL(ftruncate)(fd, len);
}

PUBLIC int fallocate(int fd, int mode, off_t off, off_t len)
{
    return fails(EINTR) ? -1 : REAL(fallocate)(fd, mode, off, len);
}

PUBLIC pid_t waitpid(pid_t pid, int *status, int options)
{
    if (((options & WNOHANG) == 0) && fails(EINTR)) {
        return -1;
    }
    return REAL(waitpid)(pid, status, options);
}

PUBLIC int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (((options & WNOHANG) == 0) && fails(EINTR)) {
        return -1;
    }
    return REAL(waitid)(type, id, info, options);
}

/* Up to 256 bytes are returned completely: getrandom(2). */
PUBLIC ssize_t getrandom(void *to, size_t len, unsigned flags)
{
    if ((len > 256) && fails(EINTR)) {
        return -1;
    }
    return REAL(getrandom)(to, (len > 256) ? 256 + fewer(len - 256) : len, flags);
}

PUBLIC ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long nto,
                                const struct iovec *from, unsigned long nfrom, unsigned long flags)
{
    return fails(EINTR) ? -1 : REAL(process_vm_readv)(pid, to, nto, from, nfrom, flags);
}

PUBLIC ssize_t process_vm_writev(pid_t pid, const struct iovec *from, unsigned long nfrom,
                                 const struct iovec *to, unsigned long nto, unsigned long flags)
{
    return fails(EINTR) ? -1 : REAL(process_vm_writev)(pid, from, nfrom, to, nto, flags);
}

/* A futex wait may end early. */
PUBLIC long syscall(long number, ...)
{
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(args, long);
    }
    va_end(args);
    if ((number == SYS_futex) && ((a[1] & FUTEX_CMD_MASK) != FUTEX_WAKE) && fails(EINTR)) {
        return -1;
    }
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// NOLINTEND(readability-inconsistent-declaration-parameter-name)

/* ---- signals ------------------------------------------------------------------------------ */

static unsigned frequency;

static void on_alarm(int number)
{
    static atomic_uint signals;
    const bool restarts = (atomic_fetch_add(&signals, 1) % 2 == 0);
    const struct sigaction next = {.sa_handler = on_alarm, .sa_flags = restarts ? SA_RESTART : 0};

    atomic_fetch_add(&disturbed, 1);
    (void)sigaction(number, &next, NULL);
}

/* Uses timer_create, not setitimer: an interval timer would survive exec, its handler would not. */
static void start_timer(void)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    const long span_ns = 1000000000L / (long)frequency;
    const struct itimerspec every = {.it_interval = {.tv_nsec = span_ns},
                                     .it_value = {.tv_nsec = span_ns}};
    timer_t timer;

    if ((sigaction(SIGALRM, &action, NULL) != 0) ||
        (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) ||
        (timer_settime(timer, 0, &every, NULL) != 0)) {
        perror("interrupt: timer");
        _exit(127);
    }
}

void nxt_interrupt_signals(unsigned per_second)
{
    frequency = per_second;
    start_timer();
    (void)pthread_atfork(NULL, NULL, start_timer); /* a child has no timers */
}

void nxt_interrupt_calls(unsigned n, uint64_t first)
{
    seed = first;
    one_in = n;
}

unsigned long nxt_interrupt_count(void)
{
    return atomic_load(&disturbed);
}

// NOLINTBEGIN(concurrency-mt-unsafe): there are no threads before main
__attribute__((constructor)) static void start(void)
{
    const char *calls = getenv("NXT_CALLS"), *which = getenv("NXT_CALLS_SEED");
    const char *signals = getenv("NXT_SIGNALS");
    struct timespec ts;
    char text[24];

    if (calls != NULL) {
        (void)clock_gettime(CLOCK_REALTIME, &ts);
        if (which == NULL) { /* also for child processes */
            (void)snprintf(text, sizeof(text), "%ld", ts.tv_nsec);
            (void)setenv("NXT_CALLS_SEED", text, 1);
            (void)fprintf(stderr, "interrupt: NXT_CALLS=%s NXT_CALLS_SEED=%s\n", calls, text);
            which = text;
        }
        nxt_interrupt_calls((unsigned)strtoul(calls, NULL, 10), strtoull(which, NULL, 10));
    }
    if (signals != NULL) {
        nxt_interrupt_signals((unsigned)strtoul(signals, NULL, 10));
    }
}
// NOLINTEND(concurrency-mt-unsafe)
