/*
 * memory.h - the buffers of all ranks, bound to schedules. Each space is one region or many
 * regions of odd sizes, unaligned, with guards on both sides.
 */
#ifndef NXT_MEMORY_H
#define NXT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/run/binding.h"
#include "rand.h"

typedef struct nxt_memory {
    nx_binding *bindings; /* one per rank */
    nx_region *regions;
    size_t *starts; /* of the regions, in the arena */
    size_t nregions, room;
    char *arena;
    size_t bytes;
    uint32_t size;
} nxt_memory;

/* |rooms[rank]|: elements of each space.  |cut|: in regions of 0 .. |cut|
 * elements; 0: in one. */
void nxt_memory_init(nxt_memory *m, uint32_t size, size_t elem_size,
                     const size_t (*rooms)[NX_SPACES], size_t cut, nxt_rand *rand);
void nxt_memory_fini(nxt_memory *m);

/* Copies a whole space in or out. */
void nxt_memory_write(nxt_memory *m, uint32_t rank, nx_space space, const char *from);
void nxt_memory_read(const nxt_memory *m, uint32_t rank, nx_space space, char *to);
/* Sets every byte of a space. */
void nxt_memory_poison(nxt_memory *m, uint32_t rank, nx_space space, unsigned char byte);

/* Whether all guards are intact. */
bool nxt_memory_guarded(const nxt_memory *m);

#endif /* NXT_MEMORY_H */
