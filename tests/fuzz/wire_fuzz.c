/* wire_fuzz.c - readers of any bytes stay inside them, and values that were read are written
 * back. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int condition)
{
    if (!condition) {
        abort();
    }
}

static void check_varint(nx_reader *r)
{
    uint64_t v = nx_read_varint(r);
    uint8_t buf[8];
    nx_writer w = nx_writer_make(buf, sizeof(buf));
    nx_reader again;

    nx_write_varint(&w, v);
    must(!w.failed && (w.len == nx_varint_size(v)));
    again = nx_reader_make(buf, w.len);
    must((nx_read_varint(&again) == v) && nx_reader_done(&again));
}

static void check_blob(nx_reader *r, const uint8_t *end, size_t most)
{
    size_t len = 1;
    const uint8_t *blob = nx_read_blob(r, most, &len);

    must(len <= most);
    must((blob == NULL) ? (r->failed && (len == 0)) : (blob + len <= end));
}

static void check_text(nx_reader *r)
{
    char text[16];

    memset(text, 'x', sizeof(text));
    nx_read_text(r, text, sizeof(text));
    must(memchr(text, 0, sizeof(text)) != NULL);
    for (const char *c = text; *c != '\0'; c++) {
        must((*c >= 0x20) && (*c <= 0x7e));
    }
}

/* A text that was read is clean, and stays unchanged when written again. */
static void check_sentence(nx_reader *r)
{
    char text[16], again[16];
    uint8_t buf[32];
    nx_writer w = nx_writer_make(buf, sizeof(buf));
    nx_reader back;

    memset(text, 'x', sizeof(text));
    nx_read_sentence(r, text, sizeof(text));
    must(memchr(text, 0, sizeof(text)) != NULL);
    for (const char *c = text; *c != '\0'; c++) {
        must(((unsigned char)*c >= 0x20) && (*c != 0x7f));
    }
    nx_write_sentence(&w, text, sizeof(text));
    back = nx_reader_make(buf, w.len);
    nx_read_sentence(&back, again, sizeof(again));
    must(nx_reader_done(&back) && (strcmp(text, again) == 0));
}

/* The input is a program: each byte selects the next read. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);

    while (!r.failed && (nx_reader_left(&r) > 0)) {
        uint8_t what = nx_read_u8(&r);

        switch (what % 8) {
        case 0:
            (void)nx_read_u16(&r);
            break;
        case 1:
            (void)nx_read_u32(&r);
            break;
        case 2:
            (void)nx_read_u64(&r);
            break;
        case 3:
            check_varint(&r);
            break;
        case 4:
            check_blob(&r, data + size, what);
            break;
        case 5:
            check_text(&r);
            break;
        case 6:
            check_sentence(&r);
            break;
        default:
            (void)nx_read_bytes(&r, what);
            break;
        }
    }
    must(!r.failed || ((nx_reader_left(&r) == 0) && (nx_read_u64(&r) == 0)));
    return 0;
}
