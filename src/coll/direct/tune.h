/*
 * tune.h - whether long calls are brought on the board or read, by what both took.
 *
 * Where two cores share a cache the board is the faster way for most; where they do not, what
 * one has just written comes to the other slowly, and reading is (docs/internals/shared-memory.md).
 * A hypervisor may move its cores every few seconds, so both ways are measured all along
 * (base/ways.h), for each kind of call and length.
 *
 * All ranks must choose alike.  Each says on the board, with its next operation, how long the
 * last one took it; all see the same figures, of which the longest counts, and have begun
 * the same operations before: so all come to the same choice, and nobody asks another.  An
 * operation that nobody completes on the board is not counted (nx_tune_undo).  Should they
 * differ all the same, the call is brought, after one more wait (nx_way: either).
 */
#ifndef NX_TUNE_H
#define NX_TUNE_H

#include <stddef.h>

#include "base/ways.h"
#include "coll/call.h"

enum { NX_TUNE_SLOTS, NX_TUNE_READS };
enum {
    NX_TUNE_LENGTHS = 4,
    NX_TUNE_CELLS = (NX_EXSCAN + 1) * NX_TUNE_LENGTHS,
    NX_TUNE_LONGEST = (1 << 30) - 1 /* ns that can be said */
};

typedef struct nx_tune {
    nx_ways ways[NX_TUNE_CELLS];
    nx_ways before; /* of the call that was begun, as it was */
    int cell;       /* of that; -1: it is not measured */
    size_t bytes;

    /* The last one that was measured, until all have said how long it took. */
    int last;          /* -1: none */
    unsigned last_way; /* by which it went */
    size_t last_bytes;
    uint32_t took_ns; /* this rank */

    struct {
        const void *at;
        size_t len;
    } known[2]; /* buffers that can be read */
} nx_tune;

void nx_tune_init(nx_tune *t);

/* A call of |size| ranks begins: which way it is to go.  Not to be asked for one that has no
 * choice. */
unsigned nx_tune_begin(nx_tune *t, const nx_coll_call *call, uint32_t size);
/* Nobody completes it here. */
void nx_tune_undo(nx_tune *t);
/* It has gone by |way| and has taken |ns| here. */
void nx_tune_end(nx_tune *t, unsigned way, uint64_t ns);
/* What this rank has to say with the next operation; 0: nothing. */
uint32_t nx_tune_says(const nx_tune *t);
/* In that one: the longest that any has said; 0: not all have. */
void nx_tune_hear(nx_tune *t, uint32_t longest_ns);

/* Whether others can read |len| bytes at |at|: not so of memory of devices.  Asks the kernel,
 * if it is not what it was asked the last time for |which|, 0 or 1. */
bool nx_tune_readable(nx_tune *t, int which, const void *at, size_t len);

#endif /* NX_TUNE_H */
