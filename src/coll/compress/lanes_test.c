/* lanes_test.c - codes to the bit, on every path that this machine supports. */
#include "coll/compress/lanes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "rand.h"
#include "reduce/reduce.h"
#include "reduce/scalar.h"
#include "unit.h"

static const uint32_t specials[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x33000000, 0x33000001,
    0x33800000, 0x387fe000, 0x387fffff, 0x38800000, 0x477fe000, 0x477fefff, 0x477ff000, 0x47800000,
    0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
    0x7f800001, 0x3f800000, 0xbf800000, 0x3f808000, 0x3f818000, 0x42fe0000, 0xc2fe0000, 0x0d800000,
};

enum { SPECIALS = sizeof specials / sizeof specials[0] };

static void fill(nx_lanes *x, nxt_rand *rand)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        uint32_t bits = (uint32_t)nxt_next(rand);

        if (nxt_one_in(rand, 3)) {
            bits = specials[nxt_below(rand, SPECIALS)];
        } else if (nxt_one_in(rand, 2)) { /* about the range of f16 */
            bits = (bits & 0x807fffff) | (uint32_t)(98 + nxt_below(rand, 50)) << 23;
        }
        x->f32[i] = nx_f32_of_bits(bits);
    }
}

/* Calls |test| with each path in use. */
static void on_each_path(void (*test)(void))
{
    const nx_reduce_path before = nx_reduce_path_now();

    for (int path = 0; path < NX_REDUCE_PATHS; path++) {
        if (nx_reduce_path_usable((nx_reduce_path)path)) {
            nx_reduce_path_set((nx_reduce_path)path);
            test();
        }
    }
    nx_reduce_path_set(before);
}

/* ---- F16, BF16 ----------------------------------------------------------------------- */

static uint16_t half_of(nx_codec codec, float x, bool saturate)
{
    const float most = (codec == NX_CODEC_F16) ? 65504.0F : nx_f32_of_bits(0x7f7f0000);

    if (saturate && (fabsf(x) <= FLT_MAX) && (fabsf(x) > most)) {
        x = copysignf(most, x);
    }
    return (codec == NX_CODEC_F16) ? nx_f16_of_f32(x) : nx_bf16_of_f32(x);
}

static void halves_agree_with_scalars(void)
{
    nxt_rand rand = {1};
    nx_lanes x;

    for (int trial = 0; trial < 400; trial++) {
        const nx_codec codec = (trial % 2 == 0) ? NX_CODEC_F16 : NX_CODEC_BF16;
        const bool saturate = (trial % 4 < 2);
        uint16_t code[NX_PIECE];

        fill(&x, &rand);
        nx_codec_encode(codec, code, &x, NX_PIECE, NEXAR_F32, saturate);
        for (size_t i = 0; i < NX_PIECE; i++) {
            assert_int_equal(code[i], half_of(codec, x.f32[i], saturate));
        }
    }
}

static void test_halves_agree_with_scalars(void **state)
{
    (void)state;
    on_each_path(halves_agree_with_scalars);
}

static void every_half_is_decoded(void)
{
    for (uint32_t first = 0; first < 0x10000; first += NX_PIECE) {
        uint16_t code[NX_PIECE], again[NX_PIECE];
        nx_lanes x;

        for (size_t i = 0; i < NX_PIECE; i++) {
            code[i] = (uint16_t)(first + i);
        }
        nx_codec_decode(NX_CODEC_F16, &x, code, NX_PIECE, NEXAR_F32);
        for (size_t i = 0; i < NX_PIECE; i++) {
            const float value = nx_canonical_f32(nx_f32_of_f16(code[i]));

            assert_int_equal(nx_f32_bits(x.f32[i]), nx_f32_bits(value));
        }
        nx_lanes_load(&x, NEXAR_BF16, code, NX_PIECE);
        nx_lanes_store(&x, NEXAR_BF16, again, NX_PIECE, false);
        for (size_t i = 0; i < NX_PIECE; i++) {
            const bool nan = (code[i] & 0x7fff) > 0x7f80;

            assert_int_equal(again[i], nan ? NX_NAN_BF16 : code[i]);
        }
    }
}

