/*
 * reduce.h - elementwise kernels: reduction, identity, division.
 *
 * Meaning (see nexar_op in nexar.h): integer overflow wraps; f16 and bf16 are computed in f32 and
 * rounded to nearest even; every NaN result is the canonical quiet NaN of its type; minimum and
 * maximum propagate NaN and order -0 below +0.  So every kernel is commutative to the bit, and all
 * paths (portable, AVX2, AVX-512, NEON) give the same bits for the same input: ranks on different
 * machines agree.
 *
 * Operations of the application (nexar_op_create) have the properties of their function.
 *
 * Pointers need no alignment, except for the application's functions.  No function allocates,
 * blocks or fails, and all are thread-safe.  The thread's rounding mode, flush to zero and traps
 * have no influence, and are as before when a call returns.
 */
#ifndef NX_REDUCE_H
#define NX_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

/* The number of values; they are 0 .. N - 1. */
enum { NX_DTYPES = NEXAR_U16 + 1, NX_OPS = NEXAR_BXOR + 1 };

/* NEXAR_STRUCT(n): an opaque element that is only copied. */
static inline bool nx_dtype_is_struct(nexar_dtype dtype)
{
    return ((unsigned)dtype - (unsigned)NEXAR_STRUCT(1)) < (unsigned)(NEXAR_STRUCT_MAX);
}
/* Whether |dtype| is an element type of any kind. */
bool nx_dtype_is_known(nexar_dtype dtype);

/* Operations of the application (user_op.c) are numbered from NX_OP_USER. */
enum { NX_OP_USER = 0x100, NX_OPS_USER = 1024 };
static inline bool nx_op_is_user(nexar_op op)
{
    return ((unsigned)op - NX_OP_USER) < NX_OPS_USER;
}
/* Whether |op| is built in or registered. */
bool nx_op_is_known(nexar_op op);

/* Whether |dtype| and |op| are known and may be combined: bitwise operations require integers, a
 * struct requires an operation of the application. */
bool nx_reduce_legal(nexar_dtype dtype, nexar_op op);

/*
 * out[i] = op(a[i], b[i]) for |count| elements.  |out| may be |a| or |b|, or
 * overlap neither.  NEXAR_AVG adds: the division is nx_reduce_divide, once, at
 * the end.  |dtype| and |op| are legal.
 */
void nx_reduce(void *out, const void *a, const void *b, size_t count, nexar_dtype dtype,
               nexar_op op);

/* Nothing for an operation of the application.  Otherwise out[i] = the value e with op(e, x) == x:
 * SUM, AVG, BOR, BXOR 0; PROD 1; BAND all bits; MIN the largest value (+infinity), MAX the smallest
 * (-infinity). To the bit for every x but NaN, and but -0 in a sum, where +0 + -0 is +0: people
 * expect the zero of an exscan to print as 0. */
void nx_reduce_identity(void *out, size_t count, nexar_dtype dtype, nexar_op op);

/* buf[i] = buf[i] / divisor, divisor > 0: C division on integers (towards
 * zero), f16 and bf16 divided in f32 and rounded to nearest even, NaN
 * canonical.  The divisor becomes f32 first (f64 for f64): above 2^24 it is
 * rounded. */
void nx_reduce_divide(void *buf, size_t count, nexar_dtype dtype, uint32_t divisor);

/*
 * The paths that this build has, and which of them this machine can run.  The
 * best one is chosen on first use; the setting "kernels" (or a test) may choose
 * another.
 */
typedef enum nx_reduce_path {
    NX_REDUCE_PORTABLE,
    NX_REDUCE_AVX2,   /* with F16C */
    NX_REDUCE_AVX512, /* F, BW, VL, DQ */
    NX_REDUCE_NEON,
    NX_REDUCE_PATHS
} nx_reduce_path;

const char *nx_reduce_path_name(nx_reduce_path path); /* "portable", "avx2", ... */
bool nx_reduce_path_usable(nx_reduce_path path);
nx_reduce_path nx_reduce_path_best(void);
nx_reduce_path nx_reduce_path_now(void);
/* |path| is usable.  Not while another thread reduces. */
void nx_reduce_path_set(nx_reduce_path path);

#endif /* NX_REDUCE_H */
