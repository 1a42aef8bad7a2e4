/* park.c - futex(2) by hand: a condition would take the loop's mutex by itself,
 * unseen by the count of those who want it (see lock.c). */
#include "loop/park.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void nx_park_sleep(nx_park *park, uint64_t timeout_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(timeout_ns / 1000000000),
                          .tv_nsec = (long)(timeout_ns % 1000000000)};

    if (atomic_load_explicit(&park->signalled, memory_order_acquire) == 0) {
        /* Every way back is a reason to look again: the result says nothing. */
        (void)syscall(SYS_futex, &park->signalled, FUTEX_WAIT_PRIVATE, 0,
                      (timeout_ns == UINT64_MAX) ? NULL : &ts, NULL, 0);
    }
}

void nx_park_signal(nx_park *park)
{
    if (atomic_exchange_explicit(&park->signalled, 1, memory_order_release) == 0) {
        (void)syscall(SYS_futex, &park->signalled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}
