/* sentence.c - messages that are cut after a word. */
#include "sentence.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char dots[] = "...";
enum { DOTS = sizeof(dots) - 1 };

static bool joins_items(char c)
{
    return (c == ',') || (c == ';') || (c == ':') || (c == ' ');
}

/* The end of the last whole word in the first |len| bytes of a longer text. */
static size_t end_of_words(const char *text, size_t len)
{
    size_t at = len;

    while ((at > 0) && (text[at] != ' ') && (text[at] != ',') && (text[at] != ';')) {
        at--;
    }
    while ((at > 0) && joins_items(text[at - 1])) {
        at--;
    }
    if (at == 0) { /* one word: no character of UTF-8 is cut */
        at = len;
        while ((at > 0) && (((unsigned char)text[at] & 0xc0) == 0x80)) {
            at--;
        }
    }
    return at;
}

size_t nx_sentence_fit(const char *text, size_t room)
{
    const size_t len = strnlen(text, room);

    if (len < room) {
        return len;
    }
    return (room <= DOTS + 1) ? 0 : end_of_words(text, room - 1 - DOTS);
}

size_t nx_sentence_v(char *buf, size_t room, const char *format, va_list args)
{
    const int wanted = vsnprintf(buf, room, format, args);
    size_t len;

    if (wanted < 0) {
        buf[0] = '\0';
        return 0;
    }
    if ((size_t)wanted < room) {
        return (size_t)wanted;
    }
    len = (room <= DOTS + 1) ? 0 : end_of_words(buf, room - 1 - DOTS);
    memcpy(buf + len, dots, sizeof(dots));
    return len + DOTS;
}

size_t nx_sentence(char *buf, size_t room, const char *format, ...)
{
    va_list args;
    size_t len;

    va_start(args, format);
    len = nx_sentence_v(buf, room, format, args);
    va_end(args);
    return len;
}
