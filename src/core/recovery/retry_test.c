/*
 * retry_test.c - ranks as processes with retry=on, some of which kill themselves at any time: all
 * survivors get the same results, with the same contributions, operation by operation.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "rand.h"
#include "retry.h"
#include "unit.h"

enum { MOST = 6, OPS = 10, LARGE = 1 << 17, MORE = 40, BARRIERS = 2000 };

typedef struct board {
    _Atomic uint64_t died; /* the latest time at which one did */
    _Atomic uint64_t back; /* the latest time at which one returned after it */
    _Atomic uint64_t ops[MOST], errors[MOST], history[MOST];
} board;

typedef struct plan {
    const char *name;
    int ranks;
    unsigned victims; /* kill themselves, as bits */
    bool chained;     /* rank 0 does when it learns of the first failure */
    bool twice;       /* two threads */
    uint64_t seed;
    const char *verify;
} plan;

static board *shared;
static const plan *current;
static const char *transport;
static int own; /* this process's first rank */

static int living(void)
{
    return current->ranks - __builtin_popcount(current->victims | (current->chained ? 1U : 0U));
}

/* ---- exits ------------------------------------------------------------------------------- */

static void *die_soon(void *arg)
{
    nxt_rand r = {.state = current->seed * 64 + (uint64_t)own};
    const struct timespec span = {.tv_nsec = 1000000 + (long)nxt_below(&r, 30000000)};

    (void)arg;
    (void)nanosleep(&span, NULL); /* at any point of the work: none is special */
    nxt_note_latest(&shared->died);
    (void)raise(SIGKILL);
    return NULL;
}

static void die_too(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)rank;
    (void)why;
    (void)arg;
    if (own == 0) {
        nxt_note_latest(&shared->died);
        (void)raise(SIGKILL);
    }
}

/* ---- operations and their results --------------------------------------------------------- */

/* When it returns, |c| has exactly the ranks that contributed to the result. */
static nexar_err or_all(nexar_comm *c, bool in_place, uint64_t *mask)
{
    uint64_t mine = UINT64_C(1) << own, all = mine;
    const void *send = in_place ? NEXAR_IN_PLACE : &mine; // NOLINT(performance-no-int-to-ptr)
    const nexar_err err = nexar_allreduce(c, send, &all, 1, NEXAR_U64, NEXAR_BOR);

    *mask = all;
    NXT_IS(c, (err != NEXAR_OK) || (__builtin_popcountll(all) == nexar_size(c)));
    return err;
}

static nexar_err sum_large(nexar_comm *c)
{
    static float v[LARGE];
    nexar_err err;

    for (size_t i = 0; i < LARGE; i++) {
        v[i] = 1;
    }
    err = nexar_allreduce(c, NEXAR_IN_PLACE, v, LARGE, NEXAR_F32, NEXAR_SUM);
    for (size_t i = 0; (err == NEXAR_OK) && (i < LARGE); i++) {
        NXT_IS(c, v[i] == (float)nexar_size(c));
    }
    return err;
}

static nexar_err bucketed(nexar_comm *c)
{
    int32_t a[3] = {1, 1, 1}, b = 1;
    const nexar_tensor tensors[] = {{a, 3}, {&b, 1}};
    const nexar_err err = nexar_allreduce_bucketed(c, tensors, 2, NEXAR_I32, NEXAR_SUM);

    NXT_IS(c, (err != NEXAR_OK) || ((a[2] == nexar_size(c)) && (b == a[0])));
    return err;
}

/* The root may have another rank when it returns. */
static nexar_err from_root(nexar_comm *c, int root, uint64_t *word)
{
    *word = (nexar_rank(c) == root) ? 1000 + (uint64_t)own : 0;
    return nexar_broadcast(c, word, 1, NEXAR_U64, root);
}

static nexar_err to_root(nexar_comm *c, int root)
{
    uint64_t one = 1, sum = 0;
    const bool is_root = (nexar_rank(c) == root);
    const nexar_err err = nexar_reduce(c, &one, &sum, 1, NEXAR_U64, NEXAR_SUM, root);

    NXT_IS(c, (err != NEXAR_OK) || !is_root || (sum == (uint64_t)nexar_size(c)));
    return err;
}

static nexar_err scan(nexar_comm *c)
{
    int32_t v = 1;
    const nexar_err err = nexar_scan(c, NEXAR_IN_PLACE, &v, 1, NEXAR_I32, NEXAR_SUM);

    NXT_IS(c, (err != NEXAR_OK) || (v == nexar_rank(c) + 1));
    return err;
}

