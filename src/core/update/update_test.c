/*
 * update_test.c - worlds that change: ranks as processes that join, leave and fail, and ranks as
 * threads where that suffices.
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

#include "base/alloc.h"
#include "cast.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "unit.h"

enum { MOST = 8, LARGE = 1 << 18, TAG = 5, FN = 3 };

/* Shared memory of the processes, besides nexar; by the number of the process. */
typedef struct board {
    nxt_cast_board cast;
    _Atomic int leave[MOST]; /* it is to leave */
    _Atomic int stop;        /* all are to end */
    _Atomic int left[MOST];  /* it has */
    _Atomic int ended[MOST]; /* it has ended successfully */
    _Atomic uint64_t steps[MOST];
    _Atomic uint64_t links[MOST]; /* number ever made */
    _Atomic uint64_t met[MOST];   /* members ever seen */
    _Atomic uint64_t peers[MOST]; /* from which it has a value */
    _Atomic int formed, held;     /* ranks in the world; ranks that wait outside of nexar */
} board;

static board *shared;
static nxt_cast cast;
static const char *min_world = "0", *max_world = "0";

/* ---- a rank ------------------------------------------------------------------------------ */

/* Whether nexar_comm_update repairs the world after this error. */
static bool is_failure(nexar_err err)
{
    return (err == NEXAR_EPEER) || (err == NEXAR_EREVOKED);
}

/* One step: exchanges the live ranks, whether any rank wants to stop, and some bytes. */
static nexar_err step(nexar_comm *w, int me, bool *stop)
{
    static float large[LARGE];
    int64_t v[4] = {1, INT64_C(1) << me, atomic_load(&shared->stop),
                    (int64_t)atomic_load(&shared->steps[me])};
    nexar_err err = nexar_allreduce(w, NEXAR_IN_PLACE, v, 4, NEXAR_I64, NEXAR_SUM);

    /* A step may succeed on some ranks only: the next step depends only on values that all ranks
     * know. */
    if ((err == NEXAR_OK) && (v[3] % 4 == 0)) {
        for (size_t i = 0; i < LARGE; i++) {
            large[i] = 1;
        }
        err = nexar_allreduce(w, NEXAR_IN_PLACE, large, LARGE, NEXAR_F32, NEXAR_SUM);
        for (size_t i = 0; (err == NEXAR_OK) && (i < LARGE); i++) {
            NXT_IS(w, large[i] == (float)nexar_size(w));
        }
    }
    if (err == NEXAR_OK) {
        NXT_IS(w, v[0] == nexar_size(w));
        NXT_IS(w, __builtin_popcountll((unsigned long long)v[1]) == nexar_size(w));
        atomic_fetch_or(&shared->met[me], (uint64_t)v[1]);
        atomic_fetch_add(&shared->steps[me], 1);
        atomic_store(&shared->cast.seen[me], (uint64_t)v[1]); /* finally: others wait for it */
        *stop = (v[2] > 0);
    }
    return err;
}

/* An update that succeeds in the end. */
static void update(nexar_comm **w, int me)
{
    nexar_change c;
    nexar_err err;
    nexar_comm *before = *w;
    const int old_rank = nexar_rank(*w), old_size = nexar_size(*w);

    err = nexar_comm_update(w, &c);
    if (err != NEXAR_OK) {
        NXT_IS(*w, err == NEXAR_EPEER);
        NXT_IS(*w, strstr(nexar_last_error(), "min_world") != NULL);
        NXT_IS(*w, *w == before);
        nxt_nap();
        return;
    }
    NXT_IS(*w, (c.old_rank == old_rank) && (c.old_size == old_size));
    NXT_IS(*w, c.new_size == c.old_size + c.joined - c.left - c.failed);
    if (*w == NULL) {
        NXT_IS(NULL, (c.new_rank == -1) && (c.left > 0));
        return;
    }
    NXT_IS(*w, (c.new_rank == nexar_rank(*w)) && (c.new_size == nexar_size(*w)));
    if ((c.joined == 0) && (c.left == 0) && (c.failed == 0)) {
        NXT_IS(*w, c.old_rank == c.new_rank);
    }
    atomic_store(&shared->left[me], 0);
}

