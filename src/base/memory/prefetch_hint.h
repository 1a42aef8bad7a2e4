/*
 * prefetch_hint.h - memory that will be needed soon: a hint from who knows what comes next to who
 * computes for a while without touching memory, and can have it fetched meanwhile.
 *
 * One of each kind for each thread.  It is only a hint: it may point to memory that is
 * gone, or was never there, and nobody reads or writes by it.
 */
#ifndef NX_PREFETCH_HINT_H
#define NX_PREFETCH_HINT_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_prefetch {
    const uint8_t *at; /* NULL: nothing is known */
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

/* |len| bytes at |at| were written, and as many are likely to follow behind them.  Beyond the
 * end of a message there is the next of its segments, mostly. */
static inline void nx_prefetch_wrote(const void *at, size_t len)
{
    enum { WORTH_IT = 16384 }; /* less is fetched while it is written */

    if (len >= WORTH_IT) {
        nx_prefetch_write = (nx_prefetch){.at = (const uint8_t *)at + len, .len = len};
    }
}

#endif /* NX_PREFETCH_HINT_H */
