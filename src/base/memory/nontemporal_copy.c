/* nontemporal_copy.c - non-temporal stores, where the processor has them. */
#include "nontemporal_copy.h"

#include "copy.h"
#include "line_copy.h"

enum { LEAST = 4096 }; /* bytes of a piece; memcpy copies its partial lines */

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
