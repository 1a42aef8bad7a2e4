/*
 * hazard.h - finds the dependencies of a step from the memory it accesses.
 *
 * For every element of the receive and scratch spaces, stores the step that wrote it last and the
 * steps that have read it since. Elements with equal history form one extent. Extents are disjoint
 * and sorted.
 *
 * Invariants
 *  - a reader waits for the last writer;
 *  - a writer waits for every reader since the last write, or, if there was
 *    none, for the last writer (the readers wait for it already);
 *  - the send space is never written, so it has no history.
 */
#ifndef NX_HAZARD_H
#define NX_HAZARD_H

#include "coll/sched.h"

typedef struct nx_hazards nx_hazards;

/* NULL when out of memory. */
nx_hazards *nx_hazards_create(void);
void nx_hazards_destroy(nx_hazards *h);

/*
 * Records that |step|, higher than all before, reads or writes |len| elements at |ref|. Adds its
 * dependencies to the list that nx_hazards_take() returns, never |step| itself.
 *
 * NEXAR_ENOMEM
 *     Out of memory; the tracker can only be destroyed.
 */
NX_MUST_CHECK nexar_err nx_hazards_read(nx_hazards *h, nx_ref ref, size_t len, nx_step_id step);
NX_MUST_CHECK nexar_err nx_hazards_write(nx_hazards *h, nx_ref ref, size_t len, nx_step_id step);

/* Adds |step| to the list explicitly. */
NX_MUST_CHECK nexar_err nx_hazards_add(nx_hazards *h, nx_step_id step);

/* Returns and clears the list: ascending, no duplicates, borrowed until the next call. */
const nx_step_id *nx_hazards_take(nx_hazards *h, uint32_t *n);

#endif /* NX_HAZARD_H */
