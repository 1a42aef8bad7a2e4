/*
 * kernels.cl - dst[off + i] = op(dst[off + i], src[i]), a kernel for each type and
 * operation, with the bits that nexar.h promises: f16 and bf16 are computed in f32
 * and rounded to nearest even, each NaN is the one quiet NaN of its type, minimum and
 * maximum propagate NaN and order -0 below +0, integers wrap.
 *
 * Halves are converted by hand: no device needs cl_khr_fp16 for it.
 */
#pragma OPENCL FP_CONTRACT OFF
#ifdef HAVE_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif

#define KERNEL(NAME, TYPE, RESULT)                                                          \
    __kernel void NAME(__global TYPE *dst, ulong off, __global const TYPE *src, ulong n)    \
    {                                                                                       \
        const ulong i = get_global_id(0);                                                   \
        if (i < n) {                                                                        \
            const TYPE a = dst[off + i];                                                    \
            const TYPE b = src[i];                                                          \
            dst[off + i] = (TYPE)(RESULT);                                                  \
        }                                                                                   \
    }

/* ---- integers: U is unsigned and wide enough that nothing overflows as signed ---- */

#define INTEGERS(NAME, TYPE, U)                 \
    KERNEL(sum_##NAME, TYPE, (U)a + (U)b)       \
    KERNEL(prod_##NAME, TYPE, (U)a * (U)b)      \
    KERNEL(min_##NAME, TYPE, (a < b) ? a : b)   \
    KERNEL(max_##NAME, TYPE, (a > b) ? a : b)   \
    KERNEL(band_##NAME, TYPE, a & b)            \
    KERNEL(bor_##NAME, TYPE, a | b)             \
    KERNEL(bxor_##NAME, TYPE, a ^ b)

INTEGERS(i8, char, uint)
INTEGERS(u8, uchar, uint)
INTEGERS(i16, short, uint)
INTEGERS(u16, ushort, uint)
INTEGERS(i32, int, uint)
INTEGERS(u32, uint, uint)
INTEGERS(i64, long, ulong)
INTEGERS(u64, ulong, ulong)

/* ---- floats ------------------------------------------------------------------------ */

#define FLOATS(T, FLOAT, BITS, AS_FLOAT, AS_BITS, NAN_BITS, SIGN)           \
    FLOAT canonical_##T(FLOAT x)                                            \
    {                                                                       \
        return (x == x) ? x : AS_FLOAT(NAN_BITS);                           \
    }                                                                       \
    FLOAT least_##T(FLOAT a, FLOAT b)                                       \
    {                                                                       \
        if (a != a || b != b) {                                             \
            return AS_FLOAT(NAN_BITS);                                      \
        }                                                                   \
        return (a < b || (a == b && (AS_BITS(a) & SIGN) != 0)) ? a : b;     \
    }                                                                       \
    FLOAT greatest_##T(FLOAT a, FLOAT b)                                    \
    {                                                                       \
        if (a != a || b != b) {                                             \
            return AS_FLOAT(NAN_BITS);                                      \
        }                                                                   \
        return (a > b || (a == b && (AS_BITS(a) & SIGN) == 0)) ? a : b;     \
    }

FLOATS(f32, float, uint, as_float, as_uint, 0x7fc00000u, 0x80000000u)
KERNEL(sum_f32, float, canonical_f32(a + b))
KERNEL(prod_f32, float, canonical_f32(a * b))
KERNEL(min_f32, float, least_f32(a, b))
KERNEL(max_f32, float, greatest_f32(a, b))

#ifdef HAVE_F64
FLOATS(f64, double, ulong, as_double, as_ulong, 0x7ff8000000000000ul, 0x8000000000000000ul)
KERNEL(sum_f64, double, canonical_f64(a + b))
KERNEL(prod_f64, double, canonical_f64(a * b))
KERNEL(min_f64, double, least_f64(a, b))
KERNEL(max_f64, double, greatest_f64(a, b))
#endif

/* ---- halves -------------------------------------------------------------------------- */

float f32_of_bf16(ushort h)
{
    return as_float((uint)h << 16);
}

ushort bf16_of_f32(float x)
{
    const uint bits = as_uint(x);

    if (x != x) {
        return 0x7fc0;
    }
    return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f32_of_f16(ushort h)
{
    const uint sign = (uint)(h & 0x8000) << 16;
    const uint magnitude = h & 0x7fff;

    if (magnitude >= 0x7c00u) {
        return as_float(sign | 0x7f800000u | (magnitude << 13));
    }
    if (magnitude < 0x0400u) {
        return as_float(sign | as_uint((float)magnitude * 0x1p-24f));
    }
    return as_float(sign | ((magnitude << 13) + (112u << 23)));
}

ushort f16_of_f32(float x)
{
    const uint bits = as_uint(x);
    const uint sign = (bits >> 16) & 0x8000u;
    const uint magnitude = bits & 0x7fffffffu;
    uint h;

    if (x != x) {
        return 0x7e00;
    }
    if (magnitude >= 0x477ff000u) { /* 65520 and above: infinity */
        h = 0x7c00u;
    } else if (magnitude < 0x38800000u) { /* subnormal in f16: rounded by adding 0.5 */
        h = as_uint(as_float(magnitude) + 0.5f) - as_uint(0.5f);
    } else {
        h = (magnitude - (112u << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return (ushort)(sign | h);
}

#define HALVES(T)                                                                           \
    KERNEL(sum_##T, ushort, T##_of_f32(f32_of_##T(a) + f32_of_##T(b)))                      \
    KERNEL(prod_##T, ushort, T##_of_f32(f32_of_##T(a) * f32_of_##T(b)))                     \
    KERNEL(min_##T, ushort, T##_of_f32(least_f32(f32_of_##T(a), f32_of_##T(b))))            \
    KERNEL(max_##T, ushort, T##_of_f32(greatest_f32(f32_of_##T(a), f32_of_##T(b))))

HALVES(f16)
HALVES(bf16)
