/*
 * log.h - one line per event, to stderr: "nexar: warn: text".
 *
 * The function that decides an error logs it, once; callers pass it on silently. A line is one
 * write(2), so lines of threads and of ranks that share a terminal stay whole. Every function is
 * thread-safe; none allocates or changes errno.
 *
 * A logging thread may hold the lock of a world. A rank that waited for a stopped reader (a pager,
 * a suspended terminal) would be declared failed. So a line that is not accepted within 0.1 s is
 * dropped, and later ones at once; when lines are accepted again the first reports how many were
 * lost. A file accepts every line. A line to a pipe without reader is dropped too: no SIGPIPE.
 *
 * nexar_set_log sends the lines of nx_log and nx_log_always to a function of the program.
 */
#ifndef NX_LOG_H
#define NX_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum nx_log_level {
    NX_LOG_ERROR, /* an operation or a peer has failed */
    NX_LOG_WARN,  /* execution continues, but an operator should know */
    NX_LOG_INFO,  /* of interest to an operator, once */
    NX_LOG_DEBUG, /* for developers only */
    NX_LOG_LEVELS
} nx_log_level;

enum { NX_LOG_ROOM = 1024 }; /* size of a line; longer ones are cut */

/* "error", "warn", "info", "debug". */
const char *nx_log_level_name(nx_log_level level);

/* Lines up to |level| are written; NX_LOG_WARN at first. */
void nx_log_set_level(nx_log_level level);
/* Whether lines of |level| are written: avoids expensive arguments. */
bool nx_log_on(nx_log_level level);

/*
 * Inserts what |prefix| writes between "nexar: " and the level, e.g. "12.5s rank 3: ". It gets
 * |room| bytes at |buf|, needs no terminating 0, and returns the length. NULL, as initially:
 * nothing.
 */
typedef size_t (*nx_log_prefix)(char *buf, size_t room);
void nx_log_set_prefix(nx_log_prefix prefix);

/* Writes a line. Control characters in it, including line ends, become '?': nx_clean_text. */
void nx_log(nx_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line at any level, without the name of a level: for requested output. */
void nx_log_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes |len| bytes unchanged, at most NX_LOG_ROOM: for callers that format lines themselves and
 * must not wait for a reader either. */
void nx_log_put(const char *line, size_t len);

#endif /* NX_LOG_H */
