/*
 * x86.inc.h - the primitives of vector.inc.h that AVX2 and AVX-512 spell alike.
 *
 * The .c file that includes this defines MM(name), which puts _mm256_ or _mm512_ before a name,
 * and what the two spell differently: load, store, the logic and 64-bit operations,
 * as_f32/of_f32/as_f64/of_f64 (casts), splat_i32, mask operations, and
 * nan_if_unordered_{f32,f64}(a, b, r): r, but the canonical NaN where a or b is one.
 */

#define OP(NAME, INTRINSIC)          \
    NX_INLINE vec NAME(vec a, vec b) \
    {                                \
        return MM(INTRINSIC)(a, b);  \
    }

OP(sum_8, add_epi8)
OP(sum_16, add_epi16)
OP(sum_32, add_epi32)
OP(sum_64, add_epi64)
OP(prod_16, mullo_epi16)
OP(prod_32, mullo_epi32)
OP(min_i8, min_epi8)
OP(min_i16, min_epi16)
OP(min_i32, min_epi32)
OP(min_u8, min_epu8)
OP(min_u16, min_epu16)
OP(min_u32, min_epu32)
OP(max_i8, max_epi8)
OP(max_i16, max_epi16)
OP(max_i32, max_epi32)
OP(max_u8, max_epu8)
OP(max_u16, max_epu16)
OP(max_u32, max_epu32)

/* There is no multiplication of bytes.  The low byte of a 16-bit product comes
 * from the low bytes alone: one product for the even bytes, one for the odd. */
NX_INLINE vec prod_8(vec a, vec b)
{
    const vec even = MM(mullo_epi16)(a, b);
    const vec odd = MM(mullo_epi16)(MM(srli_epi16)(a, 8), MM(srli_epi16)(b, 8));

    return bor(band(even, MM(set1_epi16)(0x00ff)), MM(slli_epi16)(odd, 8));
}

/* ---- f32, f64 ------------------------------------------------------------------------ */

/*
 * The min and max instructions return their second operand if the two are equal or one is NaN.
 * With the operands swapped, the results differ only in those cases. For -0 and +0, "or" yields
 * -0 and "and" yields +0; NaN is handled separately.
 */
#define FLOAT_PRIMITIVES(T, SUFFIX)                                    \
    NX_INLINE vec add_##T(vec a, vec b)                                \
    {                                                                  \
        return of_##T(MM(add_##SUFFIX)(as_##T(a), as_##T(b)));         \
    }                                                                  \
    NX_INLINE vec mul_##T(vec a, vec b)                                \
    {                                                                  \
        return of_##T(MM(mul_##SUFFIX)(as_##T(a), as_##T(b)));         \
    }                                                                  \
    NX_INLINE vec div_##T(vec a, vec b)                                \
    {                                                                  \
        return of_##T(MM(div_##SUFFIX)(as_##T(a), as_##T(b)));         \
    }                                                                  \
    NX_INLINE vec canonical_##T(vec r)                                 \
    {                                                                  \
        return nan_if_unordered_##T(r, r, r);                          \
    }                                                                  \
    NX_INLINE vec min_##T(vec a, vec b)                                \
    {                                                                  \
        const vec ab = of_##T(MM(min_##SUFFIX)(as_##T(a), as_##T(b))); \
        const vec ba = of_##T(MM(min_##SUFFIX)(as_##T(b), as_##T(a))); \
                                                                       \
        return nan_if_unordered_##T(a, b, bor(ab, ba));                \
    }                                                                  \
    NX_INLINE vec max_##T(vec a, vec b)                                \
    {                                                                  \
        const vec ab = of_##T(MM(max_##SUFFIX)(as_##T(a), as_##T(b))); \
        const vec ba = of_##T(MM(max_##SUFFIX)(as_##T(b), as_##T(a))); \
                                                                       \
        return nan_if_unordered_##T(a, b, band(ab, ba));               \
    }

FLOAT_PRIMITIVES(f32, ps)
FLOAT_PRIMITIVES(f64, pd)

NX_INLINE vec splat_f32(uint32_t x)
{
    return of_f32(MM(set1_ps)((float)x));
}

NX_INLINE vec splat_f64(uint32_t x)
{
    return of_f64(MM(set1_pd)((double)x));
}

/* ---- bf16 ---------------------------------------------------------------------------- */

/* A bf16 is the upper half of an f32. "lo" are the elements of even index, "hi" the elements of
 * odd index, so no element crosses a lane. */
NX_INLINE vec widen_lo_bf16(vec x)
{
    return MM(slli_epi32)(x, 16);
}

NX_INLINE vec widen_hi_bf16(vec x)
{
    return band(x, splat_i32((int)0xffff0000));
}

/* Rounds to nearest even; the caller cuts off the remaining lower bits. A canonical NaN is
 * unchanged; the largest numbers become infinity. */
NX_INLINE vec round_bf16(vec x)
{
    const vec odd = band(MM(srli_epi32)(x, 16), splat_i32(1));

    return sum_32(sum_32(x, splat_i32(0x7fff)), odd);
}

NX_INLINE vec narrow_bf16(vec lo, vec hi)
{
    return bor(MM(srli_epi32)(round_bf16(lo), 16),
               band(round_bf16(hi), splat_i32((int)0xffff0000)));
}

/* ---- the bits of f16 and bf16 -------------------------------------------------------- */

NX_INLINE vec splat_u16(uint16_t x)
{
    return MM(set1_epi16)((int16_t)x);
}

NX_INLINE vec lower_bits_if_negative_16(vec x)
{
    return MM(srli_epi16)(MM(srai_epi16)(x, 15), 1);
}
