/*
 * portable.c - the kernels in plain C, for any processor; the vector paths are
 * tested against these.
 *
 * Elements are copied in and out because the pointers need no alignment. The compiler removes the
 * copies.
 */
#include <string.h>

#include "reduce/kernels.h"
#include "reduce/scalar.h"
#include "reduce/table.h"

/* The kernel combine_NAME: EXPR of x and y, two elements of TYPE. */
#define COMBINE(NAME, TYPE, EXPR)                                                     \
    static void combine_##NAME(void *out, const void *a, const void *b, size_t bytes) \
    {                                                                                 \
        for (size_t i = 0; i < bytes; i += sizeof(TYPE)) {                            \
            TYPE x, y;                                                                \
                                                                                      \
            memcpy(&x, (const char *)a + i, sizeof x);                                \
            memcpy(&y, (const char *)b + i, sizeof y);                                \
            x = (EXPR);                                                               \
            memcpy((char *)out + i, &x, sizeof x);                                    \
        }                                                                             \
    }

/* The kernel divide_NAME: EXPR of x, an element of TYPE, and |divisor|. */
#define DIVIDE(NAME, TYPE, EXPR)                                         \
    static void divide_##NAME(void *buf, size_t bytes, uint32_t divisor) \
    {                                                                    \
        for (size_t i = 0; i < bytes; i += sizeof(TYPE)) {               \
            TYPE x;                                                      \
                                                                         \
            memcpy(&x, (char *)buf + i, sizeof x);                       \
            x = (EXPR);                                                  \
            memcpy((char *)buf + i, &x, sizeof x);                       \
        }                                                                \
    }

/* ---- integers ------------------------------------------------------------------------ */

/* Wrapping needs unsigned arithmetic, and 16 bits would be promoted to int,
 * whose product can overflow: 64 bits hold the low end of every result.  Sums
 * and products are the same bits for both signs. */
#define WRAPPING(BITS)                                                     \
    COMBINE(sum_##BITS, uint##BITS##_t, (uint##BITS##_t)((uint64_t)x + y)) \
    COMBINE(prod_##BITS, uint##BITS##_t, (uint##BITS##_t)((uint64_t)x * y))

WRAPPING(8)
WRAPPING(16)
WRAPPING(32)
WRAPPING(64)

#define ORDERED(T, TYPE)                  \
    COMBINE(min_##T, TYPE, x < y ? x : y) \
    COMBINE(max_##T, TYPE, x > y ? x : y)

ORDERED(i8, int8_t)
ORDERED(i16, int16_t)
ORDERED(i32, int32_t)
ORDERED(i64, int64_t)
ORDERED(u8, uint8_t)
ORDERED(u16, uint16_t)
ORDERED(u32, uint32_t)
ORDERED(u64, uint64_t)

/* Bitwise operations do not depend on the element size. */
COMBINE(band, uint8_t, x &y)
COMBINE(bor, uint8_t, x | y)
COMBINE(bxor, uint8_t, x ^ y)

DIVIDE(u8, uint8_t, (uint8_t)(x / divisor))
DIVIDE(u16, uint16_t, (uint16_t)(x / divisor))
DIVIDE(u32, uint32_t, x / divisor)
DIVIDE(u64, uint64_t, x / divisor)

/* A signed element times its sign, as unsigned: -min fits, and so does a divisor that would be
 * negative as an int. */
#define SIGNED_QUOTIENT(U) x < 0 ? (U)(0 - ((U)0 - (U)x) / divisor) : (U)((U)x / divisor)

DIVIDE(i8, int8_t, (int8_t)(SIGNED_QUOTIENT(uint32_t)))
DIVIDE(i16, int16_t, (int16_t)(SIGNED_QUOTIENT(uint32_t)))
DIVIDE(i32, int32_t, (int32_t)(SIGNED_QUOTIENT(uint32_t)))
DIVIDE(i64, int64_t, (int64_t)(SIGNED_QUOTIENT(uint64_t)))

/* ---- floating point ------------------------------------------------------------------ */

#define FLOAT(T, TYPE)                         \
    COMBINE(sum_##T, TYPE, nx_sum_##T(x, y))   \
    COMBINE(prod_##T, TYPE, nx_prod_##T(x, y)) \
    COMBINE(min_##T, TYPE, nx_min_##T(x, y))   \
    COMBINE(max_##T, TYPE, nx_max_##T(x, y))   \
    DIVIDE(T, TYPE, nx_quotient_##T(x, (TYPE)divisor))

FLOAT(f32, float)
FLOAT(f64, double)

/* f16 and bf16: FN of f32 on both, rounded once at the end. */
#define VIA_F32(T, FN, Y) nx_##T##_of_f32(FN(nx_f32_of_##T(x), (Y)))

#define HALF(T)                                                            \
    COMBINE(sum_##T, uint16_t, VIA_F32(T, nx_sum_f32, nx_f32_of_##T(y)))   \
    COMBINE(prod_##T, uint16_t, VIA_F32(T, nx_prod_f32, nx_f32_of_##T(y))) \
    COMBINE(min_##T, uint16_t, VIA_F32(T, nx_min_f32, nx_f32_of_##T(y)))   \
    COMBINE(max_##T, uint16_t, VIA_F32(T, nx_max_f32, nx_f32_of_##T(y)))   \
    DIVIDE(T, uint16_t, VIA_F32(T, nx_quotient_f32, (float)divisor))

HALF(f16)
HALF(bf16)

/* ---- the table ----------------------------------------------------------------------- */

const nx_kernels nx_kernels_portable = {
    .combine = NX_COMBINE_TABLE(combine_),
    .divide =
        {
            [NEXAR_F32] = divide_f32,
            [NEXAR_F64] = divide_f64,
            [NEXAR_F16] = divide_f16,
            [NEXAR_BF16] = divide_bf16,
            [NEXAR_I8] = divide_i8,
            [NEXAR_I16] = divide_i16,
            [NEXAR_I32] = divide_i32,
            [NEXAR_I64] = divide_i64,
            [NEXAR_U8] = divide_u8,
            [NEXAR_U16] = divide_u16,
            [NEXAR_U32] = divide_u32,
            [NEXAR_U64] = divide_u64,
        },
};
