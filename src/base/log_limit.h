/*
 * log_limit.h - limits lines that an outsider can cause: a few per second, then a count.
 *
 * A peer that can reach a socket can be rejected as often as it likes, and could fill the log.
 * Every line that a process writes for an unauthenticated peer passes a limit, zero-initialised,
 * one for each kind of peer. The clock is the caller's.
 *
 * Not for concurrent use.
 */
#ifndef NX_LOG_LIMIT_H
#define NX_LOG_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

enum { NX_LOG_LIMIT_LINES = 8 }; /* in a second */

typedef struct nx_log_limit {
    uint64_t until_ns; /* the end of the second in which |lines| were written */
    unsigned lines, held_back;
} nx_log_limit;

/* The number of lines suppressed in a second that has passed at |now_ns|; each is counted once. 0:
 * none, or it has not passed. */
unsigned nx_log_limit_missing(nx_log_limit *l, uint64_t now_ns);
/* The time when a count is due; UINT64_MAX: nothing is suppressed. */
uint64_t nx_log_limit_due(const nx_log_limit *l);
/* Whether one more line may be written. False: the line is counted as suppressed. */
bool nx_log_limit_allows(nx_log_limit *l, uint64_t now_ns);

/* nx_log, limited: first a line with the number of suppressed lines, if any. */
void nx_log_limited(nx_log_limit *l, uint64_t now_ns, nx_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The end of |l|: reports at |level| how many lines are still suppressed. */
void nx_log_limit_end(nx_log_limit *l, nx_log_level level);

#endif /* NX_LOG_LIMIT_H */
