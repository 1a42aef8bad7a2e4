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

/* ---- 64-bit integers ----------------------------------------------------------------- */

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

/* ---- floating point ------------------------------------------------------------------ */

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

/* ---- f16, and the bits of both halves ------------------------------------------------ */

NX_INLINE vec load_f16(const void *p)
{
    return of_f32(_mm512_cvtph_ps(_mm256_loadu_si256(p)));
}

NX_INLINE void store_f16(void *p, vec x)
{
    _mm256_storeu_si256(p, _mm512_cvtps_ph(as_f32(x), _MM_FROUND_TO_NEAREST_INT));
}

NX_INLINE vec replace_above_16(vec x, vec limit, vec r, vec s)
{
    return _mm512_mask_blend_epi16(_mm512_cmpgt_epi16_mask(x, limit), r, s);
}

#include "reduce/x86.inc.h"

#define NX_KERNELS nx_kernels_avx512
#include "reduce/vector.inc.h"
