/* cpu.c - migration by a momentary change of the affinity mask. */
#include "base/wait/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/process.h"

uint32_t nx_cpu_current(void)
{
    return (uint32_t)sched_getcpu();
}

uint32_t nx_cpu_least_loaded(uint32_t here, unsigned (*load)(const void *ctx, uint32_t core),
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

bool nx_cpu_migrate(uint32_t core)
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

bool nx_cpu_avoid(uint32_t core)
{
    cpu_set_t others;

    CPU_ZERO(&others);
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (i != core) {
            CPU_SET(i, &others); /* the kernel ignores cores that do not exist */
        }
    }
    return sched_setaffinity(0, sizeof(others), &others) == 0;
}

bool nx_cpu_of(long pid, uint32_t *core)
{
    enum { STATE = 3, CORE = 39 }; /* fields */
    char path[64], text[NX_PROCESS_STAT];
    const char *state, *at;

    (void)snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    if (!nx_process_stat(path, text, sizeof(text))) {
        return false;
    }
    state = nx_process_field(text, STATE);
    at = nx_process_field(text, CORE);
    if ((state == NULL) || (strncmp(state, "R ", 2) != 0) || (at == NULL) || (*at < '0') ||
        (*at > '9')) {
        return false;
    }
    *core = (uint32_t)strtoul(at, NULL, 10);
    return true;
}