static nexar_err split(nexar_comm *c)
{
    nexar_comm *half = NULL;
    const nexar_err err = nexar_comm_split(c, own % 2, own, &half);

    nexar_comm_free(half);
    return err;
}

/* Blocks of failed ranks stay unchanged. */
static nexar_err gather(nexar_comm *c, uint64_t *word)
{
    const int size = nexar_size(c);
    int32_t v = own, all[MOST];
    nexar_err err;
    int there = 0;

    memset(all, 0xff, sizeof(all));
    err = nexar_allgather(c, &v, all, 1, NEXAR_I32);
    for (int i = 0; (err == NEXAR_OK) && (i < size); i++) {
        there += (all[i] >= 0);
        *word = *word * 8 + (uint64_t)(all[i] + 1);
    }
    NXT_IS(c, (err != NEXAR_OK) || (there == nexar_size(c)));
    return err;
}

static nexar_err in_shards(nexar_comm *c)
{
    float v[3] = {1, 1, 1};
    const nexar_err err = nexar_allreduce_rs_ag(c, v, 3, NEXAR_F32, NEXAR_SUM, NULL, NULL);

    NXT_IS(c, (err != NEXAR_OK) || (v[2] == (float)nexar_size(c)));
    return err;
}

static nexar_err run_op(nexar_comm *c, uint64_t op, uint64_t *word)
{
    const int root = (int)(op / OPS) % nexar_size(c);

    *word = 0;
    switch (op % OPS) {
    case 0:
        return or_all(c, false, word);
    case 1:
        return or_all(c, true, word);
    case 2:
        return from_root(c, root, word);
    case 3:
        return to_root(c, root);
    case 4:
        return scan(c);
    case 5:
        return bucketed(c);
    case 6:
        return (op % 4 == 0) ? sum_large(c) : nexar_barrier(c);
    case 7:
        return (op % 4 == 0) ? split(c) : nexar_barrier(c);
    case 8:
        return gather(c, word);
    default:
        return in_shards(c);
    }
}

/* ---- ranks ------------------------------------------------------------------------------ */

/* One operation after another; their results are recorded in the history. */
static void work(nexar_comm *w)
{
    uint64_t op = 0, word, history = 0, errors = 0;
    int more = 0, size = nexar_size(w);

    while (more < MORE) {
        const nexar_err err = run_op(w, op, &word);

        if (err != NEXAR_OK) { /* what cannot be run again */
            NXT_SAYS(w, err, NEXAR_EPEER, "not run again");
            NXT_IS(w, (op % OPS == 2) || (op % OPS == 3) || (op % OPS == 9));
            NXT_IS(w, nexar_size(w) < size);
            word = 7;
            errors++;
        }
        if (nexar_size(w) != size) {
            nexar_change change = {0};

            NXT_OK(w, nexar_last_change(w, &change));
            NXT_IS(w, (change.old_size <= size) && (change.new_size == nexar_size(w)));
            size = nexar_size(w);
            nxt_note_latest(&shared->back);
        }
        history = nxt_mix(history * 31 + op + (word << 8) + ((uint64_t)size << 40));
        more += (size == living());
        op++;
    }
    atomic_store(&shared->ops[own], op);
    atomic_store(&shared->errors[own], errors);
    atomic_store(&shared->history[own], history);
}

/* The victim, until it is killed. */
static void *barriers(void *arg)
{
    nexar_comm *c = arg;
    const bool victim = (current->victims >> own) & 1;

    for (int i = 0; victim || (i < BARRIERS); i++) {
        NXT_IS(c, (nexar_barrier(c) == NEXAR_OK) || victim);
    }
    return NULL;
}

/* Two threads, alternating. */
static void work_twice(nexar_comm *w)
{
    pthread_t other;

    NXT_IS(w, pthread_create(&other, NULL, barriers, w) == 0);
    (void)barriers(w);
    NXT_IS(w, pthread_join(other, NULL) == 0);
}

