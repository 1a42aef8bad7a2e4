/*
 * far.h - memory of another rank of this host.
 *
 * It is read and written by the kernel (process_vm_readv, process_vm_writev), or seen
 * here as well, if it is in the arena of its owner (nexar_alloc) and that is mapped.
 */
#ifndef NX_FAR_H
#define NX_FAR_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

typedef struct nx_far {
    int64_t pid;   /* as this process sees it */
    uint64_t base; /* its arena, over there; ... */
    size_t size;   /* 0: none that is mapped here */
    uint8_t *here; /* ... and here */
} nx_far;

/* [at, at + len) of |f|, where it is mapped; NULL: it is not. */
static inline void *nx_far_see(const nx_far *f, uint64_t at, size_t len)
{
    const uint64_t off = at - f->base;

    return ((off < f->size) && (len <= f->size - off)) ? f->here + off : NULL;
}

/* Copy |len| bytes from or to |at| over there.  0, or an errno: ESRCH, the process is
 * gone; EFAULT, there is no such memory; EPERM. */
int nx_far_read(const nx_far *f, uint64_t at, void *to, size_t len);
int nx_far_write(const nx_far *f, uint64_t at, const void *from, size_t len);

/* The same by the kernel, for the |n| pieces |theirs|, NX_FAR_PIECES at most: to one stretch,
 * or from pieces of the same lengths. */
enum { NX_FAR_PIECES = 256 };
int nx_far_gather(const nx_far *f, const struct iovec *theirs, size_t n, void *to);
int nx_far_spread(const nx_far *f, const struct iovec *theirs, const struct iovec *own, size_t n);

#endif /* NX_FAR_H */
