/* comm_create_test.c - communicators of listed ranks. */
#include <nexar.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "local_world.h"
#include "unit.h"

enum { RANKS = 4, ROUNDS = 20, TAG = 7 };

static nexar_err create(nexar_comm *w, size_t n, const int ranks[], uint64_t tag, nexar_comm **out)
{
    return nexar_comm_create(w, ranks, n, tag, out);
}
#define LIST(...)                                               \
    (sizeof((int[]){__VA_ARGS__}) / sizeof(int)), (const int[]) \
    {                                                           \
        __VA_ARGS__                                             \
    }

/* ---- use ---------------------------------------------------------------------------------- */

/* Everything works on |c|, which has |n| ranks. */
static void use(nexar_comm *w, nexar_comm *c, int n)
{
    const int rank = nexar_rank(c), next = (rank + 1) % n, before = (rank + n - 1) % n;
    nexar_comm *dup = NULL, *half = NULL, *rest = NULL;
    float sum = (float)(rank + 1);
    int out = rank, in = -1;
    uint64_t flags = UINT64_C(1) << rank | 1024;

    NXT_IS(w, nexar_size(c) == n);
    NXT_OK(w, nexar_allreduce(c, NEXAR_IN_PLACE, &sum, 1, NEXAR_F32, NEXAR_SUM));
    NXT_IS(w, (int)sum == n * (n + 1) / 2);
    NXT_OK(w, nexar_sendrecv(c, &out, sizeof(out), next, TAG, &in, sizeof(in), before, TAG, NULL));
    NXT_IS(w, in == before);
    NXT_OK(w, nexar_barrier(c));
    NXT_OK(w, nexar_comm_dup(c, &dup));
    NXT_OK(w, nexar_comm_split(c, rank % 2, 0, &half));
    NXT_OK(w, nexar_barrier(dup));
    NXT_OK(w, nexar_barrier(half));
    NXT_OK(w, nexar_comm_agree(c, &flags));
    NXT_IS(w, flags == ((n == 1) ? 1025 : 1024));
    NXT_OK(w, nexar_comm_shrink(c, &rest));
    NXT_OK(w, nexar_barrier(rest));
    nexar_comm_free(dup);
    nexar_comm_free(half);
    nexar_comm_free(rest);
}

/* The ranks 3, 0, 2 in that order; rank 1 does something else. */
static void listed(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL, *again = NULL;
    const int rank = nexar_rank(w);

    (void)arg;
    if (rank == 1) {
        return;
    }
    NXT_OK(w, create(w, LIST(3, 0, 2), TAG, &c));
    NXT_IS(w, nexar_rank(c) == ((rank == 3) ? 0 : (rank == 0) ? 1 : 2));
    NXT_IS(w, strcmp(nexar_comm_name(c), "world.create.1") == 0);
    use(w, c, 3);
    if (nexar_rank(c) != 2) { /* of one that was made by create */
        NXT_OK(w, create(c, LIST(1, 0), TAG, &again));
        NXT_IS(w, nexar_rank(again) == 1 - nexar_rank(c));
        use(w, again, 2);
        nexar_comm_free(again);
    }
    nexar_comm_free(c);
}

static void test_the_listed_ranks_have_a_communicator_in_their_order(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, listed, NULL);
}

static void alone(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;

    (void)arg;
    NXT_OK(w, create(w, LIST(nexar_rank(w)), TAG, &c));
    use(w, c, 1);
    nexar_comm_free(c);
}

static void test_a_rank_may_be_alone(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, alone, NULL);
    nxt_local_world(1, NULL, alone, NULL);
}

/* A communicator of |a| and |b|, in this order, if this rank is one of them. */
static void pair_up(nexar_comm *w, int a, int b)
{
    nexar_comm *c = NULL;

    if ((nexar_rank(w) == a) || (nexar_rank(w) == b)) {
        NXT_OK(w, create(w, LIST(a, b), TAG, &c));
        NXT_OK(w, nexar_barrier(c));
        nexar_comm_free(c);
    }
}

/* The same tag repeatedly; groups that share ranks, one after another. */
static void repeated(nexar_comm *w, void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS * RANKS * RANKS; i++) {
        const int a = i / RANKS % RANKS, b = i % RANKS, even = (i / (RANKS * RANKS)) % 2;

        if (a < b) {
            pair_up(w, (even == 0) ? a : b, (even == 0) ? b : a);
        }
    }
}

static void test_one_tag_serves_creations_one_after_the_other(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, repeated, NULL);
}