static void look(nexar_comm *w, int me)
{
    nx_msg_stats s;

    nx_loop_lock(w->world->loop);
    nx_msg_stats_get(w->world->msg, &s);
    nx_loop_unlock(w->world->loop);
    NXT_IS(w, s.granted <= nx_config_size(w->world->config, NX_SET_UNEXPECTED));
    atomic_store(&shared->links[me], s.links);
    atomic_store(&shared->peers[me], s.peers);
}

static void set(nexar_config *cfg, const char *name, const char *value)
{
    NXT_OK(NULL, nexar_config_set(cfg, name, value));
}

static nexar_comm *join_world(int rank)
{
    nexar_config *cfg = NULL;
    nexar_comm *w = NULL;
    char number[16];

    NXT_OK(NULL, nexar_config_create(&cfg));
    set(cfg, "join", shared->cast.join);
    set(cfg, "min_world", min_world);
    set(cfg, "max_world", max_world);
    set(cfg, "heartbeat_timeout", "1m"); /* the machine may be slow; a kill is visible */
    if (rank >= 0) {
        (void)snprintf(number, sizeof(number), "%d", rank);
        set(cfg, "rank", number);
    }
    NXT_OK(NULL, nexar_init(cfg, &w));
    nexar_config_free(cfg);
    return w;
}

static void rank_main(int me, bool first)
{
    nexar_comm *w = join_world(first ? me : -1);
    bool stop = false;

    while (!stop) {
        nexar_err err = step(w, me, &stop);

        NXT_IS(w, (err == NEXAR_OK) || is_failure(err));
        if (atomic_load(&shared->leave[me])) {
            NXT_OK(w, nexar_comm_leave(w));
        }
        if (!stop) {
            update(&w, me);
        }
        if (w == NULL) {
            atomic_store(&shared->left[me], 1);
            _exit(0);
        }
        look(w, me);
    }
    NXT_OK(w, nexar_finalize(w));
    atomic_store(&shared->ended[me], 1);
    _exit(0);
}

/* ---- the test itself ---------------------------------------------------------------------- */

static nexar_seed *begin_with(int ranks, void (*body)(int me, bool first))
{
    shared = nxt_share(sizeof(*shared));
    return nxt_cast_begin(&cast, &shared->cast, MOST, ranks, body);
}

static nexar_seed *begin(int ranks)
{
    return begin_with(ranks, rank_main);
}

static void await_world(uint64_t mask)
{
    nxt_cast_await_world(&cast, mask, "the world");
}

static void await_left(int me)
{
    const int status = nxt_cast_await_end(&cast, me);

    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
    assert_int_equal(shared->left[me], 1);
}

/* Existing connections stay, and no more were made than there are other ranks. */
static void check_links(uint64_t mask)
{
    for (int me = 0; me < MOST; me++) {
        if ((mask >> me) & 1) {
            assert_true((int)shared->links[me] <= __builtin_popcountll(shared->met[me]) - 1);
        }
    }
}

static void finish(nexar_seed *seed, uint64_t mask)
{
    check_links(mask);
    atomic_store(&shared->stop, 1);
    for (int me = 0; me < MOST; me++) {
        if ((mask >> me) & 1) {
            const int status = nxt_cast_await_end(&cast, me);

            assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
            assert_int_equal(shared->ended[me], 1);
        } else {
            nxt_cast_dismiss(&cast, me);
        }
    }
    nexar_seed_stop(seed);
    nxt_unshare(shared, sizeof(*shared));
}

/* ---- without joiners ---------------------------------------------------------------------- */

