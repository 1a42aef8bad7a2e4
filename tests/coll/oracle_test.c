/*
 * oracle_test.c - the oracle against results computed by hand, and its inputs against their
 * guarantee: the same result in any order.
 */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "rand.h"
#include "reduce/reduce.h"
#include "scalar_values.h"
#include "unit.h"

enum { RANKS = 3, ROOM = 6 };

/* Three ranks with up to six i32 each; rank r has 100 r + 10, 100 r + 11, ... */
typedef struct fixture {
    nxt_call call;
    int32_t send[RANKS][ROOM], recv[RANKS][ROOM], want[RANKS][ROOM];
    bool loose[RANKS][ROOM];
} fixture;

static void solve(fixture *f, nx_coll_kind kind, size_t count, nxt_place place, nexar_op op)
{
    char *send[RANKS];
    char *recv[RANKS];
    char *want[RANKS];
    bool *loose[RANKS];

    memset(f, 0, sizeof(*f));
    nxt_call_init(&f->call, kind, RANKS, 1, count, place, 1);
    for (int r = 0; r < RANKS; r++) {
        for (int i = 0; i < ROOM; i++) {
            f->send[r][i] = (100 * r) + 10 + i;
            f->recv[r][i] = (100 * r) + 10 + i;
        }
        send[r] = (char *)f->send[r];
        recv[r] = (char *)f->recv[r];
        want[r] = (char *)f->want[r];
        loose[r] = f->loose[r];
        assert_true(f->call.send_len[r] <= ROOM);
        assert_true(f->call.recv_len[r] <= ROOM);
    }
    nxt_data data = {.call = &f->call, .dtype = NEXAR_I32, .op = op, .send = send, .recv = recv};

    nxt_oracle(&data, want, loose);
    nxt_call_fini(&f->call);
}

static void assert_row(const int32_t *got, const int32_t *want, size_t n)
{
    assert_memory_equal(got, want, n * sizeof(*got));
}

#define ASSERT_ROW(got, ...) \
    assert_row(got, (const int32_t[]){__VA_ARGS__}, sizeof((int32_t[]){__VA_ARGS__}) / 4)

static void test_broadcast_gives_all_what_the_root_has(void **state)
{
    (void)state;
    fixture f;

    solve(&f, NX_BROADCAST, 2, NXT_APART, NEXAR_SUM);
    for (int r = 0; r < RANKS; r++) {
        ASSERT_ROW(f.want[r], 110, 111);
    }
}

static void test_reductions_combine_all_ranks(void **state)
{
    (void)state;
    fixture f;

    solve(&f, NX_REDUCE, 2, NXT_IN_PLACE, NEXAR_SUM);
    ASSERT_ROW(f.want[1], 330, 333);
    solve(&f, NX_ALLREDUCE, 2, NXT_APART, NEXAR_AVG);
    ASSERT_ROW(f.want[0], 110, 111);
    ASSERT_ROW(f.want[2], 110, 111);
    solve(&f, NX_ALLREDUCE, 2, NXT_MIXED, NEXAR_BXOR);
    ASSERT_ROW(f.want[1], 10 ^ 110 ^ 210, 11 ^ 111 ^ 211);
}

static void test_gathers_put_blocks_in_order_of_rank(void **state)
{
    (void)state;
    fixture f;

    solve(&f, NX_ALLGATHER, 2, NXT_APART, NEXAR_SUM);
    ASSERT_ROW(f.want[2], 10, 11, 110, 111, 210, 211);
    solve(&f, NX_ALLGATHER, 2, NXT_IN_PLACE, NEXAR_SUM);
    ASSERT_ROW(f.want[0], 10, 11, 112, 113, 214, 215);
    solve(&f, NX_GATHER, 2, NXT_APART, NEXAR_SUM);
    ASSERT_ROW(f.want[1], 10, 11, 110, 111, 210, 211);
}

