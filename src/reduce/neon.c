/* neon.c - the kernels for aarch64, where NEON is always available: vectors of 16 bytes. */
#include "reduce/kernels.h"
#include "reduce/scalar.h"

#if defined(__aarch64__) /* tools also parse this file on other architectures */

#include <arm_neon.h>

typedef uint8x16_t vec;

NX_INLINE vec load(const void *p)
{
    return vld1q_u8(p);
}

NX_INLINE void store(void *p, vec x)
{
    vst1q_u8(p, x);
}

/* NAME by the instruction for elements of T: u8, s32, f64, ... */
#define OP(NAME, INTRINSIC, T)                                \
    NX_INLINE vec NAME(vec a, vec b)                          \
    {                                                         \
        return of_##T(INTRINSIC##_##T(as_##T(a), as_##T(b))); \
    }

#define CASTS(T, TYPE)                    \
    NX_INLINE TYPE as_##T(vec x)          \
    {                                     \
        return vreinterpretq_##T##_u8(x); \
    }                                     \
    NX_INLINE vec of_##T(TYPE x)          \
    {                                     \
        return vreinterpretq_u8_##T(x);   \
    }

CASTS(s8, int8x16_t)
CASTS(s16, int16x8_t)
CASTS(s32, int32x4_t)
CASTS(s64, int64x2_t)
CASTS(u16, uint16x8_t)
CASTS(u32, uint32x4_t)
CASTS(u64, uint64x2_t)
CASTS(f32, float32x4_t)
CASTS(f64, float64x2_t)

NX_INLINE vec as_u8(vec x)
{
    return x;
}

NX_INLINE vec of_u8(vec x)
{
    return x;
}

/* ---- integers ------------------------------------------------------------------------ */

OP(sum_8, vaddq, u8)
OP(sum_16, vaddq, u16)
OP(sum_32, vaddq, u32)
OP(sum_64, vaddq, u64)
OP(prod_8, vmulq, u8)
OP(prod_16, vmulq, u16)
OP(prod_32, vmulq, u32)
OP(min_i8, vminq, s8)
OP(min_i16, vminq, s16)
OP(min_i32, vminq, s32)
OP(min_u8, vminq, u8)
OP(min_u16, vminq, u16)
OP(min_u32, vminq, u32)
OP(max_i8, vmaxq, s8)
OP(max_i16, vmaxq, s16)
OP(max_i32, vmaxq, s32)
OP(max_u8, vmaxq, u8)
OP(max_u16, vmaxq, u16)
OP(max_u32, vmaxq, u32)
OP(band, vandq, u8)
OP(bor, vorrq, u8)
OP(bxor, veorq, u8)

/* There is no vector multiplication of 64 bits; the scalar one is fast. */
NX_INLINE vec prod_64(vec a, vec b)
{
    const uint64x2_t x = as_u64(a), y = as_u64(b);
    const uint64_t low = vgetq_lane_u64(x, 0) * vgetq_lane_u64(y, 0);
    const uint64_t high = vgetq_lane_u64(x, 1) * vgetq_lane_u64(y, 1);

    return of_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
}

#define ORDER_64(T, SIGN)                                                        \
    NX_INLINE vec min_##T(vec a, vec b)                                          \
    {                                                                            \
        return vbslq_u8(of_u64(vcgtq_##SIGN(as_##SIGN(a), as_##SIGN(b))), b, a); \
    }                                                                            \
    NX_INLINE vec max_##T(vec a, vec b)                                          \
    {                                                                            \
        return vbslq_u8(of_u64(vcgtq_##SIGN(as_##SIGN(a), as_##SIGN(b))), a, b); \
    }

ORDER_64(i64, s64)
ORDER_64(u64, u64)

/* ---- f32, f64 ------------------------------------------------------------------------ */

OP(add_f32, vaddq, f32)
OP(add_f64, vaddq, f64)
OP(mul_f32, vmulq, f32)
OP(mul_f64, vmulq, f64)
OP(div_f32, vdivq, f32)
OP(div_f64, vdivq, f64)
OP(lower_f32, vminq, f32)
OP(lower_f64, vminq, f64)
OP(higher_f32, vmaxq, f32)
OP(higher_f64, vmaxq, f64)

NX_INLINE vec canonical_f32(vec r)
{
    const vec is_number = of_u32(vceqq_f32(as_f32(r), as_f32(r)));

    return vbslq_u8(is_number, r, of_u32(vdupq_n_u32(NX_NAN_F32)));
}

NX_INLINE vec canonical_f64(vec r)
{
    const vec is_number = of_u64(vceqq_f64(as_f64(r), as_f64(r)));

    return vbslq_u8(is_number, r, of_u64(vdupq_n_u64(NX_NAN_F64)));
}

/* FMIN and FMAX order -0 below +0 and propagate NaN: only its bits differ. */
#define FLOAT_ORDER(T)                          \
    NX_INLINE vec min_##T(vec a, vec b)         \
    {                                           \
        return canonical_##T(lower_##T(a, b));  \
    }                                           \
    NX_INLINE vec max_##T(vec a, vec b)         \
    {                                           \
        return canonical_##T(higher_##T(a, b)); \
    }

FLOAT_ORDER(f32)
FLOAT_ORDER(f64)

NX_INLINE vec splat_f32(uint32_t x)
{
    return of_f32(vdupq_n_f32((float)x));
}

NX_INLINE vec splat_f64(uint32_t x)
{
    return of_f64(vdupq_n_f64((double)x));
}

/* ---- f16, bf16 ----------------------------------------------------------------------- */

NX_INLINE vec load_f16(const void *p)
{
    return of_f32(vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p))));
}

NX_INLINE void store_f16(void *p, vec x)
{
    vst1_u8(p, vreinterpret_u8_f16(vcvt_f16_f32(as_f32(x))));
}

NX_INLINE vec splat_u16(uint16_t x)
{
    return of_u16(vdupq_n_u16(x));
}

NX_INLINE vec lower_bits_if_negative_16(vec x)
{
    return of_u16(vshrq_n_u16(vreinterpretq_u16_s16(vshrq_n_s16(as_s16(x), 15)), 1));
}

NX_INLINE vec replace_above_16(vec x, vec limit, vec r, vec s)
{
    return vbslq_u8(of_u16(vcgtq_s16(as_s16(x), as_s16(limit))), s, r);
}

/* A bf16 is the upper half of an f32. */
NX_INLINE vec widen_lo_bf16(vec x)
{
    return of_u32(vshll_n_u16(vget_low_u16(as_u16(x)), 16));
}

NX_INLINE vec widen_hi_bf16(vec x)
{
    return of_u32(vshll_high_n_u16(as_u16(x), 16));
}

/* A canonical NaN is unchanged; the largest numbers become infinity. */
NX_INLINE uint32x4_t round_bf16(vec x)
{
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(as_u32(x), 16), vdupq_n_u32(1));

    return vaddq_u32(vaddq_u32(as_u32(x), vdupq_n_u32(0x7fff)), odd);
}

NX_INLINE vec narrow_bf16(vec lo, vec hi)
{
    return of_u16(vshrn_high_n_u32(vshrn_n_u32(round_bf16(lo), 16), round_bf16(hi), 16));
}

#define NX_KERNELS nx_kernels_neon
#include "reduce/vector.inc.h"

#endif /* __aarch64__ */
