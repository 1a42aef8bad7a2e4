/* vec.c - growth by doubling. */
#include "vec.h"

#include <stdint.h>

#include "base/alloc.h"

enum { FIRST_ROOM = 8 };

void *nx_vec_grow(void *data, size_t *room, size_t need, size_t size)
{
    size_t want = (*room < FIRST_ROOM) ? FIRST_ROOM : *room;
    void *grown;

    if ((data != NULL) && (need <= *room)) {
        return data;
    }
    while (want < need) {
        if (want > SIZE_MAX / 2) {
            return NULL;
        }
        want *= 2;
    }
    grown = nx_grow(data, want, size);
    if (grown != NULL) {
        *room = want;
    }
    return grown;
}
