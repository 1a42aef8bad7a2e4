/* reduce_rivals.h - the loops that reduce_bench compares nexar's kernels with. */
#ifndef NXB_REDUCE_RIVALS_H
#define NXB_REDUCE_RIVALS_H

#include <stddef.h>

#include "reduce/reduce.h"

/* dst[i] = op(dst[i], src[i]); the two do not overlap. */
typedef void nxb_loop(void *dst, const void *src, size_t count);

/* reduce_plain.c as each compiler vectorises it; NULL where it has no loop.
 * Built for AVX2 on x86. */
extern nxb_loop *const nxb_plain_gcc[NX_DTYPES][NX_OPS];
extern nxb_loop *const nxb_plain_clang[NX_DTYPES][NX_OPS];

/* The least work with two reads and one write: dst &= src; |bytes| is a multiple of
 * NXB_IDEAL_STEP. Needs AVX2 on x86. */
enum { NXB_IDEAL_STEP = 256 };
void nxb_ideal(void *dst, const void *src, size_t bytes);

#endif /* NXB_REDUCE_RIVALS_H */
