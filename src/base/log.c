/* log.c - a line is made in a buffer of its own and written at once. */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

enum { PATIENCE_MS = 100 };

static _Atomic int level_now = NX_LOG_WARN;
static _Atomic unsigned missing; /* lines that were not taken */
static _Atomic(nx_log_prefix) prefix_now;

const char *nx_log_level_name(nx_log_level level)
{
    static const char *const names[NX_LOG_LEVELS] = {"error", "warn", "info", "debug"};

    return names[level];
}

void nx_log_set_level(nx_log_level level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

bool nx_log_on(nx_log_level level)
{
    return (int)level <= atomic_load_explicit(&level_now, memory_order_relaxed);
}

void nx_log_set_prefix(nx_log_prefix prefix)
{
    atomic_store(&prefix_now, prefix);
}

/* How much of the |room| bytes snprintf has filled, whatever it would have
 * liked to. */
static size_t filled(int wanted, size_t room)
{
    if (wanted < 0) {
        return 0;
    }
    return ((size_t)wanted < room) ? (size_t)wanted : room - 1;
}

/* Whether stderr takes a line without making this thread wait.  Not certain if others write
 * to the same pipe; each rank of `nexar run` has its own. */
static bool is_taken(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return poll(&p, 1, (atomic_load(&missing) == 0) ? PATIENCE_MS : 0) != 0;
}

static void write_once(const char *line, size_t len)
{
    /* Twice: a signal may interrupt the first before a byte is out.  Nobody is
     * left to be told that stderr is gone. */
    if ((write(STDERR_FILENO, line, len) < 0) && (errno == EINTR)) {
        ssize_t n = write(STDERR_FILENO, line, len);

        (void)n;
    }
}

static void write_line(const char *line, size_t len)
{
    char both[NX_LOG_ROOM + 96];
    unsigned n;
    size_t note;

    if (!is_taken()) {
        atomic_fetch_add(&missing, 1);
        return;
    }
    n = atomic_exchange(&missing, 0);
    if (n == 0) {
        write_once(line, len);
        return;
    }
    note = filled(snprintf(both, sizeof(both) - len,
                           "nexar: %u lines are missing here: nobody took them\n", n),
                  sizeof(both) - len);
    memcpy(both + note, line, len);
    write_once(both, note + len);
}

void nx_log_put(const char *line, size_t len)
{
    int saved = errno;

    write_line(line, (len < NX_LOG_ROOM) ? len : NX_LOG_ROOM);
    errno = saved;
}

/* |name| of the level with ": " behind it, or nothing. */
static void write_log(const char *name, const char *format, va_list args)
{
    nx_log_prefix prefix = atomic_load(&prefix_now);
    char line[NX_LOG_ROOM] = "nexar: ";
    size_t len = strlen(line), room = sizeof(line) - 1; /* the last one is for '\n' */
    int saved = errno;

    if (prefix != NULL) {
        len += prefix(line + len, room - len);
    }
    len += filled(snprintf(line + len, room - len, "%s%s", name, (name[0] == '\0') ? "" : ": "),
                  room - len);
    len += filled(vsnprintf(line + len, room - len, format, args), room - len);
    nx_clean_text(line, len);
    line[len++] = '\n';
    write_line(line, len);
    errno = saved;
}

void nx_log(nx_log_level level, const char *format, ...)
{
    va_list args;

    if (nx_log_on(level)) {
        va_start(args, format);
        write_log(nx_log_level_name(level), format, args);
        va_end(args);
    }
}

void nx_log_always(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_log("", format, args);
    va_end(args);
}
