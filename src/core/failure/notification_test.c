/*
 * notification_test.c - the callback of nexar_on_failure gets each rank that nexar_comm_update
 * removes as failed, once, on all survivors, whichever rank has detected it; ranks that have left
 * are not reported.
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 5, ROUNDS = 6, SMALL = 16 };
static const unsigned VICTIMS = 1U << 1 | 1U << 3;

typedef struct board {
    _Atomic int ready, done, go;
    _Atomic int told[RANKS][RANKS]; /* calls: on which rank, about which rank */
} board;

static board *shared;
static const char *transports;
static bool spoken; /* links exist, at least to the victims */

static void note_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    const int self = *(const int *)arg;

    NXT_IS(comm, strstr(why, "rank ") != NULL);
    atomic_fetch_add(&shared->told[self][rank], 1);
}

/* Does not query failures, but calls the update. */
static void live(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"transports", transports, NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    nexar_change change = {0};
    int self = rank, failed = 0;

    (void)arg;
    NXT_OK(w, nexar_on_failure(w, note_call, &self));
    if (spoken) {
        NXT_OK(w, nxt_sum_all(w, SMALL));
    }
    atomic_fetch_add(&shared->ready, 1);
    while (atomic_load(&shared->go) == 0) {
    }
    while (failed < __builtin_popcount(VICTIMS)) {
        NXT_OK(w, nexar_comm_update(&w, &change));
        failed += change.failed;
        NXT_OK(w, nexar_on_failure(w, note_call, &self));
    }
    NXT_OK(w, nxt_sum_all(w, SMALL));
    NXT_OK(w, nexar_finalize(w)); /* which waits until all were notified */
    atomic_fetch_add(&shared->done, 1);
}

static void lose_some(const char *by, bool after_speaking)
{
    transports = by;
    spoken = after_speaking;
    for (int round = 0; round < ROUNDS; round++) {
        nxt_procs procs;

        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&procs, RANKS, live, NULL);
        nxt_await(&shared->ready, RANKS);
        nxt_procs_signal(&procs, VICTIMS, SIGKILL);
        atomic_store(&shared->go, 1);
        nxt_await(&shared->done, RANKS - __builtin_popcount(VICTIMS));
        nxt_procs_wait(&procs, VICTIMS, 0);
        for (int rank = 0; rank < RANKS; rank++) {
            int calls = 0;

            for (int of = 0; of < RANKS; of++) { /* by their ranks then */
                calls += atomic_load(&shared->told[rank][of]);
            }
            assert_int_equal(calls, ((VICTIMS >> rank) & 1) ? 0 : __builtin_popcount(VICTIMS));
        }
        nxt_unshare(shared, sizeof(*shared));
    }
}

static void test_all_ranks_are_notified_by_shared_memory(void **state)
{
    (void)state;
    lose_some("auto", true);
}

/* The seed knows whether a rank without links has left. */
static void test_all_ranks_are_notified_of_unknown_failures(void **state)
{
    (void)state;
    lose_some("auto", false);
    lose_some("quic", false);
}

static void test_all_ranks_are_notified_by_quic(void **state)
{
    (void)state;
    lose_some("quic", true);
}

/* The victims of the other tests exit at once, and no rank ever had a link to them. */
static void leave_unseen(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"transports", transports, NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    nexar_err err = NEXAR_OK;
    nexar_comm *c = NULL;
    int self = rank;
    size_t n = 0;

    (void)arg;
    NXT_OK(w, nexar_on_failure(w, note_call, &self));
    if ((VICTIMS >> rank) & 1) {
        NXT_OK(w, nexar_finalize(w));
        return;
    }
    nxt_await(&shared->go, 1); /* their processes have ended */
    while (err == NEXAR_OK) {
        err = nxt_sum_all(w, SMALL);
    }
    NXT_IS(w, (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED));
    NXT_OK(w, nexar_comm_revoke(w)); /* not all need have detected it themselves */
    NXT_OK(w, nexar_comm_shrink(w, &c));
    NXT_IS(w, nexar_size(c) == RANKS - __builtin_popcount(VICTIMS));
    NXT_OK(w, nxt_sum_all(c, SMALL));
    NXT_OK(w, nexar_comm_failed(w, NULL, &n));
    NXT_IS(w, n == 0);
    nexar_comm_free(c);
    NXT_OK(w, nexar_finalize(w));
}

static void test_who_leaves_before_anybody_knew_it_has_not_failed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        nxt_procs procs;

        transports = (round % 3 == 0) ? "auto" : (round % 3 == 1) ? "quic" : "tcp";
        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&procs, RANKS, leave_unseen, NULL);
        for (int rank = 0; rank < RANKS; rank++) {
            siginfo_t info;

            if ((VICTIMS >> rank) & 1) {
                assert_int_equal(waitid(P_PID, (id_t)procs.pids[rank], &info, WEXITED | WNOWAIT),
                                 0);
            }
        }
        atomic_store(&shared->go, 1);
        nxt_procs_wait(&procs, 0, 0);
        for (int i = 0; i < RANKS * RANKS; i++) {
            assert_int_equal(atomic_load(&shared->told[i / RANKS][i % RANKS]), 0);
        }
        nxt_unshare(shared, sizeof(*shared));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_are_notified_by_shared_memory),
        cmocka_unit_test(test_all_ranks_are_notified_by_quic),
        cmocka_unit_test(test_all_ranks_are_notified_of_unknown_failures),
        cmocka_unit_test(test_who_leaves_before_anybody_knew_it_has_not_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