static void test_failed_ranks_are_dropped(void **state)
{
    nexar_seed *seed = begin(4);

    (void)state;
    await_world(0xf);
    (void)nxt_cast_strike(&cast, 1);
    await_world(0xd);
    (void)nxt_cast_strike(&cast, 0);
    await_world(0xc);
    finish(seed, 0xc);
}

static void test_a_rank_that_asked_to_leave_has_left(void **state)
{
    nexar_seed *seed = begin(4);

    (void)state;
    await_world(0xf);
    atomic_store(&shared->leave[0], 1);
    await_left(0);
    await_world(0xe);
    atomic_store(&shared->leave[3], 1);
    atomic_store(&shared->leave[1], 1);
    await_left(3);
    await_left(1);
    await_world(0x4);
    finish(seed, 0x4);
}

static void test_one_leaves_while_another_dies(void **state)
{
    nexar_seed *seed = begin(5);

    (void)state;
    await_world(0x1f);
    atomic_store(&shared->leave[2], 1);
    (void)nxt_cast_strike(&cast, 4);
    await_left(2);
    await_world(0xb);
    finish(seed, 0xb);
}

static void test_fewer_than_min_world_do_not_continue(void **state)
{
    nexar_seed *seed;
    uint64_t steps;

    (void)state;
    min_world = "3";
    seed = begin(4);
    await_world(0xf);
    (void)nxt_cast_strike(&cast, 3);
    await_world(0x7);
    atomic_store(&shared->leave[1], 1); /* not allowed, it is needed */
    steps = atomic_load(&shared->steps[0]);
    while (atomic_load(&shared->steps[0]) < steps + 20) {
        nxt_nap();
    }
    await_world(0x7);
    assert_int_equal(shared->left[1], 0);
    atomic_store(&shared->leave[1], 0);
    finish(seed, 0x7);
    min_world = "0";
}

/* ---- with joiners ---------------------------------------------------------------------- */

static void test_who_waits_at_the_seed_joins(void **state)
{
    nexar_seed *seed = begin(2);

    (void)state;
    await_world(0x3);
    nxt_cast_start(&cast, 2, NXT_LATER);
    await_world(0x7);
    nxt_cast_start(&cast, 3, NXT_LATER);
    nxt_cast_start(&cast, 4, NXT_LATER);
    await_world(0x1f);
    finish(seed, 0x1f);
}

static void test_some_join_one_leaves_and_one_dies_at_once(void **state)
{
    nexar_seed *seed = begin(3);

    (void)state;
    await_world(0x7);
    nxt_cast_start(&cast, 3, NXT_LATER);
    nxt_cast_start(&cast, 4, NXT_LATER);
    atomic_store(&shared->leave[0], 1);
    (void)nxt_cast_strike(&cast, 1);
    await_left(0);
    await_world(0x1c);
    (void)nxt_cast_strike(&cast, 2); /* the last of the initial ranks */
    await_world(0x18);
    nxt_cast_start(&cast, 5, NXT_LATER);
    await_world(0x38);
    finish(seed, 0x38);
}

/* Waits outside of nexar until |joiners| wait at the seed and a failure is known, on each of
 * |ranks|. */
static void hold(nexar_comm *w, uint32_t joiners, int ranks)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(60000000000);
    uint32_t waiting = 0;
    int failed[MOST];
    size_t n = 0;

    while ((waiting < joiners) || (n == 0)) {
        nx_loop_lock(w->world->loop);
        waiting = w->world->waiting;
        nx_loop_unlock(w->world->loop);
        n = MOST;
        NXT_OK(w, nexar_comm_failed(w, failed, &n));
        NXT_IS(w, nxt_now_ns() < end);
        nxt_nap();
    }
    atomic_fetch_add(&shared->held, 1);
    nxt_await(&shared->held, ranks);
}

