/* comm_timeout_test.c - nexar_comm_set_timeout: a call that times out does so on all ranks. */
#include <nexar.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "local_world.h"
#include "rand.h"
#include "unit.h"

enum { RANKS = 3, LATE = 2, TAG = 3, RACES = 40 };
static const uint64_t SHORT_NS = UINT64_C(100000000);

/* Rank LATE waits until the others' calls have timed out, and calls then. */
static void others_first(nexar_comm *w)
{
    if (nexar_rank(w) == LATE) {
        for (int i = 0; i < LATE; i++) {
            NXT_OK(w, nexar_recv(w, NULL, 0, i, TAG, NULL));
        }
    }
}

static void others_done(nexar_comm *w)
{
    if (nexar_rank(w) != LATE) {
        NXT_OK(w, nexar_send(w, NULL, 0, LATE, TAG));
    }
}

typedef nexar_err (*call_fn)(nexar_comm *c);

static nexar_err do_barrier(nexar_comm *c)
{
    return nexar_barrier(c);
}

static nexar_err do_allreduce(nexar_comm *c)
{
    static float in[1 << 16];
    float *out = calloc(1 << 16, sizeof(float));
    const nexar_err err = nexar_allreduce(c, in, out, 1 << 16, NEXAR_F32, NEXAR_SUM);

    free(out);
    return err;
}

static nexar_err do_request(nexar_comm *c)
{
    nexar_request *req = NULL;
    nexar_err err = nexar_ibarrier(c, &req);

    return (err == NEXAR_OK) ? nexar_wait(&req, NULL) : err;
}

static nexar_err freed(nexar_err err, nexar_comm *made)
{
    nexar_comm_free(made);
    return err;
}

static nexar_err do_dup(nexar_comm *c)
{
    nexar_comm *made = NULL;
    nexar_err err = nexar_comm_dup(c, &made);

    return freed(err, made);
}

static nexar_err do_split(nexar_comm *c)
{
    nexar_comm *made = NULL;
    nexar_err err = nexar_comm_split(c, nexar_rank(c) % 2, 0, &made);

    return freed(err, made);
}

static nexar_err do_create(nexar_comm *c)
{
    const int ranks[] = {1, 2, 0};
    nexar_comm *made = NULL;
    nexar_err err = nexar_comm_create(c, ranks, RANKS, TAG, &made);

    return freed(err, made);
}

static nexar_err do_shrink(nexar_comm *c)
{
    nexar_comm *made = NULL;
    nexar_err err = nexar_comm_shrink(c, &made);

    return freed(err, made);
}

static nexar_err do_state_sync(nexar_comm *c)
{
    int32_t value = 4;
    const nexar_state state = {.name = "v", .ptr = &value, .count = 1, .dtype = NEXAR_I32};
    uint64_t revision = 1;

    return nexar_state_sync(c, &state, 1, &revision, NULL);
}

static nexar_err do_agree(nexar_comm *c)
{
    uint64_t flags = 5;
    nexar_err err = nexar_comm_agree(c, &flags);

    return ((err == NEXAR_OK) && (flags != 5)) ? NEXAR_EINTERNAL : err;
}

static const struct {
    const char *name;
    call_fn call;
} calls[] = {{"barrier", do_barrier},
             {"allreduce", do_allreduce},
             {"ibarrier", do_request},
             {"dup", do_dup},
             {"split", do_split},
             {"create", do_create},
             {"state_sync", do_state_sync},
             {"shrink", do_shrink},
             {"agree", do_agree}};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* ---- a late rank ------------------------------------------------------------------------ */

/* Every call times out, twice in a row, on all; then it works. */
static void late(nexar_comm *w, void *arg)
{
    const call_fn call = calls[*(const int *)arg].call;
    nexar_comm *c = NULL;

    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_OK(w, nexar_comm_set_timeout(c, SHORT_NS));
    others_first(w);
    for (int i = 0; i < 2; i++) {
        const nexar_err err = call(c);

        NXT_IS(w, err == NEXAR_ETIMEDOUT);
    }
    others_done(w);
    NXT_OK(w, nexar_comm_set_timeout(c, 0));
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, call(c));
    NXT_OK(w, nexar_barrier(c));
    NXT_OK(w, do_agree(c));
    nexar_comm_free(c);
}

