/*
 * reduce_oracle.h - the expected element of a reduction, computed by other methods than in the
 * kernels.
 */
#ifndef NXT_REDUCE_ORACLE_H
#define NXT_REDUCE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include <nexar.h>

/* Operands and result are bits, as returned by nxt_get(). */
uint64_t nxt_oracle(nexar_dtype dtype, nexar_op op, uint64_t a, uint64_t b);
uint64_t nxt_oracle_quotient(nexar_dtype dtype, uint64_t a, uint32_t divisor);
bool nxt_is_float(nexar_dtype dtype);
bool nxt_is_nan(nexar_dtype dtype, uint64_t bits);
uint64_t nxt_canonical_nan(nexar_dtype dtype);

/* The value of a float of any kind, exactly; and the bits of the f16 or bf16
 * that is nearest to |value|, ties to even. */
double nxt_value(nexar_dtype dtype, uint64_t bits);
uint64_t nxt_half_of(nexar_dtype dtype, double value);

#endif /* NXT_REDUCE_ORACLE_H */
