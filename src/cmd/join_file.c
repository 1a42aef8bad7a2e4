/* join_file.c - the join string in a file. */
#include "cmd/join_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

static nexar_err cannot_write(const char *path, int code)
{
    return nx_fail_sys("cannot write the join file", path, code);
}

/* A new file beside |path|, whose name is in |name|. */
static nexar_err open_beside(const char *path, char name[PATH_ROOM], int *fd)
{
    int len = snprintf(name, PATH_ROOM, "%s.XXXXXX", path);

    if ((len < 0) || (len >= PATH_ROOM)) {
        return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
    }
    *fd = mkostemp(name, O_CLOEXEC);
    return (*fd < 0) ? cannot_write(path, errno) : NEXAR_OK;
}

nexar_err nx_join_file_clear(const char *path)
{
    char name[PATH_ROOM];
    int fd = -1;
    nexar_err err = open_beside(path, name, &fd);

    if (err != NEXAR_OK) {
        return err;
    }
    (void)close(fd);
    (void)unlink(name);
    if ((unlink(path) != 0) && (errno != ENOENT)) {
        return cannot_write(path, errno);
    }
    return NEXAR_OK;
}

nexar_err nx_join_file_write(const char *path, const char *join)
{
    char name[PATH_ROOM];
    int fd = -1;
    bool good;
    nexar_err err = open_beside(path, name, &fd);

    if (err != NEXAR_OK) {
        return err;
    }
    good = (fchmod(fd, 0600) == 0) && (dprintf(fd, "%s\n", join) > 0) && (fsync(fd) == 0);
    if ((close(fd) != 0) || !good || (rename(name, path) != 0)) {
        int code = errno;

        (void)unlink(name);
        return cannot_write(path, code);
    }
    return NEXAR_OK;
}
