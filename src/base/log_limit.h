/*
 * log_limit.h - lines that an outsider can cause: a few in a second, then a count.
 *
 * Anybody who can reach a socket can be refused as often as it likes, and would fill the log with
 * refusals.  Every line that a process writes for a peer that has not proved who it is goes through
 * one of these, zero at first, one for each kind of peer.  The clock is the caller's.
 *
 * Not for several threads at once.
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

/* How many lines were held back in a second that is over at |now_ns|; each is counted once.
 * 0: none, or it is not over. */
unsigned nx_log_limit_missing(nx_log_limit *l, uint64_t now_ns);
/* When there is something to tell of; UINT64_MAX: nothing is held back. */
uint64_t nx_log_limit_due(const nx_log_limit *l);
/* Whether one more line may be written.  False: it is counted. */
bool nx_log_limit_allows(nx_log_limit *l, uint64_t now_ns);

/* nx_log, limited: first, if some are missing, a line that says how many. */
void nx_log_limited(nx_log_limit *l, uint64_t now_ns, nx_log_level level, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The end of |l|: says at |level| how many lines are missing yet. */
void nx_log_limit_end(nx_log_limit *l, nx_log_level level);

#endif /* NX_LOG_LIMIT_H */
