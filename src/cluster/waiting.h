/*
 * waiting.h - those who wait at the seed to come into a world that has formed, as
 * its members know them: oldest first, which is by rising id.
 */
#ifndef NX_WAITING_H
#define NX_WAITING_H

#include "cluster/view.h"

enum { NX_WAITING_LIST_MAX = 2048 }; /* in one encoded list */

/* Invariant: ids rise; zeroed it is empty. */
typedef struct nx_waiting {
    nx_member *list;
    uint32_t n, room;
    uint64_t version; /* counts the changes */
} nx_waiting;

void nx_waiting_fini(nx_waiting *waiting);
void nx_waiting_clear(nx_waiting *waiting);
/* Puts a copy of |m| in its place, unless it is there.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_waiting_add(nx_waiting *waiting, const nx_member *m);
/* Whether it was there. */
bool nx_waiting_remove(nx_waiting *waiting, uint64_t id);
/* NULL: it is not there. */
const nx_member *nx_waiting_find(const nx_waiting *waiting, uint64_t id);

/* Encodes the first ones, as many as fit into |w|, at most |max| and
 * NX_WAITING_LIST_MAX, and returns how many.  Where not even their number fits, nothing is written.
 */
uint32_t nx_waiting_encode(const nx_waiting *waiting, nx_writer *w, uint32_t max);

/* Reads what nx_waiting_encode has written, and no further; from an empty reader,
 * nobody.  |*joined| is the caller's, given back with nx_free; NULL if there are
 * none.
 *
 * NEXAR_EPROTO
 *     It is cut short or malformed, or the ids do not rise from above 0.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_waiting_decode(nx_reader *r, nx_member **joined, uint32_t *n);

#endif /* NX_WAITING_H */
