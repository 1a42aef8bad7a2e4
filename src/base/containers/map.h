/*
 * map.h - a hash map from integers to pointers, open addressing.
 *
 * For keys that this process assigns, such as ids. An attacker who chose the keys could make them
 * collide. Values are borrowed and never NULL. One thread at a time.
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

/* Zero-initialised is empty. Invariants: no slot is free between the home slot of a key and the
 * slot that holds the key; |room| is 0 or a power of two; at least a quarter of the slots are
 * free. */
typedef struct nx_map {
    nx_map_slot *slots;
    size_t n, room;
} nx_map;

/* Frees the map's own memory, not the values. */
void nx_map_fini(nx_map *m);

/*
 * Sets the value of |key| to |value|, replacing any previous value.
 *
 * NEXAR_ENOMEM
 *     Out of memory; the map is unchanged. Cannot happen if |key| is already in the map.
 */
NX_MUST_CHECK nexar_err nx_map_put(nx_map *m, uint64_t key, void *value);

/* The value of |key|; NULL if there is none. */
void *nx_map_get(const nx_map *m, uint64_t key);

/* Returns the value of |key| and removes it; NULL if there is none. */
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
