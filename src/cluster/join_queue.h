/*
 * join_queue.h - the joiners that wait at the seed for a formed world, as its members know them:
 * oldest first, that is by rising id.
 */
#ifndef NX_JOIN_QUEUE_H
#define NX_JOIN_QUEUE_H

#include "view.h"

enum { NX_JOIN_QUEUE_LIST_MAX = 2048 }; /* maximum of one encoded list */

/* Invariant: ids rise; all zeros is the empty queue. */
typedef struct nx_join_queue {
    nx_member *list;
    uint32_t n, room;
    uint64_t version; /* incremented by each change */
} nx_join_queue;

void nx_join_queue_fini(nx_join_queue *waiting);
void nx_join_queue_clear(nx_join_queue *waiting);
/* Inserts a copy of |m|, unless it is there.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_join_queue_add(nx_join_queue *waiting, const nx_member *m);
/* Returns whether it was there. */
bool nx_join_queue_remove(nx_join_queue *waiting, uint64_t id);
/* NULL: it is not there. */
const nx_member *nx_join_queue_find(const nx_join_queue *waiting, uint64_t id);

/* Encodes the first ones, as many as fit into |w|, at most |max| and NX_JOIN_QUEUE_LIST_MAX, and
 * returns their number. Writes nothing if not even the number fits. */
uint32_t nx_join_queue_encode(const nx_join_queue *waiting, nx_writer *w, uint32_t max);

/* Decodes exactly what nx_join_queue_encode has written; an empty reader gives no joiner. The
 * caller frees |*joined| with nx_free; NULL if there are none.
 *
 * NEXAR_EPROTO
 *     Truncated or malformed, or the ids do not rise from above 0.
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_join_queue_decode(nx_reader *r, nx_member **joined, uint32_t *n);

#endif /* NX_JOIN_QUEUE_H */
