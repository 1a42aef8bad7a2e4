/*
 * rankset.h - a set of the ranks 0 .. n - 1 of a group, as bits.
 *
 * Only creation and growth allocate, so nothing else fails. On the wire an almost empty set takes a
 * few bytes, and no set is larger than its bits.
 */
#ifndef NX_RANKSET_H
#define NX_RANKSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "wire/wire.h"

/* Invariant: |count| bits are set, none of them at |n| or beyond. */
typedef struct nx_rankset {
    uint64_t *words;
    uint32_t n, count;
} nx_rankset;

/* Makes an empty set for ranks below |n| > 0.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_rankset_init(nx_rankset *s, uint32_t n);
void nx_rankset_fini(nx_rankset *s); /* also of a zeroed one */
/* Grows the set to ranks below |n|, not less than before.  NEXAR_ENOMEM: unchanged. */
NX_MUST_CHECK nexar_err nx_rankset_grow(nx_rankset *s, uint32_t n);

void nx_rankset_clear(nx_rankset *s);
/* Whether |rank| is a member; false for ranks at |n| and beyond. */
bool nx_rankset_has(const nx_rankset *s, uint32_t rank);
/* Adds |rank| < n; returns whether it is new. */
bool nx_rankset_add(nx_rankset *s, uint32_t rank);
/* Removes |rank|; returns whether it was a member. */
bool nx_rankset_remove(nx_rankset *s, uint32_t rank);

/* These take two sets of the same |n|. */
void nx_rankset_copy(nx_rankset *to, const nx_rankset *from);
/* Adds all of |from|; returns whether any rank is new. */
bool nx_rankset_unite(nx_rankset *to, const nx_rankset *from);
bool nx_rankset_equal(const nx_rankset *a, const nx_rankset *b);

/* The first rank >= |from| that is a member, or is not; n if there is none. */
uint32_t nx_rankset_next(const nx_rankset *s, uint32_t from);
uint32_t nx_rankset_next_out(const nx_rankset *s, uint32_t from);
/* The number of ranks below |rank| that are no members, and the |index|-th of these; n if there is
 * none. */
uint32_t nx_rankset_index_out(const nx_rankset *s, uint32_t rank);
uint32_t nx_rankset_nth_out(const nx_rankset *s, uint32_t index);

/* On the ring of all ranks: the first non-member at distance >= |far| after |self|; |self| if
 * one round finds none. */
uint32_t nx_rankset_after_out(const nx_rankset *s, uint32_t self, uint32_t far);

/* The maximum length of an encoded set. */
static inline size_t nx_rankset_encoded_max(uint32_t n)
{
    return 1 + ((size_t)n + 7) / 8;
}
void nx_rankset_encode(nx_writer *w, const nx_rankset *s);
/* Fails |r| for ranks outside |s|, duplicates or wrong order; |s| is empty then. */
void nx_rankset_decode(nx_reader *r, nx_rankset *s);

#endif /* NX_RANKSET_H */
