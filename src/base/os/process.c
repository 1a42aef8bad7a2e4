/* process.c - identities from /proc, and descriptors of processes. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/text/text.h"
#include "sys.h"

enum { STATE_FIELD = 3, START_FIELD = 22 };

/* Parses the number at the start of |text|, up to a blank. */
static bool read_number(const char *text, uint64_t *out)
{
    char digits[24];
    const size_t len = strcspn(text, " ");

    if (len >= sizeof(digits)) {
        return false;
    }
    memcpy(digits, text, len);
    digits[len] = '\0';
    return nx_parse_uint(digits, out);
}

bool nx_process_stat(const char *path, char *text, size_t room)
{
    const int fd = nx_sys_open(path, O_RDONLY, 0);
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    n = nx_sys_read_all(fd, text, room - 1);
    (void)nx_sys_close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return true;
}

const char *nx_process_field(const char *text, int n)
{
    const char *at = strrchr(text, ')'); /* the second field may contain any character */

    if ((at == NULL) || (at[1] != ' ')) {
        return NULL;
    }
    at += 2;
    for (int field = STATE_FIELD; (field < n) && (at != NULL); field++) {
        at = strchr(at, ' ');
        at = (at == NULL) ? NULL : at + 1;
    }
    return at;
}

bool nx_process_parse(const char *text, nx_process *out)
{
    const char *at = nx_process_field(text, START_FIELD);
    uint64_t pid = 0, started = 0;

    if ((at == NULL) || !read_number(text, &pid) || (pid > INT32_MAX) ||
        !read_number(at, &started)) {
        return false;
    }
    out->pid = (uint32_t)pid;
    out->started = started;
    return true;
}

/* Reads and parses |path|, a stat file of /proc. */
static bool read_stat(const char *path, nx_process *out)
{
    char text[NX_PROCESS_STAT];

    return nx_process_stat(path, text, sizeof(text)) && nx_process_parse(text, out);
}

void nx_process_self(nx_process *out)
{
    nx_process self = {0};
    struct stat ns;

    *out = (nx_process){.pid = (uint32_t)getpid()};
    /* A /proc of another namespace shows another pid for this process. */
    if (read_stat("/proc/self/stat", &self) && (self.pid == out->pid) &&
        (stat("/proc/self/ns/pid", &ns) == 0)) {
        out->space = (uint64_t)ns.st_ino;
        out->started = self.started;
    }
}

/* Reads the identity of the process that has the pid of |p| now. */
static bool read_namesake(const nx_process *p, nx_process *out)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "/proc/%u/stat", p->pid);
    return read_stat(path, out) && (out->pid == p->pid);
}

/* A descriptor of the process with the pid of |p|; -1: with errno, ESRCH if there is none. */
static int open_number(const nx_process *p)
{
    nx_process self;

    nx_process_self(&self);
    if ((p->space == 0) || (p->started == 0) || (p->pid == 0) || (p->pid > INT32_MAX) ||
        (p->space != self.space) || (p->pid == self.pid)) {
        errno = EINVAL;
        return -1;
    }
    return nx_sys_pidfd_open((pid_t)p->pid);
}

int nx_process_open(const nx_process *p)
{
    nx_process now = {0};
    int fd = open_number(p);

    /* The descriptor refers to the process that had the pid at the open. If |p| still has the
     * pid now, the descriptor refers to |p|. */
    if ((fd >= 0) && (!read_namesake(p, &now) || (now.started != p->started))) {
        (void)nx_sys_close(fd);
        fd = -1;
    }
    return fd;
}

bool nx_process_ended(const nx_process *p)
{
    struct pollfd poller = {.fd = open_number(p), .events = POLLIN};
    nx_process now = {0};
    bool ended;

    if (poller.fd < 0) {
        return errno == ESRCH;
    }
    /* The process that had the pid has exited: it was |p| or a later one. */
    ended = (nx_sys_poll(&poller, 1, 0) == 1) ||
            (read_namesake(p, &now) && (now.started != p->started));
    (void)nx_sys_close(poller.fd);
    return ended;
}
