/* state_sync_test.c - nexar_state_sync between ranks of one process. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "oom.h"
#include "unit.h"

enum { WEIGHTS = 300 * 1024 + 7, BIAS = 33, STEP = 1, TENSORS = 3 };

/* The state of one rank. */
typedef struct job {
    uint8_t weights[WEIGHTS];
    float bias[BIAS];
    uint64_t step[STEP];
    nexar_state tensors[TENSORS];
} job;

static job *make(uint64_t seed)
{
    job *j = malloc(sizeof(*j));

    if (j == NULL) {
        abort();
    }
    nxt_fill(j->weights, sizeof(j->weights), seed);
    nxt_fill(j->bias, sizeof(j->bias), seed + 100);
    nxt_fill(j->step, sizeof(j->step), seed + 200);
    j->tensors[0] = (nexar_state){"weights", j->weights, WEIGHTS, NEXAR_U8};
    j->tensors[1] = (nexar_state){"bias", j->bias, BIAS, NEXAR_F32};
    j->tensors[2] = (nexar_state){"step", j->step, STEP, NEXAR_U64};
    return j;
}

static int is(const job *j, uint64_t seed)
{
    return nxt_filled(j->weights, sizeof(j->weights), seed) &&
           nxt_filled(j->bias, sizeof(j->bias), seed + 100) &&
           nxt_filled(j->step, sizeof(j->step), seed + 200);
}

/* ---- election ----------------------------------------------------------------------------- */

static void sync_equal(nexar_comm *w, void *arg)
{
    job *j = make(7);
    uint64_t revision = 12;
    nexar_sync_report r;

    (void)arg;
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, &r));
    NXT_IS(w, is(j, 7) && (revision == 12) && r.updated);
    NXT_IS(w, (r.differed == 0) && (r.received == 0) && (r.ranks_updated == 0));
    NXT_IS(w, (r.bytes_received == 0) && (r.bytes_sent == 0));
    free(j);
}

static void equal_state_moves_nothing(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        nxt_local_world(n, NULL, sync_equal, NULL);
    }
}

/* The last rank has the highest revision. */
static void sync_newest(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w), size = nexar_size(w);
    const size_t bytes = WEIGHTS + BIAS * sizeof(float) + sizeof(uint64_t);
    job *j = make((uint64_t)rank);
    uint64_t revision = (uint64_t)rank;
    nexar_sync_report r;

    (void)arg;
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, &r));
    NXT_IS(w, is(j, (uint64_t)size - 1) && (revision == (uint64_t)size - 1) && r.updated);
    NXT_IS(w, (r.differed == TENSORS) && (r.ranks_updated == size - 1));
    NXT_IS(w, r.received == ((rank == size - 1) ? 0 : TENSORS));
    NXT_IS(w, r.bytes_received == ((rank == size - 1) ? 0 : bytes));
    free(j);
}

static void the_highest_revision_wins(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, sync_newest, NULL);
    }
}

/* All have one revision; ranks 1 and 2 hold unique contents. */
static void sync_majority(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w);
    job *j = make(((rank == 1) || (rank == 2)) ? 5 : 10 + (uint64_t)rank);
    uint64_t revision = 3;

    (void)arg;
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, NULL));
    NXT_IS(w, is(j, 5));
    free(j);
}

static void the_content_that_most_ranks_hold_wins(void **state)
{
    (void)state;
    nxt_local_world(4, NULL, sync_majority, NULL);
}

static void sync_tie(nexar_comm *w, void *arg)
{
    job *j = make(20 + (uint64_t)nexar_rank(w) % 2);
    uint64_t revision = 0;

    (void)arg;
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, NULL));
    NXT_IS(w, is(j, 20));
    free(j);
}

static void a_tie_goes_to_the_lowest_rank(void **state)
{
    (void)state;
    nxt_local_world(4, NULL, sync_tie, NULL);
}

