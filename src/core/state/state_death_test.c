/*
 * state_death_test.c - a rank fails at any point of nexar_state_sync: the survivors get the same
 * result, and none keeps a mixture.
 *
 * Rank 0 and the victim change the state in each round, and hold it; the others receive it.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 4, VICTIM = 2, BYTES = 3 << 20, SMALL = 1000, TENSORS = 2, AFTER = 3 };

typedef struct shared {
    _Atomic uint64_t died_ns;
    const char *const *settings;
} shared;

static uint8_t big[BYTES], small[SMALL];
static const nexar_state tensors[TENSORS] = {{"big", big, BYTES, NEXAR_U8},
                                             {"small", small, SMALL, NEXAR_U8}};

static void change(uint64_t seed)
{
    nxt_fill(big, sizeof(big), seed);
    nxt_fill(small, sizeof(small), seed + 1000);
}

static int is(uint64_t seed)
{
    return nxt_filled(big, sizeof(big), seed) && nxt_filled(small, sizeof(small), seed + 1000);
}

/* Rounds until one fails; |*round| is its number. */
static nexar_err sync_until_it_fails(nexar_comm *w, bool changes, uint64_t *round)
{
    nexar_sync_report report;
    nexar_err err = NEXAR_OK;

    change(0);
    for (*round = 1; err == NEXAR_OK; (*round)++) {
        uint64_t revision = *round - (changes ? 0 : 1);
        const uint64_t was = revision;

        if (changes) {
            change(*round);
        }
        err = nexar_state_sync(w, tensors, TENSORS, &revision, &report);
        NXT_IS(w, report.updated == (err == NEXAR_OK));
        NXT_IS(w, revision == ((err == NEXAR_OK) ? *round : was));
        NXT_IS(w, is(revision));
    }
    return err;
}

/* All ranks of |c| have the same result. */
static void check_alike(nexar_comm *c, nexar_err err, uint64_t round)
{
    int64_t most[3] = {(int64_t)err, (int64_t)round, -(int64_t)round};

    NXT_OK(c, nexar_allreduce(c, NEXAR_IN_PLACE, most, 3, NEXAR_I64, NEXAR_MAX));
    NXT_IS(c, (most[0] == (int64_t)err) && (most[1] == -most[2]));
}

static void start_dying(const shared *s, pthread_t *thread)
{
    if (pthread_create(thread, NULL, nxt_die_soon, (void *)(uintptr_t)&s->died_ns) != 0) {
        abort();
    }
}

static void body(int rank, int join_fd, void *arg)
{
    const shared *s = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, s->settings), *rest = NULL;
    pthread_t thread;
    uint64_t round;
    nexar_err err;

    NXT_OK(w, nexar_barrier(w));
    if (rank == VICTIM) {
        start_dying(s, &thread);
    }
    err = sync_until_it_fails(w, (rank == 0) || (rank == VICTIM), &round);
    NXT_IS(w, err == NEXAR_EPEER);
    if (s->settings == NULL) {
        NXT_OK(w, nexar_comm_shrink(w, &rest));
    }
    check_alike((rest == NULL) ? w : rest, err, round);
    NXT_IS(w, nexar_size((rest == NULL) ? w : rest) == RANKS - 1);
    NXT_OK(w, nexar_finalize(w));
    _exit(0);
}

static void run(void (*fn)(int rank, int join_fd, void *arg), const char *const *settings,
                int times)
{
    for (int i = 0; i < times; i++) {
        shared *s = nxt_share(sizeof(*s));
        nxt_procs p;

        s->settings = settings;
        nxt_procs_start(&p, RANKS, fn, s);
        nxt_procs_wait(&p, 1U << VICTIM, 0);
        nxt_unshare(s, sizeof(*s));
    }
}

static void survivors_agree_and_keep_what_they_had(void **state)
{
    (void)state;
    run(body, NULL, 6);
}

static void a_rebuilt_communicator_has_the_same_verdict_everywhere(void **state)
{
    static const char *const settings[] = {"recovery", "automatic", NULL};

    (void)state;
    run(body, settings, 6);
}

/* With retry=on no call fails: rounds until the victim has been gone for a while. */
static void body_retried(int rank, int join_fd, void *arg)
{
    const shared *s = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, s->settings);
    pthread_t thread;
    int after = 0;

    NXT_OK(w, nexar_barrier(w));
    if (rank == VICTIM) {
        start_dying(s, &thread);
    }
    for (uint64_t round = 1; after < AFTER; round++) {
        uint64_t revision = round - ((nexar_rank(w) == 0) ? 0 : 1);

        if (nexar_rank(w) == 0) {
            change(round);
        }
        NXT_OK(w, nexar_state_sync(w, tensors, TENSORS, &revision, NULL));
        NXT_IS(w, (revision == round) && is(round));
        after += (nexar_size(w) < RANKS);
    }
    NXT_OK(w, nexar_finalize(w));
    _exit(0);
}

static void with_retry_the_call_completes_among_the_survivors(void **state)
{
    static const char *const settings[] = {"recovery", "automatic", "retry", "on", NULL};

    (void)state;
    run(body_retried, settings, 6);
}

/* One rank has learned of the failure by a message, and shrinks at once. */
static void body_elsewhere(int rank, int join_fd, void *arg)
{
    const shared *s = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, s->settings), *rest;
    pthread_t thread;
    uint64_t round;
    char byte;

    NXT_OK(w, nexar_barrier(w));
    if (rank == VICTIM) {
        start_dying(s, &thread);
        (void)!nexar_recv(w, &byte, 1, 0, 1, NULL);
    } else if (rank == 1) {
        NXT_SAYS(w, nexar_recv(w, &byte, 1, VICTIM, 1, NULL), NEXAR_EPEER, "rank 2");
    } else {
        NXT_IS(w, sync_until_it_fails(w, rank == 0, &round) == NEXAR_EPEER);
    }
    NXT_OK(w, nexar_comm_shrink(w, &rest));
    NXT_IS(w, nexar_size(rest) == RANKS - 1);
    NXT_OK(w, nexar_barrier(rest));
    NXT_OK(w, nexar_finalize(w));
    _exit(0);
}

static void ranks_in_the_call_meet_ranks_that_shrink_already(void **state)
{
    (void)state;
    run(body_elsewhere, NULL, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_agree_and_keep_what_they_had),
        cmocka_unit_test(a_rebuilt_communicator_has_the_same_verdict_everywhere),
        cmocka_unit_test(with_retry_the_call_completes_among_the_survivors),
        cmocka_unit_test(ranks_in_the_call_meet_ranks_that_shrink_already),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
