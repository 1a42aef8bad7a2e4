/* join_file.c - the join string in a file. */
#include "cmd/join_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os/private_file.h"
#include "base/os/sys.h"
#include "cluster/join/join_string.h"

enum { TEXT_ROOM = 256 }; /* of a path, so that two paths fit in a message */

/* ---- a descriptor -------------------------------------------------------------------- */

static bool parse_number(const char *text, int *fd)
{
    char *end;
    long value;

    if ((text[0] < '0') || (text[0] > '9')) {
        return false;
    }
    errno = 0;
    value = strtol(text, &end, 10);
    *fd = (int)value;
    return (*end == '\0') && (errno == 0) && (value == *fd);
}

static bool names_descriptor(const char *path, int *fd)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};

    if ((strcmp(path, "-") == 0) || (strcmp(path, "/dev/stdout") == 0)) {
        *fd = STDOUT_FILENO;
        return true;
    }
    if (strcmp(path, "/dev/stderr") == 0) {
        *fd = STDERR_FILENO;
        return true;
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        const size_t len = strlen(folders[i]);

        if (strncmp(path, folders[i], len) == 0) {
            return parse_number(path + len, fd);
        }
    }
    return false;
}

/* All descriptors opened by nexar are close-on-exec; descriptors inherited through exec(2) are
 * not. */
static nexar_err put(int fd, const char *path, const char *line, size_t len)
{
    const int flags = fcntl(fd, F_GETFD);

    if ((flags < 0) || ((flags & FD_CLOEXEC) != 0)) {
        return nx_fail(NEXAR_EINVAL,
                       "cannot write the join file: %.*s: descriptor %d is not open; open it where "
                       "the command starts, as in %d>pipe",
                       (int)TEXT_ROOM, path, fd, fd);
    }
    if (nx_sys_write_all(fd, line, len) != 0) {
        return nx_fail_sys("cannot write the join file", path, errno);
    }
    return ((fd > STDERR_FILENO) && (nx_sys_close(fd) != 0))
               ? nx_fail_sys("cannot write the join file", path, errno)
               : NEXAR_OK;
}

/* ---- a file -------------------------------------------------------------------------- */

static nexar_err put_file(const char *path, const char *line, size_t len)
{
    char why[NX_ERROR_ROOM - 64];
    nexar_err err = nx_private_file_write("the join file", path, line, len);

    if (err == NEXAR_EINVAL) {
        (void)snprintf(why, sizeof(why), "%s", nexar_last_error());
        return nx_fail(err, "%s, or /dev/fd/N for a pipe", why);
    }
    if ((err == NEXAR_OK) && nx_private_file_exposed(path)) {
        nx_log(NX_LOG_WARN,
               "every user can replace the join file %.*s, and so make ranks join another cluster: "
               "its directory is writable for all and has no sticky bit",
               (int)TEXT_ROOM, path);
    }
    return err;
}

nexar_err nx_join_file_write(const char *path, const char *join)
{
    char line[NX_JOIN_STRING_MAX + 1];
    const int len = snprintf(line, sizeof(line), "%s\n", join);
    nexar_err err;
    int fd;

    if ((len < 0) || ((size_t)len >= sizeof(line))) {
        return nx_fail(NEXAR_EINTERNAL, "the join string is too long");
    }
    err = names_descriptor(path, &fd) ? put(fd, path, line, (size_t)len)
                                      : put_file(path, line, (size_t)len);
    explicit_bzero(line, sizeof(line));
    return err;
}
