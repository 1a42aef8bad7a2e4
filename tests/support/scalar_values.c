/* scalar_values.c - one element at a time. */
#include "scalar_values.h"

#include <math.h>
#include <string.h>

bool nxt_dtype_is_float(nexar_dtype dtype)
{
    return (dtype == NEXAR_F32) || (dtype == NEXAR_F64) || (dtype == NEXAR_F16) ||
           (dtype == NEXAR_BF16);
}

bool nxt_dtype_is_signed(nexar_dtype dtype)
{
    return (dtype == NEXAR_I8) || (dtype == NEXAR_I16) || (dtype == NEXAR_I32) ||
           (dtype == NEXAR_I64);
}

/* ---- floats --------------------------------------------------------------- */

/* A small float by its widths. */
typedef struct shape {
    int mant, bias; /* bits of the mantissa; 2^bias is the largest exponent */
    uint16_t nan;
} shape;

static shape shape_of(nexar_dtype dtype)
{
    return (dtype == NEXAR_F16) ? (shape){10, 15, 0x7e00} : (shape){7, 127, 0x7fc0};
}

static double decode(shape f, uint16_t bits)
{
    int mant = bits & ((1 << f.mant) - 1);
    int expo = (bits & 0x7fff) >> f.mant;
    double sign = (bits & 0x8000) ? -1.0 : 1.0;

    if (expo == 2 * f.bias + 1) {
        return (mant != 0) ? (double)NAN : sign * (double)INFINITY;
    }
    if (expo == 0) {
        return sign * ldexp(mant, 1 - f.bias - f.mant);
    }
    return sign * ldexp(mant + (1 << f.mant), expo - f.bias - f.mant);
}

/* Rounds |value| to even in units of its last place. The bits are that number plus the exponent
 * field. A carry out of the mantissa raises the exponent automatically, up to infinity. */
static uint16_t encode(shape f, double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    uint16_t infinity = (uint16_t)((2 * f.bias + 1) << f.mant);
    int expo = 0;

    if (isnan(value)) {
        return f.nan;
    }
    if (isinf(value)) {
        return (uint16_t)(sign | infinity);
    }
    (void)frexp(value, &expo);
    expo -= 1; /* |value| = 1.x * 2^expo */
    if ((expo < 1 - f.bias) || (value == 0.0)) {
        expo = 1 - f.bias; /* subnormal */
    }
    double units = nearbyint(ldexp(fabs(value), f.mant - expo));
    double bits = units + ldexp((double)(expo + f.bias - 1), f.mant);

    return (bits >= infinity) ? (uint16_t)(sign | infinity) : (uint16_t)(sign | (uint16_t)bits);
}

double nxt_to_double(nexar_dtype dtype, const void *x)
{
    double d = 0;
    float f = 0;
    uint16_t h = 0;

    if (dtype == NEXAR_F64) {
        memcpy(&d, x, sizeof(d));
        return d;
    }
    if (dtype == NEXAR_F32) {
        memcpy(&f, x, sizeof(f));
        return (double)f;
    }
    memcpy(&h, x, sizeof(h));
    return decode(shape_of(dtype), h);
}

void nxt_from_double(nexar_dtype dtype, double value, void *out)
{
    static const uint64_t nan64 = UINT64_C(0x7ff8000000000000);
    static const uint32_t nan32 = UINT32_C(0x7fc00000);
    float f = (float)value;

    if (dtype == NEXAR_F64) {
        memcpy(out, isnan(value) ? (const void *)&nan64 : (const void *)&value, sizeof(value));
    } else if (dtype == NEXAR_F32) {
        memcpy(out, isnan(value) ? (const void *)&nan32 : (const void *)&f, sizeof(f));
    } else {
        uint16_t h = encode(shape_of(dtype), value);

        memcpy(out, &h, sizeof(h));
    }
}

/* Whether a comes before b, -0 before +0. */
static bool comes_before(double a, double b)
{
    return (a < b) || ((a == b) && signbit(a) && !signbit(b));
}

