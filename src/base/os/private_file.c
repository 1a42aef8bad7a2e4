/*
 * private_file.c - files for secrets.
 *
 * Writing: a new file of a random name is created in the directory of the path (O_EXCL, 0600),
 * written, synced, and renamed over the path. rename(2) replaces a name, whatever the name refers
 * to, and follows no link. So the secret reaches no inode but the new one, even if another user
 * changes the name between the check and the rename. The check only provides the error message.
 *
 * Reading: the descriptor is checked, not the name.
 */
#include "private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "sys.h"

enum { TEMPORARY_ROOM = 32, ATTEMPTS = 16 };

/* ---- messages ------------------------------------------------------------------------ */

static nexar_err cannot(const char *verb, const char *what, const char *path, int code)
{
    char call[96];

    (void)snprintf(call, sizeof(call), "cannot %s %s", verb, what);
    return nx_fail_sys(call, path, code);
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "a symbolic link";
    case S_IFIFO:
        return "a FIFO";
    case S_IFDIR:
        return "a directory";
    case S_IFSOCK:
        return "a socket";
    default:
        return "a device";
    }
}

/* Checks that |st|, the status of |path|, is a regular file of this user. */
static nexar_err check_ours(const char *verb, const char *what, const char *path,
                            const struct stat *st)
{
    if (!S_ISREG(st->st_mode)) {
        return nx_fail(NEXAR_EINVAL, "cannot %s %s: %s is %s; give the name of a regular file",
                       verb, what, path, kind_of(st->st_mode));
    }
    if (st->st_uid != geteuid()) {
        return nx_fail(NEXAR_EAUTH,
                       "cannot %s %s: %s belongs to another user (%u; this process is of user %u); "
                       "remove it, or give another name",
                       verb, what, path, (unsigned)st->st_uid, (unsigned)geteuid());
    }
    return NEXAR_OK;
}

/* ---- writing ------------------------------------------------------------------------- */

/* Opens the directory of |path|; |*name| is the last component. -1 with errno. */
static int open_directory(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    char *folder = nx_strdup((slash == NULL) ? "." : path);
    int fd;

    if (folder == NULL) {
        errno = ENOMEM;
        return -1;
    }
    if (slash != NULL) {
        folder[slash - path + 1] = '\0';
    }
    *name = (slash == NULL) ? path : slash + 1;
    fd = nx_sys_open(folder, O_RDONLY | O_DIRECTORY, 0);
    nx_free(folder);
    return fd;
}

