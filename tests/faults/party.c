/* party.c - processes of a test. */
#include "party.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

enum { LINKED_MOST = 16, LINK_TAG = 1 << 20 };

/* ---- processes ------------------------------------------------------------------------------- */

bool nxt_process_start(nxt_process *p, const nxt_hosts *hosts, int host)
{
    const struct rlimit no_core = {0};
    const pid_t parent = getpid();

    p->said = memfd_create("said", MFD_CLOEXEC);
    p->pid = fork();
    if (p->pid != 0) {
        return true;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(p->said, STDERR_FILENO);
    nxt_hosts_enter(hosts, host);
    return false;
}

void nxt_process_tell(const nxt_process *p)
{
    char text[8192];
    const off_t all = (p->said > 0) ? lseek(p->said, 0, SEEK_END) : 0;
    const off_t from = (all > (off_t)sizeof(text) - 1) ? all - (off_t)sizeof(text) + 1 : 0;
    const ssize_t n = (all > 0) ? pread(p->said, text, sizeof(text) - 1, from) : 0;

    text[(n > 0) ? n : 0] = '\0';
    (void)fprintf(stderr, "%s%s", (from > 0) ? "... " : "", text);
}

void nxt_process_end(nxt_process *p, int *status)
{
    if (p->pid != 0) {
        (void)kill(p->pid, SIGKILL);
        (void)waitpid(p->pid, status, 0);
    }
    if (p->said > 0) {
        (void)close(p->said);
    }
    *p = (nxt_process){0};
}

/* The parent of |pid|; 0: it has ended. */
static pid_t parent_of(const char *pid)
{
    char path[300], line[512] = "";
    const char *at;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%s/stat", pid);
    f = fopen(path, "re");
    if (f != NULL) {
        (void)!fgets(line, sizeof(line), f);
        (void)fclose(f);
    }
    at = strrchr(line, ')'); /* "12 (name) S 1 ..."; the name may contain any character */
    return ((at == NULL) || (at[1] == '\0') || (at[2] == 'Z') || (at[2] == 'X'))
               ? 0
               : (pid_t)strtol(at + 3, NULL, 10);
}

pid_t nxt_find_child(pid_t but)
{
    DIR *d = opendir("/proc");
    struct dirent *entry;
    pid_t found = 0;

    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread has this one
    while ((found == 0) && (d != NULL) && ((entry = readdir(d)) != NULL)) {
        const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

        if ((pid > 0) && (pid != but) && (parent_of(entry->d_name) == getpid())) {
            found = pid;
        }
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return found;
}

/* ---- settings --------------------------------------------------------------------------- */

void nxt_set(const char *name, const char *value)
{
    char variable[64] = "NEXAR_";
    size_t n = strlen(variable);

    for (; (*name != '\0') && (n + 1 < sizeof(variable)); name++) {
        variable[n++] = (char)((*name >= 'a') ? *name - 'a' + 'A' : *name);
    }
    variable[n] = '\0';
    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    (void)setenv(variable, value, 1);
}

void nxt_set_all(const char *settings)
{
    char copy[256], *rest = NULL;

    (void)snprintf(copy, sizeof(copy), "%s", settings);
    for (char *at = strtok_r(copy, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(at, '=');

        if (value != NULL) {
            *value++ = '\0';
            nxt_set(at, value);
        }
    }
}

_Noreturn void nxt_be_seed(nxt_seed_place *place, int ranks)
{
    nexar_config *cfg = NULL;
    nexar_seed *seed = NULL;
    char size[16];

    (void)snprintf(size, sizeof(size), "%d", ranks);
    if ((nexar_config_create(&cfg) != NEXAR_OK) ||
        (nexar_config_set(cfg, "world_size", size) != NEXAR_OK) ||
        (nexar_seed_start(cfg, &seed) != NEXAR_OK) ||
        (nexar_seed_join_string(seed, place->join, sizeof(place->join)) != NEXAR_OK)) {
        (void)fprintf(stderr, "the seed: %s\n", nexar_last_error());
        _exit(1);
    }
    atomic_store(&place->ready, true);
    for (;;) {
        (void)pause();
    }
}

/* ---- time and resources ----------------------------------------------------------------- */

/* All at once: otherwise a process could wait for one that has met an error and sends no more. */
nexar_err nxt_link_all(nexar_comm *w)
{
    const int n = nexar_size(w), me = nexar_rank(w);
    static char out, in[LINKED_MOST];
    nexar_request *requests[2 * LINKED_MOST];
    size_t begun = 0;
    nexar_err err = NEXAR_OK, ended;

    for (int rank = 0; (err == NEXAR_OK) && (rank < n) && (rank < LINKED_MOST); rank++) {
        if (rank == me) {
            continue;
        }
        err = nexar_irecv(w, &in[rank], 1, rank, LINK_TAG, &requests[begun]);
        begun += (err == NEXAR_OK);
        if (err == NEXAR_OK) {
            err = nexar_isend(w, &out, 1, rank, LINK_TAG, &requests[begun]);
            begun += (err == NEXAR_OK);
        }
    }
    ended = nexar_wait_all(begun, requests);
    return (err == NEXAR_OK) ? ended : err;
}

uint64_t nxt_now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void nxt_nap(void)
{
    const struct timespec nap = {.tv_nsec = 50000};

    (void)nanosleep(&nap, NULL);
}

static void path_of(pid_t pid, const char *what, char *path, size_t size)
{
    (void)snprintf(path, size, "/proc/%d/%s", (pid == 0) ? (int)getpid() : (int)pid, what);
}

int nxt_open_files(pid_t pid)
{
    int n = (pid == 0) ? -3 : -2; /* ".", "..", and the descriptor of this scan */
    char path[64];
    DIR *d;

    path_of(pid, "fd", path, sizeof(path));
    d = opendir(path);
    if (d == NULL) {
        return -1;
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread has this one
    while (readdir(d) != NULL) {
        n++;
    }
    (void)closedir(d);
    return n;
}

void nxt_name_files(char *text, size_t size)
{
    size_t at = 0;

    text[0] = '\0';
    for (int fd = 0; (fd < 256) && (at + 1 < size); fd++) {
        char path[64], target[64];
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n > 0) {
            at += (size_t)snprintf(text + at, size - at, " %d=%.*s", fd, (int)n, target);
        }
    }
}

long nxt_resident_kib(pid_t pid)
{
    char path[64], line[128] = "", *rest = line;
    FILE *f;

    path_of(pid, "statm", path, sizeof(path));
    f = fopen(path, "re");
    if (f == NULL) {
        return -1;
    }
    (void)fgets(line, sizeof(line), f);
    (void)fclose(f);
    (void)strtol(line, &rest, 10); /* the first number is the size, the second the resident part */
    return strtol(rest, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
}
