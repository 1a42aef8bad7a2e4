/*
 * alloc.h - the only door to malloc, so that tests can make it fail.
 *
 * Nothing else in src/ calls malloc, calloc, realloc, strdup or free; memory
 * that the contract hands to the application ("malloc'd for the caller") comes
 * from here too.  Every function is safe in any thread.
 */
#ifndef NX_ALLOC_H
#define NX_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* |size| zero bytes; NULL if there are none.  Size 0 gives a valid pointer. */
void *nx_zalloc(size_t size);

/* |count| elements of |size|, zeroed; NULL also when the product overflows. */
void *nx_calloc(size_t count, size_t size);

/* |old| with room for |count| elements of |size|, the new part not cleared;
 * NULL on failure or overflow, and |old| is still valid then. */
void *nx_grow(void *old, size_t count, size_t size);

/* |size| bytes, not cleared, at a multiple of |align| (a power of two). */
void *nx_alloc_aligned(size_t align, size_t size);

char *nx_strdup(const char *text);

/* Gives back what any of the above returned; NULL is allowed. */
void nx_free(void *ptr);

/* Makes the allocation after the next |n| of this thread fail, once; negative:
 * none.  For tests. */
void nx_alloc_fail_after(long n);

/* Whether the failure that nx_alloc_fail_after ordered has happened. */
bool nx_alloc_failed(void);

#endif /* NX_ALLOC_H */
