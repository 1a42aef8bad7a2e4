/*
 * log.h - one line per event, to stderr: "nexar: warn: text".
 *
 * Whoever decides an error logs it, once; callers pass it on in silence.  A
 * line is one write(2), so lines of threads and of ranks that share a terminal
 * stay whole.  Every function may be called from any thread; none allocates or
 * changes errno.
 *
 * Whoever logs may hold the lock of a world, and a rank that waits for a reader who has
 * stopped reading (a pager, a terminal that is held) would be taken for dead.  So a line
 * that is not taken within 0.1 s is dropped, and those after it at once; when lines are
 * taken again the first says how many are missing.  A file takes every line.  A line to a pipe
 * that nobody reads any more is dropped too: no SIGPIPE.
 *
 * nexar_set_log sends the lines of nx_log and nx_log_always to a function of the program.
 */
#ifndef NX_LOG_H
#define NX_LOG_H

#include <stdbool.h>
#include <stddef.h>

typedef enum nx_log_level {
    NX_LOG_ERROR, /* something was given up */
    NX_LOG_WARN,  /* goes on, but somebody should know */
    NX_LOG_INFO,  /* what an operator would like to see once */
    NX_LOG_DEBUG, /* what only a developer wants */
    NX_LOG_LEVELS
} nx_log_level;

enum { NX_LOG_ROOM = 1024 }; /* bytes of a line; what does not fit is cut */

/* "error", "warn", "info", "debug". */
const char *nx_log_level_name(nx_log_level level);

/* Lines up to |level| are written; NX_LOG_WARN at first. */
void nx_log_set_level(nx_log_level level);
/* Whether lines of |level| are written: for those that are dear to make. */
bool nx_log_on(nx_log_level level);

/*
 * Puts what |prefix| writes between "nexar: " and the level, e.g. "12.5s rank 3: ".
 * It gets |room| bytes at |buf|, needs no 0 behind them, and returns how many it
 * used.
 * NULL, as at first: nothing.
 */
typedef size_t (*nx_log_prefix)(char *buf, size_t room);
void nx_log_set_prefix(nx_log_prefix prefix);

/* Writes a line.  Control characters in it, line ends too, become '?': nx_clean_text. */
void nx_log(nx_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line at any level, without the name of one: what somebody has asked for. */
void nx_log_always(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Writes |len| bytes as they are, of which at most NX_LOG_ROOM: for those who make their lines
 * themselves, and are not to wait for a reader either. */
void nx_log_put(const char *line, size_t len);

#endif /* NX_LOG_H */
