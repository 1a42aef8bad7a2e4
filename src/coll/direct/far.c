/* far.c - copying between processes. */
#include "coll/direct/far.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

typedef ssize_t (*mover)(pid_t pid, const struct iovec *here, unsigned long n,
                         const struct iovec *there, unsigned long m, unsigned long flags);

static int move(mover by, pid_t pid, void *here, uint64_t at, size_t len)
{
    struct iovec near, there;

    while (len > 0) {
        near.iov_base = here;
        /* An address over there: nothing here points to it. */
        there.iov_base = (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
        near.iov_len = there.iov_len = len;

        const ssize_t got = by(pid, &near, 1, &there, 1, 0);
        if ((got < 0) && (errno == EINTR)) {
            continue;
        }
        if (got <= 0) {
            return (got < 0) ? errno : EFAULT;
        }
        here = (uint8_t *)here + got;
        at += (uint64_t)got;
        len -= (size_t)got;
    }
    return 0;
}

int nx_far_read(const nx_far *f, uint64_t at, void *to, size_t len)
{
    const void *seen = nx_far_see(f, at, len);

    if (seen != NULL) {
        memcpy(to, seen, len);
        return 0;
    }
    return move(process_vm_readv, (pid_t)f->pid, to, at, len);
}

int nx_far_write(const nx_far *f, uint64_t at, const void *from, size_t len)
{
    void *seen = nx_far_see(f, at, len);
    void *here = (void *)(uintptr_t)from; // NOLINT(performance-no-int-to-ptr): only read

    if (seen != NULL) {
        memcpy(seen, from, len);
        return 0;
    }
    return move(process_vm_writev, (pid_t)f->pid, here, at, len);
}
