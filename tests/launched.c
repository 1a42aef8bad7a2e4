/*
 * launched.c - a rank that a launcher has started: says which it is, and ends first or last.
 *
 *     launched [first|last|again|never|mpi LIBRARY|under LIBRARY]
 *
 * first: rank 0, which has the seed, finalizes and exits while the others work on.  last: the
 * others do.  again: there is a second world after the first.  never: rank 1 does not join.
 * mpi: the program calls MPI_Init while it has a world; under: it has a world inside of MPI.
 */
#include <nexar.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { TAG_PIDS = 1, MOST = 64 };

static void fail(const char *what)
{
    (void)fprintf(stderr, "launched: %s: %s\n", what, nexar_last_error());
    _exit(1);
}

static void check(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        fail(what);
    }
}

/* All ranks of |comm| are there: the sum of their numbers is right. */
static void sum(nexar_comm *comm)
{
    const int64_t n = nexar_size(comm), mine = nexar_rank(comm);
    int64_t total = -1;

    check(nexar_allreduce(comm, &mine, &total, 1, NEXAR_I64, NEXAR_SUM), "allreduce");
    if (total != n * (n - 1) / 2) {
        fail("the sum is wrong");
    }
}

/* Whether the process runs: one that its launcher has not reaped does not. */
static bool runs(pid_t pid)
{
    char path[64], state = 'Z';
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (f == NULL) {
        return false;
    }
    if (fscanf(f, "%*d %*[^)]) %c", &state) != 1) {
        state = 'Z';
    }
    (void)fclose(f);
    return state != 'Z';
}

static void await_end(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 5000000};

    while (runs(pid)) {
        (void)nanosleep(&pause, NULL);
    }
}

/* The ranks of |early| end; the others wait for that, work on without them, and end. */
static void end_by_turns(nexar_comm *world, bool early)
{
    const int32_t mine = getpid();
    int32_t pids[MOST] = {0};
    nexar_comm *half = NULL;

    check(nexar_comm_split(world, early ? 0 : 1, nexar_rank(world), &half), "split");
    check(nexar_allgather(world, &mine, pids, 1, NEXAR_I32), "allgather");
    if (!early) {
        const bool without_zero = (nexar_rank(world) != 0);

        for (int rank = 0; rank < nexar_size(world); rank++) {
            if ((rank == 0) == without_zero) {
                await_end(pids[rank]);
            }
        }
        sum(half);
    }
    nexar_comm_free(half);
}

static nexar_comm *join(void)
{
    nexar_comm *world = NULL;

    check(nexar_init(NULL, &world), "init");
    sum(world);
    (void)printf("rank %d of %d\n", nexar_rank(world), nexar_size(world));
    (void)fflush(stdout);
    return world;
}

/* Calls the function |name| of MPI, whose library is in the process: nothing is built with it. */
static void call_mpi(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL), *found = NULL;
    int (*function)(void *, void *);

    if (handle != NULL) {
        found = dlsym(handle, name);
    }
    if (found == NULL) {
        (void)fprintf(stderr, "launched: %s: there is no %s\n", library, name);
        _exit(3);
    }
    memcpy(&function, &found, sizeof(function));
    (void)function(NULL, NULL);
}

/* As the launcher says: there is no world yet. */
static bool is_rank_1(void)
{
    const char *rank = getenv("PMI_RANK"); // NOLINT(concurrency-mt-unsafe)

    if (rank == NULL) {
        rank = getenv("PMIX_RANK"); // NOLINT(concurrency-mt-unsafe)
    }
    return (rank != NULL) && (strcmp(rank, "1") == 0);
}

int main(int argc, char **argv)
{
    const char *how = (argc > 1) ? argv[1] : "";
    nexar_comm *world;

    if ((strcmp(how, "never") == 0) && is_rank_1()) {
        return pause(); /* until the launcher ends it */
    }
    if (strcmp(how, "under") == 0) {
        call_mpi(argv[2], "MPI_Init");
    }
    world = join();
    if (strcmp(how, "mpi") == 0) {
        call_mpi(argv[2], "MPI_Init");
    }
    if (strcmp(how, "first") == 0) {
        end_by_turns(world, nexar_rank(world) == 0);
    } else if (strcmp(how, "last") == 0) {
        end_by_turns(world, nexar_rank(world) != 0);
    }
    check(nexar_finalize(world), "finalize");
    if ((strcmp(how, "mpi") == 0) || (strcmp(how, "under") == 0)) {
        call_mpi(argv[2], "MPI_Finalize");
    }
    if (strcmp(how, "again") == 0) {
        check(nexar_finalize(join()), "finalize again");
    }
    return 0;
}
