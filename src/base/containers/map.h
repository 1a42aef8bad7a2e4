/*
 * map.h - a hash map from numbers to pointers, open addressing.
 *
 * For keys that this process makes: ids, not what a stranger may choose to make
 * them collide.  Values are borrowed and never NULL.  One thread at a time.
 */
#ifndef NX_MAP_H
#define NX_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_map_slot {
    uint64_t key;
    void *value; /* NULL: free */
} nx_map_slot;

/* Zero-initialised is empty.
 * Invariant: between the slot where a key would like to be and the one where
 * it is, no slot is free; |room| is 0 or a power of two, at least a quarter of
 * it free. */
typedef struct nx_map {
    nx_map_slot *slots;
    size_t n, room;
} nx_map;

/* Frees the map's own memory, not the values. */
void nx_map_fini(nx_map *m);

/*
 * Makes |value| the value of |key|, in place of the one before.
 *
 * NEXAR_ENOMEM
 *     Out of memory; the map is as it was.  Never when |key| is there already.
 */
NX_MUST_CHECK nexar_err nx_map_put(nx_map *m, uint64_t key, void *value);

/* The value of |key|; NULL if there is none. */
void *nx_map_get(const nx_map *m, uint64_t key);

/* The same, and takes it out. */
void *nx_map_take(nx_map *m, uint64_t key);

/*
 * Iterates over all values in no particular order.  The map must not change meanwhile, except that
 * the value returned last may be removed if |at| is then decremented (others may be returned
 * twice):
 *
 *     size_t at = 0;
 *     while ((value = nx_map_next(&map, &at)) != NULL) ...
 */
void *nx_map_next(const nx_map *m, size_t *at);

#endif /* NX_MAP_H */
