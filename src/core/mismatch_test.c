/*
 * mismatch_test.c - ranks that call different operations: whatever they call and however many
 * call what, every one of them gets NEXAR_EMISMATCH, soon, and all go on.
 */
#include <string.h>

#include "base/clock.h"
#include "local_world.h"
#include "rand.h"
#include "sanitized.h"
#include "unit.h"

enum { ROOM = 16 * 16, CALLS = 20 };

/* Ten times what is promised: the machine may be busy. */
static const double longest_s = 10;

/* Call number |call|; each is other than all others. */
static nexar_err do_call(nexar_comm *w, int call, float *a, float *b)
{
    const int last = nexar_size(w) - 1;

    switch (call) {
    case 0:
        return nexar_broadcast(w, a, 8, NEXAR_F32, 0);
    case 1:
        return nexar_broadcast(w, a, 8, NEXAR_F32, last);
    case 2:
        return nexar_broadcast(w, a, 9, NEXAR_F32, 0);
    case 3:
        return nexar_broadcast(w, a, 8, NEXAR_I32, 0);
    case 4:
        return nexar_reduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM, 0);
    case 5:
        return nexar_reduce(w, a, b, 8, NEXAR_F32, NEXAR_MAX, 0);
    case 6:
        return nexar_reduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM, last);
    case 7:
        return nexar_gather(w, a, b, 8, NEXAR_F32, 0);
    case 8:
        return nexar_gather(w, a, b, 8, NEXAR_F32, last);
    case 9:
        return nexar_scatter(w, a, b, 8, NEXAR_F32, 0);
    case 10:
        return nexar_scatter(w, a, b, 8, NEXAR_F32, last);
    case 11:
        return nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM);
    case 12:
        return nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_MIN);
    case 13:
        return nexar_allreduce(w, a, b, 7, NEXAR_F32, NEXAR_SUM);
    case 14:
        return nexar_alltoall(w, a, b, 8, NEXAR_F32);
    case 15:
        return nexar_allgather(w, a, b, 8, NEXAR_F32);
    case 16:
        return nexar_scan(w, a, b, 8, NEXAR_F32, NEXAR_SUM);
    case 17:
        return nexar_exscan(w, a, b, 8, NEXAR_F32, NEXAR_SUM);
    case 18:
        return nexar_reduce_scatter(w, a, b, 8, NEXAR_F32, NEXAR_SUM);
    default:
        return nexar_barrier(w);
    }
}

/* Ranks in |others| make |theirs|, the rest |ours|. */
static void differ(nexar_comm *w, int ours, int theirs, unsigned others)
{
    float a[ROOM] = {0}, b[ROOM] = {0};
    const int call = (((others >> nexar_rank(w)) & 1) != 0) ? theirs : ours;
    const uint64_t begun_ns = nx_now(&nx_clock_system);

    NXT_SAYS(w, do_call(w, call, a, b), NEXAR_EMISMATCH, " called ");
    NXT_IS(w, (double)(nx_now(&nx_clock_system) - begun_ns) / 1e9 < longest_s);
}

static void check_alive(nexar_comm *w)
{
    float a = 1, b = 0;

    NXT_OK(w, nexar_allreduce(w, &a, &b, 1, NEXAR_F32, NEXAR_SUM));
    NXT_IS(w, (int)b == nexar_size(w));
}

static void all_pairs(nexar_comm *w, void *arg)
{
    const int n = nexar_size(w);

    (void)arg;
    for (int ours = 0; ours < CALLS; ours++) {
        const int theirs = (ours + 1 + (ours * 7 + n) % (CALLS - 1)) % CALLS;

        differ(w, ours, theirs, 1U << (ours % n));
    }
    check_alive(w);
}

static void test_any_two_calls_are_told_apart(void **state)
{
    (void)state;
    for (int n = 2; n <= (NXT_SANITIZED ? 4 : 9); n++) {
        nxt_local_world(n, NULL, all_pairs, NULL);
    }
}

static void any_ranks(nexar_comm *w, void *arg)
{
    const unsigned all = (1U << nexar_size(w)) - 1;
    nxt_rand r = {(uint64_t)nexar_size(w) * 77};

    (void)arg;
    for (int i = 0; i < (NXT_SANITIZED ? 8 : 24); i++) {
        const int ours = (int)nxt_below(&r, CALLS);
        const int theirs = (ours + 1 + (int)nxt_below(&r, CALLS - 1)) % CALLS;

        differ(w, ours, theirs, 1 + nxt_below(&r, all - 1));
    }
    check_alive(w);
}

static void test_any_ranks_may_be_the_ones_that_differ(void **state)
{
    (void)state;
    for (int n = 2; n <= (NXT_SANITIZED ? 5 : 9); n++) {
        nxt_local_world(n, NULL, any_ranks, NULL);
    }
}

/* Each of them waits for the others, and nobody would ever send. */
static void silent(nexar_comm *w, void *arg)
{
    float a[ROOM] = {0}, b[ROOM] = {0};
    const int rank = nexar_rank(w), n = nexar_size(w);

    (void)arg;
    NXT_SAYS(w, nexar_broadcast(w, a, 8, NEXAR_F32, rank), NEXAR_EMISMATCH, "root ");
    NXT_SAYS(w, nexar_broadcast(w, a, 8, NEXAR_F32, (rank == 0) ? 0 : 1), NEXAR_EMISMATCH, "root ");
    NXT_SAYS(w, nexar_scatter(w, a, b, 1, NEXAR_F32, rank), NEXAR_EMISMATCH, "root ");
    NXT_SAYS(w, nexar_reduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM, rank), NEXAR_EMISMATCH, "root ");
    NXT_SAYS(w, nexar_gather(w, a, b, 1, NEXAR_F32, rank), NEXAR_EMISMATCH, "root ");
    NXT_SAYS(w,
             (rank == 0) ? nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM)
                         : nexar_broadcast(w, a, 8, NEXAR_F32, n - 1),
             NEXAR_EMISMATCH, "root ");
    check_alive(w);
}

static void test_ranks_that_all_wait_find_out(void **state)
{
    (void)state;
    for (int n = 2; n <= (NXT_SANITIZED ? 5 : 9); n++) {
        nxt_local_world(n, NULL, silent, NULL);
    }
}

/* The same before any message has ever been sent. */
static void at_once(nexar_comm *w, void *arg)
{
    float a[8] = {0};
    nexar_comm *own = NULL;

    (void)arg;
    NXT_SAYS(w, nexar_broadcast(w, a, 8, NEXAR_F32, nexar_rank(w)), NEXAR_EMISMATCH, "root ");
    NXT_OK(w, nexar_comm_dup(w, &own));
    NXT_SAYS(own, nexar_broadcast(own, a, 8, NEXAR_F32, nexar_rank(w)), NEXAR_EMISMATCH,
             "operation #1");
    nexar_comm_free(own);
    check_alive(w);
}

static void test_the_first_operation_may_be_the_one(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, at_once, NULL);
    nxt_local_world(4, NULL, at_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_two_calls_are_told_apart),
        cmocka_unit_test(test_any_ranks_may_be_the_ones_that_differ),
        cmocka_unit_test(test_ranks_that_all_wait_find_out),
        cmocka_unit_test(test_the_first_operation_may_be_the_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