/* Creates a file in |dir|; |name| is its name. -1 with errno. */
static int create(int dir, char name[TEMPORARY_ROOM])
{
    int fd = -1;

    errno = EEXIST;
    for (int i = 0; (fd < 0) && (errno == EEXIST) && (i < ATTEMPTS); i++) {
        uint64_t random;

        if (nx_sys_random(&random, sizeof(random)) != 0) {
            return -1;
        }
        (void)snprintf(name, TEMPORARY_ROOM, ".nexar-%016" PRIx64, random);
        fd = nx_sys_openat(dir, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    return fd;
}

/* Returns the errno of the call that failed; 0: the data is on disk. Closes |fd|. */
static int fill(int fd, const void *bytes, size_t len)
{
    /* An umask may have removed permission bits of the owner. */
    const bool good = (fchmod(fd, 0600) == 0) && (nx_sys_write_all(fd, bytes, len) == 0) &&
                      (nx_sys_fsync(fd) == 0);
    const int code = good ? 0 : errno;

    return ((nx_sys_close(fd) != 0) && good) ? errno : code;
}

/* The new name is on disk when its directory is. Some file systems cannot sync a directory. */
static int sync_directory(int dir)
{
    return ((nx_sys_fsync(dir) == 0) || (errno == EINVAL) || (errno == EROFS)) ? 0 : errno;
}

static int replace(int dir, const char *name, const void *bytes, size_t len)
{
    char temporary[TEMPORARY_ROOM];
    int fd = create(dir, temporary), code;

    if (fd < 0) {
        return errno;
    }
    code = fill(fd, bytes, len);
    if ((code == 0) && (renameat(dir, temporary, dir, name) != 0)) {
        code = errno;
    }
    if (code != 0) {
        (void)unlinkat(dir, temporary, 0);
        return code;
    }
    return sync_directory(dir);
}

nexar_err nx_private_file_write(const char *what, const char *path, const void *bytes, size_t len)
{
    const char *name = NULL;
    struct stat st;
    nexar_err err = NEXAR_OK;
    const int dir = open_directory(path, &name);

    if (dir < 0) {
        return cannot("write", what, path, errno);
    }
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        err = check_ours("write", what, path, &st);
    }
    if (err == NEXAR_OK) {
        const int code = replace(dir, name, bytes, len);

        err = (code == 0) ? NEXAR_OK : cannot("write", what, path, code);
    }
    (void)nx_sys_close(dir);
    return err;
}

bool nx_private_file_exposed(const char *path)
{
    const char *name;
    struct stat st = {0};
    const int dir = open_directory(path, &name);

    if (dir >= 0) {
        (void)fstat(dir, &st);
        (void)nx_sys_close(dir);
    }
    return ((st.st_mode & S_IWOTH) != 0) && ((st.st_mode & S_ISVTX) == 0);
}

/* ---- reading ------------------------------------------------------------------------- */

static nexar_err check_readable(int fd, const char *what, const char *path, size_t most,
                                size_t *size)
{
    struct stat st;
    nexar_err err;

    if (fstat(fd, &st) != 0) {
        return cannot("read", what, path, errno);
    }
    err = check_ours("read", what, path, &st);
    if (err != NEXAR_OK) {
        return err;
    }
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        return nx_fail(NEXAR_EAUTH,
                       "cannot read %s: %s holds a secret and others may use it: if nobody has, "
                       "chmod 600 it; otherwise remove it",
                       what, path);
    }
    if ((st.st_size < 0) || ((uint64_t)st.st_size > most)) {
        return nx_fail(NEXAR_EINVAL, "cannot read %s: %s is too long; give another name", what,
                       path);
    }
    *size = (size_t)st.st_size;
    return NEXAR_OK;
}

static nexar_err read_open(int fd, const char *what, const char *path, size_t most, uint8_t **bytes,
                           size_t *len)
{
    size_t size = 0;
    ssize_t n;
    uint8_t *made;
    nexar_err err = check_readable(fd, what, path, most, &size);

    if (err != NEXAR_OK) {
        return err;
    }
    made = nx_zalloc(size + 1);
    if (made == NULL) {
        return nx_fail_nomem(what);
    }
    n = nx_sys_read_all(fd, made, size);
    if (n < 0) {
        err = cannot("read", what, path, errno);
        explicit_bzero(made, size);
        nx_free(made);
        return err;
    }
    *bytes = made;
    *len = (size_t)n;
    return NEXAR_OK;
}

/* open(2) may have rejected a link at the end of the path, or any component before it. */
static nexar_err not_opened(const char *what, const char *path, int code)
{
    struct stat st;

    if ((code == ELOOP) && (lstat(path, &st) == 0)) {
        const nexar_err err = check_ours("read", what, path, &st);

        if (err != NEXAR_OK) {
            return err;
        }
    }
    return cannot("read", what, path, code);
}

nexar_err nx_private_file_read(const char *what, const char *path, size_t most, uint8_t **bytes,
                               size_t *len, bool *there)
{
    nexar_err err;
    /* The flags keep a FIFO or a terminal at |path| from having an effect before it is rejected. */
    const int fd = nx_sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

    *there = false;
    if (fd < 0) {
        return (errno == ENOENT) ? NEXAR_OK : not_opened(what, path, errno);
    }
    err = read_open(fd, what, path, most, bytes, len);
    (void)nx_sys_close(fd);
    *there = (err == NEXAR_OK);
    return err;
}
