/*
 * vector.inc.h - the kernels of one vector path, made from its primitives.
 *
 * A path's .c file defines the primitives below, then NX_KERNELS as the name of its table, then
 * includes this. All are static; they work on vec, a register of bytes of any element type:
 *
 *   load, store                      any alignment
 *   load_f16, store_f16              half as many bytes, f32 in the register
 *   sum_, prod_{8,16,32,64}          wrapping
 *   min_, max_{i,u}{8,16,32,64}, band, bor, bxor
 *   add_, mul_, div_{f32,f64}        with the processor's own NaN
 *   canonical_{f32,f64}              makes that NaN canonical
 *   min_, max_{f32,f64}              as reduce.h says, NaN included
 *   widen_lo_, widen_hi_bf16         half of the elements as f32
 *   narrow_bf16(lo, hi)              back, rounded to nearest even
 *   splat_u16, splat_f32, splat_f64  one value in all elements
 *   lower_bits_if_negative_16(x)     0x7fff where the i16 is negative, else 0
 *   replace_above_16(x, limit, r, s) as i16: s where x > limit, else r
 */
#include <string.h>

#include "reduce/kernels.h"
#include "reduce/table.h"

typedef vec vec_op(vec a, vec b);

/* ---- operations that all paths compose in the same way
 * ----------------------------------------- */

#define FLOAT_OPS(T)                         \
    NX_INLINE vec sum_##T(vec a, vec b)      \
    {                                        \
        return canonical_##T(add_##T(a, b)); \
    }                                        \
    NX_INLINE vec prod_##T(vec a, vec b)     \
    {                                        \
        return canonical_##T(mul_##T(a, b)); \
    }                                        \
    NX_INLINE vec quotient_##T(vec a, vec b) \
    {                                        \
        return canonical_##T(div_##T(a, b)); \
    }

FLOAT_OPS(f32)
FLOAT_OPS(f64)

NX_INLINE vec sum_bf16(vec a, vec b)
{
    return narrow_bf16(sum_f32(widen_lo_bf16(a), widen_lo_bf16(b)),
                       sum_f32(widen_hi_bf16(a), widen_hi_bf16(b)));
}

NX_INLINE vec prod_bf16(vec a, vec b)
{
    return narrow_bf16(prod_f32(widen_lo_bf16(a), widen_lo_bf16(b)),
                       prod_f32(widen_hi_bf16(a), widen_hi_bf16(b)));
}

/* The divisor is f32 already. */
NX_INLINE vec quotient_bf16(vec a, vec divisor)
{
    return narrow_bf16(quotient_f32(widen_lo_bf16(a), divisor),
                       quotient_f32(widen_hi_bf16(a), divisor));
}

/*
 * The order of f16 and of bf16 is that of their bits as sign and magnitude, -0 below +0 included:
 * no need to widen them. With the lower bits of negative values inverted, this is the order of
 * i16. A second inversion restores the value.
 */
NX_INLINE vec half_key(vec x)
{
    return bxor(x, lower_bits_if_negative_16(x));
}

/* |r|, or |nan| where |a| or |b| is a NaN. */
NX_INLINE vec half_or_nan(vec a, vec b, vec r, uint16_t infinity, uint16_t nan)
{
    const vec magnitude = splat_u16(0x7fff);
    const vec larger = max_i16(band(a, magnitude), band(b, magnitude));

    return replace_above_16(larger, splat_u16(infinity), r, splat_u16(nan));
}

#define HALF_ORDER(T, INFINITY_BITS, NAN_BITS)                     \
    NX_INLINE vec min_##T(vec a, vec b)                            \
    {                                                              \
        const vec r = half_key(min_i16(half_key(a), half_key(b))); \
                                                                   \
        return half_or_nan(a, b, r, INFINITY_BITS, NAN_BITS);      \
    }                                                              \
    NX_INLINE vec max_##T(vec a, vec b)                            \
    {                                                              \
        const vec r = half_key(max_i16(half_key(a), half_key(b))); \
                                                                   \
        return half_or_nan(a, b, r, INFINITY_BITS, NAN_BITS);      \
    }

HALF_ORDER(f16, 0x7c00, NX_NAN_F16)
HALF_ORDER(bf16, 0x7f80, NX_NAN_BF16)

/* ---- loops --------------------------------------------------------------------------- */

/* How elements are loaded into a register and stored. */
typedef struct format {
    vec (*load)(const void *p);
    void (*store)(void *p, vec x);
    size_t bytes; /* in memory, of the elements of one register */
} format;

enum {
    WIDTH = sizeof(vec),
    UNROLL = 4,
    /* Bytes from which on aligned stores are worth a partial vector.  On Zen 3,
     * f32 sum of 128 KiB that begins at 16 modulo 32: 131 GB/s with, 96 without. */
    ALIGN_FROM = 16 * WIDTH,
};

static const format whole = {load, store, WIDTH};
static const format f16_as_f32 = {load_f16, store_f16, WIDTH / 2};

NX_INLINE void combine_one(char *out, const char *a, const char *b, format f, vec_op *op)
{
    f.store(out, op(f.load(a), f.load(b)));
}

