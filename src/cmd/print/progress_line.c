/* progress_line.c - one line on a terminal that shows the progress of long work. */
#include "progress_line.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { QUIET_MS = 500, LINE = 79 };

static int64_t now_ms(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void nx_progress_begin(nx_progress *p, uint64_t total)
{
    *p = (nx_progress){
        .terminal = isatty(STDERR_FILENO) != 0,
        .total = total,
        .begin_ms = now_ms(),
    };
}

void nx_progress_step(nx_progress *p, const char *format, ...)
{
    char line[LINE + 1];
    va_list args;

    p->done++;
    if (!p->terminal || (now_ms() - p->begin_ms < QUIET_MS)) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    (void)fprintf(stderr, "\r\033[K%llu of %llu  %.50s", (unsigned long long)p->done,
                  (unsigned long long)p->total, line);
    (void)fflush(stderr);
    p->shown = true;
}

void nx_progress_end(nx_progress *p)
{
    if (p->shown) {
        (void)fprintf(stderr, "\r\033[K");
        (void)fflush(stderr);
        p->shown = false;
    }
}