static void test_every_half_is_decoded(void **state)
{
    (void)state;
    on_each_path(every_half_is_decoded);
}

/* ---- INT8 ---------------------------------------------------------------------------- */

static float largest_finite(const nx_lanes *x, size_t n)
{
    float largest = 0;

    for (size_t i = 0; i < n; i++) {
        const float magnitude = fabsf(x->f32[i]);

        largest = ((magnitude <= FLT_MAX) && (magnitude > largest)) ? magnitude : largest;
    }
    return largest;
}

static int signed_of(unsigned char byte)
{
    return (byte ^ 0x80) - 0x80;
}

/* The rules of lanes.h, one element at a time. */
static void check_int8(const nx_lanes *x, const unsigned char *code, size_t n)
{
    const float largest = largest_finite(x, n), scale = fminf(largest / 127.0F, 0x1p121F);
    float sent;

    memcpy(&sent, code, sizeof sent);
    assert_int_equal(nx_f32_bits(sent), (largest < 0x1p-100F) ? 0 : nx_f32_bits(scale));
    for (size_t i = 0; i < n; i++) {
        const int q = signed_of(code[sizeof sent + i]);

        if (!(fabsf(x->f32[i]) <= FLT_MAX)) {
            assert_int_equal(q, -128);
        } else if (sent == 0) {
            assert_int_equal(q, 0);
        } else {
            const double exact = (double)x->f32[i] / (double)scale;
            const double limited = fmin(fmax(exact, -127), 127);

            assert_true((q >= -127) && (fabs((double)q - limited) <= 0.5 + 1e-4));
        }
    }
}

static void int8_keeps_its_rules(void)
{
    nxt_rand rand = {2};

    for (int trial = 0; trial < 400; trial++) {
        const size_t n = (trial % 3 == 0) ? 1 + nxt_below(&rand, NX_PIECE) : NX_PIECE;
        unsigned char code[4 + NX_PIECE + 1];
        nx_lanes x, value;

        fill(&x, &rand);
        for (size_t i = 0; (trial % 2 == 0) && (i < NX_PIECE); i++) {
            x.f32[i] = (float)nxt_below(&rand, 1000) / 77.0F - 3.0F;
        }
        memset(x.f32 + n, 0, (NX_PIECE - n) * sizeof(float));
        code[4 + n] = 0xa5;
        nx_codec_encode(NX_CODEC_INT8, code, &x, n, NEXAR_F32, true);
        assert_int_equal(code[4 + n], 0xa5);
        assert_int_equal(nx_codec_bytes(NX_CODEC_INT8, n), 4 + n);
        check_int8(&x, code, n);
        nx_codec_decode(NX_CODEC_INT8, &value, code, n, NEXAR_F32);
        for (size_t i = 0; i < n; i++) {
            const int q = signed_of(code[4 + i]);
            float scale;

            memcpy(&scale, code, sizeof scale);
            assert_int_equal(nx_f32_bits(value.f32[i]),
                             (q == -128) ? NX_NAN_F32 : nx_f32_bits((float)q * scale));
        }
    }
}

static void test_int8_keeps_its_rules(void **state)
{
    (void)state;
    on_each_path(int8_keeps_its_rules);
}

static void test_int8_rounds_to_even(void **state)
{
    unsigned char code[4 + NX_PIECE];
    nx_lanes x = {.f32 = {127.0F, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 3.0F}};
    const int expected[] = {127, 0, 2, 2, 0, -2, 3};

    (void)state;
    nx_codec_encode(NX_CODEC_INT8, code, &x, 7, NEXAR_F32, true);
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(signed_of(code[4 + i]), expected[i]);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    assert_int_equal(nx_codec_bytes(NX_CODEC_F16, 1000), 2000);
    assert_int_equal(nx_codec_bytes(NX_CODEC_INT8, 0), 0);
    assert_int_equal(nx_codec_bytes(NX_CODEC_INT8, 256), 260);
    assert_int_equal(nx_codec_bytes(NX_CODEC_INT8, 257), 257 + 8);
    assert_true(nx_codec_bytes(NX_CODEC_BF16, SIZE_MAX / 2 + 1) == SIZE_MAX);
}

/* ---- f64, arithmetic ----------------------------------------------------------------- */