/* A message that arrives before the communicator exists waits for it. */
static void early(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    int in = -1;

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        NXT_OK(w, create(w, LIST(0, 1), TAG, &c));
        if (nexar_rank(w) == 0) {
            NXT_OK(w, nexar_send(c, &i, sizeof(i), 1, TAG));
        } else {
            NXT_OK(w, nexar_recv(c, &in, sizeof(in), 0, TAG, NULL));
            NXT_IS(w, in == i);
        }
        nexar_comm_free(c);
    }
}

static void test_early_messages_wait_for_the_communicator(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, early, NULL);
}

/* ---- concurrent calls --------------------------------------------------------------------- */

typedef struct job {
    nexar_comm *w;
    uint64_t tag;
    size_t n;
    const int *ranks;
} job;

static void *work(void *arg)
{
    const job *j = arg;
    nexar_comm *c = NULL;

    for (int i = 0; i < ROUNDS; i++) {
        NXT_OK(j->w, nexar_comm_create(j->w, j->ranks, j->n, j->tag, &c));
        NXT_OK(j->w, nexar_barrier(c));
        nexar_comm_free(c);
    }
    return NULL;
}

/* Three overlapping lists, each with a thread and a tag of its own. */
static void overlapping(nexar_comm *w, void *arg)
{
    static const int lists[3][3] = {{0, 1, 2}, {2, 1, 3}, {3, 0, 1}};
    pthread_t threads[3];
    job jobs[3];
    bool in[3] = {false};

    (void)arg;
    for (int i = 0; i < 3; i++) {
        jobs[i] = (job){.w = w, .tag = (uint64_t)i, .n = 3, .ranks = lists[i]};
        for (int k = 0; k < 3; k++) {
            in[i] = in[i] || (lists[i][k] == nexar_rank(w));
        }
        NXT_IS(w, !in[i] || (pthread_create(&threads[i], NULL, work, &jobs[i]) == 0));
    }
    for (int i = 0; i < 3; i++) {
        NXT_IS(w, !in[i] || (pthread_join(threads[i], NULL) == 0));
    }
}

static void test_overlapping_creations_with_tags_of_their_own_do_not_meet(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, overlapping, NULL);
}

/* ---- refused ---------------------------------------------------------------------------- */

static void refused(nexar_comm *w, void *arg)
{
    nexar_comm *c = w;
    const int me[] = {nexar_rank(w)};

    (void)arg;
    NXT_SAYS(w, nexar_comm_create(NULL, me, 1, TAG, &c), NEXAR_EINVAL, "parent is NULL");
    NXT_SAYS(w, nexar_comm_create(w, NULL, 1, TAG, &c), NEXAR_EINVAL, "ranks is NULL");
    NXT_SAYS(w, nexar_comm_create(w, me, 1, TAG, NULL), NEXAR_EINVAL, "out is NULL");
    NXT_SAYS(w, nexar_comm_create(w, me, 0, TAG, &c), NEXAR_EINVAL, "is not listed");
    NXT_SAYS(w, create(w, LIST(me[0], 2), TAG, &c), NEXAR_EINVAL,
             "ranks[1] is 2; ranks are 0 to 1");
    NXT_SAYS(w, create(w, LIST(-1, me[0]), TAG, &c), NEXAR_EINVAL, "ranks[0] is -1");
    NXT_SAYS(w, create(w, LIST(me[0], me[0]), TAG, &c), NEXAR_EINVAL, "is listed twice");
    NXT_SAYS(w, create(w, LIST(1 - me[0]), TAG, &c), NEXAR_EINVAL, "the caller, rank");
    NXT_IS(w, c == w);
}

static void test_lists_that_are_wrong_are_refused(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, refused, NULL);
}

/* Differing lists: in order, in length, in the leader; and then all agree. */
static void differing(nexar_comm *w, void *arg)
{
    static const struct {
        size_t n;
        int list[3];
    } rows[][3] = {
        {{2, {0, 1}}, {2, {1, 0}}, {0, {0}}},
        {{2, {0, 1}}, {3, {0, 1, 2}}, {3, {0, 1, 2}}},
        {{3, {0, 1, 2}}, {2, {1, 2}}, {3, {0, 1, 2}}},
        {{3, {0, 1, 2}}, {3, {0, 1, 2}}, {2, {1, 2}}},
        {{3, {2, 1, 0}}, {3, {0, 1, 2}}, {3, {0, 1, 2}}},
    };
    const int rank = nexar_rank(w);
    nexar_comm *c = w;

    (void)arg;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i][rank].n > 0) {
            NXT_SAYS(w, nexar_comm_create(w, rows[i][rank].list, rows[i][rank].n, TAG, &c),
                     NEXAR_EMISMATCH, "comm_create: ");
            NXT_IS(w, c == w);
        }
        NXT_OK(w, nexar_barrier(w));
        NXT_OK(w, create(w, LIST(0, 1, 2), TAG, &c));
        NXT_OK(w, nexar_barrier(c));
        nexar_comm_free(c);
        c = w;
    }
}

