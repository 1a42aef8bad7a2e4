/* park.c - futex(2) directly: a condition variable would take the loop's mutex internally, unseen
 * by the count of waiting threads (lock.c). */
#include "loop/park.h"

#include <linux/futex.h>

#include "base/os/sys.h"

void nx_park_sleep(nx_park *park, uint64_t timeout_ns)
{
    const struct timespec ts = nx_sys_timespec(timeout_ns);

    if (atomic_load_explicit(&park->signalled, memory_order_acquire) == 0) {
        /* The caller checks again after every return, whatever its reason. */
        nx_sys_futex(&park->signalled, FUTEX_WAIT_PRIVATE, 0,
                     (timeout_ns == UINT64_MAX) ? NULL : &ts);
    }
}

void nx_park_signal(nx_park *park)
{
    if (atomic_exchange_explicit(&park->signalled, 1, memory_order_release) == 0) {
        nx_sys_futex(&park->signalled, FUTEX_WAKE_PRIVATE, 1, NULL);
    }
}