static void child(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"recovery",      "automatic",         "retry", "on", "verify",
                                    current->verify, "heartbeat_timeout", "1m",    NULL};
    nexar_comm *w;
    pthread_t killer;

    (void)arg;
    own = rank;
    w = nxt_procs_join(rank, join_fd, settings);
    NXT_OK(w, nexar_barrier(w));
    if (current->chained) {
        NXT_OK(w, nexar_on_failure(w, die_too, NULL));
    }
    if ((current->victims >> rank) & 1) {
        NXT_IS(w, pthread_create(&killer, NULL, die_soon, NULL) == 0);
    }
    if (current->twice) {
        work_twice(w);
    } else {
        work(w);
    }
    (void)nexar_finalize(w);
}

static void run_plan(const plan *p)
{
    const unsigned gone = p->victims | (p->chained ? 1U : 0U);
    nxt_procs procs;
    const int first = __builtin_ctz(~gone); /* of the survivors */

    current = p;
    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, p->ranks, child, NULL);
    nxt_procs_wait(&procs, gone, 0);
    for (int rank = 0; rank < p->ranks; rank++) {
        if ((gone >> rank) & 1) {
            continue;
        }
        assert_int_equal(shared->ops[rank], shared->ops[first]);
        assert_int_equal(shared->errors[rank], shared->errors[first]);
        assert_int_equal(shared->history[rank], shared->history[first]);
    }
    printf("%-5s %-24s seed %2d: %6d operations, %d ended with an error", transport, p->name,
           (int)p->seed, (int)shared->ops[first], (int)shared->errors[first]);
    if (shared->back != 0) {
        printf(", returned %.1f ms after the last death",
               ((double)shared->back - (double)shared->died) / 1e6);
    }
    printf("\n");
    nxt_unshare(shared, sizeof(*shared));
}

static void test_all_survivors_have_the_same_history(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        const plan plans[] = {
            {.name = "one dies",
             .ranks = 4,
             .victims = 1U << (seed % 4),
             .seed = seed,
             .verify = (seed % 2 == 0) ? "on" : "off"},
            {.name = "two die",
             .ranks = 5,
             .victims = (2U << (seed % 4)) | 1U,
             .seed = seed,
             .verify = "off"},
        };

        run_plan(&plans[0]);
        run_plan(&plans[1]);
    }
}

static void test_one_dies_in_the_recovery(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 2; seed++) {
        const plan p = {.name = "rank 0 in the recovery",
                        .ranks = 5,
                        .victims = 4,
                        .chained = true,
                        .seed = seed,
                        .verify = "on"};

        run_plan(&p);
    }
}

static void test_threads_take_turns(void **state)
{
    static const plan p = {
        .name = "two threads", .ranks = 3, .victims = 4, .twice = true, .seed = 1, .verify = "on"};

    (void)state;
    run_plan(&p);
}

/* ---- without a failure -------------------------------------------------------------------- */

static void work_in_peace(nexar_comm *w, void *arg)
{
    int32_t one = 1, sum = 0;
    nexar_request *req = NULL;
    nexar_comm *c = NULL;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    for (int i = 0; i < 100; i++) {
        NXT_OK(w, nexar_iallreduce(c, &one, &sum, 1, NEXAR_I32, NEXAR_SUM, &req));
        NXT_OK(w, nexar_barrier(c));
        NXT_OK(w, nexar_wait(&req, NULL));
        NXT_IS(w, sum == nexar_size(w));
        NXT_OK(w, nexar_allreduce(c, &one, &sum, 1, NEXAR_I32, NEXAR_SUM));
    }
    /* An error of one rank is an error of all, and breaks nothing. */
    NXT_SAYS(w,
             nexar_broadcast(c, &sum, (nexar_rank(w) == 1) ? 1 : 0, NEXAR_I32,
                             (nexar_rank(w) == 1) ? 1 : 0),
             NEXAR_EMISMATCH, "");
    NXT_IS(w, nexar_broadcast(c, &sum, 1, NEXAR_I32, 99) == NEXAR_EINVAL);
    NXT_OK(w, nexar_barrier(c));
    NXT_OK(w, nexar_barrier(w)); /* all have completed it: revoking would end it */
    if (nexar_rank(w) == 2) {
        NXT_OK(w, nexar_comm_revoke(c));
    }
    NXT_IS(w, nexar_barrier(c) == NEXAR_EREVOKED);
    nexar_comm_free(c);
    NXT_OK(w, nexar_barrier(w));
}

static void test_without_deaths_all_is_as_always(void **state)
{
    nexar_config *cfg = NULL;
    nexar_comm *w = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    assert_int_equal(nexar_init(cfg, &w), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "recovery=automatic"));
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    nxt_local_world(3, cfg, work_in_peace, NULL);
    assert_int_equal(nexar_init(cfg, &w), NEXAR_OK); /* alone */
    assert_int_equal(nexar_barrier(w), NEXAR_OK);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
    nexar_config_free(cfg);
}

