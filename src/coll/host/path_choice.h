/*
 * path_choice.h - whether long calls copy to the board or read, by measured times.
 *
 * If two cores share a cache the board is usually faster. If they do not, freshly written data
 * moves slowly between them, and reading is faster (docs/internals/shared-memory.md). A hypervisor
 * may move its cores every few seconds, so both methods are sampled continuously
 * (base/adaptive_choice.h), for each kind of call and length.
 *
 * All ranks must choose alike.  Each publishes with its next operation how long the last one took
 * it. All see the same times, of which the longest counts, and have begun the same operations
 * before, so all make the same choice without further messages.  An operation that no rank
 * completes on the board is not counted (nx_path_choice_undo).  If they differ all the same, the
 * call is copied, after one more wait (nx_method: either).
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
    NX_PATH_CHOICE_LONGEST = (1 << 30) - 1 /* largest time that can be published */
};

typedef struct nx_path_choice {
    nx_adaptive ways[NX_PATH_CHOICE_CELLS];
    nx_adaptive before; /* of the call that was begun, as it was */
    int cell;           /* of that; -1: it is not measured */
    size_t bytes;

    /* The last measured operation, until all ranks have published its duration. */
    int last;          /* -1: none */
    unsigned last_way; /* the path that it used */
    size_t last_bytes;
    uint32_t took_ns; /* this rank */

    struct {
        const void *at;
        size_t len;
    } known[2]; /* buffers that can be read */
} nx_path_choice;

void nx_path_choice_init(nx_path_choice *t);

/* A call of |size| ranks begins: the method to use.  Not for calls without a choice. */
unsigned nx_path_choice_begin(nx_path_choice *t, const nx_coll_call *call, uint32_t size);
/* No rank completes it here. */
void nx_path_choice_undo(nx_path_choice *t);
/* It has used |way| and has taken |ns| here. */
void nx_path_choice_end(nx_path_choice *t, unsigned way, uint64_t ns);
/* The time that this rank publishes with the next operation; 0: none. */
uint32_t nx_path_choice_time(const nx_path_choice *t);
/* During that operation: the longest published time; 0: some ranks have not published. */
void nx_path_choice_record(nx_path_choice *t, uint32_t longest_ns);

/* Whether other ranks can read |len| bytes at |at|: false for device memory. Asks the kernel unless
 * it is the memory of the last call for |which|, 0 or 1. */
bool nx_path_choice_readable(nx_path_choice *t, int which, const void *at, size_t len);

#endif /* NX_PATH_CHOICE_H */
