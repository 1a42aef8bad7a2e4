/*
 * avx512.c - the kernels for x86 with AVX-512 F, BW, VL and DQ: vectors of 64
 * bytes.
 */
#include <immintrin.h>

#include "reduce/kernels.h"
#include "reduce/scalar.h"

typedef __m512i vec;

#define MM(NAME) _mm512_##NAME

NX_INLINE vec load(const void *p)
{
    return _mm512_loadu_si512(p);
}

NX_INLINE void store(void *p, vec x)
{
    _mm512_storeu_si512(p, x);
}

NX_INLINE vec band(vec a, vec b)
{
    return _mm512_and_si512(a, b);
}

NX_INLINE vec bor(vec a, vec b)
{
    return _mm512_or_si512(a, b);
}

NX_INLINE vec bxor(vec a, vec b)
{
    return _mm512_xor_si512(a, b);
}

NX_INLINE vec splat_i32(int x)
{
    return _mm512_set1_epi32(x);
}

/* ---- 64-bit integers ----------------------------------------------------- */

NX_INLINE vec prod_64(vec a, vec b)
{
    return _mm512_mullo_epi64(a, b);
}

NX_INLINE vec min_i64(vec a, vec b)
{
    return _mm512_min_epi64(a, b);
}

NX_INLINE vec max_i64(vec a, vec b)
{
    return _mm512_max_epi64(a, b);
}

NX_INLINE vec min_u64(vec a, vec b)
{
    return _mm512_min_epu64(a, b);
}

NX_INLINE vec max_u64(vec a, vec b)
{
    return _mm512_max_epu64(a, b);
}

/* ---- floating point ------------------------------------------------------ */

NX_INLINE __m512 as_f32(vec x)
{
    return _mm512_castsi512_ps(x);
}

NX_INLINE vec of_f32(__m512 x)
{
    return _mm512_castps_si512(x);
}

NX_INLINE __m512d as_f64(vec x)
{
    return _mm512_castsi512_pd(x);
}

NX_INLINE vec of_f64(__m512d x)
{
    return _mm512_castpd_si512(x);
}

NX_INLINE vec nan_if_unordered_f32(vec a, vec b, vec r)
{
    const __mmask16 is_nan = _mm512_cmp_ps_mask(as_f32(a), as_f32(b), _CMP_UNORD_Q);

    return _mm512_mask_blend_epi32(is_nan, r, _mm512_set1_epi32((int)NX_NAN_F32));
}

NX_INLINE vec nan_if_unordered_f64(vec a, vec b, vec r)
{
    const __mmask8 is_nan = _mm512_cmp_pd_mask(as_f64(a), as_f64(b), _CMP_UNORD_Q);

    return _mm512_mask_blend_epi64(is_nan, r, _mm512_set1_epi64((int64_t)NX_NAN_F64));
}

/* ---- f16 ----------------------------------------------------------------- */

NX_INLINE vec widen_lo_f16(vec x)
{
    return of_f32(_mm512_cvtph_ps(_mm512_castsi512_si256(x)));
}

NX_INLINE vec widen_hi_f16(vec x)
{
    return of_f32(_mm512_cvtph_ps(_mm512_extracti64x4_epi64(x, 1)));
}

NX_INLINE vec narrow_f16(vec lo, vec hi)
{
    const __m256i low = _mm512_cvtps_ph(as_f32(lo), _MM_FROUND_TO_NEAREST_INT);
    const __m256i high = _mm512_cvtps_ph(as_f32(hi), _MM_FROUND_TO_NEAREST_INT);

    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}

#include "reduce/x86.inc.h"

#define NX_KERNELS nx_kernels_avx512
#include "reduce/vector.inc.h"
