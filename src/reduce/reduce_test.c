/* reduce_test.c - the results of the kernels: every path agrees with an oracle. */
#include "unit.h"

#include <fenv.h>
#include <string.h>

#include "reduce/reduce.h"
#include "reduce/reduce_cases.h"
#include "reduce/reduce_oracle.h"
#include "reduce/scalar.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { HALVES = 65536 };

static uint64_t vec_a[HALVES], vec_b[HALVES], vec_out[HALVES];

/* Calls |check| for each (dtype, op) that is legal, on each usable path. */
static void for_each_kernel(void (*check)(nexar_dtype dtype, nexar_op op))
{
    for (int p = 0; p < NX_REDUCE_PATHS; p++) {
        if (!nx_reduce_path_usable((nx_reduce_path)p)) {
            continue;
        }
        nx_reduce_path_set((nx_reduce_path)p);
        for (int i = 0; i < NX_DTYPES * NX_OPS; i++) {
            const nexar_dtype dtype = (nexar_dtype)(i / NX_OPS);
            const nexar_op op = (nexar_op)(i % NX_OPS);

            if (nx_reduce_legal(dtype, op)) {
                check(dtype, op);
            }
        }
    }
    nx_reduce_path_set(nx_reduce_path_best());
}

/* Reduces |count| elements of vec_a and vec_b and checks each result with the oracle. */
static void check_against_oracle(size_t count, nexar_dtype dtype, nexar_op op)
{
    nx_reduce(vec_out, vec_a, vec_b, count, dtype, op);
    for (size_t i = 0; i < count; i++) {
        const uint64_t a = nxt_get(vec_a, dtype, i), b = nxt_get(vec_b, dtype, i);
        const uint64_t got = nxt_get(vec_out, dtype, i), want = nxt_oracle(dtype, op, a, b);

        if (got != want) {
            fail_msg("%s: %s %s of %#jx and %#jx is %#jx, not %#jx",
                     nx_reduce_path_name(nx_reduce_path_now()), nexar_dtype_name(dtype),
                     nexar_op_name(op), (uintmax_t)a, (uintmax_t)b, (uintmax_t)want,
                     (uintmax_t)got);
        }
    }
}

/* ---- names --------------------------------------------------------------------------- */

static void test_dtypes_and_ops_have_names_and_sizes(void **state)
{
    (void)state;
    assert_string_equal(nexar_dtype_name(NEXAR_BF16), "bf16");
    assert_string_equal(nexar_dtype_name(NEXAR_U16), "u16");
    assert_string_equal(nexar_op_name(NEXAR_SUM), "sum");
    assert_string_equal(nexar_op_name(NEXAR_BXOR), "bxor");
    assert_int_equal(nexar_dtype_size(NEXAR_F16), 2);
    assert_int_equal(nexar_dtype_size(NEXAR_I64), 8);
    for (int d = 0; d < NX_DTYPES; d++) {
        assert_non_null(nexar_dtype_name((nexar_dtype)d));
        assert_in_range(nexar_dtype_size((nexar_dtype)d), 1, 8);
    }
}

static void test_values_outside_the_enums_are_refused(void **state)
{
    (void)state;
    const int outside[] = {-1, NX_DTYPES, 1000};

    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        assert_int_equal(nexar_dtype_size((nexar_dtype)outside[i]), 0);
        assert_string_equal(nexar_dtype_name((nexar_dtype)outside[i]), "?");
        assert_string_equal(nexar_op_name((nexar_op)outside[i]), "?");
        assert_false(nx_reduce_legal((nexar_dtype)outside[i], NEXAR_SUM));
        assert_false(nx_reduce_legal(NEXAR_F32, (nexar_op)outside[i]));
        assert_string_equal(nx_reduce_path_name((nx_reduce_path)outside[i]), "?");
        assert_false(nx_reduce_path_usable((nx_reduce_path)outside[i]));
    }
    assert_false(nx_reduce_legal(NEXAR_I32, (nexar_op)NX_OPS));
}

