/* machine.c - probes of the machine; a value that cannot be read is "unknown". */
#include "cmd/machine.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/os/sys.h"

const char *nx_machine_compiler(char *buf)
{
#if defined(__clang__)
    (void)snprintf(buf, NX_MACHINE_ROOM, "%s", __VERSION__); /* contains its name */
#else
    (void)snprintf(buf, NX_MACHINE_ROOM, "gcc %s", __VERSION__);
#endif
    return buf;
}

/* The text after "model name : " of the first processor that has one. */
static void read_model(char *model, size_t room)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[NX_MACHINE_ROOM];

    (void)snprintf(model, room, "model unknown");
    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        const char *colon = strstr(line, ": ");

        if ((strncmp(line, "model name", 10) == 0) && (colon != NULL)) {
            (void)snprintf(model, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

const char *nx_machine_cpu(char *buf)
{
    struct utsname name;
    char model[NX_MACHINE_ROOM / 2];

    read_model(model, sizeof(model));
    (void)snprintf(buf, NX_MACHINE_ROOM, "%.64s, %s",
                   (uname(&name) == 0) ? name.machine : "unknown", model);
    return buf;
}

const char *nx_machine_kernel(char *buf)
{
    struct utsname name;

    if (uname(&name) == 0) {
        (void)snprintf(buf, NX_MACHINE_ROOM, "%.64s %.64s", name.sysname, name.release);
    } else {
        (void)snprintf(buf, NX_MACHINE_ROOM, "unknown");
    }
    return buf;
}

void nx_machine_cores(int *allowed, int *online)
{
    cpu_set_t set;

    *online = (int)sysconf(_SC_NPROCESSORS_ONLN);
    *allowed = (sched_getaffinity(0, sizeof(set), &set) == 0) ? CPU_COUNT(&set) : *online;
}

bool nx_machine_has_memfd(void)
{
    int fd = nx_sys_memfd_create("nexar-probe", 0);

    if (fd < 0) {
        return false;
    }
    (void)nx_sys_close(fd);
    return true;
}
