/*
 * vec.h - an array that grows: one rule for all.
 *
 *     item *grown = nx_vec_grow(v->items, &v->room, v->n + 1, sizeof(*v->items));
 *
 *     if (grown == NULL) {
 *         return nx_fail_nomem("items");
 *     }
 *     v->items = grown;
 *     v->items[v->n++] = x;
 */
#ifndef NX_VEC_H
#define NX_VEC_H

#include <stddef.h>

/*
 * |data| (NULL at first) with room for at least |need| elements of |size|
 * bytes; |*room| is how many there is room for, before and after.  Room doubles,
 * so adding n elements one by one copies fewer than 2 n.  What is new is not
 * cleared.  NULL when there is no memory or the size overflows: |data| and
 * |*room| are as they were then.  Given back with nx_free().
 */
void *nx_vec_grow(void *data, size_t *room, size_t need, size_t size);

#endif /* NX_VEC_H */
