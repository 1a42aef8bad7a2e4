/* secret_file.c - a file of one line that only its owner may read. */
#include "core/launcher/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "base/text/text.h"

/* A file on a network file system announces no change, so it is polled, at growing intervals. */
enum { FIRST_PAUSE_NS = 5000000, LAST_PAUSE_NS = 200000000 };
#define SAY_AFTER_NS UINT64_C(2000000000)

static nexar_err check_file(int fd, const char *path, const char *what)
{
    struct stat st;

    if (fstat(fd, &st) != 0) {
        return nx_fail_sys("stat", path, errno);
    }
    if (!S_ISREG(st.st_mode)) {
        return nx_fail(NEXAR_EINVAL, "%s %s: it is no regular file", what, path);
    }
    if ((st.st_uid != geteuid()) && (st.st_uid != 0)) {
        return nx_fail(NEXAR_EAUTH,
                       "%s %s: it belongs to user %u, neither to this one (%u) nor to "
                       "root; use a file of your own",
                       what, path, (unsigned)st.st_uid, (unsigned)geteuid());
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return nx_fail(NEXAR_EAUTH,
                       "%s %s: it holds a secret and its mode is %03o, so others may use it; chmod "
                       "600 it",
                       what, path, (unsigned)st.st_mode & 0777);
    }
    return NEXAR_OK;
}

/* |*whole|: the line is terminated. */
static nexar_err read_line(int fd, const char *path, const char *what, char *line, size_t size,
                           bool *whole)
{
    const ssize_t len = nx_sys_read_all(fd, line, size);
    char *end;

    if (len < 0) {
        return nx_fail_sys("read", path, errno);
    }
    end = memchr(line, '\n', (size_t)len);
    *whole = (end != NULL);
    if (!*whole && ((size_t)len == size)) {
        return nx_fail(NEXAR_EINVAL, "%s %s: its first line is longer than %zu characters", what,
                       path, size - 1);
    }
    if (end != NULL) {
        *end = '\0';
    }
    return (end == line) ? nx_fail(NEXAR_EINVAL, "%s %s: its first line is empty", what, path)
                         : NEXAR_OK;
}

/* |*found| and |*whole| are its progress. */
static nexar_err look(const char *path, const char *what, char *line, size_t size, bool *found,
                      bool *whole)
{
    const int fd = nx_sys_open(path, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    nexar_err err;

    *found = (fd >= 0);
    *whole = false;
    if (fd < 0) {
        return (errno == ENOENT) ? NEXAR_OK : nx_fail_sys(what, path, errno);
    }
    err = check_file(fd, path, what);
    if (err == NEXAR_OK) {
        err = read_line(fd, path, what, line, size, whole);
    }
    (void)nx_sys_close(fd);
    return err;
}

nexar_err nx_secret_file_read(const char *path, const char *what, uint64_t wait_ns, char *line,
                              size_t size)
{
    const uint64_t start_ns = nx_now(&nx_clock_system);
    uint64_t pause_ns = FIRST_PAUSE_NS;
    bool found = false, whole = false, said = false;
    char number[NX_NUMBER_ROOM];

    for (;;) {
        uint64_t past_ns;
        nexar_err err = look(path, what, line, size, &found, &whole);

        if ((err != NEXAR_OK) || whole) {
            return err;
        }
        past_ns = nx_now(&nx_clock_system) - start_ns;
        if (past_ns >= wait_ns) {
            return nx_fail(NEXAR_ETIMEDOUT, "%s %s: %s%s%s", what, path,
                           found ? "its first line has no end" : "there is no such file",
                           (wait_ns == 0) ? "" : " after ",
                           (wait_ns == 0) ? "" : nx_format_duration(wait_ns, number));
        }
        if (!said && (past_ns >= SAY_AFTER_NS)) {
            said = true;
            nx_log(NX_LOG_WARN, "waiting for the %s %s, up to %s: %s", what, path,
                   nx_format_duration(wait_ns, number),
                   found ? "its first line has no end yet" : "there is no such file yet");
        }
        nx_sys_nap(pause_ns);
        pause_ns = (2 * pause_ns > LAST_PAUSE_NS) ? LAST_PAUSE_NS : 2 * pause_ns;
    }
}
