/*
 * vec.h - the growth rule of all dynamic arrays.
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
 * Resizes |data| (NULL at first) to room for at least |need| elements of |size| bytes. |*room| is
 * the capacity in elements, before and after. The capacity doubles, so adding n elements one by
 * one copies fewer than 2 n. New elements are not cleared. NULL if there is no memory or the size
 * overflows; |data| and |*room| are then unchanged. The caller frees the array with nx_free().
 */
void *nx_vec_grow(void *data, size_t *room, size_t need, size_t size);

#endif /* NX_VEC_H */
