/*
 * oom.h - runs a test with every allocation failing in turn.
 *
 *     NXT_FOR_EACH_OOM(n)
 *     {
 *         nexar_err err = thing_create(&thing);
 *
 *         assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
 *         ...
 *     }
 *
 * runs the body with the first allocation failing, then the second, and so on, and once more with
 * none. The leak checker of `make asan` detects leaks.
 */
#ifndef NXT_OOM_H
#define NXT_OOM_H

#include <stdbool.h>

#include "base/alloc.h"

static inline bool nxt_oom_next(long n)
{
    bool more = (n == 0) || nx_alloc_failed();

    nx_alloc_fail_after(more ? n : -1);
    return more;
}

#define NXT_FOR_EACH_OOM(n) for (long n = 0; nxt_oom_next(n); (n)++)

#endif /* NXT_OOM_H */
