/*
 * sys.h - system calls that can be interrupted, return short, or create a descriptor.
 *
 * No other source of the library makes these calls (scripts/check.sh syscalls). Each has one
 * policy, and a caller never sees EINTR:
 *
 *   read write recvmsg sendmsg recvmmsg    repeated on EINTR; EAGAIN and short counts are the
 *   process_vm_readv                       caller's
 *   read_all write_all random              repeated on EINTR and on short counts
 *   open fsync ftruncate fallocate dup2    repeated on EINTR
 *   waitpid waitid                         repeated on EINTR
 *   poll nap                               continued on EINTR, for the rest of the time
 *   epoll_wait epoll_pwait2 futex          return early on EINTR, without events: their callers
 *                                          check their condition and clock again
 *   accept                                 repeated on EINTR and ECONNABORTED; EAGAIN is the
 *                                          caller's
 *   connect                                repeated on EINTR.  For local and datagram sockets,
 *                                          which connect at once or not at all, and for
 *                                          non-blocking ones: EINPROGRESS is the caller's
 *   close                                  never repeated: Linux frees the number first, and
 *                                          another thread may have it.  EINTR counts as closed
 *
 * Calls that create a descriptor return one above 2, close-on-exec. A program may run with
 * descriptors 0 to 2 closed; a descriptor of the library in their place would receive what the
 * program prints.
 *
 * Results are those of the call: -1 with errno. Every function is thread-safe; read, write, close,
 * event_set and event_clear also in a signal handler. SA_RESTART has no effect.
 */
#ifndef NX_SYS_H
#define NX_SYS_H

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- descriptors: sys.c -------------------------------------------------------------- */

/* |fd| if it is above 2; otherwise a duplicate above 2, and |fd| is closed. -1 with errno: |fd| was
 * -1, or no number is left; |fd| is closed then too. For descriptors that do not come from the
 * functions below. */
int nx_sys_lift(int fd);

/* |mode| is used with O_CREAT only. */
int nx_sys_open(const char *path, int flags, mode_t mode);
int nx_sys_openat(int dir, const char *path, int flags, mode_t mode);
/* A new file, 0600; |path| as for mkostemp(3). */
int nx_sys_mkostemp(char *path);
int nx_sys_socket(int family, int type, int protocol);
/* Does not return the peer's address; the new socket is non-blocking. */
int nx_sys_accept(int fd);
int nx_sys_connect(int fd, const struct sockaddr_storage *to, socklen_t len);
/* An eventfd, non-blocking. */
int nx_sys_eventfd(unsigned count);
int nx_sys_epoll_create(void);
int nx_sys_memfd_create(const char *name, unsigned flags);
/* -1 with ENOSYS if the kernel has no such call. */
int nx_sys_pidfd_open(pid_t pid);
/* 0, or -1, as kill(2). */
int nx_sys_pidfd_send_signal(int fd, int number);
int nx_sys_signalfd(const sigset_t *set);
int nx_sys_dup(int fd);
/* Creates both ends or none. |flags| are added to O_CLOEXEC. */
int nx_sys_pipe(int ends[2], int flags);

/* Opens /dev/null, for reading, at each closed descriptor from 0 to 2. Only for a program's main,
 * before it opens anything: a library must not decide that. */
void nx_sys_hold_standard(void);

/* ---- files, processes, time: sys.c --------------------------------------------------- */

/* Reads up to |len| bytes; fewer: the end of the file. */
ssize_t nx_sys_read_all(int fd, void *to, size_t len);
/* 0: all bytes are written. -1: some may be. */
int nx_sys_write_all(int fd, const void *from, size_t len);
int nx_sys_fsync(int fd);
int nx_sys_ftruncate(int fd, off_t size);
int nx_sys_fallocate(int fd, int mode, off_t off, off_t len);
/* Replaces |to|, an open or closed descriptor. The result is not close-on-exec. */
int nx_sys_dup2(int fd, int to);

pid_t nx_sys_waitpid(pid_t pid, int *status, int options);
int nx_sys_waitid(idtype_t type, id_t id, siginfo_t *info, int options);

/* |timeout_ns|: UINT64_MAX waits indefinitely, 0 not at all. */
int nx_sys_poll(struct pollfd *fds, nfds_t n, uint64_t timeout_ns);
void nx_sys_nap(uint64_t span_ns);

/* getrandom(2): all |bytes|, or -1. */
int nx_sys_random(void *to, size_t bytes);

/* ---- calls of every message: inline -------------------------------------------------- */

static inline struct timespec nx_sys_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

static inline ssize_t nx_sys_read(int fd, void *to, size_t len)
{
    ssize_t n;

    do {
        n = read(fd, to, len);
    } while ((n < 0) && (errno == EINTR));
    return n;
}

static inline ssize_t nx_sys_write(int fd, const void *from, size_t len)
{
    ssize_t n;

    do {
        n = write(fd, from, len);
    } while ((n < 0) && (errno == EINTR));
    return n;
}

static inline int nx_sys_close(int fd)
{
    return ((close(fd) == 0) || (errno == EINTR)) ? 0 : -1;
}

/* Sets an eventfd. A full eventfd is already set. */
static inline void nx_sys_event_set(int fd)
{
    const uint64_t one = 1;

    (void)nx_sys_write(fd, &one, sizeof(one));
}

/* Whether it was set. */
static inline bool nx_sys_event_clear(int fd)
{
    uint64_t count;

    return nx_sys_read(fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
}

static inline ssize_t nx_sys_recvmsg(int fd, struct msghdr *msg, int flags)
{
    ssize_t n;

    do {
        n = recvmsg(fd, msg, flags);
    } while ((n < 0) && (errno == EINTR));
    return n;
}

static inline ssize_t nx_sys_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    ssize_t n;

    do {
        n = sendmsg(fd, msg, flags);
    } while ((n < 0) && (errno == EINTR));
    return n;
}

/* Has no timeout: use MSG_DONTWAIT. */
static inline int nx_sys_recvmmsg(int fd, struct mmsghdr *msgs, unsigned n, int flags)
{
    int got;

    do {
        got = recvmmsg(fd, msgs, n, flags, NULL);
    } while ((got < 0) && (errno == EINTR));
    return got;
}

static inline int nx_sys_epoll_wait(int fd, struct epoll_event *ready, int n, int timeout_ms)
{
    const int got = epoll_wait(fd, ready, n, timeout_ms);

    return ((got < 0) && (errno == EINTR)) ? 0 : got;
}

static inline int nx_sys_epoll_pwait2(int fd, struct epoll_event *ready, int n, uint64_t timeout_ns)
{
    const struct timespec ts = nx_sys_timespec(timeout_ns);
    const int got = epoll_pwait2(fd, ready, n, (timeout_ns == UINT64_MAX) ? NULL : &ts, NULL);

    return ((got < 0) && (errno == EINTR)) ? 0 : got;
}

/* |ts| has the form that |op| expects; NULL: no timeout. */
void nx_sys_futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *ts);

static inline ssize_t nx_sys_process_vm_readv(pid_t pid, const struct iovec *to, size_t nto,
                                              const struct iovec *from, size_t nfrom)
{
    ssize_t n;

    do {
        n = process_vm_readv(pid, to, nto, from, nfrom, 0);
    } while ((n < 0) && (errno == EINTR));
    return n;
}

#endif /* NX_SYS_H */
