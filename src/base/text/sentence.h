/*
 * sentence.h - messages of errors and reports, in memory of fixed size.
 *
 * A long message is cut after a whole word and ends in "...": half an address or half a number
 * would mislead.
 */
#ifndef NX_SENTENCE_H
#define NX_SENTENCE_H

#include <stdarg.h>
#include <stddef.h>

/* Formats a message, with its 0, into the |room| bytes at |buf|, at least 8; returns its length. No
 * argument may lie in |buf|. */
size_t nx_sentence(char *buf, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
size_t nx_sentence_v(char *buf, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* How many bytes of |text| fit into |room| bytes together with "..." and a 0: all if they fit
 * without, otherwise whole words. */
size_t nx_sentence_fit(const char *text, size_t room);

#endif /* NX_SENTENCE_H */