static void test_scatters_give_each_its_own_block(void **state)
{
    (void)state;
    fixture f;

    solve(&f, NX_SCATTER, 2, NXT_APART, NEXAR_SUM);
    ASSERT_ROW(f.want[0], 110, 111);
    ASSERT_ROW(f.want[2], 114, 115);
    solve(&f, NX_REDUCE_SCATTER, 2, NXT_APART, NEXAR_SUM);
    ASSERT_ROW(f.want[0], 330, 333);
    ASSERT_ROW(f.want[1], 336, 339);
    ASSERT_ROW(f.want[2], 342, 345);
    solve(&f, NX_REDUCE_SCATTER, 2, NXT_IN_PLACE, NEXAR_MAX);
    ASSERT_ROW(f.want[1], 212, 213);
    assert_false(f.loose[1][1]);
    assert_true(f.loose[1][2]);
}

static void test_alltoall_turns_rows_into_columns(void **state)
{
    (void)state;
    fixture f;

    for (uint32_t place = 0; place < NXT_PLACES; place++) {
        solve(&f, NX_ALLTOALL, 2, (nxt_place)place, NEXAR_SUM);
        ASSERT_ROW(f.want[0], 10, 11, 110, 111, 210, 211);
        ASSERT_ROW(f.want[2], 14, 15, 114, 115, 214, 215);
    }
}

static void test_scans_combine_the_ranks_before(void **state)
{
    (void)state;
    fixture f;

    solve(&f, NX_SCAN, 2, NXT_APART, NEXAR_SUM);
    ASSERT_ROW(f.want[0], 10, 11);
    ASSERT_ROW(f.want[1], 120, 122);
    ASSERT_ROW(f.want[2], 330, 333);
    solve(&f, NX_EXSCAN, 2, NXT_IN_PLACE, NEXAR_MIN);
    ASSERT_ROW(f.want[0], INT32_MAX, INT32_MAX);
    ASSERT_ROW(f.want[2], 10, 11);
    solve(&f, NX_EXSCAN, 1, NXT_APART, NEXAR_PROD);
    ASSERT_ROW(f.want[0], 1);
    ASSERT_ROW(f.want[1], 10);
    ASSERT_ROW(f.want[2], 1100);
}

static void test_shards_are_even_and_the_first_ones_larger(void **state)
{
    (void)state;
    assert_int_equal(nxt_shard(8, 3, 0).off, 0);
    assert_int_equal(nxt_shard(8, 3, 0).len, 3);
    assert_int_equal(nxt_shard(8, 3, 1).off, 3);
    assert_int_equal(nxt_shard(8, 3, 1).len, 3);
    assert_int_equal(nxt_shard(8, 3, 2).off, 6);
    assert_int_equal(nxt_shard(8, 3, 2).len, 2);
    assert_int_equal(nxt_shard(1, 3, 2).len, 0);
}

/* ---- elements ------------------------------------------------------------------ */

static void test_small_floats_survive_the_way_to_double_and_back(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint16_t in = (uint16_t)bits;
        uint16_t f16 = 0;
        uint16_t bf16 = 0;

        nxt_from_double(NEXAR_F16, nxt_to_double(NEXAR_F16, &in), &f16);
        nxt_from_double(NEXAR_BF16, nxt_to_double(NEXAR_BF16, &in), &bf16);
        assert_int_equal(f16, ((in & 0x7fff) > 0x7c00) ? 0x7e00 : in);
        assert_int_equal(bf16, ((in & 0x7fff) > 0x7f80) ? 0x7fc0 : in);
    }
}

static void test_small_floats_round_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        double value;
        uint16_t f16, bf16;
    } cases[] = {
        {1.0, 0x3c00, 0x3f80},
        {-2.0, 0xc000, 0xc000},
        {65504.0, 0x7bff, 0x4780},
        {65520.0, 0x7c00, 0x4780},
        {1.0 + 1.0 / 2048, 0x3c00, 0x3f80},
        {1.0 + 3.0 / 2048, 0x3c02, 0x3f80},
        {1.0 + 1.0 / 256, 0x3c04, 0x3f80},
        {1.0 + 3.0 / 256, 0x3c0c, 0x3f82},
        {0x1p-24, 0x0001, 0x3380},
        {0x1p-25, 0x0000, 0x3300},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint16_t f16 = 0;
        uint16_t bf16 = 0;

        nxt_from_double(NEXAR_F16, cases[i].value, &f16);
        nxt_from_double(NEXAR_BF16, cases[i].value, &bf16);
        assert_int_equal(f16, cases[i].f16);
        assert_int_equal(bf16, cases[i].bf16);
    }
}

