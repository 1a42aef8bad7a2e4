/*
 * binding.h - maps the spaces of a schedule to memory.
 *
 * A space is one vector of elements in one or many regions. The tensors of a bucket are the regions
 * of NX_SPACE_RECV, so every algorithm works on them without a gather copy.
 */
#ifndef NX_BINDING_H
#define NX_BINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "coll/sched.h"

typedef struct nx_region {
    char *ptr;
    size_t off; /* elements of the space before this region */
    size_t len; /* elements */
} nx_region;

/* Regions in ascending order without gaps; empty regions may be omitted. Regions and memory are
 * borrowed while the schedule runs. */
typedef struct nx_area {
    const nx_region *regions;
    size_t n;
} nx_area;

typedef struct nx_binding {
    nx_area areas[NX_SPACES];
    size_t elem_size;
} nx_binding;

/* A contiguous part of a reference. */
typedef struct nx_piece {
    char *ptr;
    size_t len; /* elements */
} nx_piece;

/*
 * Walks the pieces of |len| elements at |ref|:
 *
 *     nx_cursor c = nx_cursor_start(binding, ref, len);
 *     while (nx_cursor_next(&c, SIZE_MAX, &piece)) ...
 *
 * Each piece has at most |most| elements (> 0): two references are walked in
 * step by peeking with nx_cursor_room and asking for the smaller one.
 */
typedef struct nx_cursor {
    const nx_region *region;
    size_t off;  /* elements into the region */
    size_t left; /* remaining elements */
    size_t elem_size;
} nx_cursor;

nx_cursor nx_cursor_start(const nx_binding *binding, nx_ref ref, size_t len);
/* Elements of the next piece; 0 at the end. */
size_t nx_cursor_room(nx_cursor *c);
bool nx_cursor_next(nx_cursor *c, size_t most, nx_piece *piece);

/* Copies |len| elements of |area| from |off| on, |size| bytes each, to contiguous memory, and back.
 * Faster than the cursor for short regions. */
void nx_area_read(const nx_area *area, size_t size, size_t off, size_t len, void *to);
void nx_area_write(const nx_area *area, size_t size, size_t off, size_t len, const void *from);

/* Runs one local step (copy, reduce, fill, divide) on the bound memory.
 * |size| is what an average divides by. */
void nx_step_run_local(const nx_step *step, const nx_binding *binding, nexar_dtype dtype,
                       nexar_op op, uint32_t size);

/* Combines |len| elements at |data|, which arrived at element |off| of a
 * receive or receive-reduce step, into the step's target. */
void nx_step_deliver(const nx_step *step, const nx_binding *binding, nexar_dtype dtype, nexar_op op,
                     size_t off, const void *data, size_t len);

#endif /* NX_BINDING_H */
