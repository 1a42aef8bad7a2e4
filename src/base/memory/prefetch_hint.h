/*
 * prefetch_hint.h - memory that will be needed soon: a hint from code that knows what comes next to
 * code that computes without touching memory and can prefetch it meanwhile.
 *
 * One of each kind per thread. Only a hint: the address may be invalid, and is never read or
 * written through it.
 */
#ifndef NX_PREFETCH_HINT_H
#define NX_PREFETCH_HINT_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_prefetch {
    const uint8_t *at; /* NULL: unknown */
    size_t len;
} nx_prefetch;

extern _Thread_local nx_prefetch nx_prefetch_read;  /* will be read next */
extern _Thread_local nx_prefetch nx_prefetch_write; /* will be written, or read and written */

static inline nx_prefetch nx_prefetch_take(nx_prefetch *hint)
{
    const nx_prefetch taken = *hint;

    *hint = (nx_prefetch){0};
    return taken;
}

/* |len| bytes at |at| were written, and as many are likely to follow. After the end of a message,
 * its next segment usually follows. */
static inline void nx_prefetch_wrote(const void *at, size_t len)
{
    enum { WORTH_IT = 16384 }; /* below this, prefetching does not pay */

    if (len >= WORTH_IT) {
        nx_prefetch_write = (nx_prefetch){.at = (const uint8_t *)at + len, .len = len};
    }
}

#endif /* NX_PREFETCH_HINT_H */
