/*
 * line_copy.h - copies whole cache lines, for copy.c and nontemporal_copy.c; memcpy copies the
 * partial first and last line.
 */
#ifndef NX_LINE_COPY_H
#define NX_LINE_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

enum { NX_LINE = 64 };

static inline void nx_line_store(uint8_t *to, __m128i value, bool past)
{
    if (past) {
        _mm_stream_si128((__m128i *)(void *)to, value);
    } else {
        _mm_store_si128((__m128i *)(void *)to, value);
    }
}

/* |len| is at least NX_LINE; |past|: non-temporal stores, ordered before later stores. */
static inline void nx_line_copy(void *to, const void *from, size_t len, bool past)
{
    const size_t head = (NX_LINE - (uintptr_t)to % NX_LINE) % NX_LINE;
    const size_t end = head + (len - head) / NX_LINE * NX_LINE;
    const uint8_t *in = from;
    uint8_t *out = to;

    memcpy(out, in, head);
    for (size_t at = head; at < end; at += NX_LINE) {
        const __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(in + at));
        const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(in + at + 16));
        const __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(in + at + 32));
        const __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(in + at + 48));

        nx_line_store(out + at, a, past);
        nx_line_store(out + at + 16, b, past);
        nx_line_store(out + at + 32, c, past);
        nx_line_store(out + at + 48, d, past);
    }
    if (past) {
        _mm_sfence();
    }
    memcpy(out + end, in + end, len - end);
}
#else
static inline void nx_line_copy(void *to, const void *from, size_t len, bool past)
{
    (void)past;
    memcpy(to, from, len);
}
#endif

#endif /* NX_LINE_COPY_H */
