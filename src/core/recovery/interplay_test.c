/*
 * interplay_test.c - worlds that recover automatically and change by nexar_comm_update: ranks as
 * processes that are killed, join and leave, alternately and concurrently.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "cast.h"
#include "core/agreement/agreement_inner.h"
#include "core/coll/coll_run.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "unit.h"

enum { MOST = 20, LARGE = 1 << 16, VAST = 1 << 21, FN = 3, ABORT_CODE = 76, MINUTE_S = 60 };

/* Shared memory of the processes, besides nexar; by the number of the process. */
typedef struct board {
    nxt_cast_board cast;
    _Atomic int leave[MOST];   /* it is to leave */
    _Atomic int doom[MOST];    /* it dies this many us, minus one, after an update began */
    _Atomic int stop;          /* all are to end */
    _Atomic int left[MOST];    /* it has */
    _Atomic int few[MOST];     /* number of errors that too few ranks are left */
    _Atomic int errors[MOST];  /* collectives that ended with NEXAR_EPEER */
    _Atomic int updates[MOST]; /* and updates that did */
    _Atomic int told[MOST];    /* calls of its callback */
    _Atomic int revoked[MOST]; /* requests that ended with NEXAR_EREVOKED */
} board;

static board *shared;
static nxt_cast cast;
static const char *const *settings;
static bool once;    /* collectives only: one of them reports a failure, once */
static bool pending; /* with requests that wait while the world changes */
static bool aborts;  /* a process ends shortly after it learns of a failure */

/* ---- a rank -------------------------------------------------------------------------- */

static bool is_failure(nexar_err err)
{
    return (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED);
}

static nexar_err serve(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)rank;
    (void)why;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

/* The view and the communicator as a number, equal on all ranks. */
static uint64_t print_of(nexar_comm *w)
{
    uint64_t sum = w->inc->id;

    nx_loop_lock(w->world->loop);
    sum = sum * 31 + w->world->view->epoch;
    for (uint32_t i = 0; i < w->world->view->size; i++) {
        sum = (sum * 31 + w->world->view->members[i].slot) * 31 + w->world->view->members[i].id;
    }
    for (uint32_t i = 0; i < w->inc->size; i++) {
        sum = sum * 31 + nx_incarnation_peer(w->inc, i);
    }
    nx_loop_unlock(w->world->loop);
    return sum;
}

/* A remote function is served by all ranks that have completed a collective before. */
static void call_next(nexar_comm *w, int me)
{
    void *reply = NULL;
    size_t bytes = 0;
    const nexar_err err =
        nexar_rpc_call(w, (nexar_rank(w) + 1) % nexar_size(w), FN, &me, sizeof(me), &reply, &bytes);

    NXT_IS(w, (err == NEXAR_OK) || is_failure(err));
    if (err == NEXAR_OK) {
        NXT_IS(w, (bytes == sizeof(me)) && (*(int *)reply == me));
        free(reply);
    }
}

/* Exchanges the live ranks, whether any rank wants to stop, and whether all |change| the world by
 * updates from now on; then a remote call, and some bytes. */
static nexar_err step(nexar_comm *w, int me, bool *stop, bool *change)
{
    static float large[LARGE];
    const uint64_t print = print_of(w);
    const int size = nexar_size(w);
    uint64_t v[5] = {1, UINT64_C(1) << me, (uint64_t)atomic_load(&shared->stop), print,
                     !once || (atomic_load(&shared->cast.go[MOST - 1]) != 0)};
    nexar_err err = nexar_allreduce(w, NEXAR_IN_PLACE, v, 5, NEXAR_U64, NEXAR_SUM);

    if (err != NEXAR_OK) {
        return err;
    }
    NXT_IS(w, v[0] == (uint64_t)nexar_size(w));
    NXT_IS(w, __builtin_popcountll(v[1]) == nexar_size(w));
    NXT_IS(w, (nexar_size(w) != size) || (v[3] == print * v[0]));
    *stop = (v[2] > 0);
    *change = (v[4] > 0);
    call_next(w, me);
    for (size_t i = 0; i < LARGE; i++) {
        large[i] = 1;
    }
    err = nexar_allreduce(w, NEXAR_IN_PLACE, large, LARGE, NEXAR_F32, NEXAR_SUM);
    for (size_t i = 0; (err == NEXAR_OK) && (i < LARGE); i++) {
        NXT_IS(w, large[i] == (float)nexar_size(w));
    }
    if (err == NEXAR_OK) {
        atomic_store(&shared->cast.seen[me], v[1]);
    } else {
        *stop = false;
    }
    return err;
}

