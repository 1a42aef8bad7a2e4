/*
 * mismatch_test.c - ranks that call different operations: whatever they call, and however many
 * ranks call what, each gets NEXAR_EMISMATCH soon, and all continue.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "host_world.h"
#include "local_world.h"
#include "rand.h"
#include "sanitized.h"
#include "unit.h"

enum { ROOM = 16 * 16, CALLS = 24 };

/* Ten times the documented time: the machine may be busy. */
static const double longest_s = 10;

/* Call number |call|; each differs from all others. */
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
    case 19:
        return nexar_allreduce_compressed(w, a, 8, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_RANDOMK,
                                          0.5, NULL);
    case 20:
        return nexar_allreduce_compressed(w, a, 8, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_TOPK, 0.5,
                                          NULL);
    case 21:
        return nexar_allreduce_compressed(w, a, 8, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_TOPK, 0.4,
                                          NULL);
    case 22:
        return nexar_allreduce_compressed(w, a, 8, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_F16, 1,
                                          NULL);
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

static void test_any_two_calls_have_different_fingerprints(void **state)
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

/* Each of them waits for the others, and no rank would ever send. */
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

/* ---- counts ------------------------------------------------------------------------------ */

enum {
    BLOCKS = 4,
    LONG = 70000
}; /* ranks at most; elements that no slot of a board has room for */

/* Whether a world runs these: by engine and board, and by either transport. */
static const struct {
    const char *transports, *direct;
} ways[] = {{"quic", "on"}, {"auto", "on"}, {"auto", "off"}};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

/* The block counts of the ranks: |each| elements everywhere, but |to| expects one element less from
 * |from|, or counts one less for it. */
typedef struct counted {
    nexar_comm *w;
    int from, to;
    size_t each;
    float *a, *b;
} counted;

static nexar_err do_gatherv(const counted *c, size_t *counts)
{
    const int me = nexar_rank(c->w);

    counts[c->from] -= (me == c->to);
    return nexar_gatherv(c->w, c->a, c->each, c->b, counts, NULL, NEXAR_F32, c->to);
}

static nexar_err do_scatterv(const counted *c, size_t *counts)
{
    const int me = nexar_rank(c->w);

    return nexar_scatterv(c->w, c->a, counts, NULL, c->b, c->each - (me == c->to), NEXAR_F32,
                          c->from);
}

static nexar_err do_alltoallv(const counted *c, size_t *counts)
{
    size_t send[BLOCKS];

    memcpy(send, counts, sizeof(send));
    counts[c->from] -= (nexar_rank(c->w) == c->to);
    return nexar_alltoallv(c->w, c->a, send, NULL, c->b, counts, NULL, NEXAR_F32);
}

static nexar_err do_allgatherv(const counted *c, size_t *counts)
{
    counts[c->from] -= (nexar_rank(c->w) == c->to);
    return nexar_allgatherv(c->w, c->a, c->each, c->b, counts, NULL, NEXAR_F32);
}

static nexar_err do_reduce_scatterv(const counted *c, size_t *counts)
{
    counts[c->from] -= (nexar_rank(c->w) == c->to);
    return nexar_reduce_scatterv(c->w, c->a, c->b, counts, NEXAR_F32, NEXAR_SUM);
}

/* Counts that only two ranks know are sent with these; others are those of the call. */
static const struct {
    nexar_err (*call)(const counted *c, size_t *counts);
    const char *name;
    bool between_two;
} v_forms[] = {
    {do_gatherv, "called gatherv(", true},
    {do_scatterv, "called scatterv(", true},
    {do_alltoallv, "called alltoallv(", true},
    {do_allgatherv, "called allgatherv(", false},
    {do_reduce_scatterv, "called reduce_scatterv(", false},
};
enum { V_FORMS = sizeof(v_forms) / sizeof(v_forms[0]) };

