/* copy.c - a plain loop, for what memcpy does slowly. */
#include "base/copy.h"

#if defined(__SSE2__)
#include <emmintrin.h>

enum { LINE = 64 };

/* Whole lines; |to| is aligned to one. */
static void copy_lines(uint8_t *to, const uint8_t *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += LINE, from += LINE) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));

        _mm_store_si128((__m128i *)(void *)to, a);
        _mm_store_si128((__m128i *)(void *)(to + 16), b);
        _mm_store_si128((__m128i *)(void *)(to + 32), c);
        _mm_store_si128((__m128i *)(void *)(to + 48), d);
    }
}

void nx_copy_near(void *to, const void *from, size_t len)
{
    const size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    const size_t lines = (len - head) / LINE, done = head + lines * LINE;

    memcpy(to, from, head);
    copy_lines((uint8_t *)to + head, (const uint8_t *)from + head, lines);
    memcpy((uint8_t *)to + done, (const uint8_t *)from + done, len - done);
}
#else
void nx_copy_near(void *to, const void *from, size_t len)
{
    memcpy(to, from, len);
}
#endif
