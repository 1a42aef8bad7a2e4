/*
 * reduce_oracle.c - the expected element of a reduction, computed by other methods than in the
 * kernels.
 *
 * Integers are computed in 128 bits and cut.  Floats are split into sign,
 * exponent and fraction by arithmetic (ldexp, rint), computed in double, and
 * compared by their bits as sign and magnitude.
 */
#include "reduce_oracle.h"

#include <math.h>
#include <string.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

/* ---- formats ------------------------------------------------------------- */

typedef struct format {
    int exponent, fraction; /* bits */
} format;

static format format_of(nexar_dtype dtype)
{
    static const format f32 = {8, 23}, f64 = {11, 52}, f16 = {5, 10}, bf16 = {8, 7};

    return dtype == NEXAR_F32 ? f32 : dtype == NEXAR_F64 ? f64 : dtype == NEXAR_F16 ? f16 : bf16;
}

static uint64_t sign_bit(format f)
{
    return UINT64_C(1) << (f.exponent + f.fraction);
}

static uint64_t infinity_bits(format f)
{
    return sign_bit(f) - (UINT64_C(1) << f.fraction);
}

bool nxt_is_float(nexar_dtype dtype)
{
    return dtype == NEXAR_F32 || dtype == NEXAR_F64 || dtype == NEXAR_F16 || dtype == NEXAR_BF16;
}

bool nxt_is_nan(nexar_dtype dtype, uint64_t bits)
{
    const format f = format_of(dtype);

    return nxt_is_float(dtype) && (bits & ~sign_bit(f)) > infinity_bits(f);
}

uint64_t nxt_canonical_nan(nexar_dtype dtype)
{
    const format f = format_of(dtype);

    return infinity_bits(f) | UINT64_C(1) << (f.fraction - 1);
}

double nxt_value(nexar_dtype dtype, uint64_t bits)
{
    const format f = format_of(dtype);
    const int bias = (1 << (f.exponent - 1)) - 1;
    const uint64_t magnitude = bits & ~sign_bit(f);
    const int exponent = (int)(magnitude >> f.fraction);
    const uint64_t fraction = magnitude & ((UINT64_C(1) << f.fraction) - 1);
    double value;

    if (magnitude > infinity_bits(f)) {
        value = (double)NAN;
    } else if (magnitude == infinity_bits(f)) {
        value = (double)INFINITY;
    } else if (exponent == 0) {
        value = ldexp((double)fraction, 1 - bias - f.fraction);
    } else {
        value = ldexp((double)(fraction | UINT64_C(1) << f.fraction), exponent - bias - f.fraction);
    }
    return (bits & sign_bit(f)) != 0 ? -value : value;
}

uint64_t nxt_half_of(nexar_dtype dtype, double value)
{
    const format f = format_of(dtype);
    const int bias = (1 << (f.exponent - 1)) - 1;
    const uint64_t sign = signbit(value) ? sign_bit(f) : 0;
    const double magnitude = fabs(value);

    if (isnan(value)) {
        return nxt_canonical_nan(dtype);
    }
    if (magnitude == 0 || isinf(magnitude)) {
        return sign | (magnitude == 0 ? 0 : infinity_bits(f));
    }
    /* Rounds in units of the last place, whose exponent has a minimum. */
    const int exponent = ilogb(magnitude) > 1 - bias ? ilogb(magnitude) : 1 - bias;
    const uint64_t units = (uint64_t)rint(ldexp(magnitude, f.fraction - exponent));
    /* The exponent field is one too low; the leading one of the fraction adds 1 to it. */
    const uint64_t bits = ((uint64_t)(exponent + bias - 1) << f.fraction) + units;

    return sign | (bits < infinity_bits(f) ? bits : infinity_bits(f));
}

/* ---- floats -------------------------------------------------------------- */

