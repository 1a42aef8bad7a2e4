/*
 * inputs.h - what the ranks of a simulated collective put in.
 *
 * Exact inputs give the same result in whatever order they are combined, so the
 * oracle's order is as good as any; and they differ between ranks and between
 * elements as far as that allows, so a block in the wrong place shows.
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

/* The same without exactness: floats of any magnitude, now and then zeros of
 * both signs, infinities, NaNs with payloads, subnormals. */
void nxt_input_wild(const nxt_inputs *in, uint32_t rank, size_t i, void *out);

/* |bytes| random bytes: for what is only moved, and for what must not count. */
void nxt_fill_random(uint64_t seed, void *out, size_t bytes);

#endif /* NXT_INPUTS_H */