/* The ranks of |kind| in the last change of |w| are |first|, |first| + 1, ... */
static void is_changed(nexar_comm *w, nexar_change_kind kind, int first, size_t count)
{
    int ranks[MOST] = {-1, -1};
    size_t n = 1; /* too small if there are two */

    NXT_OK(w, nexar_last_change_ranks(w, kind, ranks, &n));
    NXT_IS(w, (n == count) && (ranks[1] == -1));
    n = MOST;
    NXT_OK(w, nexar_last_change_ranks(w, kind, ranks, &n));
    NXT_IS(w, n == count);
    for (size_t i = 0; i < n; i++) {
        NXT_IS(w, ranks[i] == first + (int)i);
    }
}

static _Atomic int changes;

static void on_change(nexar_comm *w, const nexar_change *change, void *arg)
{
    NXT_IS(w, arg == &changes);
    NXT_IS(w, (change->joined == 2) && (change->left == 1) && (change->failed == 1));
    NXT_IS(w, (nexar_rank(w) == change->new_rank) && (nexar_size(w) == change->new_size));
    atomic_fetch_add(&changes, 1);
}

/* Of four, 0 leaves and 1 fails; 4 and 5 join. */
static void held_main(int me, bool first)
{
    nexar_comm *w = join_world(first ? me : -1);
    nexar_change c = {0};
    bool stop = false;

    is_changed(w, NEXAR_CHANGE_JOINED, 0, 0);
    NXT_OK(w, nexar_on_change(w, on_change, &changes));
    if (first) {
        NXT_OK(w, step(w, me, &stop));
        atomic_fetch_add(&shared->formed, 1);
        hold(w, 2, 3);
        if (me == 0) {
            NXT_OK(w, nexar_comm_leave(w));
        }
        NXT_OK(w, nexar_comm_update(&w, &c));
        NXT_IS(w, (c.joined == 2) && (c.left == 1) && (c.failed == 1));
        NXT_IS(w, (c.old_rank == me) && (c.old_size == 4) && (c.new_size == 4));
        NXT_IS(w, c.new_rank == ((me == 0) ? -1 : me - 2));
        NXT_IS(w, (w == NULL) == (me == 0));
    }
    if (w != NULL) {
        NXT_IS(w, nexar_size(w) == 4);
        NXT_OK(w, step(w, me, &stop));
        NXT_OK(w, nexar_comm_update(&w, NULL)); /* keeps the last change */
        is_changed(w, NEXAR_CHANGE_JOINED, 2, first ? 2 : 0);
        is_changed(w, NEXAR_CHANGE_LEFT, 0, first ? 1 : 0);
        is_changed(w, NEXAR_CHANGE_FAILED, 1, first ? 1 : 0);
        look(w, me);
        nxt_await(&shared->stop, 1);
        NXT_OK(w, nexar_finalize(w));
        NXT_IS(NULL, atomic_load(&changes) == (first ? 1 : 0)); /* finalize waits for calls */
    }
    atomic_store(&shared->left[me], (w == NULL) ? 1 : 0);
    atomic_store(&shared->ended[me], 1);
}

static void test_one_update_takes_in_lets_go_and_drops(void **state)
{
    nexar_seed *seed = begin_with(4, held_main);

    (void)state;
    nxt_await(&shared->formed, 4);
    nxt_cast_start(&cast, 4, NXT_LATER);
    nxt_cast_start(&cast, 5, NXT_LATER);
    (void)nxt_cast_strike(&cast, 1);
    await_left(0);
    await_world(0x3c);
    finish(seed, 0x3c);
}

static void test_a_world_of_one_grows(void **state)
{
    nexar_seed *seed = begin(1);

    (void)state;
    await_world(0x1);
    for (int me = 1; me < MOST; me++) {
        nxt_cast_start(&cast, me, NXT_LATER);
    }
    await_world(0xff);
    for (int me = 0; me < 4; me++) {
        atomic_store(&shared->leave[me], 1);
    }
    for (int me = 0; me < 4; me++) {
        await_left(me);
    }
    await_world(0xf0);
    finish(seed, 0xf0);
}