/* ---- inputs -------------------------------------------------------------------- */

/* Combines element |i| of |in->size| ranks in the order of |order|. */
static uint64_t fold(const nxt_inputs *in, size_t i, const uint32_t *order)
{
    uint64_t acc = 0;
    uint64_t x = 0;

    nxt_input_exact(in, order[0], i, &acc);
    for (uint32_t k = 1; k < in->size; k++) {
        nxt_input_exact(in, order[k], i, &x);
        nxt_combine(in->dtype, in->op, &acc, &x);
    }
    return acc;
}

/* The same by halves: different partial results. */
static uint64_t fold_tree(const nxt_inputs *in, size_t i, uint32_t lo,
                          uint32_t hi) // NOLINT(misc-no-recursion)
{
    uint64_t a = 0;

    if (hi - lo == 1) {
        nxt_input_exact(in, lo, i, &a);
        return a;
    }
    uint32_t mid = lo + ((hi - lo) / 2);
    uint64_t b = fold_tree(in, i, mid, hi);

    a = fold_tree(in, i, lo, mid);
    nxt_combine(in->dtype, in->op, &a, &b);
    return a;
}

static void check_exact(const nxt_inputs *in)
{
    uint32_t up[257] = {0};
    uint32_t mixed[257] = {0};
    nxt_rand rand = {in->seed};

    for (uint32_t r = 0; r < in->size; r++) {
        uint32_t j = nxt_below(&rand, r + 1);

        up[r] = r;
        mixed[r] = mixed[j];
        mixed[j] = r;
    }
    for (size_t i = 0; i < 12; i++) {
        uint64_t result = fold(in, i, up);

        assert_int_equal(fold(in, i, mixed), result);
        assert_int_equal(fold_tree(in, i, 0, in->size), result);
    }
}

static void check_exact_sizes(nexar_dtype dtype, nexar_op op)
{
    static const uint32_t sizes[] = {1, 2, 3, 8, 17, 100, 257};

    for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
        nxt_inputs in = {.dtype = dtype, .op = op, .size = sizes[k], .seed = 40 + k};

        check_exact(&in);
    }
}

static void test_exact_inputs_give_the_same_result_in_any_order(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < NX_DTYPES; dtype++) {
        for (int op = 0; op < NX_OPS; op++) {
            if (nx_reduce_legal((nexar_dtype)dtype, (nexar_op)op)) {
                check_exact_sizes((nexar_dtype)dtype, (nexar_op)op);
            }
        }
    }
}

/* Equal results would hide a block in the wrong place. */
static void test_results_differ_between_elements(void **state)
{
    (void)state;
    uint32_t up[8] = {0};

    for (uint32_t r = 0; r < 8; r++) {
        up[r] = r;
    }
    for (int dtype = 0; dtype < NX_DTYPES; dtype++) {
        for (int op = 0; op < NX_OPS; op++) {
            nxt_inputs in = {.dtype = (nexar_dtype)dtype, .op = (nexar_op)op, .size = 8, .seed = 9};
            int same = 0;

            for (size_t i = 1; nx_reduce_legal(in.dtype, in.op) && (i < 100); i++) {
                same += (fold(&in, i, up) == fold(&in, i - 1, up)) ? 1 : 0;
            }
            assert_true(same < 35); /* minima of i8 and infinities coincide now and then */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_broadcast_gives_all_what_the_root_has),
        cmocka_unit_test(test_reductions_combine_all_ranks),
        cmocka_unit_test(test_gathers_put_blocks_in_order_of_rank),
        cmocka_unit_test(test_scatters_give_each_its_own_block),
        cmocka_unit_test(test_alltoall_turns_rows_into_columns),
        cmocka_unit_test(test_scans_combine_the_ranks_before),
        cmocka_unit_test(test_shards_are_even_and_the_first_ones_larger),
        cmocka_unit_test(test_small_floats_survive_the_way_to_double_and_back),
        cmocka_unit_test(test_small_floats_round_to_nearest_even),
        cmocka_unit_test(test_exact_inputs_give_the_same_result_in_any_order),
        cmocka_unit_test(test_results_differ_between_elements),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
