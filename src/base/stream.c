/* stream.c - stores that go past the caches, where the processor has them. */
#include "base/stream.h"

#include "base/copy.h"
#include "base/lines.h"

enum { LEAST = 4096 }; /* of a piece: the ends of it are copied otherwise */

void nx_stream_piece(void *to, const void *from, size_t len)
{
    if (len < LEAST) {
        nx_memcpy(to, from, len);
    } else {
        nx_lines_copy(to, from, len, true);
    }
}

void nx_stream_copy(void *to, const void *from, size_t len)
{
    if (len < NX_STREAM_MIN) {
        nx_memcpy(to, from, len);
    } else {
        nx_lines_copy(to, from, len, true);
    }
}