static void test_more_than_max_world_wait(void **state)
{
    nexar_seed *seed;
    uint64_t steps;

    (void)state;
    max_world = "3";
    seed = begin(2);
    await_world(0x3);
    nxt_cast_start(&cast, 2, NXT_LATER);
    await_world(0x7);
    nxt_cast_start(&cast, 3, NXT_LATER);
    steps = atomic_load(&shared->steps[0]);
    while (atomic_load(&shared->steps[0]) < steps + 50) {
        nxt_nap();
    }
    await_world(0x7);
    (void)nxt_cast_strike(&cast, 1);
    await_world(0xd);
    finish(seed, 0xd);
    max_world = "0";
}

/* ---- threads -------------------------------------------------------------------------------- */

typedef struct local {
    pthread_t thread;
    nexar_comm *w;
    void (*fn)(nexar_comm **w);
} local;

static void *local_main(void *arg)
{
    local *l = arg;

    l->fn(&l->w);
    NXT_OK(l->w, nexar_finalize(l->w));
    return NULL;
}

static void run_local(int n, void (*fn)(nexar_comm **w))
{
    nexar_comm *worlds[MOST];
    local locals[MOST];

    assert_int_equal(nexar_init_local(n, NULL, worlds), NEXAR_OK);
    for (int i = 0; i < n; i++) {
        locals[i] = (local){.w = worlds[i], .fn = fn};
        assert_int_equal(pthread_create(&locals[i].thread, NULL, local_main, &locals[i]), 0);
    }
    for (int i = 0; i < n; i++) {
        assert_int_equal(pthread_join(locals[i].thread, NULL), 0);
    }
}

static nexar_err serve(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    const int caller = nexar_rpc_caller(call);

    (void)data;
    (void)bytes;
    (void)arg;
    return nexar_rpc_reply(call, &caller, sizeof(caller));
}

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)rank;
    (void)why;
    (void)arg;
}

/* The cost of an update without a change and of a barrier, alternating. */
static void compare(nexar_comm **w)
{
    uint64_t barriers = 0, updates = 0, at;

    for (int i = 0; i < 300; i++) {
        at = nxt_now_ns();
        NXT_OK(*w, nexar_barrier(*w));
        barriers += nxt_now_ns() - at;
        at = nxt_now_ns();
        NXT_OK(*w, nexar_comm_update(w, NULL));
        updates += nxt_now_ns() - at;
    }
    if (nexar_rank(*w) == 0) {
        printf("barrier %.1f us, update without a change %.1f us\n", (double)barriers / 300e3,
               (double)updates / 300e3);
    }
}

static void nothing_changes(nexar_comm **w)
{
    nexar_comm *before = *w;
    nexar_change c = {.joined = 9};
    nexar_comm *part = NULL;

    for (int i = 0; i < 100; i++) {
        NXT_OK(*w, nexar_comm_update(w, (i % 2 == 0) ? &c : NULL));
    }
    compare(w);
    NXT_IS(*w, *w == before);
    NXT_IS(*w, (c.old_rank == nexar_rank(*w)) && (c.new_rank == nexar_rank(*w)));
    NXT_IS(*w, (c.old_size == 3) && (c.new_size == 3));
    NXT_IS(*w, (c.joined == 0) && (c.left == 0) && (c.failed == 0));
    NXT_OK(*w, nexar_comm_dup(*w, &part));
    NXT_SAYS(*w, nexar_comm_update(&part, NULL), NEXAR_EINVAL, "give the world");
    NXT_SAYS(*w, nexar_comm_leave(part), NEXAR_EINVAL, "give the world");
    NXT_SAYS(*w, nexar_comm_update(NULL, NULL), NEXAR_EINVAL, "NULL");
    NXT_SAYS(*w, nexar_comm_leave(NULL), NEXAR_EINVAL, "NULL");
    nexar_comm_free(part);
}

static void test_without_a_change_all_is_as_it_was(void **state)
{
    (void)state;
    run_local(3, nothing_changes);
}

