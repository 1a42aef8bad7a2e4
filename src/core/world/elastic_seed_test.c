/* elastic_seed_test.c - an embedded seed reports its events, and ranks hand out the join string. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "unit.h"

enum { RANKS = 2, KINDS = NEXAR_SEED_ENDED + 1, JOIN = 1024 };

static atomic_int seen[KINDS];
static atomic_int last_joined;

static void on_event(const nexar_seed_event *event, void *arg)
{
    NXT_IS(NULL, (arg == seen) && (event->text != NULL));
    if (event->kind == NEXAR_SEED_JOINED) {
        NXT_IS(NULL, (event->rank >= -1) && (event->rank < RANKS) && (event->world == RANKS));
        atomic_store(&last_joined, event->joined);
    }
    atomic_fetch_add(&seen[event->kind], 1);
}

static nexar_config *config(const char *join)
{
    nexar_config *cfg;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "join", join), NEXAR_OK);
    return cfg;
}

static nexar_comm *join(const char *by)
{
    nexar_config *cfg = config(by);
    nexar_comm *world = NULL;

    if (nexar_init(cfg, &world) != NEXAR_OK) {
        (void)fprintf(stderr, "%s\n", nexar_last_error());
        abort();
    }
    nexar_config_free(cfg);
    return world;
}

static void *finalize(void *world)
{
    (void)!nexar_finalize(world);
    return NULL;
}

static void *join_in_thread(void *by)
{
    return join(by);
}

/* A rank that joins by the join string of another rank. */
static void *join_later(void *by)
{
    nexar_comm *w = join(by);

    NXT_IS(w, nexar_size(w) == RANKS + 1);
    NXT_OK(w, nexar_barrier(w));
    return w;
}

static nexar_seed *start_seed(char by[JOIN])
{
    nexar_config *cfg;
    nexar_seed *seed;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "world_size", "2"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "listen", "127.0.0.1"), NEXAR_OK);
    assert_int_equal(nexar_seed_start(cfg, &seed), NEXAR_OK);
    nexar_config_free(cfg);
    assert_int_equal(nexar_seed_on_event(NULL, on_event, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_seed_on_event(seed, on_event, seen), NEXAR_OK);
    assert_int_equal(nexar_seed_join_string(seed, by, JOIN), NEXAR_OK);
    return seed;
}

/* Updates |w| until it has another rank. */
static void *grow(void *w)
{
    nexar_comm *world = w;

    while (nexar_size(world) == RANKS) {
        NXT_OK(world, nexar_comm_update(&world, NULL));
    }
    NXT_OK(world, nexar_barrier(world));
    return world;
}

static void a_rank_hands_on_how_to_join_and_the_seed_reports_it(void **state)
{
    char by[JOIN], again[JOIN];
    nexar_comm *w[RANKS + 1];
    nexar_seed *seed = start_seed(by);
    pthread_t threads[RANKS + 1];

    (void)state;
    assert_int_equal(pthread_create(&threads[1], NULL, join_in_thread, by), 0);
    w[0] = join(by);
    assert_int_equal(pthread_join(threads[1], (void **)&w[1]), 0);
    assert_int_equal(seen[NEXAR_SEED_JOINED], RANKS);
    assert_int_equal(last_joined, RANKS);
    assert_int_equal(seen[NEXAR_SEED_FORMED], 1);

    assert_int_equal(nexar_join_string(w[1], again, strlen(by)), NEXAR_ETRUNC);
    assert_int_equal(nexar_join_string(NULL, again, JOIN), NEXAR_EINVAL);
    assert_int_equal(nexar_join_string(w[1], NULL, JOIN), NEXAR_EINVAL);
    assert_int_equal(nexar_join_string(w[1], again, JOIN), NEXAR_OK);
    assert_string_equal(again, by);
    assert_int_equal(pthread_create(&threads[2], NULL, join_later, again), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, grow, w[1]), 0);
    w[0] = grow(w[0]);
    assert_int_equal(pthread_join(threads[1], (void **)&w[1]), 0);
    assert_int_equal(pthread_join(threads[2], (void **)&w[2]), 0);
    assert_int_equal(seen[NEXAR_SEED_WAITING], 1);
    assert_true(seen[NEXAR_SEED_CHANGED] >= 1);

    for (int i = 0; i <= RANKS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, finalize, w[i]), 0);
    }
    for (int i = 0; i <= RANKS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    nexar_seed_stop(seed);
    assert_int_equal(seen[NEXAR_SEED_REFUSED], 0);
}

static void a_local_world_grows(void **state)
{
    nexar_comm *w[RANKS + 1];
    pthread_t threads[RANKS + 1];
    char by[JOIN];

    (void)state;
    assert_int_equal(nexar_init_local(RANKS, NULL, w), NEXAR_OK);
    assert_int_equal(nexar_join_string(w[0], by, JOIN), NEXAR_OK);
    assert_int_equal(pthread_create(&threads[2], NULL, join_later, by), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, grow, w[1]), 0);
    w[0] = grow(w[0]);
    assert_int_equal(pthread_join(threads[1], (void **)&w[1]), 0);
    assert_int_equal(pthread_join(threads[2], (void **)&w[2]), 0);
    for (int i = 0; i <= RANKS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, finalize, w[i]), 0);
    }
    for (int i = 0; i <= RANKS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static void a_world_of_one_has_no_join_string(void **state)
{
    nexar_comm *w = join("none");
    char by[JOIN];

    (void)state;
    assert_int_equal(nexar_join_string(w, by, sizeof(by)), NEXAR_ENOTSUP);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_hands_on_how_to_join_and_the_seed_reports_it),
        cmocka_unit_test(a_local_world_grows),
        cmocka_unit_test(a_world_of_one_has_no_join_string),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
