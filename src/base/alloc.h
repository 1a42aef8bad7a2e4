/*
 * alloc.h - the only interface to malloc, so that tests can inject failures.
 *
 * No other source in src/ calls malloc, calloc, realloc, strdup or free. Memory that the
 * application frees ("malloc'd for the caller") comes from here too. Every function is thread-safe.
 */
#ifndef NX_ALLOC_H
#define NX_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* |size| zero bytes; NULL if out of memory. Size 0 gives a valid pointer. */
void *nx_zalloc(size_t size);

/* |count| elements of |size|, zeroed; NULL also when the product overflows. */
void *nx_calloc(size_t count, size_t size);

/* Resizes |old| to |count| elements of |size|; the new part is not cleared. NULL on failure or
 * overflow; |old| stays valid then. */
void *nx_grow(void *old, size_t count, size_t size);

/* |size| bytes, not cleared, at a multiple of |align| (a power of two). */
void *nx_alloc_aligned(size_t align, size_t size);

char *nx_strdup(const char *text);

/* Frees the result of any of the above; NULL is allowed. */
void nx_free(void *ptr);

/* Makes the allocation after the next |n| of this thread fail, once; negative: none. For tests. */
void nx_alloc_fail_after(long n);

/* Whether the failure set by nx_alloc_fail_after has happened. */
bool nx_alloc_failed(void);

#endif /* NX_ALLOC_H */