/* The state of old worlds is freed, when all ranks have finished with it. */
static void await_forgotten(nexar_comm *w)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(60000000000);
    size_t n;

    do {
        n = 0;
        nx_loop_lock(w->world->loop);
        nx_list_for_each (at, &w->world->accords) {
            n++;
        }
        nx_loop_unlock(w->world->loop);
        NXT_IS(w, nxt_now_ns() < end);
        nxt_nap();
    } while (n > 1);
    NXT_IS(w, w->world->incarnations.next == w->world->incarnations.prev);
}

/* Rank 1 leaves.  Settings that the others have made on the world, and their other communicators,
 * stay; operations that wait on the old world end. */
static void one_leaves(nexar_comm **w)
{
    const int me = nexar_rank(*w), next = (me == 0) ? 1 : 0;
    nexar_comm *pair = NULL;
    nexar_request *req = NULL;
    nexar_change c;
    size_t bytes = 0;
    void *reply = NULL;
    char byte = 0;
    int sum = me;

    NXT_OK(*w, nexar_rpc_register(*w, FN, serve, NULL));
    NXT_OK(*w, nexar_on_failure(*w, on_failure, NULL));
    NXT_OK(*w, nexar_comm_set_device(*w, nexar_cpu_device()));
    NXT_OK(*w, nexar_comm_split(*w, (me == 1) ? 1 : 0, 0, &pair));
    NXT_OK(*w, nexar_irecv(*w, &byte, 1, NEXAR_ANY_SOURCE, TAG, &req));
    if (me == 1) {
        NXT_OK(*w, nexar_cancel(req));
        NXT_IS(*w, nexar_wait(&req, NULL) == NEXAR_ECANCELED);
        nexar_comm_free(pair);
        NXT_OK(*w, nexar_comm_leave(*w));
    }
    NXT_OK(*w, nexar_comm_update(w, &c));
    NXT_IS(*w, (c.left == 1) && (c.failed == 0) && (c.joined == 0) && (c.new_size == 2));
    if (me == 1) {
        NXT_IS(NULL, (*w == NULL) && (c.new_rank == -1));
        return;
    }
    NXT_IS(*w, nexar_wait(&req, NULL) == NEXAR_EREVOKED);
    NXT_IS(*w, (nexar_size(*w) == 2) && (nexar_rank(*w) == me / 2));
    NXT_IS(*w, ((*w)->device != NULL) && ((*w)->on_failure == on_failure));
    NXT_OK(*w, nexar_rpc_call(*w, next, FN, NULL, 0, &reply, &bytes));
    NXT_IS(*w, (bytes == sizeof(int)) && (*(int *)reply == nexar_rank(*w)));
    free(reply);
    NXT_OK(*w, nexar_allreduce(*w, NEXAR_IN_PLACE, &sum, 1, NEXAR_I32, NEXAR_SUM));
    NXT_IS(*w, sum == 2);
    NXT_OK(*w, nexar_barrier(pair));
    nexar_comm_free(pair);
    await_forgotten(*w);
    NXT_OK(*w, nexar_barrier(*w));
}

static void test_what_was_set_on_the_world_stays(void **state)
{
    (void)state;
    run_local(3, one_leaves);
}

static void all_leave(nexar_comm **w)
{
    NXT_OK(*w, nexar_comm_leave(*w));
    NXT_OK(*w, nexar_comm_update(w, NULL));
    NXT_IS(NULL, *w == NULL);
}

static void test_all_may_leave(void **state)
{
    nexar_comm *w = NULL;

    (void)state;
    run_local(4, all_leave);
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK); /* a world of one */
    assert_int_equal(nexar_comm_update(&w, NULL), NEXAR_OK);
    assert_non_null(w);
    assert_int_equal(nexar_comm_revoke(w), NEXAR_OK);
    assert_int_equal(nexar_comm_update(&w, NULL), NEXAR_OK);
    assert_int_equal(nexar_barrier(w), NEXAR_OK);
    all_leave(&w);
}

