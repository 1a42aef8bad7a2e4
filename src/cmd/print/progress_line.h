/*
 * progress_line.h - one line on a terminal that shows the progress of long work.
 *
 * The line goes to stderr, appears after half a second of work, and is erased at the end. If
 * stderr is no terminal, nothing is written.
 */
#ifndef NX_PROGRESS_LINE_H
#define NX_PROGRESS_LINE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nx_progress {
    bool terminal, shown;
    uint64_t done, total;
    int64_t begin_ms;
} nx_progress;

/* Begins work of |total| steps. */
void nx_progress_begin(nx_progress *p, uint64_t total);
/* Begins the next step; the text describes it. */
void nx_progress_step(nx_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void nx_progress_end(nx_progress *p);

#endif /* NX_PROGRESS_LINE_H */
