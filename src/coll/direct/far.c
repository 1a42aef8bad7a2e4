/* far.c - copying between processes. */
#include "coll/direct/far.h"

#include <errno.h>
#include <string.h>

#include "base/stream.h"
#include "base/sys.h"

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
        nx_stream_copy(to, seen, len);
        return 0;
    }
    return move(process_vm_readv, (pid_t)f->pid, to, at, len);
}

int nx_far_write(const nx_far *f, uint64_t at, const void *from, size_t len)
{
    void *seen = nx_far_see(f, at, len);
    void *here = (void *)(uintptr_t)from; // NOLINT(performance-no-int-to-ptr): only read

    if (seen != NULL) {
        nx_stream_copy(seen, from, len);
        return 0;
    }
    return move(process_vm_writev, (pid_t)f->pid, here, at, len);
}

static size_t total(const struct iovec *pieces, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += pieces[i].iov_len;
    }
    return sum;
}

/* So few bytes go at once, or some of them are not there. */
static int whole(ssize_t got, size_t want)
{
    if (got < 0) {
        return errno;
    }
    return ((size_t)got == want) ? 0 : EFAULT;
}

int nx_far_gather(const nx_far *f, const struct iovec *theirs, size_t n, void *to)
{
    const struct iovec own = {.iov_base = to, .iov_len = total(theirs, n)};

    return whole(nx_sys_process_vm_readv((pid_t)f->pid, &own, 1, theirs, n), own.iov_len);
}

int nx_far_spread(const nx_far *f, const struct iovec *theirs, const struct iovec *own, size_t n)
{
    return whole(nx_sys_process_vm_writev((pid_t)f->pid, own, n, theirs, n), total(theirs, n));
}
