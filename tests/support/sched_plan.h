/*
 * sched_plan.h - the inside of a plan, for the files of the simulator.
 *
 * Steps of all ranks are numbered through: |base[r] + i| is step i of rank r.
 *
 * Memory is divided into *cells*: the largest pieces of a space inside which no reference of the
 * schedule begins or ends. If a space has no more elements than possible pieces, its cells are
 * single elements. Two references share memory exactly if they share a cell.
 */
#ifndef NXT_SCHED_PLAN_H
#define NXT_SCHED_PLAN_H

#include "sched_sim.h"

#define NXT_NOBODY UINT32_MAX

/* Cells [lo, hi), numbered through over all ranks and spaces. */
typedef struct nxt_range {
    uint32_t lo, hi;
} nxt_range;

typedef struct nxt_touch {
    nxt_range reads[2];
    nxt_range write;
} nxt_touch;

struct nxt_plan {
    nxt_member *members;
    uint32_t size;
    uint32_t total; /* steps */
    uint32_t *base; /* size + 1 */
    uint32_t *rank_of;
    const nx_step **steps;
    uint32_t *partner;        /* of a message, its other end */
    uint32_t *next_at, *next; /* the steps that wait for g: next[next_at[g] .. next_at[g + 1]) */
    nxt_touch *touches;
    uint32_t cells;
    bool *defined;   /* per cell: written before the run */
    size_t *copy_at; /* offset of the copy of a send's block, elements */
    size_t copies;   /* elements */
    size_t longest;  /* message, elements */
};

/* What a step reads and writes; |*reads| entries of |read| are used. */
typedef struct nxt_refs {
    nx_ref read[2], write;
    uint32_t reads;
    bool writes;
} nxt_refs;
nxt_refs nxt_step_refs(const nx_step *step);

static inline bool nxt_is_message(const nx_step *step)
{
    return step->kind <= NX_STEP_RECV_REDUCE;
}

/* The current and the last accesses of a cell. Steps are numbered within the rank, + 1; 0: none. */
typedef struct nxt_cell {
    uint32_t readers;     /* in flight */
    bool written;         /* by a step in flight */
    bool defined;         /* has been written completely, or held input */
    uint32_t last_reader; /* the latest in program order among started steps */
    uint32_t last_writer;
} nxt_cell;

/* Step |g| starts: acquires the cells that it accesses. False: a race, or a read of undefined
 * cells. */
bool nxt_cells_hold(const nxt_plan *p, nxt_cell *cells, uint32_t g, nxt_verdict *v);
/* The step is complete. */
void nxt_cells_release(const nxt_plan *p, nxt_cell *cells, uint32_t g);

/* The checks of single schedules; sched_check.c. */
bool nxt_member_check(const nxt_member *member, uint32_t rank, uint32_t size, nxt_verdict *v);

/* Allocates |count| zeroed elements or ends the test program. */
void *nxt_calloc(size_t count, size_t size);

#endif /* NXT_SCHED_PLAN_H */
