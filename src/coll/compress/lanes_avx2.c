/* lanes_avx2.c - the kernels for x86 with AVX2, and F16C for F16. */
#include <immintrin.h>

#include "coll/compress/lanes_kernels.h"
#include "reduce/scalar.h"

static void encode_f16(nx_code *code, const float *x, uint32_t limit)
{
    const __m256i below = _mm256_set1_epi32(0x7fffffff);
    const __m256i infinite = _mm256_set1_epi32(0x7f800000);
    const __m256i most = _mm256_set1_epi32((int)limit);
    const __m256i nan = _mm256_set1_epi32((int)NX_NAN_F32);

    for (size_t i = 0; i < NX_PIECE; i += 8) {
        const __m256i bits = _mm256_load_si256((const void *)(x + i));
        const __m256i magnitude = _mm256_and_si256(bits, below);
        const __m256i over = _mm256_and_si256(_mm256_cmpgt_epi32(magnitude, most),
                                              _mm256_cmpgt_epi32(infinite, magnitude));
        const __m256i capped = _mm256_or_si256(_mm256_blendv_epi8(magnitude, most, over),
                                               _mm256_andnot_si256(below, bits));
        const __m256i value =
            _mm256_blendv_epi8(capped, nan, _mm256_cmpgt_epi32(magnitude, infinite));

        _mm_store_si128((void *)(code->half + i),
                        _mm256_cvtps_ph(_mm256_castsi256_ps(value), _MM_FROUND_TO_NEAREST_INT));
    }
}

static void decode_f16(float *x, const nx_code *code)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)NX_NAN_F32));

    for (size_t i = 0; i < NX_PIECE; i += 8) {
        const __m256 value = _mm256_cvtph_ps(_mm_load_si128((const void *)(code->half + i)));
        const __m256 is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);

        _mm256_store_ps(x + i, _mm256_blendv_ps(value, nan, is_nan));
    }
}

#define LANES_KERNELS nx_lanes_avx2
#include "coll/compress/lanes.inc.h"
