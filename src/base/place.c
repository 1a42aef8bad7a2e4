/* place.c - moving by the set of cores that a thread may use, for a moment. */
#include "base/place.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint32_t nx_place_here(void)
{
    return (uint32_t)sched_getcpu();
}

uint32_t nx_place_least(uint32_t here, unsigned (*load)(const void *ctx, uint32_t core),
                        const void *ctx)
{
    uint32_t best = here;
    unsigned least = 0;
    cpu_set_t own;

    if (sched_getaffinity(0, sizeof(own), &own) != 0) {
        return here;
    }
    for (uint32_t core = 0; core < CPU_SETSIZE; core++) {
        if ((core != here) && CPU_ISSET(core, &own)) {
            const unsigned its = load(ctx, core);

            if ((best == here) || (its < least)) {
                best = core;
                least = its;
            }
        }
    }
    return best;
}

bool nx_place_go(uint32_t core)
{
    cpu_set_t own, there;

    CPU_ZERO(&there);
    CPU_SET(core, &there);
    if ((sched_getaffinity(0, sizeof(own), &own) != 0) || !CPU_ISSET(core, &own) ||
        (sched_setaffinity(0, sizeof(there), &there) != 0)) {
        return false;
    }
    (void)sched_setaffinity(0, sizeof(own), &own);
    return true;
}

/* Fields of /proc/PID/stat; see proc(5).  The second one may hold anything. */
enum { STATE_FIELD = 3, CORE_FIELD = 39 };

static bool read_stat(char *text, uint32_t *core)
{
    char *at = strrchr(text, ')');

    if ((at == NULL) || (strncmp(at, ") R ", 4) != 0)) {
        return false;
    }
    at += 2;
    for (int field = STATE_FIELD; (field < CORE_FIELD) && (at != NULL); field++) {
        at = strchr(at, ' ');
        at = (at == NULL) ? NULL : at + 1;
    }
    if ((at == NULL) || (*at < '0') || (*at > '9')) {
        return false;
    }
    *core = (uint32_t)strtoul(at, NULL, 10);
    return true;
}

bool nx_place_of(long pid, uint32_t *core)
{
    char text[1024];
    ssize_t n;
    int fd;

    (void)snprintf(text, sizeof(text), "/proc/%ld/stat", pid);
    fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    return read_stat(text, core);
}
