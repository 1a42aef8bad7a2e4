/*
 * text.h - parses and prints numbers with units, cleans foreign text, and builds text in a growing
 * buffer.
 */
#ifndef NX_TEXT_H
#define NX_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

/* Converts ASCII letters only, in every locale. */
static inline char nx_lower(char c)
{
    if ((c >= 'A') && (c <= 'Z')) {
        c = (char)(c - 'A' + 'a');
    }
    return c;
}

static inline char nx_upper(char c)
{
    if ((c >= 'a') && (c <= 'z')) {
        c = (char)(c - 'a' + 'A');
    }
    return c;
}

static inline bool nx_is_digit(char c)
{
    return (c >= '0') && (c <= '9');
}

/*
 * Each function parses the whole of |text| into |*out| and returns true. It returns false and
 * leaves |*out| unchanged on an empty text, an unknown unit, a sign, trailing characters or
 * overflow. Spaces are not accepted; the locale has no effect. Fractions of a nanosecond or of a
 * bit per second are dropped.
 */

/* "512", "64k", "8m", "2g", "1t": bytes. Units are powers of 1024, in either case, with an
 * optional "b" or "ib" after the unit. */
bool nx_parse_size(const char *text, uint64_t *out);

/* "250ms", "5s", "20us", "1.5s", "2m", "1h": nanoseconds. "0" needs no unit; every other number
 * does. */
bool nx_parse_duration(const char *text, uint64_t *out_ns);

/* "10g", "2.5g", "100m": bits per second. Units are powers of 1000, in either case, with an
 * optional "bit" after the unit. */
bool nx_parse_rate(const char *text, uint64_t *out_bits);

/* An integer in [0, UINT64_MAX]. */
bool nx_parse_uint(const char *text, uint64_t *out);

enum { NX_NUMBER_ROOM = 32 }; /* the most that the functions below need */

/* The shortest exact form that the matching parser accepts, without a fraction: 65536 -> "64k",
 * 1500000 ns -> "1500us". |buf| has NX_NUMBER_ROOM bytes; returns |buf|. */
const char *nx_format_size(uint64_t bytes, char *buf);
const char *nx_format_duration(uint64_t ns, char *buf);
const char *nx_format_rate(uint64_t bits, char *buf);
const char *nx_format_uint(uint64_t value, char *buf);

/* The kinds of numbers as a table, for tables of settings and options. */
typedef enum nx_number_kind {
    NX_NUMBER_UINT,
    NX_NUMBER_SIZE,
    NX_NUMBER_DURATION,
    NX_NUMBER_RATE,
    NX_NUMBER_KINDS
} nx_number_kind;

typedef struct nx_number {
    bool (*parse)(const char *text, uint64_t *out);
    const char *(*format)(uint64_t value, char *buf);
    const char *accepted; /* "a size such as 64k, 8m or 1g" */
} nx_number;

extern const nx_number nx_numbers[NX_NUMBER_KINDS];

/*
 * Makes foreign text fit for one line of a log, an error or a terminal: it must not end the line,
 * begin another, or send control sequences. Replaces each offending byte of the |len| bytes at
 * |text| by '?'.
 *
 * nx_clean_text keeps UTF-8 and replaces control characters (C0, DEL, C1), line breaks and
 * direction marks (U+2028 to U+202E, U+2066 to U+2069), and invalid UTF-8. nx_clean_ascii keeps
 * 0x20 to 0x7e: for text of unauthenticated peers.
 *
 * A join string may have been passed in a wrong place and be repeated in an error. Both functions
 * replace each byte of what looks like its token by '*': 16 bytes or more from "nexar://" up to '@'
 * or a byte that no token has.
 */
void nx_clean_text(char *text, size_t len);
void nx_clean_ascii(char *text, size_t len);

/* A growing text. Zero-initialised is empty. The first error sticks: nothing is added then, and
 * nx_text_str returns NULL. */
typedef struct nx_text {
    char *data;
    size_t len, room;
    bool failed;
} nx_text;

void nx_text_addf(nx_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text so far, 0-terminated, valid until the next change; NULL after out
 * of memory. */
const char *nx_text_str(nx_text *t);
void nx_text_fini(nx_text *t);

#endif /* NX_TEXT_H */
