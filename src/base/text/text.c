/* text.c - numbers with units, cleaning of foreign text, and a growing text. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/containers/vec.h"

/* A unit and its value. If one spelling is a prefix of another, the list has the longer one
 * first. */
typedef struct unit {
    const char *name;
    uint64_t scale;
} unit;

static const unit size_units[] = {
    {"t", UINT64_C(1) << 40},
    {"g", UINT64_C(1) << 30},
    {"m", UINT64_C(1) << 20},
    {"k", UINT64_C(1) << 10},
    {"", 1},
};

static const unit duration_units[] = {
    {"h", UINT64_C(3600000000000)}, {"m", UINT64_C(60000000000)}, {"s", UINT64_C(1000000000)},
    {"ms", UINT64_C(1000000)},      {"us", UINT64_C(1000)},       {"ns", 1},
};

static const unit rate_units[] = {
    {"t", UINT64_C(1000000000000)},
    {"g", UINT64_C(1000000000)},
    {"m", UINT64_C(1000000)},
    {"k", UINT64_C(1000)},
    {"", 1},
};

enum {
    SIZE_UNITS = sizeof(size_units) / sizeof(size_units[0]),
    DURATION_UNITS = sizeof(duration_units) / sizeof(duration_units[0]),
    RATE_UNITS = sizeof(rate_units) / sizeof(rate_units[0])
};

/* Reads the digits at |*at| and moves |*at| behind them. False without a digit and on overflow. */
static bool read_digits(const char **at, uint64_t *out)
{
    const char *p = *at;
    uint64_t value = 0;

    if (!nx_is_digit(*p)) {
        return false;
    }
    for (; nx_is_digit(*p); p++) {
        uint64_t digit = (uint64_t)(*p - '0');

        if (value > (UINT64_MAX - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *at = p;
    *out = value;
    return true;
}

/* A parsed number, before its unit is evaluated. */
typedef struct amount {
    uint64_t whole;
    const char *fraction; /* its digits, |nfraction| of them */
    size_t nfraction;
    const char *suffix;
} amount;

static bool read_amount(const char *text, amount *out)
{
    const char *p = text;

    out->nfraction = 0;
    if (!read_digits(&p, &out->whole)) {
        return false;
    }
    if (*p == '.') {
        p++;
        out->fraction = p;
        while (nx_is_digit(*p)) {
            p++;
        }
        out->nfraction = (size_t)(p - out->fraction);
        if (out->nfraction == 0) {
            return false;
        }
    }
    out->suffix = p;
    return true;
}

static bool amount_times(const amount *a, uint64_t scale, uint64_t *out)
{
    uint64_t part = 0;

    if (a->whole > UINT64_MAX / scale) {
        return false;
    }
    /* Starts at the last digit: rounding down at each digit then rounds the total down, and no
     * number of digits overflows. */
    for (size_t i = a->nfraction; i > 0; i--) {
        part = (part + (uint64_t)(a->fraction[i - 1] - '0') * scale) / 10;
    }
    if (a->whole * scale > UINT64_MAX - part) {
        return false;
    }
    *out = a->whole * scale + part;
    return true;
}

/* The value of the unit |suffix|. One of |tails|, which ends in NULL, may follow a unit that has
 * a name. 0: |suffix| is no unit. */
static uint64_t unit_scale(const char *suffix, const unit *units, size_t n,
                           const char *const *tails)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(units[i].name);

        if (strncasecmp(suffix, units[i].name, len) != 0) {
            continue;
        }
        if (suffix[len] == '\0') {
            return units[i].scale;
        }
        for (const char *const *tail = tails; (len > 0) && (*tail != NULL); tail++) {
            if (strcasecmp(suffix + len, *tail) == 0) {
                return units[i].scale;
            }
        }
    }
    return 0;
}

bool nx_parse_uint(const char *text, uint64_t *out)
{
    const char *p = text;
    uint64_t value;

    if (!read_digits(&p, &value) || (*p != '\0')) {
        return false;
    }
    *out = value;
    return true;
}

bool nx_parse_size(const char *text, uint64_t *out)
{
    static const char *const tails[] = {"b", "ib", NULL};
    amount a;
    uint64_t scale;

    if (!read_amount(text, &a) || (a.nfraction > 0)) {
        return false;
    }
    scale = unit_scale(a.suffix, size_units, SIZE_UNITS, tails);
    return (scale != 0) && amount_times(&a, scale, out);
}

bool nx_parse_duration(const char *text, uint64_t *out_ns)
{
    amount a;

    if (!read_amount(text, &a)) {
        return false;
    }
    if ((a.whole == 0) && (a.nfraction == 0) && (*a.suffix == '\0')) {
        *out_ns = 0;
        return true;
    }
    for (size_t i = 0; i < DURATION_UNITS; i++) {
        if (strcmp(a.suffix, duration_units[i].name) == 0) {
            return amount_times(&a, duration_units[i].scale, out_ns);
        }
    }
    return false;
}

bool nx_parse_rate(const char *text, uint64_t *out_bits)
{
    static const char *const tails[] = {"bit", NULL};
    amount a;
    uint64_t scale;

    if (!read_amount(text, &a)) {
        return false;
    }
    scale = unit_scale(a.suffix, rate_units, RATE_UNITS, tails);
    return (scale != 0) && amount_times(&a, scale, out_bits);
}

/* Formats |value| in the largest unit that divides it. */
static const char *format_amount(uint64_t value, const unit *units, size_t n, char *buf)
{
    size_t i = 0;

    if (value == 0) {
        return memcpy(buf, "0", 2);
    }
    while ((i + 1 < n) && (value % units[i].scale != 0)) {
        i++;
    }
    (void)snprintf(buf, NX_NUMBER_ROOM, "%llu%s", (unsigned long long)(value / units[i].scale),
                   units[i].name);
    return buf;
}

const char *nx_format_size(uint64_t bytes, char *buf)
{
    return format_amount(bytes, size_units, SIZE_UNITS, buf);
}

const char *nx_format_duration(uint64_t ns, char *buf)
{
    return format_amount(ns, duration_units, DURATION_UNITS, buf);
}

const char *nx_format_rate(uint64_t bits, char *buf)
{
    return format_amount(bits, rate_units, RATE_UNITS, buf);
}

const char *nx_format_uint(uint64_t value, char *buf)
{
    (void)snprintf(buf, NX_NUMBER_ROOM, "%llu", (unsigned long long)value);
    return buf;
}

const nx_number nx_numbers[NX_NUMBER_KINDS] = {
    [NX_NUMBER_UINT] = {nx_parse_uint, nx_format_uint, "a whole number"},
    [NX_NUMBER_SIZE] = {nx_parse_size, nx_format_size, "a size such as 64k, 8m or 1g"},
    [NX_NUMBER_DURATION] = {nx_parse_duration, nx_format_duration,
                            "a duration such as 20us, 5ms or 1.5s"},
    [NX_NUMBER_RATE] = {nx_parse_rate, nx_format_rate, "bits per second such as 100m or 10g"},
};

/* ---- foreign text -------------------------------------------------------------------- */

/* The length in bytes of the UTF-8 character at |p|, and the character (RFC 3629); 0: invalid. */
static size_t read_char(const uint8_t *p, size_t left, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t n = (p[0] < 0x80)           ? 1
                     : ((p[0] >> 5) == 0x06) ? 2
                     : ((p[0] >> 4) == 0x0e) ? 3
                     : ((p[0] >> 3) == 0x1e) ? 4
                                             : 0;
    uint32_t c = (n == 1) ? p[0] : (p[0] & (0x7fU >> n));

    if ((n == 0) || (n > left)) {
        return 0;
    }
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
        c = (c << 6) | (p[i] & 0x3f);
    }
    if ((c < least[n]) || (c > 0x10ffff) || ((c >= 0xd800) && (c <= 0xdfff))) {
        return 0;
    }
    *out = c;
    return n;
}

