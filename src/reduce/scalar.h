/*
 * scalar.h - one element at a time: bits, f16 and bf16, and the floating-point
 * operations with the meaning that reduce.h gives them.
 *
 * Static inline on purpose: each file that includes this has its own copy, so
 * none compiled for AVX can be linked into a file that runs everywhere.
 */
#ifndef NX_SCALAR_H
#define NX_SCALAR_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "NaN, infinity and -0 have meaning here: build without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "f32 and f64 must not be computed in wider types");

#define NX_NAN_F32  UINT32_C(0x7fc00000)
#define NX_NAN_F64  UINT64_C(0x7ff8000000000000)
#define NX_NAN_F16  UINT16_C(0x7e00)
#define NX_NAN_BF16 UINT16_C(0x7fc0)

static inline uint32_t nx_f32_bits(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float nx_f32_of_bits(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t nx_f64_bits(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double nx_f64_of_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- f16 and bf16 -------------------------------------------------------------------- */

static inline float nx_f32_of_bf16(uint16_t h)
{
    return nx_f32_of_bits((uint32_t)h << 16);
}

static inline uint16_t nx_bf16_of_f32(float x)
{
    const uint32_t bits = nx_f32_bits(x);

    if (x != x) {
        return NX_NAN_BF16;
    }
    /* A carry out of the significand yields the next exponent, and out of the largest exponent
     * infinity. Both are the correct results of rounding up. */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float nx_f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t magnitude = h & 0x7fff;

    if (magnitude >= 0x7c00) { /* infinity, NaN */
        return nx_f32_of_bits(sign | 0x7f800000 | magnitude << 13);
    }
    if (magnitude < 0x0400) { /* subnormal, zero: |magnitude| times 2^-24 */
        return nx_f32_of_bits(sign | nx_f32_bits((float)magnitude * 0x1p-24F));
    }
    return nx_f32_of_bits(sign | ((magnitude << 13) + ((127 - 15) << 23)));
}

static inline uint16_t nx_f16_of_f32(float x)
{
    const uint32_t bits = nx_f32_bits(x);
    const uint32_t sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;
    uint32_t h;

    if (x != x) {
        return NX_NAN_F16;
    }
    if (magnitude >= 0x477ff000) { /* 65520, halfway to 2^16, and above */
        h = 0x7c00;
    } else if (magnitude < 0x38800000) { /* below 2^-14: subnormal in f16 */
        /* The f32 next to 0.5 are 2^-24 apart, just as the subnormal f16 are:
         * this sum is rounded to a whole number of them. */
        h = nx_f32_bits(nx_f32_of_bits(magnitude) + 0.5F) - nx_f32_bits(0.5F);
    } else {
        h = (magnitude - ((127 - 15) << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    }
    return (uint16_t)(sign | h);
}

/* ---- floating-point operations ------------------------------------------------------- */

/*
 * The same for f32 and f64. The sign and payload of a NaN result depend on the processor, so it
 * is made canonical. In MIN and MAX, operands that are equal and yet differ are -0 and +0: the
 * sign decides.
 */
#define NX_FLOAT_OPS(T, FLOAT, NAN_BITS)                           \
    static inline FLOAT nx_canonical_##T(FLOAT x)                  \
    {                                                              \
        return x == x ? x : nx_##T##_of_bits(NAN_BITS);            \
    }                                                              \
    static inline FLOAT nx_sum_##T(FLOAT x, FLOAT y)               \
    {                                                              \
        return nx_canonical_##T(x + y);                            \
    }                                                              \
    static inline FLOAT nx_prod_##T(FLOAT x, FLOAT y)              \
    {                                                              \
        return nx_canonical_##T(x * y);                            \
    }                                                              \
    static inline FLOAT nx_quotient_##T(FLOAT x, FLOAT y)          \
    {                                                              \
        return nx_canonical_##T(x / y);                            \
    }                                                              \
    static inline FLOAT nx_min_##T(FLOAT x, FLOAT y)               \
    {                                                              \
        if (x != x || y != y) {                                    \
            return nx_##T##_of_bits(NAN_BITS);                     \
        }                                                          \
        return x < y || (x == y && __builtin_signbit(x)) ? x : y;  \
    }                                                              \
    static inline FLOAT nx_max_##T(FLOAT x, FLOAT y)               \
    {                                                              \
        if (x != x || y != y) {                                    \
            return nx_##T##_of_bits(NAN_BITS);                     \
        }                                                          \
        return x > y || (x == y && !__builtin_signbit(x)) ? x : y; \
    }

NX_FLOAT_OPS(f32, float, NX_NAN_F32)
NX_FLOAT_OPS(f64, double, NX_NAN_F64)

#endif /* NX_SCALAR_H */
