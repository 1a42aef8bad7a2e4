/*
 * table.h - which kernel serves which (dtype, op), the same on every path.
 *
 * NX_COMBINE_TABLE(P) initialises nx_kernels.combine with the functions of the
 * file that uses it: P followed by sum_32, min_u8, prod_bf16, band, ...
 */
#ifndef NX_REDUCE_TABLE_H
#define NX_REDUCE_TABLE_H

#define NX_FLOAT_ROW(P, T)                                                              \
    {                                                                                   \
        [NEXAR_SUM] = P##sum_##T, [NEXAR_PROD] = P##prod_##T, [NEXAR_MIN] = P##min_##T, \
        [NEXAR_MAX] = P##max_##T, [NEXAR_AVG] = P##sum_##T,                             \
    }

/* The sign, "i" or "u", matters only to the order. */
#define NX_INT_ROW(P, SIGN, BITS)                                                  \
    {                                                                              \
        [NEXAR_SUM] = P##sum_##BITS, [NEXAR_PROD] = P##prod_##BITS,                \
        [NEXAR_MIN] = P##min_##SIGN##BITS, [NEXAR_MAX] = P##max_##SIGN##BITS,      \
        [NEXAR_AVG] = P##sum_##BITS, [NEXAR_BAND] = P##band, [NEXAR_BOR] = P##bor, \
        [NEXAR_BXOR] = P##bxor,                                                    \
    }

#define NX_COMBINE_TABLE(P)                                                       \
    {                                                                             \
        [NEXAR_F32] = NX_FLOAT_ROW(P, f32), [NEXAR_F64] = NX_FLOAT_ROW(P, f64),   \
        [NEXAR_F16] = NX_FLOAT_ROW(P, f16), [NEXAR_BF16] = NX_FLOAT_ROW(P, bf16), \
        [NEXAR_I8] = NX_INT_ROW(P, i, 8), [NEXAR_I16] = NX_INT_ROW(P, i, 16),     \
        [NEXAR_I32] = NX_INT_ROW(P, i, 32), [NEXAR_I64] = NX_INT_ROW(P, i, 64),   \
        [NEXAR_U8] = NX_INT_ROW(P, u, 8), [NEXAR_U16] = NX_INT_ROW(P, u, 16),     \
        [NEXAR_U32] = NX_INT_ROW(P, u, 32), [NEXAR_U64] = NX_INT_ROW(P, u, 64),   \
    }

#endif /* NX_REDUCE_TABLE_H */
