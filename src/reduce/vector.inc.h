/*
 * vector.inc.h - the kernels of one vector path, made from its primitives.
 *
 * A path's .c file defines the primitives below, then NX_KERNELS as the name of
 * its table, then includes this.  All are static, all take and return vec,
 * a register full of bytes whatever they mean:
 *
 *   load, store                      any alignment
 *   sum_, prod_{8,16,32,64}          wrapping
 *   min_, max_{i,u}{8,16,32,64}, band, bor, bxor
 *   add_, mul_, div_{f32,f64}        with whatever NaN the processor gives
 *   canonical_{f32,f64}              that NaN made canonical
 *   min_, max_{f32,f64}              as reduce.h says, NaN included
 *   widen_lo_, widen_hi_{f16,bf16}   half of the elements as f32
 *   narrow_{f16,bf16}(lo, hi)        back, rounded to nearest even
 *   splat_f32, splat_f64             one value in all elements
 */
#include <string.h>

#include "reduce/kernels.h"
#include "reduce/table.h"

/* ---- operations that all paths compose alike ----------------------------- */

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

#define HALF_OP(T, NAME)                                                 \
    NX_INLINE vec NAME##_##T(vec a, vec b)                               \
    {                                                                    \
        return narrow_##T(NAME##_f32(widen_lo_##T(a), widen_lo_##T(b)),  \
                          NAME##_f32(widen_hi_##T(a), widen_hi_##T(b))); \
    }

/* The divisor is f32 already: it may be more than an f16 can hold. */
#define HALF_OPS(T)                                                                            \
    HALF_OP(T, sum)                                                                            \
    HALF_OP(T, prod)                                                                           \
    HALF_OP(T, min)                                                                            \
    HALF_OP(T, max)                                                                            \
    NX_INLINE vec quotient_##T(vec a, vec d)                                                   \
    {                                                                                          \
        return narrow_##T(quotient_f32(widen_lo_##T(a), d), quotient_f32(widen_hi_##T(a), d)); \
    }

HALF_OPS(f16)
HALF_OPS(bf16)

/* ---- loops --------------------------------------------------------------- */

typedef vec vec_op(vec a, vec b);

enum { WIDTH = sizeof(vec), UNROLL = 4 };

/* Less than a vector: by way of the stack, so that nothing outside is touched. */
NX_INLINE void combine_part(char *out, const char *a, const char *b, size_t bytes, vec_op *op)
{
    char x[WIDTH] = {0}, y[WIDTH] = {0};

    memcpy(x, a, bytes);
    memcpy(y, b, bytes);
    store(x, op(load(x), load(y)));
    memcpy(out, x, bytes);
}

/* |op| is a constant in every call, so it is inlined here. */
NX_INLINE void combine(char *out, const char *a, const char *b, size_t bytes, vec_op *op)
{
    size_t i = 0;

    for (; bytes - i >= UNROLL * WIDTH; i += UNROLL * WIDTH) {
        const vec r0 = op(load(a + i), load(b + i));
        const vec r1 = op(load(a + i + WIDTH), load(b + i + WIDTH));
        const vec r2 = op(load(a + i + 2 * WIDTH), load(b + i + 2 * WIDTH));
        const vec r3 = op(load(a + i + 3 * WIDTH), load(b + i + 3 * WIDTH));

        store(out + i, r0);
        store(out + i + WIDTH, r1);
        store(out + i + 2 * WIDTH, r2);
        store(out + i + 3 * WIDTH, r3);
    }
    for (; bytes - i >= WIDTH; i += WIDTH) {
        store(out + i, op(load(a + i), load(b + i)));
    }
    if (i < bytes) {
        combine_part(out + i, a + i, b + i, bytes - i, op);
    }
}

/* Division is what takes the time here: nothing to gain by unrolling. */
NX_INLINE void divide(char *buf, size_t bytes, vec divisor, vec_op *op)
{
    char x[WIDTH] = {0};
    size_t i = 0;

    for (; bytes - i >= WIDTH; i += WIDTH) {
        store(buf + i, op(load(buf + i), divisor));
    }
    if (i < bytes) {
        memcpy(x, buf + i, bytes - i);
        store(x, op(load(x), divisor));
        memcpy(buf + i, x, bytes - i);
    }
}

/* ---- kernels ------------------------------------------------------------- */

#define COMBINE(NAME)                                                                 \
    static void combine_##NAME(void *out, const void *a, const void *b, size_t bytes) \
    {                                                                                 \
        combine(out, a, b, bytes, NAME);                                              \
    }

#define COMBINE_INT(BITS) \
    COMBINE(sum_##BITS)   \
    COMBINE(prod_##BITS)  \
    COMBINE(min_i##BITS)  \
    COMBINE(max_i##BITS)  \
    COMBINE(min_u##BITS)  \
    COMBINE(max_u##BITS)

#define COMBINE_FLOAT(T) \
    COMBINE(sum_##T)     \
    COMBINE(prod_##T)    \
    COMBINE(min_##T)     \
    COMBINE(max_##T)

#define DIVIDE(T, SPLAT)                                              \
    static void divide_##T(void *buf, size_t bytes, uint32_t divisor) \
    {                                                                 \
        divide(buf, bytes, SPLAT(divisor), quotient_##T);             \
    }

COMBINE_INT(8)
COMBINE_INT(16)
COMBINE_INT(32)
COMBINE_INT(64)
COMBINE(band)
COMBINE(bor)
COMBINE(bxor)
COMBINE_FLOAT(f32)
COMBINE_FLOAT(f64)
COMBINE_FLOAT(f16)
COMBINE_FLOAT(bf16)
DIVIDE(f32, splat_f32)
DIVIDE(f64, splat_f64)
DIVIDE(f16, splat_f32)
DIVIDE(bf16, splat_f32)

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