/* One element of one tensor differs, on the last rank. */
static void sync_one(nexar_comm *w, void *arg)
{
    const int last = nexar_size(w) - 1;
    job *j = make(9);
    uint64_t revision = 4;
    nexar_sync_report r;

    (void)arg;
    if (nexar_rank(w) == last) {
        j->bias[BIAS - 1] = 1.0F;
    }
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, &r));
    NXT_IS(w, is(j, 9) && (r.differed == 1) && (r.ranks_updated == 1));
    NXT_IS(w, r.bytes_received == ((nexar_rank(w) == last) ? sizeof(j->bias) : 0));
    free(j);
}

static void only_the_tensor_that_differs_moves(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sync_one, NULL);
}

/* ---- several holders -------------------------------------------------------------------- */

enum { BIG = 4 << 20 };

static void sync_big(nexar_comm *w, void *arg)
{
    const int last = nexar_size(w) - 1, joiners = *(const int *)arg;
    const bool joins = nexar_rank(w) > last - joiners;
    uint8_t *mem = malloc(BIG);
    const nexar_state t = {"big", mem, BIG / 4, NEXAR_F32};
    uint64_t revision = joins ? 0 : 8, sent;
    nexar_sync_report r;

    if (mem == NULL) {
        abort();
    }
    memset(mem, 0, BIG);
    nxt_fill(mem, joins ? 0 : BIG, 3);
    NXT_OK(w, nexar_state_sync(w, &t, 1, &revision, &r));
    NXT_IS(w, nxt_filled(mem, BIG, 3) && (revision == 8) && (r.ranks_updated == joiners));
    NXT_IS(w, r.bytes_received == (joins ? BIG : 0));
    sent = r.bytes_sent;
    NXT_IS(w, joins || (sent > 0));   /* every holder sends */
    NXT_IS(w, sent <= (uint64_t)BIG); /* none sends all to all */
    NXT_OK(w, nexar_allreduce(w, NEXAR_IN_PLACE, &sent, 1, NEXAR_U64, NEXAR_SUM));
    NXT_IS(w, sent == (uint64_t)BIG * (uint64_t)joiners); /* each byte once to each */
    free(mem);
}

static void every_holder_sends_a_part_and_each_byte_goes_once_to_each_receiver(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        for (int joiners = 1; joiners < n; joiners++) {
            nxt_local_world(n, NULL, sync_big, &joiners);
        }
    }
}

/* ---- errors ------------------------------------------------------------------------------- */

static void sync_other_names(nexar_comm *w, void *arg)
{
    static const char *const says[] = {
        "tensor 1: rank 0 has \"bias\" (33 x f32), rank 2 has \"beta\"",
        "tensor 1: rank 0 has \"bias\" (33 x f32), rank 2 has \"bias\" "
        "(32 x f32)",
        "tensor 1: rank 0 has \"bias\" (33 x f32), rank 2 has \"bias\" "
        "(33 x i32)",
        "tensor 2: rank 0 has \"step\" (1 x u64), rank 2 has no tensor"};
    job *j = make((uint64_t)nexar_rank(w));
    const bool odd = (nexar_rank(w) == 2);
    uint64_t revision = 1 + (uint64_t)nexar_rank(w);
    nexar_sync_report r = {.received = 5, .updated = true};

    (void)arg;
    for (int how = 0; how < 4; how++) {
        nexar_state t[TENSORS];

        memcpy(t, j->tensors, sizeof(t));
        t[1].name = (odd && (how == 0)) ? "beta" : t[1].name;
        t[1].count -= (odd && (how == 1)) ? 1 : 0;
        t[1].dtype = (odd && (how == 2)) ? NEXAR_I32 : t[1].dtype;
        NXT_SAYS(w, nexar_state_sync(w, t, (odd && (how == 3)) ? 2 : 3, &revision, &r),
                 NEXAR_EMISMATCH, says[how]);
        NXT_IS(w, is(j, (uint64_t)nexar_rank(w)) && (revision == 1 + (uint64_t)nexar_rank(w)));
        NXT_IS(w, !r.updated && (r.received == 0));
    }
    /* And the communicator is intact. */
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, &r));
    NXT_IS(w, is(j, 2) && r.updated);
    free(j);
}