static void test_a_late_rank_lets_each_call_time_out_on_all(void **state)
{
    (void)state;
    for (int i = 0; i < CALLS; i++) {
        printf("%s\n", calls[i].name);
        nxt_local_world(RANKS, NULL, late, &i);
    }
}

/* A communicator inherits the time-out of its parent. */
static void inherited(nexar_comm *w, void *arg)
{
    const int all[] = {0, 1, 2};
    nexar_comm *c[4] = {NULL};

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c[0]));
    NXT_OK(w, nexar_comm_set_timeout(c[0], SHORT_NS * 20));
    NXT_OK(w, nexar_comm_dup(c[0], &c[1]));
    NXT_OK(w, nexar_comm_split(c[1], 0, 0, &c[2]));
    NXT_OK(w, nexar_comm_create(c[2], all, RANKS, TAG, &c[3]));
    NXT_OK(w, nexar_comm_set_timeout(c[0], 0));
    NXT_OK(w, nexar_barrier(c[3]));
    others_first(w);
    for (int i = 1; i < 4; i++) {
        NXT_IS(w, do_agree(c[i]) == NEXAR_ETIMEDOUT);
    }
    others_done(w);
    NXT_OK(w, nexar_barrier(c[0]));
    for (int i = 0; i < 4; i++) {
        nexar_comm_free(c[i]);
    }
}

static void test_the_time_is_handed_down(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, inherited, NULL);
}

/* ---- at the last moment ----------------------------------------------------------------- */

static void nap(uint64_t ns)
{
    const struct timespec t = {.tv_nsec = (long)ns};

    (void)nanosleep(&t, NULL);
}

/* Ranks call at about the time when the others time out: all get the same result. */
static void race(nexar_comm *w, void *arg)
{
    const call_fn call = calls[*(const int *)arg].call;
    const uint64_t time_ns = UINT64_C(3000000);
    nxt_rand rand = {.state = (uint64_t)nexar_rank(w) + 1};
    nexar_comm *c = NULL;
    int late = 0;

    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_OK(w, nexar_comm_set_timeout(c, time_ns));
    for (int i = 0; i < RACES; i++) {
        int all[RANKS], mine;

        NXT_OK(w, nexar_barrier(w));
        nap(nxt_below(&rand, 2 * time_ns));
        mine = call(c);
        NXT_IS(w, (mine == NEXAR_OK) || (mine == NEXAR_ETIMEDOUT));
        NXT_OK(w, nexar_allgather(w, &mine, all, 1, NEXAR_I32));
        for (int rank = 1; rank < RANKS; rank++) {
            NXT_IS(w, all[rank] == all[0]);
        }
        late += (mine != NEXAR_OK);
    }
    if (nexar_rank(w) == 0) {
        printf("%d of %d timed out\n", late, RACES);
    }
    nexar_comm_free(c);
}

static void test_all_ranks_time_out_or_none(void **state)
{
    (void)state;
    for (int i = 5; i < CALLS; i++) { /* create, and calls that use agreements */
        nxt_local_world(RANKS, NULL, race, &i);
    }
}

static void refused(nexar_comm *w, void *arg)
{
    (void)arg;
    NXT_SAYS(w, nexar_comm_set_timeout(NULL, 1), NEXAR_EINVAL, "comm is NULL");
    NXT_OK(w, nexar_comm_set_timeout(w, UINT64_MAX));
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, do_agree(w));
}

static void test_a_time_may_be_as_long_as_it_likes(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, refused, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_rank_lets_each_call_time_out_on_all),
        cmocka_unit_test(test_the_time_is_handed_down),
        cmocka_unit_test(test_all_ranks_time_out_or_none),
        cmocka_unit_test(test_a_time_may_be_as_long_as_it_likes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
