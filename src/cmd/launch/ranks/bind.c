/* bind.c - cores from the affinity mask and from the kernel's sibling lists. */
#include "bind.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

/* Adds "0-1,4" to |set|. */
static void add_list(const char *at, cpu_set_t *set)
{
    while ((*at >= '0') && (*at <= '9')) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;

        if (*end == '-') {
            last = strtoul(end + 1, &end, 10);
        }
        for (; (first <= last) && (first < CPU_SETSIZE); first++) {
            CPU_SET(first, set);
        }
        at = (*end == ',') ? end + 1 : end;
    }
}

/* The hardware threads of the core of |cpu|; at least |cpu|. */
static void siblings(unsigned cpu, cpu_set_t *set)
{
    char path[96], line[4096];
    FILE *file;

    (void)snprintf(path, sizeof(path),
                   "/sys/devices/system/cpu/cpu%u/topology/thread_siblings_list", cpu);
    CPU_ZERO(set);
    CPU_SET(cpu, set);
    file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    if (fgets(line, sizeof(line), file) != NULL) {
        add_list(line, set);
    }
    (void)fclose(file);
}

nexar_err nx_bind_init(nx_bind *b)
{
    cpu_set_t left, core;

    *b = (nx_bind){0};
    if (sched_getaffinity(0, sizeof(left), &left) != 0) {
        return nx_fail_sys("--bind core: sched_getaffinity", "", errno);
    }
    b->cores = nx_calloc((size_t)CPU_COUNT(&left), sizeof(*b->cores));
    if (b->cores == NULL) {
        return nx_fail_nomem("the cores");
    }
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &left)) {
            siblings(cpu, &core);
            CPU_AND(&b->cores[b->n], &core, &left);
            CPU_XOR(&left, &left, &b->cores[b->n]);
            b->n++;
        }
    }
    return NEXAR_OK;
}

void nx_bind_fini(nx_bind *b)
{
    nx_free(b->cores);
    *b = (nx_bind){0};
}

const cpu_set_t *nx_bind_core(const nx_bind *b, uint32_t i)
{
    return &b->cores[i % b->n];
}