static void *die(void *arg)
{
    const int us = *(int *)arg;
    const struct timespec t = {.tv_nsec = us * 1000L};

    if (us > 0) {
        (void)nanosleep(&t, NULL);
    }
    (void)raise(SIGKILL);
    return NULL;
}

/* If the process is to end: soon, in an update that admits a joiner. */
static void perhaps_die(nexar_comm *w, int me)
{
    static int us;
    pthread_t thread;
    bool waits;

    nx_loop_lock(w->world->loop);
    waits = (w->world->waiting > 0);
    nx_loop_unlock(w->world->loop);
    us = atomic_load(&shared->doom[me]) - 1;
    if (waits && (us >= 0)) {
        NXT_IS(w, pthread_create(&thread, NULL, die, &us) == 0);
    }
}

/* An update that succeeds in the end. */
static void update(nexar_comm **w, int me)
{
    nexar_change c;
    nexar_err err;

    do {
        if (atomic_load(&shared->leave[me])) {
            NXT_OK(*w, nexar_comm_leave(*w));
        }
        perhaps_die(*w, me);
        err = nexar_comm_update(w, &c);
        NXT_IS(*w, (err == NEXAR_OK) || (err == NEXAR_EPEER));
        if (err != NEXAR_OK) {
            atomic_fetch_add(&shared->updates[me], 1);
            if (strstr(nexar_last_error(), "min_world") != NULL) {
                atomic_fetch_add(&shared->few[me], 1);
                nxt_nap();
            }
        }
    } while (err != NEXAR_OK);
    NXT_IS(*w, c.new_size == c.old_size + c.joined - c.left - c.failed);
    if (*w == NULL) {
        NXT_IS(NULL, (c.new_rank == -1) && (c.left > 0));
        return;
    }
    if ((c.joined > 0) && (atomic_load(&shared->doom[me]) > 0)) { /* it was too late for that */
        (void)raise(SIGKILL);
    }
    NXT_IS(*w, (c.new_rank == nexar_rank(*w)) && (c.new_size == nexar_size(*w)));
    if (c.joined + c.left + c.failed > 0) { /* failed ranks are out of the view */
        nx_loop_lock((*w)->world->loop);
        NXT_IS(*w, (*w)->world->view->size == (*w)->inc->size);
        nx_loop_unlock((*w)->world->loop);
    }
}

static nexar_comm *join_world(int me, bool first)
{
    nexar_config *cfg = NULL;
    nexar_comm *w = NULL;
    char number[16];

    NXT_OK(NULL, nexar_config_create(&cfg));
    NXT_OK(NULL, nexar_config_set(cfg, "join", shared->cast.join));
    NXT_OK(NULL, nexar_config_set(cfg, "heartbeat_timeout", "1m")); /* a kill is visible */
    for (size_t i = 0; settings[i] != NULL; i += 2) {
        NXT_OK(NULL, nexar_config_set(cfg, settings[i], settings[i + 1]));
    }
    if (first) {
        (void)snprintf(number, sizeof(number), "%d", me);
        NXT_OK(NULL, nexar_config_set(cfg, "rank", number));
    }
    NXT_OK(NULL, nexar_init(cfg, &w));
    nexar_config_free(cfg);
    NXT_OK(w, nexar_rpc_register(w, FN, serve, NULL));
    NXT_OK(w, nexar_on_failure(w, on_failure, &shared->told[me]));
    return w;
}

/* An update while a request waits; |part| is an unrelated communicator. */
static void update_meanwhile(nexar_comm **w, int me, nexar_comm *part)
{
    float *v = calloc(VAST, sizeof(*v));
    nexar_request *req = NULL;
    nexar_err err;

    NXT_IS(*w, v != NULL);
    err = nexar_iallreduce(*w, NEXAR_IN_PLACE, v, VAST, NEXAR_F32, NEXAR_SUM, &req);
    NXT_OK(*w, err);
    update(w, me);
    err = nexar_wait(&req, NULL);
    NXT_IS(*w, (err == NEXAR_OK) || (err == NEXAR_EREVOKED));
    atomic_fetch_add(&shared->revoked[me], (err == NEXAR_EREVOKED) ? 1 : 0);
    free(v);
    if (part != NULL) {
        NXT_OK(*w, nexar_barrier(part));
    }
}

