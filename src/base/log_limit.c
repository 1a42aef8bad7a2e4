/* log_limit.c - limits the number of lines per second. */
#include "base/log_limit.h"

#include <stdarg.h>
#include <stdio.h>

static const uint64_t SECOND_NS = UINT64_C(1000000000);

unsigned nx_log_limit_missing(nx_log_limit *l, uint64_t now_ns)
{
    const unsigned n = (now_ns >= l->until_ns) ? l->held_back : 0;

    l->held_back -= n;
    return n;
}

uint64_t nx_log_limit_due(const nx_log_limit *l)
{
    return (l->held_back > 0) ? l->until_ns : UINT64_MAX;
}

bool nx_log_limit_allows(nx_log_limit *l, uint64_t now_ns)
{
    if (now_ns >= l->until_ns) {
        l->until_ns = now_ns + SECOND_NS;
        l->lines = 0;
    }
    if (l->lines == NX_LOG_LIMIT_LINES) {
        l->held_back++;
        return false;
    }
    l->lines++;
    return true;
}

static void tell(nx_log_level level, unsigned missing)
{
    if (missing > 0) {
        nx_log(level, "%u more lines like the last were held back", missing);
    }
}

void nx_log_limited(nx_log_limit *l, uint64_t now_ns, nx_log_level level, const char *format, ...)
{
    char line[NX_LOG_ROOM];
    va_list args;

    if (!nx_log_on(level)) {
        return;
    }
    tell(level, nx_log_limit_missing(l, now_ns));
    if (!nx_log_limit_allows(l, now_ns)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    nx_log(level, "%s", line);
}

void nx_log_limit_end(nx_log_limit *l, nx_log_level level)
{
    tell(level, nx_log_limit_missing(l, UINT64_MAX));
}
