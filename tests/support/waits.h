/* waits.h - wait policies for tests, without measurements. */
#ifndef NXT_WAITS_H
#define NXT_WAITS_H

#include "base/wait/wait_policy.h"

static inline nx_wait_policy nxt_waits(uint64_t poll_ns, bool crowded)
{
    return (nx_wait_policy){.poll_ns = poll_ns,
                            .spin_ns = poll_ns / 8,
                            .pause_ns = 20,
                            .yield_ns = 400,
                            .crowded = crowded};
}

#endif /* NXT_WAITS_H */