static void test_bitwise_ops_want_integers(void **state)
{
    (void)state;
    assert_true(nx_reduce_legal(NEXAR_U8, NEXAR_BAND));
    assert_true(nx_reduce_legal(NEXAR_I64, NEXAR_BXOR));
    assert_true(nx_reduce_legal(NEXAR_BF16, NEXAR_AVG));
    assert_false(nx_reduce_legal(NEXAR_F32, NEXAR_BAND));
    assert_false(nx_reduce_legal(NEXAR_F64, NEXAR_BOR));
    assert_false(nx_reduce_legal(NEXAR_F16, NEXAR_BXOR));
    assert_false(nx_reduce_legal(NEXAR_BF16, NEXAR_BXOR));
}

/* ---- f16 and bf16 in scalar.h -------------------------------------------------------- */

static uint16_t half_of_f32(nexar_dtype dtype, float x)
{
    return dtype == NEXAR_F16 ? nx_f16_of_f32(x) : nx_bf16_of_f32(x);
}

static float f32_of_half(nexar_dtype dtype, uint16_t h)
{
    return dtype == NEXAR_F16 ? nx_f32_of_f16(h) : nx_f32_of_bf16(h);
}

static void check_every_half(nexar_dtype dtype)
{
    for (uint32_t h = 0; h < HALVES; h++) {
        const float x = f32_of_half(dtype, (uint16_t)h);
        const double value = nxt_value(dtype, h);

        if (nxt_is_nan(dtype, h)) {
            assert_true(x != x);
            assert_int_equal(half_of_f32(dtype, x), nxt_canonical_nan(dtype));
        } else {
            assert_true((double)x == value);
            assert_int_equal(half_of_f32(dtype, x), h); /* the sign of 0 too */
        }
    }
}

static void test_every_f16_and_bf16_survives_f32(void **state)
{
    (void)state;
    check_every_half(NEXAR_F16);
    check_every_half(NEXAR_BF16);
}

/* Between each half and the next: the exact middle, and the neighbouring f32. */
static void check_middles(nexar_dtype dtype, uint16_t infinity)
{
    for (uint16_t h = 0; h < infinity; h++) {
        /* Between the largest value and infinity, the next value would take the place of
         * infinity. */
        const double low = nxt_value(dtype, h);
        const double high =
            h + 1 < infinity ? nxt_value(dtype, h + 1U) : 2 * low - nxt_value(dtype, h - 1U);
        const uint32_t middle = nx_f32_bits((float)(low + (high - low) / 2));
        const uint16_t even = (uint16_t)(h + h % 2);

        for (uint32_t sign = 0; sign <= 1; sign++) {
            const uint32_t s32 = sign << 31;
            const uint16_t s16 = (uint16_t)(sign << 15);

            assert_int_equal(half_of_f32(dtype, nx_f32_of_bits(s32 | (middle - 1))), s16 | h);
            assert_int_equal(half_of_f32(dtype, nx_f32_of_bits(s32 | middle)), s16 | even);
            assert_int_equal(half_of_f32(dtype, nx_f32_of_bits(s32 | (middle + 1))), s16 | (h + 1));
        }
    }
}

static void test_f32_rounds_to_the_nearest_half_and_ties_to_even(void **state)
{
    (void)state;
    check_middles(NEXAR_F16, 0x7c00);
    check_middles(NEXAR_BF16, 0x7f80);
    assert_int_equal(nx_f16_of_f32(FLT_MAX), 0x7c00);
    assert_int_equal(nx_f16_of_f32(-FLT_MIN), 0x8000);
}

/* ---- kernels ------------------------------------------------------------------------- */

static void check_pairs(nexar_dtype dtype, nexar_op op)
{
    nxt_pairs(dtype, vec_a, vec_b);
    check_against_oracle(NXT_PAIRS, dtype, op);
}

static void test_special_and_random_pairs_reduce_as_the_oracle_says(void **state)
{
    (void)state;
    for_each_kernel(check_pairs);
}

/* Every pair of bytes. */
static void check_bytes(nexar_dtype dtype, nexar_op op)
{
    for (uint32_t i = 0; i < HALVES; i++) {
        nxt_put(vec_a, dtype, i, i & 0xff);
        nxt_put(vec_b, dtype, i, i >> 8);
    }
    check_against_oracle(HALVES, dtype, op);
}