static void rank_main(int me, bool first)
{
    nexar_comm *w = join_world(me, first), *part = NULL;
    bool stop = false, change = !once || !first; /* a joiner enters by an update */

    if (pending && first) {
        NXT_OK(w, nexar_comm_dup(w, &part));
    }
    while (!stop) {
        const nexar_err err = step(w, me, &stop, &change);

        NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EPEER) || (aborts && is_failure(err)));
        if (err != NEXAR_OK) {
            atomic_fetch_add(&shared->errors[me], 1);
        }
        if (!stop && pending) {
            update_meanwhile(&w, me, part);
        } else if (!stop && change) {
            update(&w, me);
        }
        if (w == NULL) {
            atomic_store(&shared->left[me], 1);
            _exit(0);
        }
    }
    nexar_comm_free(part);
    NXT_OK(w, nexar_finalize(w));
    _exit(0);
}

/* ---- the test itself ----------------------------------------------------------------- */

static nexar_seed *begin(int ranks, const char *const its[])
{
    settings = its;
    shared = nxt_share(sizeof(*shared));
    return nxt_cast_begin(&cast, &shared->cast, MOST, ranks, rank_main);
}

/* Waits until the processes in |mask| see each other and no other; |since| is when it began. */
static void await_world(uint64_t mask, const char *what, uint64_t since)
{
    nxt_cast_await_world(&cast, mask, what);
    if (since != 0) {
        printf("%s: %.1f ms\n", what, (double)(nxt_now_ns() - since) / 1e6);
    }
}

