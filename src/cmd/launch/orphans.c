/* orphans.c - finds children in /proc, since adopted children are not announced. */
#include "cmd/launch/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "base/text/text.h"

/* A killed process exits within milliseconds, even on a loaded machine. The wait for a process
 * that does not exit, for instance of another user, is bounded. */
#define PATIENCE_NS UINT64_C(10000000000)

void nx_orphans_adopt(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The parent of |pid|; 0: unknown. */
static pid_t parent_of(pid_t pid)
{
    char path[64], line[512];
    const char *behind_name;
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    len = fread(line, 1, sizeof(line) - 1, file);
    (void)fclose(file);
    line[len] = '\0';
    /* "12 (name) S 1 ..."; the name may contain any character, also a parenthesis. */
    behind_name = strrchr(line, ')');
    if ((behind_name == NULL) || (strlen(behind_name) < 5)) {
        return 0;
    }
    return (pid_t)strtol(behind_name + 4, NULL, 10); /* behind ") S " */
}

static void kill_children(void)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    uint64_t pid;

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe): DIR is local
        if (nx_parse_uint(entry->d_name, &pid) && (parent_of((pid_t)pid) == getpid())) {
            (void)kill((pid_t)pid, SIGKILL);
        }
    }
    (void)closedir(dir);
}

void nx_orphans_end(void)
{
    const uint64_t give_up = nx_now(&nx_clock_system) + PATIENCE_NS;
    pid_t got;

    while (nx_now(&nx_clock_system) < give_up) {
        got = nx_sys_waitpid(-1, NULL, WNOHANG);
        if (got == 0) {
            kill_children();
            nx_sys_nap(1000000);
        } else if (got < 0) {
            return; /* ECHILD: none is left */
        }
    }
}
