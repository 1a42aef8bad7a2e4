/*
 * sentence.h - sentences of errors and reports, in memory of a fixed size.
 *
 * What does not fit is cut behind a whole word, and "..." says so: half an address or half a
 * number is worse than none.
 */
#ifndef NX_SENTENCE_H
#define NX_SENTENCE_H

#include <stdarg.h>
#include <stddef.h>

/* Writes a sentence, with its 0, into the |room| bytes at |buf|, at least 8; returns its length.
 * An argument may be no part of |buf|. */
size_t nx_sentence(char *buf, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t nx_sentence_v(char *buf, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* How many bytes of |text| go into |room| bytes together with "..." and a 0: all of them if they
 * fit without, else the whole words. */
size_t nx_sentence_fit(const char *text, size_t room);

#endif /* NX_SENTENCE_H */
