/*
 * paths_test.c - every usable path agrees with the portable path bit for bit. Covers every small
 * length and alignment, in-place calls, and writes outside the target.
 */
#include "unit.h"

#include <string.h>

#include "reduce/reduce.h"
#include "reduce/reduce_cases.h"

enum {
    SMALL = 130,        /* every length up to here */
    LONGEST = 1100,     /* elements; of one byte each, enough for any loop to align */
    ROOM = 8 * LONGEST, /* bytes */
    GUARD = 64,
    GUARDS = 2 * GUARD, /* guard bytes before and after */
    FILL = 0xa5,
};

/* Source vectors, and the results of the portable path. */
static unsigned char pairs_a[8 * NXT_PAIRS], pairs_b[8 * NXT_PAIRS], want[8 * NXT_PAIRS];

static unsigned char buf_out[ROOM + GUARDS], buf_a[ROOM + GUARDS], buf_b[ROOM + GUARDS];

typedef struct kernel {
    nx_reduce_path path;
    nexar_dtype dtype;
    nexar_op op;
} kernel;

static void for_each_kernel(void (*check)(const kernel *k))
{
    for (int p = 0; p < NX_REDUCE_PATHS; p++) {
        for (int i = 0; i < NX_DTYPES * NX_OPS && nx_reduce_path_usable((nx_reduce_path)p); i++) {
            const kernel k = {(nx_reduce_path)p, (nexar_dtype)(i / NX_OPS), (nexar_op)(i % NX_OPS)};

            if (nx_reduce_legal(k.dtype, k.op)) {
                check(&k);
            }
        }
    }
    nx_reduce_path_set(nx_reduce_path_best());
}

/* Computes |want| from the first |count| pairs, then selects the path of |k|. */
static void prepare(const kernel *k, size_t count)
{
    nxt_pairs(k->dtype, pairs_a, pairs_b);
    nx_reduce_path_set(NX_REDUCE_PORTABLE);
    nx_reduce(want, pairs_a, pairs_b, count, k->dtype, k->op);
    nx_reduce_path_set(k->path);
}

/* Copies |bytes| bytes to |offset| after the guard of |buf|; returns their address. */
static unsigned char *place(unsigned char *buf, size_t offset, const void *data, size_t bytes)
{
    memset(buf, FILL, bytes + GUARDS);
    memcpy(buf + GUARD + offset, data, bytes);
    return buf + GUARD + offset;
}

/* Checks that |data| is in place and that both guards are intact. */
static void check_placed(const unsigned char *buf, size_t offset, const void *data, size_t bytes,
                         const kernel *k)
{
    static unsigned char expected[ROOM + GUARDS];

    memset(expected, FILL, bytes + GUARDS);
    memcpy(expected + GUARD + offset, data, bytes);
    if (memcmp(buf, expected, bytes + GUARDS) != 0) {
        fail_msg("%s: %s %s differs from the portable one, %zu bytes at %zu",
                 nx_reduce_path_name(k->path), nexar_dtype_name(k->dtype), nexar_op_name(k->op),
                 bytes, offset);
    }
}

/* The next length: lengths end at each position in a vector, in one iteration of the loop, and
 * in two. */
static size_t next_count(size_t count)
{
    if (count < SMALL || count % 128 <= 2 || count % 128 >= 126) {
        return count + 1;
    }
    return count + 31;
}

static void check_pairs_agree(const kernel *k)
{
    static unsigned char got[8 * NXT_PAIRS];

    prepare(k, NXT_PAIRS);
    nx_reduce(got, pairs_a, pairs_b, NXT_PAIRS, k->dtype, k->op);
    assert_memory_equal(got, want, NXT_PAIRS * nexar_dtype_size(k->dtype));
}

static void test_paths_agree_on_special_and_random_values(void **state)
{
    (void)state;
    for_each_kernel(check_pairs_agree);
}

static void check_lengths_agree(const kernel *k)
{
    prepare(k, LONGEST);
    for (size_t count = 0; count <= LONGEST; count = next_count(count)) {
        const size_t bytes = count * nexar_dtype_size(k->dtype);
        unsigned char *out = place(buf_out, 0, pairs_a, bytes);
        unsigned char *a = place(buf_a, 0, pairs_a, bytes);
        unsigned char *b = place(buf_b, 0, pairs_b, bytes);

        nx_reduce(out, a, b, count, k->dtype, k->op);
        check_placed(buf_out, 0, want, bytes, k);
        check_placed(buf_a, 0, pairs_a, bytes, k);
        check_placed(buf_b, 0, pairs_b, bytes, k);
    }
}

static void test_paths_agree_at_every_length_and_touch_nothing_else(void **state)
{
    (void)state;
    for_each_kernel(check_lengths_agree);
}