/* |value| is exact, or close enough that a second rounding has no effect. */
static uint64_t bits_of(nexar_dtype dtype, double value)
{
    const float single = (float)value;
    uint64_t u64;
    uint32_t u32;

    if (isnan(value)) {
        return nxt_canonical_nan(dtype);
    }
    memcpy(&u64, &value, sizeof u64);
    memcpy(&u32, &single, sizeof u32);
    if (dtype == NEXAR_F64) {
        return u64;
    }
    return dtype == NEXAR_F32 ? u32 : nxt_half_of(dtype, (double)single);
}

/* A number that grows with the float, -0 just below +0. */
static int64_t rank_of(nexar_dtype dtype, uint64_t bits)
{
    const uint64_t sign = sign_bit(format_of(dtype));

    return (bits & sign) != 0 ? -(int64_t)(bits & ~sign) - 1 : (int64_t)bits;
}

/* f32 in double: 53 bits are more than twice 24, so that rounding to double first does not change
 * the f32. For f64 only the processor can compute the result. */
static uint64_t float_oracle(nexar_dtype dtype, nexar_op op, uint64_t a, uint64_t b)
{
    const double x = nxt_value(dtype, a), y = nxt_value(dtype, b);

    if (op == NEXAR_SUM || op == NEXAR_AVG) {
        return bits_of(dtype, x + y);
    }
    if (op == NEXAR_PROD) {
        return bits_of(dtype, x * y);
    }
    if (nxt_is_nan(dtype, a) || nxt_is_nan(dtype, b)) {
        return nxt_canonical_nan(dtype);
    }
    return (rank_of(dtype, a) < rank_of(dtype, b)) == (op == NEXAR_MIN) ? a : b;
}

/* ---- integers ------------------------------------------------------------ */

static bool is_signed(nexar_dtype dtype)
{
    return dtype == NEXAR_I8 || dtype == NEXAR_I16 || dtype == NEXAR_I32 || dtype == NEXAR_I64;
}

static wide wide_of(nexar_dtype dtype, uint64_t bits)
{
    const unsigned width = (unsigned)(8 * nexar_dtype_size(dtype));
    const bool negative = is_signed(dtype) && (bits >> (width - 1) & 1) != 0;

    return (wide)bits - (negative ? (wide)1 << width : 0);
}

static uint64_t cut(nexar_dtype dtype, wide value)
{
    const unsigned width = (unsigned)(8 * nexar_dtype_size(dtype));

    return (uint64_t)value & UINT64_MAX >> (64 - width);
}

/* The product of two u64 fits in 128 bits only as unsigned. Its lower half is the same for both
 * signs, so this multiplies unsigned. */
static uint64_t int_oracle(nexar_dtype dtype, nexar_op op, uint64_t a, uint64_t b)
{
    const wide x = wide_of(dtype, a), y = wide_of(dtype, b);

    switch (op) {
    case NEXAR_SUM:
    case NEXAR_AVG:
        return cut(dtype, x + y);
    case NEXAR_PROD:
        return cut(dtype, (wide)((uwide)x * (uwide)y));
    case NEXAR_MIN:
        return x < y ? a : b;
    case NEXAR_MAX:
        return x > y ? a : b;
    case NEXAR_BAND:
        return a & b;
    case NEXAR_BOR:
        return a | b;
    case NEXAR_BXOR:
        break;
    }
    return a ^ b;
}

/* ---- entry point --------------------------------------------------------- */

uint64_t nxt_oracle(nexar_dtype dtype, nexar_op op, uint64_t a, uint64_t b)
{
    return nxt_is_float(dtype) ? float_oracle(dtype, op, a, b) : int_oracle(dtype, op, a, b);
}

uint64_t nxt_oracle_quotient(nexar_dtype dtype, uint64_t a, uint32_t divisor)
{
    if (!nxt_is_float(dtype)) {
        return cut(dtype, wide_of(dtype, a) / (wide)divisor);
    }
    return bits_of(dtype, nxt_value(dtype, a) /
                              (dtype == NEXAR_F64 ? (double)divisor : (double)(float)divisor));
}