static void await_code(int me, int code)
{
    const int status = nxt_cast_await_end(&cast, me);

    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void await_left(int me)
{
    await_code(me, 0);
    assert_int_equal(shared->left[me], 1);
}

static void end_all(nexar_seed *seed, uint64_t mask, int code)
{
    for (int me = 0; me < MOST; me++) {
        if ((mask >> me) & 1) {
            await_code(me, code);
        } else {
            nxt_cast_dismiss(&cast, me);
        }
    }
    nexar_seed_stop(seed);
    nxt_unshare(shared, sizeof(*shared));
}

static void finish(nexar_seed *seed, uint64_t mask)
{
    atomic_store(&shared->stop, 1);
    end_all(seed, mask, 0);
}

static const char *const AUTOMATIC[] = {"recovery", "automatic", NULL};
static const char *const RETRY[] = {"recovery", "automatic", "retry", "on", NULL};

/* ---- one after another --------------------------------------------------------------- */

static void deaths_then_joins(const char *const its[], int errors)
{
    nexar_seed *seed;
    uint64_t at;

    once = true;
    seed = begin(4, its);
    await_world(0xf, "4", 0);
    at = nxt_cast_strike(&cast, 1);
    await_world(0xd, "a death, collectives alone", at);
    for (int me = 0; me < 4; me++) {
        assert_int_equal(shared->errors[me], (me == 1) ? 0 : errors);
    }
    nxt_cast_start(&cast, MOST - 1, NXT_NEVER); /* from now on they call update too */
    (void)nxt_cast_await_end(&cast, MOST - 1);
    at = nxt_now_ns();
    nxt_cast_start(&cast, 4, NXT_LATER);
    await_world(0x1d, "a join after it", at);
    at = nxt_cast_strike(&cast, 0);
    await_world(0x1c, "another death", at);
    at = nxt_now_ns();
    nxt_cast_start(&cast, 5, NXT_LATER);
    await_world(0x3c, "another join", at);
    nxt_cast_start(&cast, 6, NXT_LATER);
    atomic_store(&shared->leave[2], 1);
    at = nxt_cast_strike(&cast, 3);
    await_left(2);
    await_world(0x70, "a death, a join and a leaver", at);
    nxt_await(&shared->told[4], 2); /* of 0, 3; of 1 before it joined */
    assert_int_equal(shared->told[4], 2);
    finish(seed, 0x70);
    once = false;
}

static void test_recoveries_and_updates_by_turns(void **state)
{
    (void)state;
    deaths_then_joins(AUTOMATIC, 1);
}

static void test_repeated_collectives_and_updates_by_turns(void **state)
{
    (void)state;
    deaths_then_joins(RETRY, 0);
}

/* ---- failures inside updates --------------------------------------------------------- */

/* The |n|th process of |mask|. */
static int choose(uint64_t mask, int n)
{
    for (; n > 0; n--) {
        mask &= mask - 1;
    }
    return __builtin_ctzll(mask);
}

static void deaths_in_updates(const char *const its[])
{
    static const int delays[] = {0, 20, 50, 100, 150, 250, 400, 600, 900, 1500, 3000, 8000};
    const int rounds = (int)(sizeof(delays) / sizeof(delays[0]));
    nexar_seed *seed = begin(4, its);
    uint64_t mask = 0xf;
    int failed = 0;

    await_world(mask, "4", 0);
    for (int i = 0; i < rounds; i++) {
        const int joiner = 4 + i;
        const int victim = choose(mask, i % 4);
        uint64_t at;
        char what[64];

        atomic_store(&shared->doom[victim], delays[i] + 1);
        nxt_cast_start(&cast, joiner, NXT_LATER);
        (void)nxt_cast_await_end(&cast, victim);
        at = nxt_now_ns();
        mask = (mask | (UINT64_C(1) << joiner)) & ~(UINT64_C(1) << victim);
        (void)snprintf(what, sizeof(what), "a death %d us after an update began", delays[i]);
        await_world(mask, what, at);
    }
    for (int me = 0; me < MOST; me++) {
        failed += atomic_load(&shared->updates[me]);
    }
    printf("%d updates ended with NEXAR_EPEER\n", failed);
    finish(seed, mask);
}

static void test_deaths_in_updates(void **state)
{
    (void)state;
    deaths_in_updates(AUTOMATIC);
}

static void test_deaths_in_updates_with_retry(void **state)
{
    (void)state;
    deaths_in_updates(RETRY);
}

/* The first half of an update: |w|'s ranks exchange flags, and some rank sets one. */
static void ask(nexar_comm *w)
{
    uint64_t says = 4, said = 0;

    NXT_OK(w, nx_coll_wait(&(nx_coll_args){.name = "comm_update",
                                           .comm = w,
                                           .kind = NX_ALLREDUCE,
                                           .guise = NX_VARIANT_UPDATE,
                                           .send = &says,
                                           .recv = &said,
                                           .count = 1,
                                           .dtype = NEXAR_U64,
                                           .op = NEXAR_BOR,
                                           .host_memory = true},
                           NULL));
}

/* Returns when |w| is in the agreement of an update. */
static void *watch(void *arg)
{
    const nexar_comm *w = arg;
    bool inside = false;

    while (!inside) {
        nxt_nap();
        nx_loop_lock(w->world->loop);
        inside = (w->active->accord != NULL) && (w->active->accord->waiter != NULL);
        nx_loop_unlock(w->world->loop);
    }
    atomic_fetch_add(&shared->updates[0], 1);
    return NULL;
}

static nexar_err update_watched(nexar_comm **w, nexar_change *c)
{
    pthread_t thread;
    nexar_err err;

    NXT_IS(*w, pthread_create(&thread, NULL, watch, *w) == 0);
    err = nexar_comm_update(w, c);
    NXT_IS(*w, pthread_join(thread, NULL) == 0);
    return err;
}

/* Rank 3 exits when 0 and 1 are in the agreement of an update.  Rank 2 is there too, if |arg|, or
 * has got an error before. */
static void half(int rank, int join_fd, void *arg)
{
    const bool all = (arg != NULL);
    nexar_change c = {0};
    nexar_err err = NEXAR_OK;
    nexar_comm *w;
    int sum = 1;

    (void)alarm(MINUTE_S);
    w = nxt_procs_join(rank, join_fd, AUTOMATIC);
    if (rank == 3) {
        ask(w);
        nxt_await(&shared->updates[0], all ? 3 : 2);
        (void)raise(SIGKILL);
    } else if ((rank == 2) && !all) {
        ask(w);
        err = nexar_barrier(w);
    } else {
        err = update_watched(&w, &c);
    }
    NXT_IS(w, all ? ((err == NEXAR_OK) && (c.failed == 1)) : (err == NEXAR_EPEER));
    NXT_IS(w, nexar_size(w) == 3);
    NXT_OK(w, nexar_comm_update(&w, &c));
    NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, &sum, 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(w, (sum == 3) && (nexar_size(w) == 3));
    NXT_OK(w, nexar_finalize(w));
}

static void test_a_death_when_some_or_all_have_come_to_the_agreement(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        nxt_procs p;

        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&p, 4, half, all ? shared : NULL);
        nxt_procs_wait(&p, 8, 0);
        nxt_unshare(shared, sizeof(*shared));
    }
}

