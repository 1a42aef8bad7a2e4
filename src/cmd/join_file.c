/* join_file.c - the join string in a file. */
#include "cmd/join_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

nexar_err nx_join_file_write(const char *path, const char *join)
{
    char temporary[4096];
    int len = snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    int fd;
    bool good;

    if ((len < 0) || ((size_t)len >= sizeof(temporary))) {
        return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0) {
        return nx_fail_sys("cannot write the join file", path, errno);
    }
    good = (fchmod(fd, 0600) == 0) && (dprintf(fd, "%s\n", join) > 0) && (fsync(fd) == 0);
    if ((close(fd) != 0) || !good || (rename(temporary, path) != 0)) {
        int code = errno;

        (void)unlink(temporary);
        return nx_fail_sys("cannot write the join file", path, code);
    }
    return NEXAR_OK;
}
