/*
 * parallel.h - independent pieces of one computation, shared among threads that exist for its
 * duration only.
 */
#ifndef NX_PARALLEL_H
#define NX_PARALLEL_H

#include <stddef.h>

/* Does piece |index|; several threads call it at once. */
typedef void (*nx_parallel_fn)(void *ctx, size_t index);

/* Calls |fn| for each index below |n| on at most |threads| threads, the caller's included, and
 * returns when all calls have returned. If a thread cannot be started, the others do its work. */
void nx_parallel(size_t n, unsigned threads, nx_parallel_fn fn, void *ctx);

/* The CPUs that the calling thread may use; at least 1. */
unsigned nx_parallel_cpus(void);

#endif /* NX_PARALLEL_H */
