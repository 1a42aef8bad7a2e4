/* log.c - each line is formatted in its own buffer and written by one call. */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <nexar.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "base/text/text.h"

enum { PATIENCE_NS = 100000000 };

_Static_assert(((int)NX_LOG_ERROR == (int)NEXAR_LOG_ERROR) &&
                   ((int)NX_LOG_WARN == (int)NEXAR_LOG_WARN) &&
                   ((int)NX_LOG_INFO == (int)NEXAR_LOG_INFO) &&
                   ((int)NX_LOG_DEBUG == (int)NEXAR_LOG_DEBUG),
               "levels are the public ones");

static _Atomic int level_now = NX_LOG_WARN;
static _Atomic unsigned missing; /* lines that stderr did not accept */
static _Atomic(nx_log_prefix) prefix_now;

/* The function that receives lines instead of stderr, read and called with the lock. |diverted|
 * tells without the lock whether one is set. */
static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static nexar_log_fn sink;
static void *sink_arg;
static atomic_bool diverted;

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

/* The number of the |room| bytes that snprintf has filled; its result |wanted| may be larger. */
static size_t filled(int wanted, size_t room)
{
    if (wanted < 0) {
        return 0;
    }
    return ((size_t)wanted < room) ? (size_t)wanted : room - 1;
}

/* Whether stderr accepts a line now. An error, such as a pipe without a reader, counts as no. */
static bool is_taken(bool missed)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

    return (nx_sys_poll(&p, 1, missed ? 0 : PATIENCE_NS) == 1) && (p.revents == POLLOUT);
}

/* Another process may fill the pipe after the poll, and this write would block. O_NONBLOCK
 * belongs to the open file description, which other processes share, so a pipe is reopened. -1:
 * stderr needs no reopening, or cannot be reopened. */
static int reopen_pipe(void)
{
    struct stat st;

    return ((fstat(STDERR_FILENO, &st) == 0) && S_ISFIFO(st.st_mode))
               ? nx_sys_open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK, 0)
               : -1;
}

/* Without SIGPIPE: a log without a reader does not end a rank. */
static bool write_unsignalled(int fd, const char *line, size_t len)
{
    const struct timespec now = {0};
    sigset_t pipe_only, before, pending;
    bool written;

    (void)sigemptyset(&pipe_only);
    (void)sigaddset(&pipe_only, SIGPIPE);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    written = (nx_sys_write_all(fd, line, len) == 0);
    if (!written && (errno == EPIPE) && (sigismember(&pending, SIGPIPE) == 0)) {
        (void)sigtimedwait(&pipe_only, NULL, &now);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written;
}

static bool write_once(const char *line, size_t len)
{
    const int fd = reopen_pipe();
    const bool written = write_unsignalled((fd < 0) ? STDERR_FILENO : fd, line, len);

    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
    return written;
}

static void write_line(const char *line, size_t len)
{
    char both[NX_LOG_ROOM + 96];
    const unsigned n = atomic_exchange(&missing, 0);
    size_t note;

    if (n > 0) {
        note = filled(snprintf(both, sizeof(both) - len,
                               "nexar: %u lines are missing here: nobody took them\n", n),
                      sizeof(both) - len);
        memcpy(both + note, line, len);
        line = both;
        len += note;
    }
    if (!is_taken(n > 0) || !write_once(line, len)) {
        atomic_fetch_add(&missing, n + 1);
    }
}

void nexar_set_log(nexar_log_fn fn, void *arg)
{
    (void)pthread_mutex_lock(&sink_lock);
    sink = fn;
    sink_arg = arg;
    atomic_store(&diverted, fn != NULL);
    (void)pthread_mutex_unlock(&sink_lock);
}

/* Passes |line|, which ends with '\n' and is modified, to the program's function. False: the
 * program has set none. */
static bool divert(nx_log_level level, char *line, size_t len)
{
    bool taken;

    if (!atomic_load(&diverted)) {
        return false;
    }
    (void)pthread_mutex_lock(&sink_lock);
    taken = (sink != NULL);
    if (taken) {
        line[len - 1] = '\0';
        sink((nexar_log_level)level, line, sink_arg);
        line[len - 1] = '\n';
    }
    (void)pthread_mutex_unlock(&sink_lock);
    return taken;
}

void nx_log_put(const char *line, size_t len)
{
    int saved = errno;

    write_line(line, (len < NX_LOG_ROOM) ? len : NX_LOG_ROOM);
    errno = saved;
}

/* |name| of the level with ": " behind it, or nothing. */
static void write_log(nx_log_level level, const char *name, const char *format, va_list args)
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
    len += nx_sentence_v(line + len, room - len, format, args);
    nx_clean_text(line, len);
    line[len++] = '\n';
    if (!divert(level, line, len)) {
        write_line(line, len);
    }
    errno = saved;
}

void nx_log(nx_log_level level, const char *format, ...)
{
    va_list args;

    if (nx_log_on(level)) {
        va_start(args, format);
        write_log(level, nx_log_level_name(level), format, args);
        va_end(args);
    }
}

void nx_log_always(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    write_log(NX_LOG_INFO, "", format, args);
    va_end(args);
}
