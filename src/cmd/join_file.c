/* join_file.c - the join string in a file. */
#include "cmd/join_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/sys.h"

enum { PATH_ROOM = 4096, LINKS = 40 };
enum { PAUSE_MS = 20, PATIENCE_MS = 10000 }; /* of FIFOs that nobody reads yet */

/* Where |path| leads, by symbolic links, also to what is not there yet.  NEXAR_EINVAL. */
static nexar_err follow(const char *path, char out[PATH_ROOM])
{
    char target[PATH_ROOM];

    if (strlen(path) >= PATH_ROOM) {
        return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
    }
    memcpy(out, path, strlen(path) + 1);
    for (int i = 0; i < LINKS; i++) {
        const ssize_t len = readlink(out, target, sizeof(target) - 1);
        const char *name = strrchr(out, '/');
        size_t dir = 0;

        if (len < 0) {
            return NEXAR_OK; /* no link */
        }
        target[len] = '\0';
        if ((name != NULL) && (target[0] != '/')) {
            dir = (size_t)(name + 1 - out); /* it begins in the directory of the link */
        }
        if (dir + (size_t)len >= PATH_ROOM) {
            return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
        }
        memcpy(out + dir, target, (size_t)len + 1);
    }
    return nx_fail_sys("cannot write the join file", path, ELOOP);
}

static bool put_line(int fd, const char *join)
{
    return (nx_sys_write_all(fd, join, strlen(join)) == 0) && (nx_sys_write_all(fd, "\n", 1) == 0);
}

/* A file that replaces the one at |path|, if there is one. */
static nexar_err replace(const char *path, const char *join)
{
    char temporary[PATH_ROOM];
    int len = snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    int fd;
    bool good;

    if ((len < 0) || ((size_t)len >= sizeof(temporary))) {
        return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
    }
    fd = nx_sys_mkostemp(temporary);
    if (fd < 0) {
        return nx_fail_sys("cannot write the join file", path, errno);
    }
    good = (fchmod(fd, 0600) == 0) && put_line(fd, join) && (nx_sys_fsync(fd) == 0);
    if ((nx_sys_close(fd) != 0) || !good || (rename(temporary, path) != 0)) {
        int code = errno;

        (void)unlink(temporary);
        return nx_fail_sys("cannot write the join file", path, code);
    }
    return NEXAR_OK;
}

/* Opens a FIFO when somebody reads it, within PATIENCE: whoever starts both cannot know which
 * is first, and signals are not heard meanwhile. */
static int open_straight(const char *path)
{
    int fd = -1;

    for (int waited = 0; waited <= PATIENCE_MS; waited += PAUSE_MS) {
        fd = nx_sys_open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0);
        if ((fd >= 0) || (errno != ENXIO)) {
            return fd;
        }
        nx_sys_nap(PAUSE_MS * UINT64_C(1000000));
    }
    errno = ENXIO;
    return fd;
}

/* Straight to a pipe or a device. */
static nexar_err put(const char *path, const char *join)
{
    const int fd = open_straight(path);
    const bool good = (fd >= 0) && put_line(fd, join);
    const int code = errno;

    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
    if (!good && (code == ENXIO)) {
        return nx_fail(NEXAR_ESYS, "cannot write the join file: %s: nobody reads it", path);
    }
    return good ? NEXAR_OK : nx_fail_sys("cannot write the join file", path, code);
}

nexar_err nx_join_file_write(const char *path, const char *join)
{
    char place[PATH_ROOM];
    struct stat st;
    nexar_err err = follow(path, place);

    if (err != NEXAR_OK) {
        return err;
    }
    /* What is no file must not become one: others have it open, or need it. */
    return ((stat(place, &st) == 0) && !S_ISREG(st.st_mode)) ? put(place, join)
                                                             : replace(place, join);
}
