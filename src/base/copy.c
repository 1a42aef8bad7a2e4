/* copy.c - a plain loop, for what memcpy does slowly. */
#include "base/copy.h"

#include "base/lines.h"

void nx_copy_near(void *to, const void *from, size_t len)
{
    nx_lines_copy(to, from, len, false);
}
