/*
 * progress_line.h - one line on a terminal that says how far long work has come.
 *
 * It goes to stderr, appears only after half a second of work, and is erased at
 * the end; where stderr is no terminal there is nothing.
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

/* |total| steps are ahead. */
void nx_progress_begin(nx_progress *p, uint64_t total);
/* Another step begins; says what it is. */
void nx_progress_step(nx_progress *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void nx_progress_end(nx_progress *p);

#endif /* NX_PROGRESS_LINE_H */