static void test_lists_that_differ_are_a_mismatch_on_all(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, differing, NULL);
}

/* ---- failures and time-outs --------------------------------------------------------------- */

/* Rank |late| calls when the others have given up: it gets the same result; then all continue. */
static void timed_out(nexar_comm *w, void *arg)
{
    const int late = *(const int *)arg;
    nexar_comm *c = w;

    if (nexar_rank(w) != late) {
        NXT_SAYS(w, create(w, LIST(0, 1, 2), TAG, &c), NEXAR_ETIMEDOUT, "within 0.200 s");
    }
    NXT_OK(w, nexar_send(w, NULL, 0, late, TAG)); /* not a collective: it would time out */
    if (nexar_rank(w) == late) {
        for (int i = 0; i < 3; i++) {
            NXT_OK(w, nexar_recv(w, NULL, 0, i, TAG, NULL));
        }
        NXT_SAYS(w, create(w, LIST(0, 1, 2), TAG, &c), NEXAR_ETIMEDOUT, "within 0.200 s");
        for (int i = 0; i < 3; i++) {
            NXT_OK(w, nexar_send(w, NULL, 0, i, TAG));
        }
    }
    NXT_OK(w, nexar_recv(w, NULL, 0, late, TAG, NULL));
}

static void test_a_creation_times_out_on_all(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "collective_timeout", "200ms"), NEXAR_OK);
    for (int late = 0; late < 3; late++) {
        nxt_local_world(3, cfg, timed_out, &late);
    }
    nexar_config_free(cfg);
}

/* The parent is revoked while others wait. */
static void revoked(nexar_comm *w, void *arg)
{
    const int by = *(const int *)arg;
    nexar_comm *parent = NULL, *c = w;

    NXT_OK(w, nexar_comm_dup(w, &parent));
    if (nexar_rank(w) == by) {
        NXT_OK(w, nexar_comm_revoke(parent));
    }
    NXT_SAYS(w, create(parent, LIST(0, 1, 2), TAG, &c), NEXAR_EREVOKED, "revoked");
    NXT_IS(w, c == w);
    NXT_OK(w, nexar_barrier(w));
    nexar_comm_free(parent);
}

static void test_a_revoked_parent_ends_a_creation(void **state)
{
    (void)state;
    for (int by = 0; by < 3; by++) {
        nxt_local_world(3, NULL, revoked, &by);
    }
}

/* One rank has freed the parent, and will not call. */
static void freed(nexar_comm *w, void *arg)
{
    const int by = *(const int *)arg;
    nexar_comm *parent = NULL, *c = w;

    NXT_OK(w, nexar_comm_dup(w, &parent));
    if (nexar_rank(w) == by) {
        nexar_comm_free(parent);
    } else {
        NXT_SAYS(w, create(parent, LIST(0, 1, 2), TAG, &c), NEXAR_EREVOKED, "freed");
        nexar_comm_free(parent);
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_parent_that_a_rank_has_freed_ends_a_creation(void **state)
{
    (void)state;
    for (int by = 0; by < 3; by++) {
        nxt_local_world(3, NULL, freed, &by);
    }
}

/* Rank |who| finalizes instead. */
static void left(nexar_comm *w, void *arg)
{
    nexar_comm *c = w;

    if (nexar_rank(w) != *(const int *)arg) {
        NXT_SAYS(w, create(w, LIST(0, 1, 2), TAG, &c), NEXAR_EPEER, "has left");
        NXT_IS(w, c == w);
    }
}

static void test_a_rank_that_leaves_ends_a_creation(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++) {
        nxt_local_world(3, NULL, left, &who);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_listed_ranks_have_a_communicator_in_their_order),
        cmocka_unit_test(test_a_rank_may_be_alone),
        cmocka_unit_test(test_one_tag_serves_creations_one_after_the_other),
        cmocka_unit_test(test_early_messages_wait_for_the_communicator),
        cmocka_unit_test(test_overlapping_creations_with_tags_of_their_own_do_not_meet),
        cmocka_unit_test(test_lists_that_are_wrong_are_refused),
        cmocka_unit_test(test_lists_that_differ_are_a_mismatch_on_all),
        cmocka_unit_test(test_a_creation_times_out_on_all),
        cmocka_unit_test(test_a_revoked_parent_ends_a_creation),
        cmocka_unit_test(test_a_parent_that_a_rank_has_freed_ends_a_creation),
        cmocka_unit_test(test_a_rank_that_leaves_ends_a_creation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
