/*
 * lanes.inc.h - the kernels of one code path, as loops that the compiler vectorises with the
 * instruction set of the including file.
 *
 * The including file defines LANES_KERNELS, the name of the table, and encode_f16 and decode_f16,
 * or LANES_PLAIN_F16 to use those here. No branches: both alternatives are computed and selected by
 * bits, since a compiler may not speculate operations that can raise a flag.
 */
#include <float.h>

#include "coll/compress/lanes_kernels.h"
#include "reduce/scalar.h"

enum {
    SIGN_BELOW = 0x7fffffff, /* all bits of an f32 but its sign */
    INFINITE = 0x7f800000,
};

/* |magnitude|, or |limit| if it is finite and larger. */
static inline uint32_t limited(uint32_t magnitude, uint32_t limit)
{
    return ((magnitude > limit) & (magnitude < INFINITE)) ? limit : magnitude;
}

/* ---- F16 ----------------------------------------------------------------------------- */

#ifdef LANES_PLAIN_F16
/* Same rounding as nx_f16_of_f32. */
static void encode_f16(nx_code *code, const float *x, uint32_t limit)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint32_t bits = nx_f32_bits(x[i]);
        const uint32_t magnitude = limited(bits & SIGN_BELOW, limit);
        const uint32_t normal =
            (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
        const uint32_t small = nx_f32_bits(nx_f32_of_bits(magnitude) + 0.5F) - nx_f32_bits(0.5F);
        uint32_t h = (magnitude < 0x38800000) ? small : normal;

        h = (magnitude >= 0x477ff000) ? 0x7c00 : h;
        h |= bits >> 16 & 0x8000;
        h = (magnitude > INFINITE) ? NX_NAN_F16 : h;
        code->half[i] = (uint16_t)h;
    }
}

static void decode_f16(float *x, const nx_code *code)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint32_t h = code->half[i];
        const uint32_t magnitude = h & 0x7fff;
        const uint32_t small = nx_f32_bits((float)(int32_t)magnitude * 0x1p-24F);
        const uint32_t normal = (magnitude << 13) + ((127 - 15) << 23);
        uint32_t bits = (magnitude < 0x0400) ? small : normal;

        bits = (magnitude >= 0x7c00) ? INFINITE | magnitude << 13 : bits;
        bits |= (h & 0x8000) << 16;
        bits = (magnitude > 0x7c00) ? NX_NAN_F32 : bits;
        x[i] = nx_f32_of_bits(bits);
    }
}
#endif

/* ---- BF16 ---------------------------------------------------------------------------- */

static void encode_bf16(nx_code *code, const float *x, uint32_t limit)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint32_t bits = nx_f32_bits(x[i]);
        const uint32_t magnitude = limited(bits & SIGN_BELOW, limit);
        const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
        const uint32_t h = rounded | (bits >> 16 & 0x8000);

        code->half[i] = (uint16_t)((magnitude > INFINITE) ? NX_NAN_BF16 : h);
    }
}

static void decode_bf16(float *x, const nx_code *code)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint32_t bits = (uint32_t)code->half[i] << 16;

        x[i] = nx_f32_of_bits(((bits & SIGN_BELOW) > INFINITE) ? NX_NAN_F32 : bits);
    }
}

/* ---- INT8 ---------------------------------------------------------------------------- */

enum { NOT_FINITE = -128 };

static float scale_of(const float *x)
{
    int32_t largest = 0;

    for (size_t i = 0; i < NX_PIECE; i++) {
        const int32_t magnitude = (int32_t)(nx_f32_bits(x[i]) & SIGN_BELOW);
        const int32_t finite = (magnitude < INFINITE) ? magnitude : 0;

        largest = (finite > largest) ? finite : largest;
    }
    const float scale = nx_f32_of_bits((uint32_t)largest) / 127.0F;

    if (nx_f32_of_bits((uint32_t)largest) < 0x1p-100F) {
        return 0.0F; /* its inverse might be infinite */
    }
    return (scale < 0x1p121F) ? scale : 0x1p121F;
}

