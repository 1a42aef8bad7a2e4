/* avx2.c - the kernels for x86 with AVX2 and F16C: vectors of 32 bytes. */
#include <immintrin.h>

#include "reduce/kernels.h"
#include "reduce/scalar.h"

typedef __m256i vec;

#define MM(NAME) _mm256_##NAME

NX_INLINE vec load(const void *p)
{
    return _mm256_loadu_si256(p);
}

NX_INLINE void store(void *p, vec x)
{
    _mm256_storeu_si256(p, x);
}

NX_INLINE vec band(vec a, vec b)
{
    return _mm256_and_si256(a, b);
}

NX_INLINE vec bor(vec a, vec b)
{
    return _mm256_or_si256(a, b);
}

NX_INLINE vec bxor(vec a, vec b)
{
    return _mm256_xor_si256(a, b);
}

NX_INLINE vec splat_i32(int x)
{
    return _mm256_set1_epi32(x);
}

/* ---- 64-bit integers ----------------------------------------------------------------- */

/* (a1 B + a0)(b1 B + b0) = (a1 b0 + a0 b1) B + a0 b0 modulo B^2, B = 2^32. */
NX_INLINE vec prod_64(vec a, vec b)
{
    const vec b_swapped = _mm256_shuffle_epi32(b, _MM_SHUFFLE(2, 3, 0, 1));
    const vec cross = _mm256_mullo_epi32(a, b_swapped);
    const vec upper = _mm256_add_epi32(cross, _mm256_srli_epi64(cross, 32));

    return _mm256_add_epi64(_mm256_mul_epu32(a, b), _mm256_slli_epi64(upper, 32));
}

NX_INLINE vec min_i64(vec a, vec b)
{
    return _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(a, b));
}

NX_INLINE vec max_i64(vec a, vec b)
{
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(a, b));
}

/* Where a > b as unsigned: compared as signed after inverting the sign bits. */
NX_INLINE vec greater_u64(vec a, vec b)
{
    const vec top = _mm256_set1_epi64x(INT64_MIN);

    return _mm256_cmpgt_epi64(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
}

NX_INLINE vec min_u64(vec a, vec b)
{
    return _mm256_blendv_epi8(a, b, greater_u64(a, b));
}

NX_INLINE vec max_u64(vec a, vec b)
{
    return _mm256_blendv_epi8(b, a, greater_u64(a, b));
}

/* ---- floating point ------------------------------------------------------------------ */

NX_INLINE __m256 as_f32(vec x)
{
    return _mm256_castsi256_ps(x);
}

NX_INLINE vec of_f32(__m256 x)
{
    return _mm256_castps_si256(x);
}

NX_INLINE __m256d as_f64(vec x)
{
    return _mm256_castsi256_pd(x);
}

NX_INLINE vec of_f64(__m256d x)
{
    return _mm256_castpd_si256(x);
}

NX_INLINE vec nan_if_unordered_f32(vec a, vec b, vec r)
{
    const __m256 is_nan = _mm256_cmp_ps(as_f32(a), as_f32(b), _CMP_UNORD_Q);
    const vec nan = _mm256_set1_epi32((int)NX_NAN_F32);

    return of_f32(_mm256_blendv_ps(as_f32(r), as_f32(nan), is_nan));
}

NX_INLINE vec nan_if_unordered_f64(vec a, vec b, vec r)
{
    const __m256d is_nan = _mm256_cmp_pd(as_f64(a), as_f64(b), _CMP_UNORD_Q);
    const vec nan = _mm256_set1_epi64x((int64_t)NX_NAN_F64);

    return of_f64(_mm256_blendv_pd(as_f64(r), as_f64(nan), is_nan));
}

/* ---- f16, and the bits of both halves ------------------------------------------------ */

NX_INLINE vec load_f16(const void *p)
{
    return of_f32(_mm256_cvtph_ps(_mm_loadu_si128(p)));
}

NX_INLINE void store_f16(void *p, vec x)
{
    _mm_storeu_si128(p, _mm256_cvtps_ph(as_f32(x), _MM_FROUND_TO_NEAREST_INT));
}

NX_INLINE vec replace_above_16(vec x, vec limit, vec r, vec s)
{
    return _mm256_blendv_epi8(r, s, _mm256_cmpgt_epi16(x, limit));
}

#include "reduce/x86.inc.h"

#define NX_KERNELS nx_kernels_avx2
#include "reduce/vector.inc.h"
