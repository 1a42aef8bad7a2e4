/*
 * heap.h - an intrusive binary heap: the smallest key in O(1), removal of any item in O(log n).
 * Made for timers.
 *
 * Items are the caller's, inside a larger struct, and must not move while they are in the heap.
 * Equal keys leave in order of insertion. One thread at a time.
 */
#ifndef NX_HEAP_H
#define NX_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct nx_heap_item {
    uint64_t key;
    uint64_t order; /* private: insertion order */
    size_t place;   /* private: index + 1; 0: in no heap */
} nx_heap_item;

/* Zero-initialised is empty.
 * Invariant: items[i] is not after its children items[2 i + 1] and [2 i + 2]. */
typedef struct nx_heap {
    nx_heap_item **items;
    size_t n, room;
    uint64_t pushed;
} nx_heap;

/* Frees the heap's own memory; remaining items are unchanged. */
void nx_heap_fini(nx_heap *h);

/*
 * Adds |item|, which is zero-initialised or was removed, with |key|.
 *
 * NEXAR_ENOMEM
 *     Out of memory; |item| is in no heap.
 */
NX_MUST_CHECK nexar_err nx_heap_push(nx_heap *h, nx_heap_item *item, uint64_t key);

/* The item with the smallest key; NULL if there is none. */
nx_heap_item *nx_heap_top(const nx_heap *h);

/* Removes |item|; does nothing if it is in no heap. */
void nx_heap_remove(nx_heap *h, nx_heap_item *item);

/* Changes the key of |item|, which is in |h|. Among equal keys |item| becomes the last. */
void nx_heap_move(nx_heap *h, nx_heap_item *item, uint64_t key);

static inline bool nx_heap_holds(const nx_heap_item *item)
{
    return item->place != 0;
}

#endif /* NX_HEAP_H */
