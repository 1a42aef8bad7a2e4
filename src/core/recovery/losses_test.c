/*
 * losses_test.c - one rank after another fails, and the others continue each time: the survivors
 * lose no memory and no descriptors.
 *
 * The test compares the heap in use after the second recovery and after the last: the first two
 * allocate memory that is kept for the next ones.  With each failed rank the heap shrinks, by 3 to
 * 7 KiB with shared memory and by 100 with QUIC.
 */
#include <dirent.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "sanitized.h"
#include "unit.h"

enum { RANKS = 8, LOSSES = 6, WARM = 2, SMALL = 16, SETTLED = 20 };

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int rebuilt[LOSSES + 1];  /* ranks that continue, after each loss; 0: initially */
    _Atomic int measured[LOSSES + 1]; /* and have measured their memory */
    _Atomic long grown, grown_fds;    /* the maximum over all, at the end */
} board;

typedef enum way { SHRINK, UPDATE, AUTOMATIC } way;

static board *shared;
static way current;

/* ---- resources of a process --------------------------------------------------------------- */

static long heap_bytes(void)
{
    const struct mallinfo2 m = mallinfo2();

    return (long)(m.uordblks + m.hblkhd);
}

static long open_files(void)
{
    DIR *d = opendir("/proc/self/fd");
    long n = 0;

    // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread has this one
    while ((d != NULL) && (readdir(d) != NULL)) {
        n++;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return n;
}

static void note_most(_Atomic long *most, long n)
{
    long old = atomic_load(most);

    while ((old < n) && !atomic_compare_exchange_weak(most, &old, n)) {
    }
}

/* ---- a rank ----------------------------------------------------------------------------- */

static bool is_failure(nexar_err err)
{
    return (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED);
}

/* One step towards a communicator of the survivors. */
static void go_without(nexar_comm **world, nexar_comm **c)
{
    nexar_comm *next = NULL;

    if (current == SHRINK) {
        NXT_OK(*world, nexar_comm_revoke(*c));
        NXT_OK(*world, nexar_comm_shrink(*c, &next));
        if (*c != *world) {
            nexar_comm_free(*c);
        }
        *c = next;
    } else if (current == UPDATE) {
        NXT_OK(*world, nexar_comm_update(world, NULL));
        *c = *world;
    }
}

/* Repeats until there are |size| ranks and some steps were correct. */
static void lose_one(nexar_comm **world, nexar_comm **c, int size)
{
    int right = 0;

    while (right < SETTLED) {
        nexar_err err = nxt_sum_all(*c, SMALL);

        NXT_IS(*world, (err == NEXAR_OK) || is_failure(err));
        if (err != NEXAR_OK) {
            go_without(world, c);
        }
        right += (err == NEXAR_OK) && (nexar_size(*c) == size);
    }
}

static void child(int rank, int join_fd, void *arg)
{
    static const char *const automatic[] = {"recovery", "automatic", NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, (current == AUTOMATIC) ? automatic : NULL);
    nexar_comm *c = w;
    long heap = 0, files = 0;

    (void)arg;
    for (int lost = 0; lost <= LOSSES; lost++) {
        lose_one(&w, &c, RANKS - lost);
        /* No rank continues while another inspects its memory. */
        atomic_fetch_add(&shared->rebuilt[lost], 1);
        nxt_await(&shared->rebuilt[lost], RANKS - lost);
        if (lost == WARM) {
            heap = heap_bytes();
            files = open_files();
        } else if (lost == LOSSES) {
            note_most(&shared->grown, heap_bytes() - heap);
            note_most(&shared->grown_fds, open_files() - files);
        }
        atomic_fetch_add(&shared->measured[lost], 1);
        nxt_await(&shared->measured[lost], RANKS - lost);
    }
    if (c != w) {
        nexar_comm_free(c);
    }
    NXT_OK(w, nexar_finalize(w));
    exit(0); // NOLINT(concurrency-mt-unsafe): not _exit, leaks are looked for there
}

/* ---- cases ------------------------------------------------------------------------------ */

/* The allowed growth of the heap in bytes: messages in flight may add some. */
static long grown_most(void)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
    const char *transports = getenv("NEXAR_TRANSPORTS");
    const bool quic = (transports != NULL) && (strcmp(transports, "quic") == 0);

    if (NXT_SANITIZED) {
        return LONG_MAX; /* the heap tells nothing; LeakSanitizer detects leaks */
    }
    return quic ? -(LOSSES - WARM) * (50L << 10) : 16L << 10;
}

static void lose_one_after_another(way how, const char *name)
{
    static const int order[LOSSES] = {7, 0, 6, 1, 5, 2}; /* the leader is among them */
    unsigned killed = 0;
    nxt_procs procs;

    current = how;
    shared = nxt_share(sizeof(*shared));
    atomic_store(&shared->grown, LONG_MIN);
    atomic_store(&shared->grown_fds, LONG_MIN);
    nxt_procs_start(&procs, RANKS, child, NULL);
    for (int i = 0; i < LOSSES; i++) {
        nxt_await(&shared->measured[i], RANKS - i);
        nxt_procs_signal(&procs, 1U << order[i], SIGKILL);
        killed |= 1U << order[i];
    }
    nxt_procs_wait(&procs, killed, 0);
    printf("%-9s %ld bytes and %ld descriptors more after %d losses than after %d\n", name,
           shared->grown, shared->grown_fds, LOSSES, WARM);
    assert_true(shared->grown <= grown_most());
    assert_true(shared->grown_fds <= 0);
    nxt_unshare(shared, sizeof(*shared));
}

static void test_losses_cost_nothing_by_shrink(void **state)
{
    (void)state;
    lose_one_after_another(SHRINK, "shrink");
}

static void test_losses_cost_nothing_by_update(void **state)
{
    (void)state;
    lose_one_after_another(UPDATE, "update");
}

static void test_losses_cost_nothing_by_automatic_recovery(void **state)
{
    (void)state;
    lose_one_after_another(AUTOMATIC, "automatic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_cost_nothing_by_shrink),
        cmocka_unit_test(test_losses_cost_nothing_by_update),
        cmocka_unit_test(test_losses_cost_nothing_by_automatic_recovery),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
