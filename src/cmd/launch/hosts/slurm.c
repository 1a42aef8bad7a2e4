/* slurm.c - the allocation as salloc and sbatch describe it. */
#include "slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "base/text/text.h"

static const char *variable(const char *name)
{
    const char *value = getenv(name); // NOLINT(concurrency-mt-unsafe): before there are threads

    return ((value == NULL) || (value[0] == '\0')) ? NULL : value;
}

/* In an sbatch script and in a salloc shell there is no step, or one of these two. */
static bool in_step(void)
{
    const uint64_t interactive = 0xfffffffa, batch = 0xfffffffb;
    const char *text = variable("SLURM_STEP_ID");
    uint64_t step;

    return (text != NULL) &&
           !(nx_parse_uint(text, &step) && ((step == interactive) || (step == batch)));
}

/* Whether this machine is the only node of the allocation: then the list is its name. */
static bool only_here(const char *nodes)
{
    nx_host_list list = {0};
    const char *name = variable("SLURMD_NODENAME");
    bool here;

    if (strpbrk(nodes, "[,") != NULL) {
        return false;
    }
    here = ((name != NULL) && (strcmp(name, nodes) == 0)) ||
           ((nx_host_list_add(&list, nodes, 1) == NEXAR_OK) && nx_host_is_here(list.hosts[0]));
    nx_host_list_fini(&list);
    return here;
}

bool nx_slurm_allocated(void)
{
    const char *nodes = variable("SLURM_JOB_NODELIST");

    return (variable("SLURM_JOB_ID") != NULL) && (nodes != NULL) && !in_step() && !only_here(nodes);
}

/* ---- numbers ------------------------------------------------------------------------- */

/* Parses "4" or "4(x2)" at |*at| and moves |*at| behind it. */
static bool next_count(const char **at, uint64_t *value, uint64_t *times)
{
    char *end = NULL;

    *times = 1;
    if (!nx_is_digit(**at)) {
        return false;
    }
    *value = strtoull(*at, &end, 10);
    if (strncmp(end, "(x", 2) == 0) {
        if (!nx_is_digit(end[2])) {
            return false;
        }
        *times = strtoull(end + 2, &end, 10);
        if (*end++ != ')') {
            return false;
        }
    }
    *at = end;
    return (*value <= NX_HOST_SLOTS_MAX) && (*times >= 1) && (*times <= NX_HOST_RANKS_MAX);
}

bool nx_slurm_counts(const char *text, uint32_t *out, size_t room, size_t *n)
{
    uint64_t value, times;

    *n = 0;
    do {
        if (!next_count(&text, &value, &times)) {
            return false;
        }
        for (; times > 0; times--, (*n)++) {
            if (*n < room) {
                out[*n] = (uint32_t)value;
            }
        }
    } while (*text++ == ',');
    return text[-1] == '\0';
}

/* ---- names --------------------------------------------------------------------------- */

static nexar_err add_lines(nx_host_list *list, FILE *names)
{
    char line[NX_HOST_MAX + 1];
    nexar_err err = NEXAR_OK;

    while ((err == NEXAR_OK) && (fgets(line, sizeof(line), names) != NULL)) {
        line[strcspn(line, "\n")] = '\0';
        err = nx_host_list_add(list, line, 1);
    }
    return err;
}

static _Noreturn void become_scontrol(const char *nodes, int to)
{
    (void)nx_sys_dup2(to, STDOUT_FILENO);
    (void)execlp("scontrol", "scontrol", "show", "hostnames", nodes, (char *)NULL);
    (void)fprintf(stderr, "nexar run: cannot run scontrol: %s\n",
                  strerror(errno)); // NOLINT(concurrency-mt-unsafe): one thread, after fork
    _exit(127);
}

/* Only Slurm knows all forms of "rack[1-2]n[01-16]". */
static nexar_err add_names(nx_host_list *list, const char *nodes)
{
    int fds[2], status = 0;
    nexar_err err;
    FILE *names;
    pid_t pid;

    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    pid = fork();
    if (pid == 0) {
        become_scontrol(nodes, fds[1]);
    }
    (void)nx_sys_close(fds[1]);
    names = (pid < 0) ? NULL : fdopen(fds[0], "r");
    if (names == NULL) {
        (void)nx_sys_close(fds[0]);
        return nx_fail_sys("scontrol", "", errno);
    }
    err = add_lines(list, names);
    (void)fclose(names);
    (void)nx_sys_waitpid(pid, &status, 0);
    if ((err == NEXAR_OK) && ((status != 0) || (list->n == 0))) {
        err =
            nx_fail(NEXAR_EINVAL, "scontrol show hostnames %s failed; give --hosts instead", nodes);
    }
    return err;
}

/* ---- slots --------------------------------------------------------------------------- */

/* Sets the slots of the hosts from the variable |name|. */
static nexar_err set_slots(nx_host_list *list, const char *name)
{
    const char *text = variable(name);
    uint32_t *counts = nx_calloc(list->n, sizeof(*counts));
    size_t n = 0;
    nexar_err err = NEXAR_OK;

    if (counts == NULL) {
        return nx_fail_nomem("the hosts");
    }
    if ((text == NULL) || !nx_slurm_counts(text, counts, list->n, &n) || (n != list->n)) {
        err = nx_fail(
            NEXAR_EINVAL,
            "%s is %s%s%s, which is not a count for each of %zu nodes; give --hosts instead", name,
            (text == NULL) ? "" : "\"", (text == NULL) ? "not set" : text,
            (text == NULL) ? "" : "\"", list->n);
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        list->hosts[i]->slots = counts[i];
    }
    nx_free(counts);
    return err;
}

nexar_err nx_slurm_hosts(nx_host_list *list, uint64_t n)
{
    const char *nodes = variable("SLURM_JOB_NODELIST");
    /* salloc without -n does not set it: one task per node, as in srun. */
    const bool tasks = variable("SLURM_TASKS_PER_NODE") != NULL;
    nexar_err err = (nodes != NULL) ? add_names(list, nodes)
                                    : nx_fail(NEXAR_EINVAL, "SLURM_JOB_NODELIST is not set");

    if ((err == NEXAR_OK) && tasks) {
        err = set_slots(list, "SLURM_TASKS_PER_NODE");
    }
    if ((err == NEXAR_OK) && (n > nx_host_list_slots(list)) &&
        (variable("SLURM_JOB_CPUS_PER_NODE") != NULL)) {
        err = set_slots(list, "SLURM_JOB_CPUS_PER_NODE");
    }
    return err;
}