static void one_count(const counted *c, size_t form)
{
    size_t counts[BLOCKS] = {c->each, c->each, c->each, c->each};
    char pair[64] = "", want[32] = "";
    nexar_err err;
    uint64_t begun_ns;

    NXT_OK(c->w, nexar_barrier(c->w));
    begun_ns = nx_now(&nx_clock_system);
    err = v_forms[form].call(c, counts);
    NXT_IS(c->w, (double)(nx_now(&nx_clock_system) - begun_ns) / 1e9 < longest_s);
    NXT_SAYS(c->w, err, NEXAR_EMISMATCH, v_forms[form].name);
    if (v_forms[form].between_two) {
        (void)snprintf(pair, sizeof(pair), "rank %d called ", c->from);
        (void)snprintf(want, sizeof(want), "sends %zu x f32 to rank %d", c->each, c->to);
        NXT_SAYS(c->w, err, NEXAR_EMISMATCH, pair);
        NXT_SAYS(c->w, err, NEXAR_EMISMATCH, want);
        (void)snprintf(want, sizeof(want), "expects %zu", c->each - 1);
        NXT_SAYS(c->w, err, NEXAR_EMISMATCH, want);
    }
}

static void other_counts(nexar_comm *w, void *arg)
{
    static const size_t lengths[] = {3, LONG};
    const int n = nexar_size(w);
    counted c = {.w = w, .a = calloc((size_t)n * LONG, 4), .b = calloc((size_t)n * LONG, 4)};

    NXT_IS(w, (c.a != NULL) && (c.b != NULL));
    if (arg != NULL) {
        nxt_host_warm_up(w);
    }
    for (size_t i = 0; i < V_FORMS * 2; i++) {
        c.each = lengths[i % 2];
        for (c.from = 0; c.from < n; c.from++) {
            c.to = (c.from + 1 + (int)i % (n - 1)) % n;
            one_count(&c, i / 2);
        }
        check_alive(w);
    }
    free(c.a);
    free(c.b);
}

static void test_other_counts_are_found_out_on_every_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < WAYS; i++) {
        nexar_config *cfg;

        assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
        assert_int_equal(nexar_config_set(cfg, "transports", ways[i].transports), NEXAR_OK);
        assert_int_equal(nexar_config_set(cfg, "direct", ways[i].direct), NEXAR_OK);
        for (int n = 2; n <= BLOCKS; n++) {
            nxt_local_world(n, cfg, other_counts, (i == 1) ? cfg : NULL);
        }
        nexar_config_free(cfg);
    }
}

/* A call is one operation, however many exchanges it has. */
static void one_number(nexar_comm *w, void *arg)
{
    float a[ROOM] = {0}, b[ROOM] = {0};
    const int rank = nexar_rank(w);

    (void)arg;
    for (int i = 0; i < 8; i++) {
        NXT_SAYS(w, do_call(w, (rank == i % 3) ? 19 + i % 4 : 19 + (i + 1) % 4, a, b),
                 NEXAR_EMISMATCH, " called ");
        NXT_SAYS(w, do_call(w, (rank == i % 3) ? 20 : CALLS - 1, a, b), NEXAR_EMISMATCH,
                 " called ");
        check_alive(w);
        NXT_OK(w, do_call(w, 20, a, b));
    }
    NXT_SAYS(w, do_call(w, rank, a, b), NEXAR_EMISMATCH, "operation #33");
}

static void test_after_a_compressed_call_that_differs_ranks_are_in_step(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, one_number, NULL);
    nxt_local_world(4, NULL, one_number, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_two_calls_have_different_fingerprints),
        cmocka_unit_test(test_any_ranks_may_be_the_ones_that_differ),
        cmocka_unit_test(test_ranks_that_all_wait_find_out),
        cmocka_unit_test(test_the_first_operation_may_be_the_one),
        cmocka_unit_test(test_other_counts_are_found_out_on_every_rank),
        cmocka_unit_test(test_after_a_compressed_call_that_differs_ranks_are_in_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
