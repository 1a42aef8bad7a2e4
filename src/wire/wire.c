/* wire.c - every access passes one check of the remaining bytes. */
#include "wire/wire.h"

#include <endian.h>
#include <string.h>

#include "base/text/sentence.h"
#include "base/text/text.h"

static const uint64_t VARINT_MAX = (UINT64_C(1) << 62) - 1;

/* ---- reading ------------------------------------------------------------------------- */

/* A failed reader is empty: every later read fails, too. */
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

/* Consumes |len| bytes. False: fewer remain. */
static inline bool reader_take(nx_reader *r, size_t len)
{
    if (r->failed || (len > nx_reader_left(r))) {
        reader_fail(r);
        return false;
    }
    r->at += len;
    return true;
}

uint8_t nx_read_u8(nx_reader *r)
{
    return reader_take(r, 1) ? r->at[-1] : 0;
}

uint16_t nx_read_u16(nx_reader *r)
{
    uint16_t v = 0;

    if (reader_take(r, sizeof(v))) {
        memcpy(&v, r->at - sizeof(v), sizeof(v));
    }
    return be16toh(v);
}

uint32_t nx_read_u32(nx_reader *r)
{
    uint32_t v = 0;

    if (reader_take(r, sizeof(v))) {
        memcpy(&v, r->at - sizeof(v), sizeof(v));
    }
    return be32toh(v);
}

uint64_t nx_read_u64(nx_reader *r)
{
    uint64_t v = 0;

    if (reader_take(r, sizeof(v))) {
        memcpy(&v, r->at - sizeof(v), sizeof(v));
    }
    return be64toh(v);
}

uint64_t nx_read_varint(nx_reader *r)
{
    if (r->failed || (nx_reader_left(r) == 0)) {
        reader_fail(r);
        return 0;
    }
    switch (*r->at >> 6) {
    case 0:
        return nx_read_u8(r);
    case 1:
        return nx_read_u16(r) & (VARINT_MAX >> 48);
    case 2:
        return nx_read_u32(r) & (VARINT_MAX >> 32);
    default:
        return nx_read_u64(r) & VARINT_MAX;
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

/* Whether a text may contain |byte|. */
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

void nx_read_sentence(nx_reader *r, char *out, size_t room)
{
    size_t len = 0;
    const uint8_t *text = nx_read_blob(r, room - 1, &len);

    if (len > 0) {
        memcpy(out, text, len);
    }
    out[len] = '\0';
    nx_clean_text(out, len);
}

/* ---- writing ------------------------------------------------------------------------- */

static inline uint8_t *writer_take(nx_writer *w, size_t len)
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

/* Compiles to one store where the length is constant. */
static inline void put(nx_writer *w, const void *data, size_t len)
{
    uint8_t *at = writer_take(w, len);

    if ((at != NULL) && (len > 0)) {
        memcpy(at, data, len);
    }
}

void nx_write_bytes(nx_writer *w, const void *data, size_t len)
{
    put(w, data, len);
}

void nx_write_u8(nx_writer *w, uint8_t v)
{
    put(w, &v, sizeof(v));
}

void nx_write_u16(nx_writer *w, uint16_t v)
{
    v = htobe16(v);
    put(w, &v, sizeof(v));
}

void nx_write_u32(nx_writer *w, uint32_t v)
{
    v = htobe32(v);
    put(w, &v, sizeof(v));
}

void nx_write_u64(nx_writer *w, uint64_t v)
{
    v = htobe64(v);
    put(w, &v, sizeof(v));
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
    switch (nx_varint_size(v)) {
    case 1:
        nx_write_u8(w, (uint8_t)v);
        break;
    case 2:
        nx_write_u16(w, (uint16_t)(v | (UINT64_C(1) << 14)));
        break;
    case 4:
        nx_write_u32(w, (uint32_t)(v | (UINT64_C(2) << 30)));
        break;
    default:
        w->failed = w->failed || (v > VARINT_MAX);
        nx_write_u64(w, v | (UINT64_C(3) << 62));
        break;
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
    static const char dots[] = "...";
    const size_t whole = nx_sentence_fit(text, room);
    const size_t len = whole + ((text[whole] == '\0') ? 0 : sizeof(dots) - 1);

    nx_write_varint(w, len);
    nx_write_bytes(w, text, whole);
    nx_write_bytes(w, dots, len - whole);
    if (!w->failed) {
        nx_clean_text((char *)w->data + w->len - len, len);
    }
}