/* Every f16 or bf16 with each special one. */
static void check_halves(nexar_dtype dtype, nexar_op op)
{
    uint64_t specials[NXT_SPECIALS_MAX];
    const size_t n = nxt_specials(dtype, specials);

    for (size_t s = 0; s < n; s++) {
        for (uint32_t i = 0; i < HALVES; i++) {
            nxt_put(vec_a, dtype, i, i);
            nxt_put(vec_b, dtype, i, specials[s]);
        }
        check_against_oracle(HALVES, dtype, op);
    }
}

static void check_small_types(nexar_dtype dtype, nexar_op op)
{
    if (op == NEXAR_AVG) {
        return; /* the kernel is that of SUM */
    }
    if (nexar_dtype_size(dtype) == 1) {
        check_bytes(dtype, op);
    } else if (dtype == NEXAR_F16 || dtype == NEXAR_BF16) {
        check_halves(dtype, op);
    }
}

static void test_every_byte_and_every_half_reduces_as_the_oracle_says(void **state)
{
    (void)state;
    for_each_kernel(check_small_types);
}

static void check_commutes(nexar_dtype dtype, nexar_op op)
{
    static uint64_t swapped[NXT_PAIRS];

    nxt_pairs(dtype, vec_a, vec_b);
    nx_reduce(vec_out, vec_a, vec_b, NXT_PAIRS, dtype, op);
    nx_reduce(swapped, vec_b, vec_a, NXT_PAIRS, dtype, op);
    assert_memory_equal(vec_out, swapped, NXT_PAIRS * nexar_dtype_size(dtype));
}

static void test_operands_commute_to_the_bit(void **state)
{
    (void)state;
    for_each_kernel(check_commutes);
}

static void check_identity(nexar_dtype dtype, nexar_op op)
{
    nxt_pairs(dtype, vec_a, vec_b);
    nx_reduce_identity(vec_b, NXT_PAIRS, dtype, op);
    nx_reduce(vec_out, vec_b, vec_a, NXT_PAIRS, dtype, op);
    for (size_t i = 0; i < NXT_PAIRS; i++) {
        const uint64_t x = nxt_get(vec_a, dtype, i);
        const uint64_t minus_0 = UINT64_C(1) << (8 * nexar_dtype_size(dtype) - 1);
        const bool sum_of_floats = nxt_is_float(dtype) && ((op == NEXAR_SUM) || (op == NEXAR_AVG));

        if (sum_of_floats && (x == minus_0)) {
            assert_int_equal(nxt_get(vec_out, dtype, i), 0);
        } else {
            assert_int_equal(nxt_get(vec_out, dtype, i),
                             nxt_is_nan(dtype, x) ? nxt_canonical_nan(dtype) : x);
        }
    }
}

static void test_identity_leaves_every_number_as_it_is(void **state)
{
    (void)state;
    for_each_kernel(check_identity);
}

static void test_identity_writes_just_its_elements(void **state)
{
    (void)state;
    const uint16_t zero = 0;
    unsigned char buf[33];

    for (size_t count = 0; count < 16; count++) {
        memset(buf, 0xa5, sizeof buf);
        nx_reduce_identity(buf + 1, count, NEXAR_BF16, NEXAR_SUM);
        assert_int_equal(buf[0], 0xa5);
        for (size_t i = 0; i < count; i++) {
            assert_memory_equal(buf + 1 + 2 * i, &zero, 2);
        }
        assert_int_equal(buf[1 + 2 * count], 0xa5);
    }
    nx_reduce_identity(NULL, 0, NEXAR_F32, NEXAR_MAX);
}

/* ---- division ------------------------------------------------------------------------ */

static void check_division(nexar_dtype dtype, nexar_op op)
{
    static const uint32_t divisors[] = {1,          2,          3,          7,         10,
                                        127,        128,        255,        256,       1000,
                                        65535,      65536,      100003,     16777217,  INT32_MAX,
                                        0x80000000, 0x80000001, 0xfffffffe, UINT32_MAX};

    if (op != NEXAR_AVG) {
        return;
    }
    nxt_pairs(dtype, vec_a, vec_b);
    for (size_t d = 0; d < sizeof divisors / sizeof divisors[0]; d++) {
        memcpy(vec_out, vec_a, sizeof vec_out);
        nx_reduce_divide(vec_out, NXT_PAIRS, dtype, divisors[d]);
        for (size_t i = 0; i < NXT_PAIRS; i++) {
            assert_int_equal(nxt_get(vec_out, dtype, i),
                             nxt_oracle_quotient(dtype, nxt_get(vec_a, dtype, i), divisors[d]));
        }
    }
}