static bool is_harmless(uint32_t c)
{
    return (c >= 0x20) && ((c < 0x7f) || (c > 0x9f)) && ((c < 0x2028) || (c > 0x202e)) &&
           ((c < 0x2066) || (c > 0x2069));
}

static bool ends_token(char c)
{
    return (c <= 0x20) || (c == '@') || (c == '"') || (c == '\'') || (c == ',') || (c == 0x7f);
}

static void hide_tokens(char *text, size_t len)
{
    static const char scheme[] = "nexar://";
    enum { SCHEME = sizeof(scheme) - 1, TOKEN_LEAST = 16 };
    char *at = text;

    while ((at = memmem(at, len - (size_t)(at - text), scheme, SCHEME)) != NULL) {
        size_t n = 0, left;

        at += SCHEME;
        left = len - (size_t)(at - text);
        while ((n < left) && !ends_token(at[n])) {
            n++;
        }
        if (n >= TOKEN_LEAST) {
            memset(at, '*', n);
        }
        at += n;
    }
}

void nx_clean_text(char *text, size_t len)
{
    size_t i = 0;

    while (i < len) {
        uint32_t c = 0;
        size_t n = read_char((const uint8_t *)text + i, len - i, &c);

        if ((n == 0) || !is_harmless(c)) {
            n = (n == 0) ? 1 : n;
            memset(text + i, '?', n);
        }
        i += n;
    }
    hide_tokens(text, len);
}

void nx_clean_ascii(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((text[i] < 0x20) || (text[i] > 0x7e)) {
            text[i] = '?';
        }
    }
    hide_tokens(text, len);
}

/* ---- a text that grows --------------------------------------------------------------- */

/* Reserves room for |more| bytes after the text. */
static bool text_reserve(nx_text *t, size_t more)
{
    char *data = nx_vec_grow(t->data, &t->room, t->len + more, 1);

    if (data == NULL) {
        return false;
    }
    t->data = data;
    return true;
}

void nx_text_addf(nx_text *t, const char *format, ...)
{
    va_list args, again;
    int len;

    if (t->failed) {
        return;
    }
    va_start(args, format);
    va_copy(again, args);
    len = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if ((len < 0) || !text_reserve(t, (size_t)len + 1)) {
        t->failed = true;
    } else {
        (void)vsnprintf(t->data + t->len, (size_t)len + 1, format, again);
        t->len += (size_t)len;
    }
    va_end(again);
}

const char *nx_text_str(nx_text *t)
{
    if (t->failed) {
        return NULL;
    }
    return (t->data == NULL) ? "" : t->data;
}

void nx_text_fini(nx_text *t)
{
    nx_free(t->data);
    *t = (nx_text){0};
}
