/* copy.c - a plain loop for the offsets at which memcpy is slow. */
#include "copy.h"

#include "line_copy.h"

void nx_copy_near(void *to, const void *from, size_t len)
{
    nx_line_copy(to, from, len, false);
}