static void f64_goes_through_f32(void)
{
    const double values[] = {1e300, -1e300, INFINITY, -INFINITY, 0.1, -0x1p-1060, 65504.0, 7e4};
    const float saturated[] = {FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, 0.1F, -0.0F, 65504.0F, 7e4F};
    uint16_t code[NX_PIECE];
    nx_lanes x = {.f64 = {0}}, y = {.f32 = {0}}, back;

    memcpy(x.f64, values, sizeof values);
    nx_codec_encode(NX_CODEC_BF16, code, &x, 8, NEXAR_F64, true);
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(code[i], half_of(NX_CODEC_BF16, saturated[i], true));
    }
    nx_codec_encode(NX_CODEC_BF16, code, &x, 8, NEXAR_F64, false);
    assert_int_equal(code[0], 0x7f80);
    nx_codec_decode(NX_CODEC_BF16, &back, code, 8, NEXAR_F64);
    nx_codec_decode(NX_CODEC_BF16, &y, code, 8, NEXAR_F32);
    for (size_t i = 0; i < NX_PIECE; i++) {
        assert_true(back.f64[i] == (double)y.f32[i]);
    }
}

static void test_f64_goes_through_f32(void **state)
{
    (void)state;
    on_each_path(f64_goes_through_f32);
}

static void arithmetic(void)
{
    nx_lanes x = {.f32 = {1.0F, INFINITY, NAN, 3.0F, 8.0F}};
    const nx_lanes y = {.f32 = {2.0F, 1.0F, 1.0F, NAN, 1.0F}};
    nx_lanes d = {.f64 = {1.0, INFINITY, 9.0}};
    const nx_lanes e = {.f64 = {0.25, 1.0, 2.0}};
    nx_lanes sum = x;

    nx_lanes_add(&sum, &y, NEXAR_F32);
    assert_true(sum.f32[0] == 3.0F);
    assert_int_equal(nx_f32_bits(sum.f32[2]), NX_NAN_F32);
    nx_lanes_residue(&x, &y, 3, NEXAR_F32);
    assert_true((x.f32[0] == -5.0F) && (x.f32[4] == 5.0F));
    for (size_t i = 1; i < 4; i++) {
        assert_true(x.f32[i] == 0.0F); /* not finite: no remainder */
    }
    nx_lanes_residue(&d, &e, 2, NEXAR_F64);
    assert_true((d.f64[0] == 0.5) && (d.f64[1] == 0.0) && (d.f64[2] == 5.0));
    nx_lanes_divide(&d, 5, NEXAR_F64);
    assert_true(d.f64[2] == 1.0);
}

static void test_arithmetic(void **state)
{
    (void)state;
    on_each_path(arithmetic);
}

static void test_a_short_piece_is_filled_with_zeros(void **state)
{
    static const nexar_dtype dtypes[] = {NEXAR_F32, NEXAR_F64, NEXAR_F16, NEXAR_BF16};
    unsigned char from[NX_PIECE * 8], to[NX_PIECE * 8 + 1];

    (void)state;
    memset(from, 0x3c, sizeof from);
    for (size_t d = 0; d < 4; d++) {
        const size_t size = nexar_dtype_size(dtypes[d]);
        nx_lanes x;

        memset(&x, 0xff, sizeof x);
        memset(to, 0xa5, sizeof to);
        nx_lanes_load(&x, dtypes[d], from + 1, 77);
        for (size_t i = 77; i < NX_PIECE; i++) {
            assert_true((dtypes[d] == NEXAR_F64) ? x.f64[i] == 0.0 : x.f32[i] == 0.0F);
        }
        nx_lanes_store(&x, dtypes[d], to + 1, 77, false);
        assert_memory_equal(from, to + 1, 77 * size);
        assert_int_equal(to[1 + 77 * size], 0xa5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves_agree_with_scalars),
        cmocka_unit_test(test_every_half_is_decoded),
        cmocka_unit_test(test_int8_keeps_its_rules),
        cmocka_unit_test(test_int8_rounds_to_even),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_f64_goes_through_f32),
        cmocka_unit_test(test_arithmetic),
        cmocka_unit_test(test_a_short_piece_is_filled_with_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
