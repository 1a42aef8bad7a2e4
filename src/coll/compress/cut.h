/*
 * cut.h - which elements of a tensor are the k largest: a magnitude to cut at.
 *
 * The magnitude of an element is its bits without the sign, as a number: the order
 * of |x|, with infinity above the finite ones and NaN above infinity.  Of equal
 * ones the first come first.  Elements that are 0 are never taken, so there may be
 * fewer than k.
 *
 * Idea: a histogram of the upper bits says in which bin the k-th largest is, one of
 * the next bits within that bin says more, until all bits are known.  The tensor is
 * walked once a digit (2 or 3 times for f32, 4 or 6 for f64), and nothing is kept of it.
 */
#ifndef NX_CUT_H
#define NX_CUT_H

#include "base/error.h"
#include "coll/compress/lanes.h"

/* Whose elements: x = buf + residual (NULL: none), |count| of |dtype|, borrowed. */
typedef struct nx_cut_tensor {
    const void *buf, *residual;
    size_t count;
    nexar_dtype dtype;
} nx_cut_tensor;

/* |n| elements of it from |at| on, as lanes of nx_lanes_work(dtype). */
void nx_cut_load(const nx_cut_tensor *t, size_t at, size_t n, nx_lanes *x);

/* Taken are all elements above |magnitude|, and the first |ties| of those equal to it. */
typedef struct nx_cut {
    uint64_t magnitude;
    size_t ties;
} nx_cut;

/* For 0 < k <= count, or k = count = 0, where nothing is taken.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_cut_find(const nx_cut_tensor *t, size_t k, nx_cut *cut);

/* The indexes of those taken among the |n| lanes of |x|, ascending; returns how many.
 * Pieces are asked for in the order of the tensor: |cut| loses the ties it has spent. */
size_t nx_cut_take(nx_cut *cut, const nx_lanes *x, size_t n, nexar_dtype work,
                   uint16_t taken[NX_PIECE]);

#endif /* NX_CUT_H */