/* Every joiner exits, sooner or later. */
static void test_a_joiner_dies(void **state)
{
    nexar_seed *seed = begin(3, AUTOMATIC);

    (void)state;
    await_world(0x7, "3", 0);
    for (int i = 0; i < 8; i++) {
        uint64_t at;
        char what[64];

        nxt_cast_start(&cast, 3 + i, NXT_LATER);
        for (int naps = 0; naps < 3 * i; naps++) {
            nxt_nap();
        }
        at = nxt_cast_strike(&cast, 3 + i);
        nxt_cast_start(&cast, 12 + i,
                       (i == 7) ? NXT_NEVER : NXT_LATER); /* at least one event occurs */
        if (i < 7) {
            const uint64_t mask = 0x7 | (((UINT64_C(2) << i) - 1) << 12);

            (void)snprintf(what, sizeof(what), "a joiner dies after %d ms", 3 * i);
            await_world(mask, what, at);
        }
    }
    (void)nxt_cast_await_end(&cast, 19);
    finish(seed, 0x7 | (UINT64_C(0x7f) << 12));
}

/* ---- pending operations -------------------------------------------------------------- */

static void test_requests_that_wait_while_the_world_changes(void **state)
{
    nexar_seed *seed;
    uint64_t mask = 0x7;
    int revoked = 0;

    (void)state;
    pending = true;
    seed = begin(3, AUTOMATIC);
    await_world(mask, "3", 0);
    for (int me = 3; me < 7; me++) {
        const uint64_t at = nxt_now_ns();

        nxt_cast_start(&cast, me, NXT_LATER);
        mask |= UINT64_C(1) << me;
        await_world(mask, "a join while requests wait", at);
    }
    for (int me = 0; me < MOST; me++) {
        revoked += atomic_load(&shared->revoked[me]);
    }
    printf("%d requests were revoked\n", revoked);
    finish(seed, mask);
    pending = false;
}

/* ---- too few ------------------------------------------------------------------------- */

static void too_few(const char *const its[])
{
    nexar_seed *seed = begin(3, its);
    uint64_t at;

    await_world(0x7, "3", 0);
    (void)nxt_cast_strike(&cast, 1);
    nxt_await(&shared->few[0], 3); /* no world of two, and no rank hangs */
    nxt_await(&shared->few[2], 3);
    assert_int_equal(shared->cast.seen[0], 0x7);
    assert_int_equal(shared->cast.seen[2], 0x7);
    at = nxt_now_ns();
    nxt_cast_start(&cast, 3, NXT_LATER);
    await_world(0xd, "too few, until one joins", at);
    finish(seed, 0xd);
}

static void test_too_few_ranks_continue_when_more_join(void **state)
{
    static const char *const its[] = {"recovery", "automatic", "min_world", "3", NULL};
    static const char *const retry[] = {"recovery",  "automatic", "retry", "on",
                                        "min_world", "3",         NULL};

    (void)state;
    too_few(its);
    too_few(retry);
}

/* ---- abort --------------------------------------------------------------------------- */

static void test_who_leaves_aborts_nobody(void **state)
{
    static const char *const its[] = {"recovery", "abort", "max_world", "3", NULL};
    nexar_seed *seed;

    (void)state;
    aborts = true; /* until they have, the others may find their communicator revoked */
    seed = begin(4, its);
    await_world(0xf, "4", 0);
    nxt_cast_start(&cast, 4, NXT_LATER); /* waits: the world has no room */
    atomic_store(&shared->leave[0], 1);
    await_left(0);
    await_world(0xe, "one has left", 0);
    atomic_store(&shared->leave[2], 1);
    await_left(2);
    await_world(0x1a, "one has left, one has come", 0);
    (void)nxt_cast_strike(&cast, 1);
    end_all(seed, 0x18, ABORT_CODE);
    aborts = false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recoveries_and_updates_by_turns),
        cmocka_unit_test(test_repeated_collectives_and_updates_by_turns),
        cmocka_unit_test(test_deaths_in_updates),
        cmocka_unit_test(test_deaths_in_updates_with_retry),
        cmocka_unit_test(test_a_death_when_some_or_all_have_come_to_the_agreement),
        cmocka_unit_test(test_a_joiner_dies),
        cmocka_unit_test(test_requests_that_wait_while_the_world_changes),
        cmocka_unit_test(test_too_few_ranks_continue_when_more_join),
        cmocka_unit_test(test_who_leaves_aborts_nobody),
    };

    if (argc > 1) { /* some of them: *few* */
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