static void names_that_differ_are_refused_by_name(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sync_other_names, NULL);
}

static void sync_against_barrier(nexar_comm *w, void *arg)
{
    job *j = make(1);
    uint64_t revision = 1;

    (void)arg;
    if (nexar_rank(w) == 1) {
        NXT_SAYS(w, nexar_barrier(w), NEXAR_EMISMATCH, "state_sync()");
    } else {
        NXT_SAYS(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, NULL), NEXAR_EMISMATCH,
                 "barrier()");
    }
    NXT_OK(w, nexar_barrier(w));
    free(j);
}

static void another_call_is_a_mismatch(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sync_against_barrier, NULL);
}

static void refuse(nexar_comm *w, void *arg)
{
    job *j = make(1);
    uint64_t revision = 1;
    nexar_state t = j->tensors[0];

    (void)arg;
    NXT_SAYS(w, nexar_state_sync(NULL, &t, 1, &revision, NULL), NEXAR_EINVAL, "comm is NULL");
    NXT_SAYS(w, nexar_state_sync(w, &t, 1, NULL, NULL), NEXAR_EINVAL, "revision is NULL");
    NXT_SAYS(w, nexar_state_sync(w, NULL, 1, &revision, NULL), NEXAR_EINVAL, "tensors is NULL");
    t.name = NULL;
    NXT_SAYS(w, nexar_state_sync(w, &t, 1, &revision, NULL), NEXAR_EINVAL, "name of tensor 0");
    t = (nexar_state){"w", NULL, 3, NEXAR_U8};
    NXT_SAYS(w, nexar_state_sync(w, &t, 1, &revision, NULL), NEXAR_EINVAL, "of 3 elements is NULL");
    t = (nexar_state){"w", j->weights, 3, (nexar_dtype)99};
    NXT_SAYS(w, nexar_state_sync(w, &t, 1, &revision, NULL), NEXAR_EINVAL, "99 is no dtype");
    t = (nexar_state){"w", j->weights, SIZE_MAX / 2, NEXAR_F64};
    NXT_SAYS(w, nexar_state_sync(w, &t, 1, &revision, NULL), NEXAR_EINVAL, "PTRDIFF_MAX");
    NXT_OK(w, nexar_state_sync(w, NULL, 0, &revision, NULL));
    t = (nexar_state){"", NULL, 0, NEXAR_STRUCT(24)};
    NXT_OK(w, nexar_state_sync(w, &t, 1, &revision, NULL));
    NXT_IS(w, revision == 1);
    free(j);
}

static void wrong_arguments_are_refused_and_no_tensors_are_fine(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, refuse, NULL);
    nxt_local_world(2, NULL, refuse, NULL);
}

/* ---- many tensors ----------------------------------------------------------------------- */

enum { MANY = 500, ROUNDS = 6 };

/* Ranks differ at random, in tensors of random lengths. */
static void sync_many(nexar_comm *w, void *arg)
{
    static char names[MANY][16];
    nexar_state t[MANY];
    uint64_t seed = 1, revision = 5;

    (void)arg;
    for (size_t i = 0; i < MANY; i++) {
        const size_t bytes = (i % 50 == 0) ? 100000 + i : i % 60;

        t[i] = (nexar_state){names[i], malloc(bytes + 1), bytes, NEXAR_I8};
        nxt_fill(t[i].ptr, bytes, i);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < MANY; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407U;
            if ((int)(seed >> 33) % nexar_size(w) == nexar_rank(w)) { /* one rank of each */
                memset(t[i].ptr, round, t[i].count);
            }
        }
        NXT_OK(w, nexar_state_sync(w, t, MANY, &revision, NULL));
        for (size_t i = 0; i < MANY; i++) {
            NXT_IS(w, nxt_filled(t[i].ptr, t[i].count, i));
        }
    }
    for (size_t i = 0; i < MANY; i++) {
        free(t[i].ptr);
    }
}

