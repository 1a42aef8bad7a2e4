/*
 * excluded_rank_test.c - a rank that was stopped and declared failed learns that on resuming.  Its
 * pending and later calls end with NEXAR_EPEER and the reason; it accuses no rank, and it does not
 * form a world of its own.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 4, VICTIM = 2, TAG = 3, FLOOD = 200, LONG = 1 << 20, SMALL = 16 };
static const char *const HELD = "declared this rank failed: no heartbeat for";

typedef struct board {
    _Atomic int ready, known, told;
    _Atomic int accused; /* calls of the function for failures, on the rank that was declared
                            failed */
} board;

static board *shared;

typedef struct plan {
    const char *transports;
    bool flood; /* many frames are queued for the stopped rank before the verdict */
} plan;

static void note_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)rank;
    (void)why;
    (void)arg;
    if (nexar_rank(comm) == VICTIM) {
        atomic_fetch_add(&shared->accused, 1);
    }
}

/* ---- the excluded rank ---------------------------------------------------------------- */

static void is_out(nexar_comm *w)
{
    nexar_comm *c = NULL;
    uint64_t flags = 1;
    char byte = 0;
    size_t n = 0;

    NXT_SAYS(w, nexar_send(w, &byte, 1, 0, TAG), NEXAR_EPEER, HELD);
    NXT_SAYS(w, nexar_recv(w, &byte, 1, 1, TAG, NULL), NEXAR_EPEER, HELD);
    NXT_SAYS(w, nexar_barrier(w), NEXAR_EPEER, HELD);
    NXT_SAYS(w, nxt_sum_all(w, SMALL), NEXAR_EPEER, HELD);
    NXT_IS(w, nexar_comm_agree(w, &flags) == NEXAR_EPEER);
    NXT_IS(w, nexar_comm_shrink(w, &c) == NEXAR_EPEER);
    NXT_IS(w, nexar_comm_dup(w, &c) == NEXAR_EPEER);
    NXT_OK(w, nexar_comm_failed(w, NULL, &n)); /* no rank but itself, if it counts */
    NXT_IS(w, n <= 1);
}

static void be_stopped(nexar_comm *w)
{
    static const char out[LONG];
    nexar_request *one = NULL, *other = NULL;
    char byte = 0;
    nexar_err err;

    NXT_OK(w, nexar_irecv(w, &byte, 1, 0, TAG + 1, &one));
    NXT_OK(w, nexar_isend(w, out, sizeof(out), 1, TAG + 1, &other)); /* no rank receives it */
    atomic_fetch_add(&shared->ready, 1);
    err = nexar_wait(&one, NULL);
    NXT_SAYS(w, err, NEXAR_EPEER, HELD);
    err = nexar_wait(&other, NULL);
    NXT_SAYS(w, err, NEXAR_EPEER, HELD);
    is_out(w);
    atomic_fetch_add(&shared->told, 1);
    (void)nexar_finalize(w);
}

/* ---- the others ---------------------------------------------------------------------------- */

static void lose_it(nexar_comm *w, const plan *p)
{
    static const char out[LONG];
    nexar_request *sent[FLOOD] = {NULL};
    char byte = 0;
    int n = 0;

    while (p->flood && (n < FLOOD)) {
        NXT_OK(w, nexar_isend(w, out, (n % 2) ? 1 : sizeof(out), VICTIM, TAG + 2, &sent[n]));
        n++;
    }
    atomic_fetch_add(&shared->ready, 1);
    NXT_IS(w, nexar_recv(w, &byte, 1, VICTIM, TAG, NULL) == NEXAR_EPEER);
    for (int i = 0; i < n; i++) {
        const nexar_err err = nexar_wait(&sent[i], NULL);

        NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EPEER));
    }
    atomic_fetch_add(&shared->known, 1);
    nxt_await(&shared->told, 1); /* a rank that exits cannot notify */
    (void)nexar_finalize(w);
}

static void live(int rank, int join_fd, void *arg)
{
    const plan *p = arg;
    const char *const settings[] = {"transports", p->transports,       "heartbeat_interval",
                                    "200ms",      "heartbeat_timeout", "2s",
                                    NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);

    NXT_OK(w, nexar_on_failure(w, note_call, NULL));
    NXT_OK(w, nxt_sum_all(w, SMALL));
    if (rank == VICTIM) {
        be_stopped(w);
    } else {
        lose_it(w, p);
    }
}

static void stop_one(plan p)
{
    nxt_procs procs;

    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, RANKS, live, &p);
    nxt_await(&shared->ready, RANKS);
    nxt_procs_signal(&procs, 1U << VICTIM, SIGSTOP);
    nxt_await(&shared->known, RANKS - 1);
    nxt_procs_signal(&procs, 1U << VICTIM, SIGCONT);
    nxt_await(&shared->told, 1);
    nxt_procs_wait(&procs, 0, 0);
    assert_int_equal(atomic_load(&shared->accused), 0);
    nxt_unshare(shared, sizeof(*shared));
}

static void test_a_stopped_rank_is_notified_by_shared_memory(void **state)
{
    (void)state;
    stop_one((plan){.transports = "auto"});
}

static void test_a_stopped_rank_is_notified_by_quic(void **state)
{
    (void)state;
    stop_one((plan){.transports = "quic"});
}

static void test_a_rank_with_a_long_queue_is_notified_by_shared_memory(void **state)
{
    (void)state;
    stop_one((plan){.transports = "auto", .flood = true});
}

static void test_a_rank_with_a_long_queue_is_notified_by_quic(void **state)
{
    (void)state;
    stop_one((plan){.transports = "quic", .flood = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_rank_is_notified_by_shared_memory),
        cmocka_unit_test(test_a_stopped_rank_is_notified_by_quic),
        cmocka_unit_test(test_a_rank_with_a_long_queue_is_notified_by_shared_memory),
        cmocka_unit_test(test_a_rank_with_a_long_queue_is_notified_by_quic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
