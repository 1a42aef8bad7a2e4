/*
 * remote_memory.h - memory of another rank of this host.
 *
 * The kernel reads the memory of other processes (process_vm_readv) and never writes it. It is
 * written only in the arena of its owner (nexar_alloc) if that is mapped here: the mapping stays
 * valid memory of the owner, even after its process has exited.
 *
 * A read names a process by its id.  After each read the pidfd of the rank's process is checked. If
 * that process has exited, its id may have been reused meanwhile, and what was read is discarded
 * (pidfd.h).
 */
#ifndef NX_REMOTE_MEMORY_H
#define NX_REMOTE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/os/pidfd.h"

typedef struct nx_remote_memory {
    nx_pidfd *process; /* one reference; NULL: the kernel is not to read its memory */
    uint64_t base;     /* its arena, in its address space; ... */
    size_t size;       /* 0: none is mapped here */
    uint8_t *here;     /* ... and here */
} nx_remote_memory;

/* [at, at + len) of |f|, where it is mapped; NULL: it is not. */
static inline void *nx_remote_memory_see(const nx_remote_memory *f, uint64_t at, size_t len)
{
    const uint64_t off = at - f->base;

    return ((off < f->size) && (len <= f->size - off)) ? f->here + off : NULL;
}

/* Copies |len| bytes from its address |at|.  0, or an errno, and |to| is undefined: ESRCH, the
 * process has exited; EFAULT, there is no such memory; EPERM. */
int nx_remote_memory_read(const nx_remote_memory *f, uint64_t at, void *to, size_t len);

/* The same by the kernel, from the |n| pieces |theirs| to the |m| pieces |own|, of the same total
 * length; at most NX_REMOTE_MEMORY_PIECES of each. */
enum { NX_REMOTE_MEMORY_PIECES = 256 };
int nx_remote_memory_gather(const nx_remote_memory *f, const struct iovec *theirs, size_t n,
                            const struct iovec *own, size_t m);

#endif /* NX_REMOTE_MEMORY_H */
