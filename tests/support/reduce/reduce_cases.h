/* reduce_cases.h - elements for the tests of the kernels, as bits. */
#ifndef NXT_REDUCE_CASES_H
#define NXT_REDUCE_CASES_H

#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

enum {
    NXT_SPECIALS_MAX = 40,
    NXT_PAIRS = 2048, /* all pairs of specials, then random ones */
};

/* Element |i| of a vector of |dtype|, as bits; of any alignment. */
uint64_t nxt_get(const void *vec, nexar_dtype dtype, size_t i);
void nxt_put(void *vec, nexar_dtype dtype, size_t i, uint64_t bits);

/* Values of |dtype| that are prone to errors; returns their number. */
size_t nxt_specials(nexar_dtype dtype, uint64_t specials[NXT_SPECIALS_MAX]);

/* The next number of a sequence that is the same in every run. */
uint64_t nxt_random(uint64_t *state);

/* Fills two vectors of NXT_PAIRS elements. */
void nxt_pairs(nexar_dtype dtype, void *a, void *b);

#endif /* NXT_REDUCE_CASES_H */