static void encode_int8(nx_code *code, const float *x, uint32_t limit)
{
    const float scale = scale_of(x);
    const float inverse = (scale > 0.0F) ? 1.0F / scale : 0.0F;

    (void)limit; /* the scale holds the limit */
    code->scale = scale;
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint32_t bits = nx_f32_bits(x[i]);
        const uint32_t finite = ((bits & SIGN_BELOW) < INFINITE) ? UINT32_MAX : 0;
        float scaled = nx_f32_of_bits(bits & finite) * inverse;

        scaled = (scaled > 127.0F) ? 127.0F : scaled;
        scaled = (scaled < -127.0F) ? -127.0F : scaled;
        /* The f32 next to 1.5 * 2^23 are 1 apart: the sum is rounded to an integer,
         * which is in its lower bits. */
        const int32_t rounded =
            (int32_t)nx_f32_bits(scaled + 0x1.8p23F) - (int32_t)nx_f32_bits(0x1.8p23F);

        code->bytes[i] = (uint8_t)(finite ? rounded : NOT_FINITE);
    }
}

static void decode_int8(float *x, const nx_code *code)
{
    const float scale = code->scale;

    for (size_t i = 0; i < NX_PIECE; i++) {
        const int32_t q = (code->bytes[i] ^ 0x80) - 0x80;
        const uint32_t bits = nx_f32_bits((float)q * scale);

        x[i] = nx_f32_of_bits((q == NOT_FINITE) ? NX_NAN_F32 : bits);
    }
}

/* ---- f32, f64 ------------------------------------------------------------------------ */

static void narrow(float *to, const double *from, double limit)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        const uint64_t bits = nx_f64_bits(from[i]);
        const uint64_t sign = bits & UINT64_C(1) << 63, magnitude = bits ^ sign;
        const uint64_t over =
            (magnitude > nx_f64_bits(limit)) & (magnitude < UINT64_C(0x7ff0000000000000));

        to[i] = (float)nx_f64_of_bits(sign | (over ? nx_f64_bits(limit) : magnitude));
    }
}

static void widen(double *to, const float *from)
{
    for (size_t i = 0; i < NX_PIECE; i++) {
        to[i] = (double)from[i];
    }
}

#define LANES_ARITHMETIC(T, FLOAT, UINT, EXPONENT)                                       \
    static void add_##T(FLOAT *x, const FLOAT *y)                                        \
    {                                                                                    \
        for (size_t i = 0; i < NX_PIECE; i++) {                                          \
            x[i] = nx_sum_##T(x[i], y[i]);                                               \
        }                                                                                \
    }                                                                                    \
    static void divide_##T(FLOAT *x, FLOAT divisor)                                      \
    {                                                                                    \
        for (size_t i = 0; i < NX_PIECE; i++) {                                          \
            x[i] /= divisor;                                                             \
        }                                                                                \
    }                                                                                    \
    static void residue_##T(FLOAT *x, const FLOAT *sent, FLOAT times)                    \
    {                                                                                    \
        for (size_t i = 0; i < NX_PIECE; i++) {                                          \
            const UINT a = nx_##T##_bits(x[i]) & (EXPONENT);                             \
            const UINT b = nx_##T##_bits(sent[i]) & (EXPONENT);                          \
            const UINT left = nx_##T##_bits(x[i] - times * sent[i]);                     \
                                                                                         \
            x[i] = nx_##T##_of_bits(((a == (EXPONENT)) | (b == (EXPONENT))) ? 0 : left); \
        }                                                                                \
    }

LANES_ARITHMETIC(f32, float, uint32_t, UINT32_C(0x7f800000))
LANES_ARITHMETIC(f64, double, uint64_t, UINT64_C(0x7ff0000000000000))

const nx_lanes_kernels LANES_KERNELS = {
    .encode =
        {[NX_CODEC_F16] = encode_f16, [NX_CODEC_BF16] = encode_bf16, [NX_CODEC_INT8] = encode_int8},
    .decode =
        {[NX_CODEC_F16] = decode_f16, [NX_CODEC_BF16] = decode_bf16, [NX_CODEC_INT8] = decode_int8},
    .narrow = narrow,
    .widen = widen,
    .add_f32 = add_f32,
    .add_f64 = add_f64,
    .divide_f32 = divide_f32,
    .divide_f64 = divide_f64,
    .residue_f32 = residue_f32,
    .residue_f64 = residue_f64,
};
