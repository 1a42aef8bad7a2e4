/*
 * path_choice.h - whether long calls are brought on the board or read, by what both took.
 *
 * Where two cores share a cache the board is the faster way for most; where they do not, what
 * one has just written comes to the other slowly, and reading is (docs/internals/shared-memory.md).
 * A hypervisor may move its cores every few seconds, so both ways are measured all along
 * (base/adaptive_choice.h), for each kind of call and length.
 *
 * All ranks must choose alike.  Each says on the board, with its next operation, how long the
 * last one took it; all see the same figures, of which the longest counts, and have begun
 * the same operations before: so all come to the same choice, and nobody asks another.  An
 * operation that nobody completes on the board is not counted (nx_path_choice_undo).  Should they
 * differ all the same, the call is brought, after one more wait (nx_method: either).
 */
#ifndef NX_PATH_CHOICE_H
#define NX_PATH_CHOICE_H

#include <stddef.h>

#include "base/adaptive_choice.h"
#include "coll/coll_call.h"

enum { NX_PATH_CHOICE_SLOTS, NX_PATH_CHOICE_READS };
enum {
    NX_PATH_CHOICE_LENGTHS = 4,
    NX_PATH_CHOICE_CELLS = (NX_EXSCAN + 1) * NX_PATH_CHOICE_LENGTHS,
    NX_PATH_CHOICE_LONGEST = (1 << 30) - 1 /* ns that can be said */
};

typedef struct nx_path_choice {
    nx_adaptive ways[NX_PATH_CHOICE_CELLS];
    nx_adaptive before; /* of the call that was begun, as it was */
    int cell;           /* of that; -1: it is not measured */
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
} nx_path_choice;

void nx_path_choice_init(nx_path_choice *t);

/* A call of |size| ranks begins: which way it is to go.  Not to be asked for one that has no
 * choice. */
unsigned nx_path_choice_begin(nx_path_choice *t, const nx_coll_call *call, uint32_t size);
/* Nobody completes it here. */
void nx_path_choice_undo(nx_path_choice *t);
/* It has gone by |way| and has taken |ns| here. */
void nx_path_choice_end(nx_path_choice *t, unsigned way, uint64_t ns);
/* What this rank has to say with the next operation; 0: nothing. */
uint32_t nx_path_choice_says(const nx_path_choice *t);
/* In that one: the longest that any has said; 0: not all have. */
void nx_path_choice_hear(nx_path_choice *t, uint32_t longest_ns);

/* Whether others can read |len| bytes at |at|: not so of memory of devices.  Asks the kernel,
 * if it is not what it was asked the last time for |which|, 0 or 1. */
bool nx_path_choice_readable(nx_path_choice *t, int which, const void *at, size_t len);

#endif /* NX_PATH_CHOICE_H */