static double combine_doubles(nexar_op op, double a, double b)
{
    if (op == NEXAR_PROD) {
        return a * b;
    }
    if ((op == NEXAR_SUM) || (op == NEXAR_AVG)) {
        return a + b;
    }
    if (isnan(a) || isnan(b)) {
        return (double)NAN;
    }
    return (comes_before(a, b) == (op == NEXAR_MIN)) ? a : b;
}

/* ---- integers ------------------------------------------------------------- */

/* As 64 bits, sign-extended; little-endian machines only, like the rest of this file. */
static uint64_t load(nexar_dtype dtype, const void *x)
{
    size_t size = nexar_dtype_size(dtype);
    uint64_t v = 0;

    memcpy(&v, x, size);
    if (nxt_dtype_is_signed(dtype) && (size < 8) && ((v >> (8 * size - 1)) & 1)) {
        v |= ~UINT64_C(0) << (8 * size);
    }
    return v;
}

static void store(nexar_dtype dtype, uint64_t v, void *out)
{
    memcpy(out, &v, nexar_dtype_size(dtype));
}

static uint64_t combine_integers(nexar_dtype dtype, nexar_op op, uint64_t a, uint64_t b)
{
    bool less = nxt_dtype_is_signed(dtype) ? ((int64_t)a < (int64_t)b) : (a < b);

    switch (op) {
    case NEXAR_SUM:
    case NEXAR_AVG:
        return a + b;
    case NEXAR_PROD:
        return a * b;
    case NEXAR_MIN:
        return less ? a : b;
    case NEXAR_MAX:
        return less ? b : a;
    case NEXAR_BAND:
        return a & b;
    case NEXAR_BOR:
        return a | b;
    case NEXAR_BXOR:
        return a ^ b;
    }
    return 0;
}

static uint64_t identity_integer(nexar_dtype dtype, nexar_op op)
{
    uint64_t top = UINT64_C(1) << (8 * nexar_dtype_size(dtype) - 1); /* the highest bit */

    switch (op) {
    case NEXAR_PROD:
        return 1;
    case NEXAR_BAND:
        return ~UINT64_C(0);
    case NEXAR_MIN:
        return nxt_dtype_is_signed(dtype) ? top - 1 : ~UINT64_C(0);
    case NEXAR_MAX:
        return nxt_dtype_is_signed(dtype) ? top : 0;
    case NEXAR_SUM:
    case NEXAR_AVG:
    case NEXAR_BOR:
    case NEXAR_BXOR:
        break;
    }
    return 0;
}

/* ---- both ----------------------------------------------------------------- */

void nxt_combine(nexar_dtype dtype, nexar_op op, void *acc, const void *x)
{
    if (!nxt_dtype_is_float(dtype)) {
        store(dtype, combine_integers(dtype, op, load(dtype, acc), load(dtype, x)), acc);
        return;
    }
    double v = combine_doubles(op, nxt_to_double(dtype, acc), nxt_to_double(dtype, x));

    /* The small types are computed in f32, so they are rounded twice. */
    nxt_from_double(dtype, (dtype == NEXAR_F64) ? v : (double)(float)v, acc);
}

void nxt_divide(nexar_dtype dtype, void *x, uint32_t by)
{
    if (nxt_dtype_is_float(dtype)) {
        double v = nxt_to_double(dtype, x) / (double)by;

        nxt_from_double(dtype, (dtype == NEXAR_F64) ? v : (double)(float)v, x);
    } else if (nxt_dtype_is_signed(dtype)) {
        store(dtype, (uint64_t)((int64_t)load(dtype, x) / (int64_t)by), x);
    } else {
        store(dtype, load(dtype, x) / by, x);
    }
}

void nxt_identity(nexar_dtype dtype, nexar_op op, void *out)
{
    if (!nxt_dtype_is_float(dtype)) {
        store(dtype, identity_integer(dtype, op), out);
    } else if (op == NEXAR_PROD) {
        nxt_from_double(dtype, 1.0, out);
    } else if ((op == NEXAR_MIN) || (op == NEXAR_MAX)) {
        nxt_from_double(dtype, (op == NEXAR_MIN) ? (double)INFINITY : -(double)INFINITY, out);
    } else {
        nxt_from_double(dtype, 0.0, out);
    }
}
