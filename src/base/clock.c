/* clock.c - the system's clock, and a clock that tests advance. */
#include "base/clock.h"

#include <time.h>

static uint64_t system_now_ns(void *ctx)
{
    struct timespec ts = {0};

    (void)ctx;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts); /* cannot fail for this clock */
    return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

const nx_clock nx_clock_system = {.now_ns = system_now_ns, .ctx = NULL};

static uint64_t manual_now_ns(void *ctx)
{
    return ((const nx_clock_manual *)ctx)->ns;
}

void nx_clock_manual_init(nx_clock_manual *m, uint64_t start_ns)
{
    m->clock = (nx_clock){.now_ns = manual_now_ns, .ctx = m};
    m->ns = start_ns;
}

const char *nx_time_text(char text[NX_TIME_TEXT])
{
    const time_t now = time(NULL);
    struct tm tm;

    if ((gmtime_r(&now, &tm) == NULL) || (strftime(text, NX_TIME_TEXT, "%H:%M:%S UTC", &tm) == 0)) {
        text[0] = '\0';
    }
    return text;
}