static void check_alignments_agree(const kernel *k)
{
    static const size_t counts[] = {1, 7, 33, LONGEST};
    static const size_t offsets[] = {0, 1, 2, 4, 15, 16};
    const size_t n = sizeof offsets / sizeof offsets[0];

    prepare(k, LONGEST);
    for (size_t i = 0; i < 4 * n * n * n; i++) {
        const size_t count = counts[i % 4];
        const size_t bytes = count * nexar_dtype_size(k->dtype);
        const size_t at_out = offsets[i / 4 % n];
        unsigned char *out = place(buf_out, at_out, pairs_b, bytes);
        unsigned char *a = place(buf_a, offsets[i / 4 / n % n], pairs_a, bytes);
        unsigned char *b = place(buf_b, offsets[i / 4 / n / n], pairs_b, bytes);

        nx_reduce(out, a, b, count, k->dtype, k->op);
        check_placed(buf_out, at_out, want, bytes, k);
    }
}

static void test_paths_agree_whatever_the_alignment(void **state)
{
    (void)state;
    for_each_kernel(check_alignments_agree);
}

static void check_in_place(const kernel *k)
{
    prepare(k, LONGEST);
    for (size_t count = 1; count <= LONGEST; count = next_count(count)) {
        const size_t bytes = count * nexar_dtype_size(k->dtype);
        const size_t at = count % 5;
        unsigned char *out = place(buf_out, at, pairs_a, bytes);

        nx_reduce(out, out, pairs_b, count, k->dtype, k->op);
        check_placed(buf_out, at, want, bytes, k);

        out = place(buf_out, at, pairs_b, bytes);
        nx_reduce(out, pairs_a, out, count, k->dtype, k->op);
        check_placed(buf_out, at, want, bytes, k);
    }
}

static void test_out_may_be_either_operand(void **state)
{
    (void)state;
    for_each_kernel(check_in_place);
}

static void check_doubled_in_place(const kernel *k)
{
    static unsigned char twice[ROOM];
    const size_t bytes = LONGEST * nexar_dtype_size(k->dtype);

    prepare(k, LONGEST);
    nx_reduce(twice, pairs_a, pairs_a, LONGEST, k->dtype, k->op);
    nx_reduce(pairs_a, pairs_a, pairs_a, LONGEST, k->dtype, k->op);
    assert_memory_equal(pairs_a, twice, bytes);
}

static void test_out_may_be_both_operands(void **state)
{
    (void)state;
    for_each_kernel(check_doubled_in_place);
}

static void check_division_agrees(const kernel *k)
{
    if (k->op != NEXAR_AVG) {
        return;
    }
    nxt_pairs(k->dtype, pairs_a, pairs_b);
    memcpy(want, pairs_a, sizeof want);
    nx_reduce_path_set(NX_REDUCE_PORTABLE);
    nx_reduce_divide(want, NXT_PAIRS, k->dtype, 7);
    nx_reduce_path_set(k->path);
    for (size_t count = 0; count <= LONGEST; count = next_count(count)) {
        const size_t bytes = count * nexar_dtype_size(k->dtype);
        const size_t at = count % 5;

        nx_reduce_divide(place(buf_out, at, pairs_a, bytes), count, k->dtype, 7);
        check_placed(buf_out, at, want, bytes, k);
    }
}

static void test_division_agrees_at_every_length_and_touches_nothing_else(void **state)
{
    (void)state;
    for_each_kernel(check_division_agrees);
}

static void test_no_elements_need_no_pointers(void **state)
{
    (void)state;
    nx_reduce(NULL, NULL, NULL, 0, NEXAR_F32, NEXAR_SUM);
    nx_reduce_divide(NULL, 0, NEXAR_F32, 1);
}

static void test_best_path_is_usable_and_chosen_first(void **state)
{
    (void)state;
    assert_true(nx_reduce_path_usable(NX_REDUCE_PORTABLE));
    assert_true(nx_reduce_path_usable(nx_reduce_path_best()));
    assert_int_equal(nx_reduce_path_now(), nx_reduce_path_best());
    for (int p = 0; p < NX_REDUCE_PATHS; p++) {
        print_message("path %s: %s\n", nx_reduce_path_name((nx_reduce_path)p),
                      nx_reduce_path_usable((nx_reduce_path)p) ? "usable" : "not usable here");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_best_path_is_usable_and_chosen_first), /* before any is set */
        cmocka_unit_test(test_paths_agree_on_special_and_random_values),
        cmocka_unit_test(test_paths_agree_at_every_length_and_touch_nothing_else),
        cmocka_unit_test(test_paths_agree_whatever_the_alignment),
        cmocka_unit_test(test_out_may_be_either_operand),
        cmocka_unit_test(test_out_may_be_both_operands),
        cmocka_unit_test(test_division_agrees_at_every_length_and_touches_nothing_else),
        cmocka_unit_test(test_no_elements_need_no_pointers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
