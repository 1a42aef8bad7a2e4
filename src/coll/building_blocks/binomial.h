/*
 * binomial.h - the shape of a binomial tree.
 *
 * Positions are ranks counted from the root. Position p has a subtree [p, end): the positions that
 * differ from it only below its lowest set bit. Its children are p + 1, p + 2, p + 4, ...; its
 * parent lacks its lowest set bit.
 */
#ifndef NX_BINOMIAL_H
#define NX_BINOMIAL_H

#include <stdbool.h>
#include <stdint.h>

typedef struct nx_binomial {
    uint32_t place, size, root;
    uint64_t span; /* lowest set bit of place; for the root a power of two >= size */
} nx_binomial;

static inline nx_binomial nx_binomial_make(uint32_t rank, uint32_t size, uint32_t root)
{
    nx_binomial t = {.place = (rank + size - root) % size, .size = size, .root = root, .span = 1};

    while ((t.span < size) && ((t.place & t.span) == 0)) {
        t.span *= 2;
    }
    return t;
}

static inline uint32_t nx_binomial_rank(const nx_binomial *t, uint64_t place)
{
    return (uint32_t)((place + t->root) % t->size);
}

/* The rank of the parent; not for the root. */
static inline uint32_t nx_binomial_parent(const nx_binomial *t)
{
    return nx_binomial_rank(t, t->place - t->span);
}

/* The end of the subtree of |place|, which has |span| positions if it is complete. */
static inline uint32_t nx_binomial_end(const nx_binomial *t, uint64_t place, uint64_t span)
{
    return (uint32_t)((place + span < t->size) ? place + span : t->size);
}

/* Whether there is a child at distance |far|, which is 1, 2, 4 .. span / 2. */
static inline bool nx_binomial_child(const nx_binomial *t, uint64_t far)
{
    return t->place + far < t->size;
}

#endif /* NX_BINOMIAL_H */
