/* nontemporal_copy.c - stores that go past the caches, where the processor has them. */
#include "nontemporal_copy.h"

#include "copy.h"
#include "line_copy.h"

enum { LEAST = 4096 }; /* of a piece: the ends of it are copied otherwise */

void nx_nontemporal_piece(void *to, const void *from, size_t len)
{
    if (len < LEAST) {
        nx_memcpy(to, from, len);
    } else {
        nx_line_copy(to, from, len, true);
    }
}

void nx_nontemporal_copy(void *to, const void *from, size_t len)
{
    if (len < NX_STREAM_MIN) {
        nx_memcpy(to, from, len);
    } else {
        nx_line_copy(to, from, len, true);
    }
}
