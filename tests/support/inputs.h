/*
 * inputs.h - the inputs of the ranks of a simulated collective.
 *
 * Exact inputs give the same result in every order of combination, so the oracle may use any
 * order. They differ between ranks and elements as far as exactness allows, so a block in the
 * wrong place is detected.
 */
#ifndef NXT_INPUTS_H
#define NXT_INPUTS_H

#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

typedef struct nxt_inputs {
    nexar_dtype dtype;
    nexar_op op;
    uint32_t size; /* ranks that are combined */
    uint64_t seed;
} nxt_inputs;

/* Element |i| of |rank|'s vector, such that any combination of ranks is exact. */
void nxt_input_exact(const nxt_inputs *in, uint32_t rank, size_t i, void *out);

/* The same without exactness: floats of any magnitude, sometimes zeros of both signs,
 * infinities, NaNs with payloads, subnormals. */
void nxt_input_wild(const nxt_inputs *in, uint32_t rank, size_t i, void *out);

/* |bytes| random bytes: for data that is only moved, and for data that must have no effect. */
void nxt_fill_random(uint64_t seed, void *out, size_t bytes);

#endif /* NXT_INPUTS_H */
