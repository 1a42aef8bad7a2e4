/*
 * join_queue.h - those who wait at the seed to come into a world that has formed, as
 * its members know them: oldest first, which is by rising id.
 */
#ifndef NX_JOIN_QUEUE_H
#define NX_JOIN_QUEUE_H

#include "view.h"

enum { NX_JOIN_QUEUE_LIST_MAX = 2048 }; /* in one encoded list */

/* Invariant: ids rise; zeroed it is empty. */
typedef struct nx_join_queue {
    nx_member *list;
    uint32_t n, room;
    uint64_t version; /* counts the changes */
} nx_join_queue;

void nx_join_queue_fini(nx_join_queue *waiting);
void nx_join_queue_clear(nx_join_queue *waiting);
/* Puts a copy of |m| in its place, unless it is there.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_join_queue_add(nx_join_queue *waiting, const nx_member *m);
/* Whether it was there. */
bool nx_join_queue_remove(nx_join_queue *waiting, uint64_t id);
/* NULL: it is not there. */
const nx_member *nx_join_queue_find(const nx_join_queue *waiting, uint64_t id);

/* Encodes the first ones, as many as fit into |w|, at most |max| and
 * NX_JOIN_QUEUE_LIST_MAX, and returns how many.  Where not even their number fits, nothing is
 * written.
 */
uint32_t nx_join_queue_encode(const nx_join_queue *waiting, nx_writer *w, uint32_t max);

/* Reads what nx_join_queue_encode has written, and no further; from an empty reader,
 * nobody.  |*joined| is the caller's, given back with nx_free; NULL if there are
 * none.
 *
 * NEXAR_EPROTO
 *     It is cut short or malformed, or the ids do not rise from above 0.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_join_queue_decode(nx_reader *r, nx_member **joined, uint32_t *n);

#endif /* NX_JOIN_QUEUE_H */
