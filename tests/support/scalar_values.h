/*
 * scalar_values.h - single elements of every type, computed in the simplest way, to check the
 * kernels of src/reduce. Shares no code with them.
 */
#ifndef NXT_SCALAR_VALUES_H
#define NXT_SCALAR_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

enum { NXT_ELEM_ROOM = 8 }; /* bytes of the largest element */

/* acc = op(acc, x); NEXAR_AVG adds. */
void nxt_combine(nexar_dtype dtype, nexar_op op, void *acc, const void *x);
/* x = x / by, as the end of an average. */
void nxt_divide(nexar_dtype dtype, void *x, uint32_t by);
/* out = the identity of op. */
void nxt_identity(nexar_dtype dtype, nexar_op op, void *out);

bool nxt_dtype_is_float(nexar_dtype dtype);
bool nxt_dtype_is_signed(nexar_dtype dtype);

/* Any float type as a double and back, rounded to nearest even. */
double nxt_to_double(nexar_dtype dtype, const void *x);
void nxt_from_double(nexar_dtype dtype, double value, void *out);

#endif /* NXT_SCALAR_VALUES_H */
