/*
 * reduce_plain.c - reductions as plain loops, for the compilers to vectorise.
 *
 * Built once by each compiler, with PLAIN_TABLE as the name of its table. These loops do not make
 * NaN canonical, which is less work than in nexar's kernels.
 */
#include <stdint.h>

#include "reduce_rivals.h"

/* NOLINTBEGIN(bugprone-macro-parentheses): a type cannot be parenthesised */
#define LOOP(NAME, TYPE, EXPR)                                 \
    static void NAME(void *dst, const void *src, size_t count) \
    {                                                          \
        TYPE *restrict x = dst;                                \
        const TYPE *restrict y = src;                          \
                                                               \
        for (size_t i = 0; i < count; i++) {                   \
            x[i] = (TYPE)(EXPR);                               \
        }                                                      \
    }
/* NOLINTEND(bugprone-macro-parentheses) */

LOOP(f32_sum, float, x[i] + y[i])
LOOP(f32_prod, float, x[i] * y[i])
LOOP(f32_min, float, x[i] < y[i] ? x[i] : y[i])
LOOP(f32_max, float, x[i] > y[i] ? x[i] : y[i])
LOOP(f64_sum, double, x[i] + y[i])
LOOP(u32_sum, uint32_t, x[i] + y[i])
LOOP(u64_sum, uint64_t, x[i] + y[i])
LOOP(u8_sum, uint8_t, x[i] + y[i])
LOOP(u32_band, uint32_t, x[i] & y[i])

nxb_loop *const PLAIN_TABLE[NX_DTYPES][NX_OPS] = {
    [NEXAR_F32] = {[NEXAR_SUM] = f32_sum,
                   [NEXAR_PROD] = f32_prod,
                   [NEXAR_MIN] = f32_min,
                   [NEXAR_MAX] = f32_max},
    [NEXAR_F64] = {[NEXAR_SUM] = f64_sum},
    [NEXAR_I32] = {[NEXAR_SUM] = u32_sum, [NEXAR_BAND] = u32_band},
    [NEXAR_I64] = {[NEXAR_SUM] = u64_sum},
    [NEXAR_U8] = {[NEXAR_SUM] = u8_sum},
};
