/* copy.c - a plain loop, for what memcpy does slowly. */
#include "copy.h"

#include "line_copy.h"

void nx_copy_near(void *to, const void *from, size_t len)
{
    nx_line_copy(to, from, len, false);
}
