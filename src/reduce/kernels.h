/*
 * kernels.h - the interface of a path: one kernel for each legal (dtype, op).
 *
 * Kernels count in bytes, a multiple of the element's size and never 0, and
 * take pointers of any alignment.  They expect the floating-point environment
 * that fpenv.h sets up.  Only reduce.c calls them.
 */
#ifndef NX_KERNELS_H
#define NX_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#include "reduce/reduce.h"

/* out = op(a, b); |out| is |a|, is |b|, or overlaps neither. */
typedef void nx_combine_kernel(void *out, const void *a, const void *b, size_t bytes);

/* buf = buf / divisor. */
typedef void nx_divide_kernel(void *buf, size_t bytes, uint32_t divisor);

typedef struct nx_kernels {
    nx_combine_kernel *combine[NX_DTYPES][NX_OPS]; /* NULL: not legal */
    nx_divide_kernel *divide[NX_DTYPES]; /* NULL: use the portable kernel; that path has all */
} nx_kernels;

extern const nx_kernels nx_kernels_portable;

/* These may run only where nx_reduce_path_usable() says so. */
extern const nx_kernels nx_kernels_avx2;
extern const nx_kernels nx_kernels_avx512;
extern const nx_kernels nx_kernels_neon;

/* For the parts of a kernel: without inlining each would cost a call per vector. A path need not
 * use all functions that its macros define. */
#define NX_INLINE static inline __attribute__((always_inline, unused))

#endif /* NX_KERNELS_H */
