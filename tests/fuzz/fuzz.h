/* fuzz.h - shared by the fuzz targets. */
#ifndef NXT_FUZZ_H
#define NXT_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The entry point, by libFuzzer's name and type.  With clang and the preset
 * fuzz, libFuzzer calls it; in other builds replay.c does, with the corpus. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A property that must hold; the fuzzer reports and keeps inputs that violate it. */
static inline void nxt_must(int holds)
{
    if (!holds) {
        abort();
    }
}

enum { NXT_FUZZ_ROOM = 4096 };

/* |data| as a text of less than NXT_FUZZ_ROOM bytes in |buf|; returns |buf|. */
const char *nxt_fuzz_text(const uint8_t *data, size_t size, char *buf);

#endif /* NXT_FUZZ_H */
