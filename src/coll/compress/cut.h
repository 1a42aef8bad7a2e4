/*
 * cut.h - selects the k largest elements of a tensor by a magnitude threshold.
 *
 * The magnitude of an element is its bits without the sign, as an integer: the order of |x|, with
 * infinity above finite values and NaN above infinity. Ties are resolved by index. Zero elements
 * are never selected, so there may be fewer than k.
 *
 * Idea: radix selection. A histogram of the upper bits determines the bin of the k-th largest
 * element; a histogram of the next bits within that bin refines it, until all bits are known. The
 * tensor is read once per digit (2 or 3 times for f32, 4 or 6 for f64), and no copy is made.
 */
#ifndef NX_CUT_H
#define NX_CUT_H

#include "base/error.h"
#include "coll/compress/lanes.h"

/* The elements: x = buf + residual (NULL: none), |count| of |dtype|, borrowed. */
typedef struct nx_cut_tensor {
    const void *buf, *residual;
    size_t count;
    nexar_dtype dtype;
} nx_cut_tensor;

/* Loads |n| elements from |at| on, as lanes of nx_lanes_work(dtype). */
void nx_cut_load(const nx_cut_tensor *t, size_t at, size_t n, nx_lanes *x);

/* Selects all elements above |magnitude| and the first |ties| of those equal to it. */
typedef struct nx_cut {
    uint64_t magnitude;
    size_t ties;
} nx_cut;

/* Requires 0 < k <= count, or k = count = 0, which selects nothing.  NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_cut_find(const nx_cut_tensor *t, size_t k, nx_cut *cut);

/* The indexes of the selected lanes among the |n| lanes of |x|, ascending; returns their number.
 * Pieces come in the order of the tensor, as |cut| counts down the ties. */
size_t nx_cut_take(nx_cut *cut, const nx_lanes *x, size_t n, nexar_dtype work,
                   uint16_t taken[NX_PIECE]);

#endif /* NX_CUT_H */
