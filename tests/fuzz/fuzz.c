/* fuzz.c - shared by the fuzz targets. */
#include "fuzz.h"

#include <string.h>

const char *nxt_fuzz_text(const uint8_t *data, size_t size, char *buf)
{
    size_t len = (size < NXT_FUZZ_ROOM) ? size : NXT_FUZZ_ROOM - 1;

    if (len > 0) {
        memcpy(buf, data, len);
    }
    buf[len] = '\0';
    return buf;
}