static void many_tensors_that_differ_anywhere_become_equal(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sync_many, NULL);
    nxt_local_world(5, NULL, sync_many, NULL);
}

/* ---- concurrent requests, and recovery ---------------------------------------------------- */

static void sync_beside(nexar_comm *w, void *arg)
{
    job *j = make((uint64_t)nexar_rank(w));
    uint64_t revision = 1, before = 1, after = 1;
    nexar_request *reqs[2];

    (void)arg;
    NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, &before, 1, NEXAR_U64, NEXAR_SUM, &reqs[0]));
    NXT_OK(w, nexar_state_sync(w, j->tensors, TENSORS, &revision, NULL));
    NXT_OK(w, nexar_iallreduce(w, NEXAR_IN_PLACE, &after, 1, NEXAR_U64, NEXAR_SUM, &reqs[1]));
    NXT_OK(w, nexar_wait_all(2, reqs));
    NXT_IS(w, is(j, 0) && (before == 3) && (after == 3));
    free(j);
}

static void requests_may_be_in_flight(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, sync_beside, NULL);
}

static void with(const char *name, const char *value, const char *name2, const char *value2)
{
    nexar_config *cfg;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, name, value), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, name2, value2), NEXAR_OK);
    nxt_local_world(3, cfg, sync_newest, NULL);
    nxt_local_world(3, cfg, sync_equal, NULL);
    nxt_local_world(3, cfg, sync_other_names, NULL);
    nxt_local_world(3, cfg, sync_beside, NULL);
    nexar_config_free(cfg);
}

static void every_recovery_setting_gives_the_same(void **state)
{
    (void)state;
    with("recovery", "automatic", "retry", "off");
    with("recovery", "automatic", "retry", "on");
    with("quorum", "majority", "verify", "off");
}

/* ---- out of memory ------------------------------------------------------------------------ */

/* With several ranks a failed allocation may end a link: the parts that need several ranks have
 * tests of their own. */
static void sync_short_of_memory(nexar_comm *w, void *arg)
{
    (void)arg;
    NXT_FOR_EACH_OOM (n) {
        job *j = make(3);
        uint64_t revision = 4;
        nexar_sync_report r;
        const nexar_err err = nexar_state_sync(w, j->tensors, TENSORS, &revision, &r);

        /* One step is retried: the agreement, for which other ranks would wait. */
        NXT_IS(w, (err == NEXAR_OK) || ((err == NEXAR_ENOMEM) && nx_alloc_failed()));
        NXT_IS(w, is(j, 3) && (revision == 4) && (r.updated == (err == NEXAR_OK)));
        free(j);
    }
}

static void without_memory_the_call_fails_and_changes_nothing(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, sync_short_of_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_state_moves_nothing),
        cmocka_unit_test(the_highest_revision_wins),
        cmocka_unit_test(the_content_that_most_ranks_hold_wins),
        cmocka_unit_test(a_tie_goes_to_the_lowest_rank),
        cmocka_unit_test(only_the_tensor_that_differs_moves),
        cmocka_unit_test(every_holder_sends_a_part_and_each_byte_goes_once_to_each_receiver),
        cmocka_unit_test(names_that_differ_are_refused_by_name),
        cmocka_unit_test(another_call_is_a_mismatch),
        cmocka_unit_test(wrong_arguments_are_refused_and_no_tensors_are_fine),
        cmocka_unit_test(many_tensors_that_differ_anywhere_become_equal),
        cmocka_unit_test(requests_may_be_in_flight),
        cmocka_unit_test(without_memory_the_call_fails_and_changes_nothing),
        cmocka_unit_test(every_recovery_setting_gives_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
