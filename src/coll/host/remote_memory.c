/* remote_memory.c - reads the memory of other processes. */
#include "remote_memory.h"

#include <errno.h>

#include "base/memory/nontemporal_copy.h"
#include "base/os/sys.h"

/* The error of a read that ended with |code|: none if the read may have been of another process's
 * memory. */
static int believe(const nx_remote_memory *f, int code)
{
    return nx_pidfd_exited(f->process) ? ESRCH : code;
}

static int read_all(pid_t pid, uint64_t at, void *to, size_t len)
{
    struct iovec near = {.iov_base = to, .iov_len = len}, there;

    while (near.iov_len > 0) {
        /* An address in the other process, not valid in this one. */
        there.iov_base = (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
        there.iov_len = near.iov_len;

        const ssize_t got = nx_sys_process_vm_readv(pid, &near, 1, &there, 1);
        if (got <= 0) {
            return (got < 0) ? errno : EFAULT;
        }
        near.iov_base = (uint8_t *)near.iov_base + got;
        near.iov_len -= (size_t)got;
        at += (uint64_t)got;
    }
    return 0;
}

int nx_remote_memory_read(const nx_remote_memory *f, uint64_t at, void *to, size_t len)
{
    const void *seen = nx_remote_memory_see(f, at, len);

    if (seen != NULL) {
        nx_nontemporal_copy(to, seen, len);
        return 0;
    }
    return (f->process == NULL) ? EPERM
                                : believe(f, read_all(nx_pidfd_pid(f->process), at, to, len));
}

static size_t total(const struct iovec *pieces, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += pieces[i].iov_len;
    }
    return sum;
}

int nx_remote_memory_gather(const nx_remote_memory *f, const struct iovec *theirs, size_t n,
                            const struct iovec *own, size_t m)
{
    ssize_t got;
    int code;

    if (f->process == NULL) {
        return EPERM;
    }
    got = nx_sys_process_vm_readv(nx_pidfd_pid(f->process), own, m, theirs, n);
    code = (got < 0) ? errno : ((size_t)got == total(theirs, n)) ? 0 : EFAULT;
    return believe(f, code);
}
