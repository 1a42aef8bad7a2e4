/* wire.c - every access goes through one check of what is left. */
#include "wire/wire.h"

#include <string.h>

static const uint64_t VARINT_MAX = (UINT64_C(1) << 62) - 1;

/* ---- reading -------------------------------------------------------------- */

/* A reader that failed holds nothing: what comes after the error sees its end. */
static void reader_fail(nx_reader *r)
{
    r->failed = true;
    r->at = r->end;
}

const uint8_t *nx_read_bytes(nx_reader *r, size_t len)
{
    const uint8_t *at = r->at;

    if (r->failed || (len > nx_reader_left(r))) {
        reader_fail(r);
        return NULL;
    }
    if (len > 0) {
        r->at += len;
    }
    return at;
}

static uint64_t read_be(nx_reader *r, size_t len)
{
    const uint8_t *at = nx_read_bytes(r, len);
    uint64_t v = 0;

    if (at == NULL) {
        return 0;
    }
    for (size_t i = 0; i < len; i++) {
        v = (v << 8) | at[i];
    }
    return v;
}

uint8_t nx_read_u8(nx_reader *r)
{
    return (uint8_t)read_be(r, 1);
}

uint16_t nx_read_u16(nx_reader *r)
{
    return (uint16_t)read_be(r, 2);
}

uint32_t nx_read_u32(nx_reader *r)
{
    return (uint32_t)read_be(r, 4);
}

uint64_t nx_read_u64(nx_reader *r)
{
    return read_be(r, 8);
}

uint64_t nx_read_varint(nx_reader *r)
{
    if (r->failed || (nx_reader_left(r) == 0)) {
        reader_fail(r);
        return 0;
    }
    switch (*r->at >> 6) {
    case 0:
        return read_be(r, 1);
    case 1:
        return read_be(r, 2) & (VARINT_MAX >> 48);
    case 2:
        return read_be(r, 4) & (VARINT_MAX >> 32);
    default:
        return read_be(r, 8) & VARINT_MAX;
    }
}

const uint8_t *nx_read_blob(nx_reader *r, size_t most, size_t *len)
{
    uint64_t n = nx_read_varint(r);
    const uint8_t *at = NULL;

    if (n > most) {
        reader_fail(r);
    } else {
        at = nx_read_bytes(r, (size_t)n);
    }
    *len = (at == NULL) ? 0 : (size_t)n;
    return at;
}

/* Whether a text may have it. */
static bool is_plain(uint8_t byte)
{
    return (byte >= 0x20) && (byte <= 0x7e);
}

void nx_read_text(nx_reader *r, char *out, size_t room)
{
    size_t len = 0;
    const uint8_t *text = nx_read_blob(r, room - 1, &len);

    for (size_t i = 0; i < len; i++) {
        if (!is_plain(text[i])) {
            reader_fail(r);
            len = 0;
        }
    }
    if (len > 0) {
        memcpy(out, text, len);
    }
    out[len] = '\0';
}

/* ---- writing -------------------------------------------------------------- */

static uint8_t *writer_take(nx_writer *w, size_t len)
{
    uint8_t *at;

    if (w->failed || (len > w->room - w->len)) {
        w->failed = true;
        return NULL;
    }
    at = w->data + w->len;
    w->len += len;
    return at;
}

static void write_be(nx_writer *w, uint64_t v, size_t len)
{
    uint8_t *at = writer_take(w, len);

    if (at == NULL) {
        return;
    }
    for (size_t i = len; i > 0; i--) {
        at[i - 1] = (uint8_t)v;
        v >>= 8;
    }
}

void nx_write_u8(nx_writer *w, uint8_t v)
{
    write_be(w, v, 1);
}

void nx_write_u16(nx_writer *w, uint16_t v)
{
    write_be(w, v, 2);
}

void nx_write_u32(nx_writer *w, uint32_t v)
{
    write_be(w, v, 4);
}

void nx_write_u64(nx_writer *w, uint64_t v)
{
    write_be(w, v, 8);
}

size_t nx_varint_size(uint64_t v)
{
    if (v < (UINT64_C(1) << 6)) {
        return 1;
    }
    if (v < (UINT64_C(1) << 14)) {
        return 2;
    }
    return (v < (UINT64_C(1) << 30)) ? 4 : 8;
}

void nx_write_varint(nx_writer *w, uint64_t v)
{
    size_t len = nx_varint_size(v);
    uint64_t mark = (len == 1) ? 0 : (len == 2) ? 1 : (len == 4) ? 2 : 3;

    if (v > VARINT_MAX) {
        w->failed = true;
        return;
    }
    write_be(w, v | (mark << (8 * len - 2)), len);
}

void nx_write_bytes(nx_writer *w, const void *data, size_t len)
{
    uint8_t *at = writer_take(w, len);

    if ((at != NULL) && (len > 0)) {
        memcpy(at, data, len);
    }
}

void nx_write_blob(nx_writer *w, const void *data, size_t len)
{
    nx_write_varint(w, len);
    nx_write_bytes(w, data, len);
}

void nx_write_text(nx_writer *w, const char *text)
{
    nx_write_blob(w, text, strlen(text));
}

void nx_write_sentence(nx_writer *w, const char *text, size_t room)
{
    const size_t len = strnlen(text, room - 1);

    nx_write_varint(w, len);
    for (size_t i = 0; i < len; i++) {
        nx_write_u8(w, is_plain((uint8_t)text[i]) ? (uint8_t)text[i] : '?');
    }
}
