/*
 * joining_test.c - one of the joining ranks is stopped while it is admitted: the other joiners and
 * the members continue as soon as its silence is detected, and no other rank is lost.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include <nexar.h>

#include "cast.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "unit.h"

enum { FIRST = 2, STOPPED = 2, OTHER = 3, ALL = 4, SMALL = 16 };
static const uint64_t MS = 1000000;
/* heartbeat_timeout, heartbeat_interval, and a margin for a busy machine, far below the seed's 10
 * s. */
static const uint64_t BOUND_MS = 2000 + 200 + 2500;

typedef struct board {
    nxt_cast_board cast;
    _Atomic int formed, waiting, go, done;
    _Atomic uint64_t began_ns;
    _Atomic uint64_t took_ms[ALL]; /* from the call of the update until this one continued */
} board;

static board *shared;
static nxt_cast cast;
static const char *transports;

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
    set(cfg, "transports", transports);
    set(cfg, "max_world", "4");
    set(cfg, "heartbeat_timeout", "2s");
    set(cfg, "heartbeat_interval", "200ms");
    if (rank >= 0) {
        (void)snprintf(number, sizeof(number), "%d", rank);
        set(cfg, "rank", number);
    }
    NXT_OK(NULL, nexar_init(cfg, &w));
    nexar_config_free(cfg);
    return w;
}

static void await_waiting(nexar_comm *w)
{
    uint32_t waiting = 0;

    while (waiting < ALL - FIRST) {
        nx_loop_lock(w->world->loop);
        waiting = w->world->waiting;
        nx_loop_unlock(w->world->loop);
        nxt_nap();
    }
    atomic_fetch_add(&shared->waiting, 1);
    nxt_await(&shared->go, 1);
}

static void live(int me, bool first)
{
    nexar_comm *w = join_world(first ? me : -1);
    nexar_change change;

    if (first) {
        NXT_OK(w, nxt_sum_all(w, SMALL));
        atomic_fetch_add(&shared->formed, 1);
        await_waiting(w);
        NXT_OK(w, nexar_comm_update(&w, &change));
        NXT_IS(w, change.joined == ALL - FIRST);
    }
    atomic_store(&shared->took_ms[me], (nxt_now_ns() - atomic_load(&shared->began_ns)) / MS);
    while ((nexar_size(w) == ALL) || (nxt_sum_all(w, SMALL) != NEXAR_OK)) {
        NXT_OK(w, nexar_comm_update(&w, &change));
    }
    NXT_IS(w, nexar_size(w) == ALL - 1);
    atomic_fetch_add(&shared->done, 1);
    NXT_OK(w, nexar_finalize(w));
    _exit(0);
}

static void lose_one(const char *by)
{
    nexar_seed *seed;

    transports = by;
    shared = nxt_share(sizeof(*shared));
    seed = nxt_cast_begin(&cast, &shared->cast, ALL, FIRST, live);
    nxt_await(&shared->formed, FIRST);
    nxt_cast_start(&cast, STOPPED, NXT_LATER);
    nxt_cast_start(&cast, OTHER, NXT_LATER);
    nxt_await(&shared->waiting, FIRST);
    assert_int_equal(kill(cast.pids[STOPPED], SIGSTOP), 0);
    atomic_store(&shared->began_ns, nxt_now_ns());
    atomic_store(&shared->go, 1);
    nxt_await(&shared->done, ALL - 1);
    for (int me = 0; me < ALL; me++) {
        if (me != STOPPED) {
            printf("%s: rank %d went on after %lu ms\n", by, me,
                   (unsigned long)atomic_load(&shared->took_ms[me]));
            assert_true(atomic_load(&shared->took_ms[me]) < BOUND_MS);
            assert_int_equal(nxt_cast_await_end(&cast, me), 0);
        }
    }
    assert_int_equal(kill(cast.pids[STOPPED], SIGKILL), 0);
    (void)nxt_cast_await_end(&cast, STOPPED);
    nexar_seed_stop(seed);
    nxt_unshare(shared, sizeof(*shared));
}

static void test_a_stopped_joiner_delays_no_rank_by_shared_memory(void **state)
{
    (void)state;
    lose_one("auto");
}

static void test_a_stopped_joiner_delays_no_rank_by_quic(void **state)
{
    (void)state;
    lose_one("quic");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_stopped_joiner_delays_no_rank_by_shared_memory),
        cmocka_unit_test(test_a_stopped_joiner_delays_no_rank_by_quic),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