static void test_division_is_as_the_oracle_says(void **state)
{
    (void)state;
    for_each_kernel(check_division);
}

static void test_division_of_integers_truncates_towards_zero(void **state)
{
    (void)state;
    int32_t i32[] = {-7, 7, -1, INT32_MIN, INT32_MIN};
    int8_t i8[] = {-128, -127, 127, -1};

    nx_reduce_divide(i32, 4, NEXAR_I32, 2);
    nx_reduce_divide(i32 + 4, 1, NEXAR_I32, 0x80000000);
    assert_int_equal(i32[0], -3);
    assert_int_equal(i32[1], 3);
    assert_int_equal(i32[2], 0);
    assert_int_equal(i32[3], INT32_MIN / 2);
    assert_int_equal(i32[4], -1);
    nx_reduce_divide(i8, 4, NEXAR_I8, 3);
    assert_int_equal(i8[0], -42);
    assert_int_equal(i8[1], -42);
    assert_int_equal(i8[2], 42);
    assert_int_equal(i8[3], 0);
}

/* ---- the caller's floating-point environment ----------------------------------------- */

/* Reduces once in the default environment and once in the environment that |enter| sets. */
static void check_environment(nexar_dtype dtype, nexar_op op, void (*enter)(void),
                              void (*leave)(void))
{
    nxt_pairs(dtype, vec_a, vec_b);
    nx_reduce(vec_out, vec_a, vec_b, NXT_PAIRS, dtype, op);
    enter();
    nx_reduce(vec_a, vec_a, vec_b, NXT_PAIRS, dtype, op);
    leave();
    assert_memory_equal(vec_a, vec_out, NXT_PAIRS * nexar_dtype_size(dtype));
}

static void enter_upward(void)
{
    assert_int_equal(fesetround(FE_UPWARD), 0);
}

static void leave_upward(void)
{
    const int mode = fegetround();

    assert_int_equal(fesetround(FE_TONEAREST), 0);
    assert_int_equal(mode, FE_UPWARD);
}

static void check_upward(nexar_dtype dtype, nexar_op op)
{
    check_environment(dtype, op, enter_upward, leave_upward);
}

static void test_rounding_mode_of_the_caller_is_kept_but_changes_nothing(void **state)
{
    (void)state;
    for_each_kernel(check_upward);
}

#if defined(__x86_64__)
enum { FLUSH = 0x8040 }; /* subnormals, as results and as operands */

static void enter_flush(void)
{
    _mm_setcsr(_mm_getcsr() | FLUSH);
}

static void leave_flush(void)
{
    const unsigned csr = _mm_getcsr();

    _mm_setcsr(csr & ~(unsigned)FLUSH);
    assert_int_equal(csr & FLUSH, FLUSH);
}

static void check_flush(nexar_dtype dtype, nexar_op op)
{
    check_environment(dtype, op, enter_flush, leave_flush);
}

static void test_flush_to_zero_of_the_caller_is_kept_but_changes_nothing(void **state)
{
    (void)state;
    for_each_kernel(check_flush);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtypes_and_ops_have_names_and_sizes),
        cmocka_unit_test(test_values_outside_the_enums_are_refused),
        cmocka_unit_test(test_bitwise_ops_want_integers),
        cmocka_unit_test(test_every_f16_and_bf16_survives_f32),
        cmocka_unit_test(test_f32_rounds_to_the_nearest_half_and_ties_to_even),
        cmocka_unit_test(test_special_and_random_pairs_reduce_as_the_oracle_says),
        cmocka_unit_test(test_every_byte_and_every_half_reduces_as_the_oracle_says),
        cmocka_unit_test(test_operands_commute_to_the_bit),
        cmocka_unit_test(test_identity_leaves_every_number_as_it_is),
        cmocka_unit_test(test_identity_writes_just_its_elements),
        cmocka_unit_test(test_division_is_as_the_oracle_says),
        cmocka_unit_test(test_division_of_integers_truncates_towards_zero),
        cmocka_unit_test(test_rounding_mode_of_the_caller_is_kept_but_changes_nothing),
#if defined(__x86_64__)
        cmocka_unit_test(test_flush_to_zero_of_the_caller_is_kept_but_changes_nothing),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