/* ---- a live rank that is late ------------------------------------------------------------- */

static _Atomic int timed_out;

/* Rank 0 calls when the others have timed out: it gets the same result, and all continue. */
static void come_late(nexar_comm *w, void *arg)
{
    int32_t v = nexar_rank(w) + 1;

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 0) {
        nxt_await(&timed_out, nexar_size(w) - 1);
    }
    NXT_SAYS(w, nexar_allreduce(w, NEXAR_IN_PLACE, &v, 1, NEXAR_I32, NEXAR_SUM), NEXAR_ETIMEDOUT,
             "collective_timeout");
    (void)atomic_fetch_add(&timed_out, 1);
    v = nexar_rank(w) + 1;
    nxt_await(&timed_out, nexar_size(w)); /* otherwise it would be late again */
    NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, &v, 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, v == nexar_size(w) * (nexar_size(w) + 1) / 2);
}

static void test_the_wait_for_an_absent_rank_has_the_set_limit(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "collective_timeout", "2s"), NEXAR_OK);
    for (int n = 2; n < 5; n += 2) {
        atomic_store(&timed_out, 0);
        nxt_local_world(n, cfg, come_late, NULL);
    }
    nexar_config_free(cfg);
}

/* ---- a rank leaves, and the others get an error ------------------------------------------- */

static nexar_err broken_to_host(void *ctx, void *host, const void *dev, size_t bytes, void *stream)
{
    (void)ctx;
    (void)host;
    (void)dev;
    (void)bytes;
    (void)stream;
    return NEXAR_ESYS;
}

static nexar_err to_device(void *ctx, void *dev, const void *host, size_t bytes, void *stream)
{
    (void)ctx;
    (void)stream;
    memcpy(dev, host, bytes);
    return NEXAR_OK;
}

static nexar_err synchronize(void *ctx, void *stream)
{
    (void)ctx;
    (void)stream;
    return NEXAR_OK;
}

/* The communicators of the two that stay, and how many wait for news of the third. */
static _Atomic(nexar_comm *) stay[2];

static int waiting_to_confirm(void)
{
    int n = 0;

    for (int i = 0; i < 2; i++) {
        nexar_comm *w = atomic_load(&stay[i]);

        if (w != NULL) {
            nx_loop_lock(w->world->loop);
            n += w->active->recovery.confirm.pending;
            nx_loop_unlock(w->world->loop);
        }
    }
    return n;
}

static void leave_the_others(nexar_comm *w, void *arg)
{
    static const nexar_device broken = {.name = "broken",
                                        .to_host = broken_to_host,
                                        .to_device = to_device,
                                        .synchronize = synchronize};
    const int me = nexar_rank(w);
    int32_t in = me, out = 0;

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    if (me == 2) {
        while (waiting_to_confirm() < 2) {
            (void)sched_yield();
        }
        return; /* which leaves */
    }
    if (me == 1) { /* which sends before it receives, so that it fails without rank 2 */
        NXT_OK(w, nexar_comm_set_device(w, &broken));
    }
    atomic_store(&stay[me], w);
    NXT_SAYS(w, nexar_allreduce(w, &in, &out, 1, NEXAR_I32, NEXAR_SUM), NEXAR_EDEVICE, "allreduce");
    atomic_store(&stay[me], NULL);
    NXT_OK(w, nexar_comm_set_device(w, NULL));
    NXT_OK(w, nexar_barrier(w));
    NXT_IS(w, nexar_size(w) == 2);
}

static void test_a_leaving_rank_does_not_keep_the_others_waiting(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    nxt_local_world(3, cfg, leave_the_others, NULL);
    nexar_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_deaths_all_is_as_always),
        cmocka_unit_test(test_the_wait_for_an_absent_rank_has_the_set_limit),
        cmocka_unit_test(test_a_leaving_rank_does_not_keep_the_others_waiting),
        cmocka_unit_test(test_all_survivors_have_the_same_history),
        cmocka_unit_test(test_one_dies_in_the_recovery),
        cmocka_unit_test(test_threads_take_turns),
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    transport = getenv("NEXAR_TRANSPORTS");
    transport = (transport == NULL) ? "auto" : transport;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