/* One rank has revoked the world: all get another one, of the same ranks. */
static void revoked(nexar_comm **w)
{
    nexar_change c;
    nexar_err err = NEXAR_OK;

    for (int i = 0; i < 20; i++) {
        const int me = nexar_rank(*w);

        if (i % 3 == me) {
            NXT_OK(*w, nexar_comm_revoke(*w));
        }
        while (err == NEXAR_OK) {
            err = nexar_barrier(*w);
        }
        NXT_IS(*w, err == NEXAR_EREVOKED);
        NXT_OK(*w, nexar_comm_update(w, &c));
        NXT_IS(*w, (c.new_size == 3) && (c.new_rank == me) && (c.failed == 0));
        err = nexar_barrier(*w);
    }
    await_forgotten(*w);
    (void)nexar_barrier(*w); /* no rank finalizes before; it may be revoked */
}

static void test_a_revoked_world_is_made_again(void **state)
{
    (void)state;
    run_local(3, revoked);
}

/* Rank 0 has no memory for its |oom|th allocation in an update in which rank 1 leaves: rank 0
 * leaves the world, and the others continue without it. */
static long oom;
static _Atomic bool failed;

static void short_of_memory(nexar_comm **w)
{
    const int me = nexar_rank(*w);
    nexar_err err = nexar_barrier(*w); /* which rank 0 may have left, and more */

    NXT_IS(*w, (err == NEXAR_OK) || is_failure(err));
    NXT_OK(*w, nexar_on_failure(*w, on_failure, NULL)); /* for the next world */
    if (me == 1) {
        NXT_OK(*w, nexar_comm_leave(*w));
    }
    do {
        if (me == 0) {
            nx_alloc_fail_after(oom);
        }
        err = nexar_comm_update(w, NULL);
        if (me == 0) {
            atomic_store(&failed, nx_alloc_failed());
            nx_alloc_fail_after(-1);
        }
        if ((me == 0) && (err != NEXAR_OK)) {
            NXT_IS(*w, (err == NEXAR_ENOMEM) || (err == NEXAR_EPEER));
            NXT_IS(*w, is_failure(nexar_barrier(*w)));
            return;
        }
        NXT_OK(*w, err);
        err = (*w == NULL) ? NEXAR_OK : nexar_barrier(*w);
        NXT_IS(*w, (err == NEXAR_OK) || is_failure(err));
    } while (err != NEXAR_OK);
    NXT_IS(*w, (*w == NULL) == (me == 1));
}

static void test_a_rank_without_memory_is_out(void **state)
{
    (void)state;
    for (oom = 0; (oom == 0) || atomic_load(&failed); oom++) {
        run_local(3, short_of_memory);
    }
    printf("%ld allocations could fail\n", oom - 1);
    assert_true(oom > 10);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_change_all_is_as_it_was),
        cmocka_unit_test(test_what_was_set_on_the_world_stays),
        cmocka_unit_test(test_all_may_leave),
        cmocka_unit_test(test_a_revoked_world_is_made_again),
        cmocka_unit_test(test_a_rank_without_memory_is_out),
        cmocka_unit_test(test_failed_ranks_are_dropped),
        cmocka_unit_test(test_a_rank_that_asked_to_leave_has_left),
        cmocka_unit_test(test_one_leaves_while_another_dies),
        cmocka_unit_test(test_fewer_than_min_world_do_not_continue),
        cmocka_unit_test(test_who_waits_at_the_seed_joins),
        cmocka_unit_test(test_some_join_one_leaves_and_one_dies_at_once),
        cmocka_unit_test(test_one_update_takes_in_lets_go_and_drops),
        cmocka_unit_test(test_a_world_of_one_grows),
        cmocka_unit_test(test_more_than_max_world_wait),
    };

    if (argc > 1) { /* some of them: *join* */
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
