/* stream.c - stores that go past the caches, where the processor has them. */
#include "base/stream.h"

#include "base/copy.h"

enum { LEAST = 4096 }; /* of a piece: the ends of it are copied otherwise */

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

        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    _mm_sfence(); /* they are not ordered with other stores otherwise */
}

static void copy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    const size_t head = (LINE - (uintptr_t)to % LINE) % LINE;
    const size_t lines = (len - head) / LINE, done = head + lines * LINE;

    memcpy(to, from, head);
    copy_lines(to + head, from + head, lines);
    memcpy(to + done, from + done, len - done);
}
#else
static void copy_long(uint8_t *to, const uint8_t *from, size_t len)
{
    memcpy(to, from, len);
}
#endif

void nx_stream_piece(void *to, const void *from, size_t len)
{
    if (len < LEAST) {
        nx_memcpy(to, from, len);
    } else {
        copy_long(to, from, len);
    }
}

void nx_stream_copy(void *to, const void *from, size_t len)
{
    if (len < NX_STREAM_MIN) {
        nx_memcpy(to, from, len);
    } else {
        copy_long(to, from, len);
    }
}
