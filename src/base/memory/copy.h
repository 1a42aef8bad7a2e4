/*
 * copy.h - copying more than a few lines, as fast as the processor can.
 *
 * Where it has short moves of strings (FSRM) the C library uses them.  On some of those
 * processors (seen: AMD Zen 3) they copy 2.9 GB a second instead of 50 if |to| stands 1 to
 * 31 bytes behind |from|, by the place of both in their pages.  Memory of malloc stands 16
 * bytes behind the beginning of a page, shared memory does not: so it meets us often.
 */
#ifndef NX_COPY_H
#define NX_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    NX_COPY_PAGE = 4096,
    NX_COPY_NEAR = 64,    /* so near is avoided */
    NX_COPY_LEAST = 1024, /* shorter ones are not copied so */
};

/* Like memcpy, for those that stand near: |len| is at least NX_COPY_LEAST. */
void nx_copy_near(void *to, const void *from, size_t len);

/* Like memcpy; |len| may be 0. */
static inline void nx_memcpy(void *to, const void *from, size_t len)
{
    const size_t behind = ((uintptr_t)to - (uintptr_t)from) % NX_COPY_PAGE;

    if ((len >= NX_COPY_LEAST) && (behind - 1 < NX_COPY_NEAR - 1)) {
        nx_copy_near(to, from, len);
    } else if (len > 0) {
        memcpy(to, from, len);
    }
}

#endif /* NX_COPY_H */
