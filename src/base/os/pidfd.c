/* pidfd.c - process descriptors that child processes do not inherit. */
#include "pidfd.h"

#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "sys.h"

struct nx_pidfd {
    pid_t pid;
    int fd; /* -1: the calling process */
    _Atomic unsigned refs;
};

nx_pidfd *nx_pidfd_open(pid_t pid)
{
    const bool own = (pid == getpid());
    const int fd = ((pid > 0) && !own) ? nx_sys_pidfd_open(pid) : -1;
    nx_pidfd *p;

    if ((fd < 0) && !own) {
        return NULL;
    }
    p = nx_zalloc(sizeof(*p));
    if (p == NULL) {
        if (fd >= 0) {
            (void)nx_sys_close(fd);
        }
        return NULL;
    }
    p->pid = pid;
    p->fd = fd;
    atomic_init(&p->refs, 1);
    return p;
}

nx_pidfd *nx_pidfd_ref(nx_pidfd *p)
{
    if (p != NULL) {
        atomic_fetch_add(&p->refs, 1);
    }
    return p;
}

void nx_pidfd_unref(nx_pidfd *p)
{
    if ((p == NULL) || (atomic_fetch_sub(&p->refs, 1) != 1)) {
        return;
    }
    if (p->fd >= 0) {
        (void)nx_sys_close(p->fd);
    }
    nx_free(p);
}

pid_t nx_pidfd_pid(const nx_pidfd *p)
{
    return p->pid;
}

int nx_pidfd_fd(const nx_pidfd *p)
{
    return p->fd;
}

bool nx_pidfd_exited(const nx_pidfd *p)
{
    struct pollfd poller = {.events = POLLIN};

    if ((p == NULL) || (p->fd < 0)) {
        return p == NULL;
    }
    poller.fd = p->fd;
    return nx_sys_poll(&poller, 1, 0) != 0;
}