/* Less than a vector: goes through the stack, so that no byte outside is accessed. */
NX_INLINE void combine_part(char *out, const char *a, const char *b, size_t bytes, format f,
                            vec_op *op)
{
    char x[WIDTH] = {0}, y[WIDTH] = {0};

    memcpy(x, a, bytes);
    memcpy(y, b, bytes);
    combine_one(x, x, y, f, op);
    memcpy(out, x, bytes);
}

/* The number of bytes to process separately so that the following stores are aligned. 0:
 * alignment is impossible or does not pay. */
NX_INLINE size_t head_of(const char *out, size_t bytes, size_t element, format f)
{
    const size_t head = (size_t)(-(uintptr_t)out % f.bytes);

    return bytes >= ALIGN_FROM && head % element == 0 ? head : 0;
}

/* |element|, |f| and |op| are constants in every call, so all is inlined here. */
NX_INLINE void combine(char *out, const char *a, const char *b, size_t bytes, size_t element,
                       format f, vec_op *op)
{
    size_t i = head_of(out, bytes, element, f);

    if (i > 0) {
        combine_part(out, a, b, i, f, op);
    }
    for (; bytes - i >= UNROLL * f.bytes; i += UNROLL * f.bytes) {
        combine_one(out + i, a + i, b + i, f, op);
        combine_one(out + i + f.bytes, a + i + f.bytes, b + i + f.bytes, f, op);
        combine_one(out + i + 2 * f.bytes, a + i + 2 * f.bytes, b + i + 2 * f.bytes, f, op);
        combine_one(out + i + 3 * f.bytes, a + i + 3 * f.bytes, b + i + 3 * f.bytes, f, op);
    }
    for (; bytes - i >= f.bytes; i += f.bytes) {
        combine_one(out + i, a + i, b + i, f, op);
    }
    if (i < bytes) {
        combine_part(out + i, a + i, b + i, bytes - i, f, op);
    }
}

/* Division dominates the time, so unrolling gains nothing. */
NX_INLINE void divide(char *buf, size_t bytes, vec divisor, format f, vec_op *op)
{
    size_t i = 0;

    for (; bytes - i >= f.bytes; i += f.bytes) {
        f.store(buf + i, op(f.load(buf + i), divisor));
    }
    if (i < bytes) {
        char x[WIDTH] = {0};

        memcpy(x, buf + i, bytes - i);
        f.store(x, op(f.load(x), divisor));
        memcpy(buf + i, x, bytes - i);
    }
}

/* ---- kernels ------------------------------------------------------------------------- */

/* The kernel combine_NAME: OP on elements of ELEMENT bytes. */
#define COMBINE(NAME, ELEMENT, FORMAT, OP)                                            \
    static void combine_##NAME(void *out, const void *a, const void *b, size_t bytes) \
    {                                                                                 \
        combine(out, a, b, bytes, ELEMENT, FORMAT, OP);                               \
    }

#define COMBINE_INT(BITS)                                \
    COMBINE(sum_##BITS, (BITS) / 8, whole, sum_##BITS)   \
    COMBINE(prod_##BITS, (BITS) / 8, whole, prod_##BITS) \
    COMBINE(min_i##BITS, (BITS) / 8, whole, min_i##BITS) \
    COMBINE(max_i##BITS, (BITS) / 8, whole, max_i##BITS) \
    COMBINE(min_u##BITS, (BITS) / 8, whole, min_u##BITS) \
    COMBINE(max_u##BITS, (BITS) / 8, whole, max_u##BITS)

COMBINE_INT(8)
COMBINE_INT(16)
COMBINE_INT(32)
COMBINE_INT(64)
COMBINE(band, 1, whole, band)
COMBINE(bor, 1, whole, bor)
COMBINE(bxor, 1, whole, bxor)

#define COMBINE_FLOAT(T, ELEMENT)               \
    COMBINE(sum_##T, ELEMENT, whole, sum_##T)   \
    COMBINE(prod_##T, ELEMENT, whole, prod_##T) \
    COMBINE(min_##T, ELEMENT, whole, min_##T)   \
    COMBINE(max_##T, ELEMENT, whole, max_##T)

COMBINE_FLOAT(f32, 4)
COMBINE_FLOAT(f64, 8)
COMBINE_FLOAT(bf16, 2)
COMBINE(sum_f16, 2, f16_as_f32, sum_f32)
COMBINE(prod_f16, 2, f16_as_f32, prod_f32)
COMBINE(min_f16, 2, whole, min_f16)
COMBINE(max_f16, 2, whole, max_f16)

#define DIVIDE(NAME, SPLAT, FORMAT, OP)                                  \
    static void divide_##NAME(void *buf, size_t bytes, uint32_t divisor) \
    {                                                                    \
        divide(buf, bytes, SPLAT(divisor), FORMAT, OP);                  \
    }

DIVIDE(f32, splat_f32, whole, quotient_f32)
DIVIDE(f64, splat_f64, whole, quotient_f64)
DIVIDE(f16, splat_f32, f16_as_f32, quotient_f32)
DIVIDE(bf16, splat_f32, whole, quotient_bf16)

const nx_kernels NX_KERNELS = {
    .combine = NX_COMBINE_TABLE(combine_),
    .divide =
        {
            [NEXAR_F32] = divide_f32,
            [NEXAR_F64] = divide_f64,
            [NEXAR_F16] = divide_f16,
            [NEXAR_BF16] = divide_bf16,
        },
};
