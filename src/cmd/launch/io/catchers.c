/* catchers.c - finds the processes that catch a signal, in /proc. */
#include "catchers.h"

#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text/text.h"

/* The hexadecimal number after |name| in |status|; 0 if there is none. */
static uint64_t mask_of(const char *status, const char *name)
{
    const char *at = strstr(status, name);

    return (at == NULL) ? 0 : strtoull(at + strlen(name), NULL, 16);
}

static bool catches(pid_t pid, int number)
{
    char path[64], status[4096];
    const uint64_t bit = UINT64_C(1) << (number - 1);
    FILE *file;
    size_t len;

    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    len = fread(status, 1, sizeof(status) - 1, file);
    (void)fclose(file);
    status[len] = '\0';
    return ((mask_of(status, "\nSigBlk:\t") | mask_of(status, "\nSigCgt:\t")) & bit) != 0;
}

void nx_catchers_signal(int number, bool (*wanted)(void *ctx, pid_t group), void *ctx)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    uint64_t pid;

    if (dir == NULL) {
        return;
    }
    while ((entry = readdir(dir)) != NULL) { // NOLINT(concurrency-mt-unsafe): DIR is local
        if (nx_parse_uint(entry->d_name, &pid) && wanted(ctx, getpgid((pid_t)pid)) &&
            catches((pid_t)pid, number)) {
            (void)kill((pid_t)pid, number);
        }
    }
    (void)closedir(dir);
}
