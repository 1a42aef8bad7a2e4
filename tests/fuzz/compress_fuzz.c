/*
 * compress_fuzz.c - any bytes as blocks of compressed tensors.  Readers of sparse blocks stay
 * inside them, and return entries in order; an accepted block is encoded and decoded again.  Codes
 * of any bits have values that are encoded to the same code.
 *
 * Input: a byte for the value's size, two for the elements of the block, two for the entries per
 * read; then the block.
 */
#include <math.h>
#include <string.h>

#include "coll/compress/lanes.h"
#include "coll/compress/sparse.h"
#include "fuzz.h"
#include "wire/wire.h"

enum { MOST = 4096 };

static size_t indexes[MOST];
static uint8_t values[MOST * 8], again[MOST * 8 + 1];

/* The number of entries of a block; MOST + 1: it is invalid. */
static size_t read_all(const uint8_t *in, size_t len, nx_sparse_shape shape, size_t step)
{
    nx_sparse_reader r;
    const void *value;
    size_t n = 0, index;

    nx_sparse_read(&r, in, len, shape);
    for (size_t limit = step; limit < shape.len + step; limit += step) {
        while (nx_sparse_get(&r, limit, &index, &value)) {
            nxt_must((index < limit) && (index < shape.len) && (n < MOST));
            nxt_must((n == 0) || (index > indexes[n - 1]));
            nxt_must(((const uint8_t *)value >= in) &&
                     ((const uint8_t *)value + shape.value <= in + len));
            memcpy(values + n * shape.value, value, shape.value);
            indexes[n++] = index;
        }
    }
    return nx_sparse_over(&r) ? n : MOST + 1;
}

static void check_sparse(const uint8_t *in, size_t len, nx_sparse_shape shape, size_t step)
{
    const size_t n = read_all(in, len, shape, step);
    nx_sparse_writer w;

    if (n > MOST) {
        return;
    }
    nxt_must(nx_sparse_bytes(shape, n) <= sizeof(again));
    nx_sparse_write(&w, again, shape, n);
    for (size_t i = 0; i < n; i++) {
        nx_sparse_put(&w, indexes[i], values + i * shape.value);
    }
    /* A dense block has an entry for each element. */
    nxt_must(read_all(again, nx_sparse_bytes(shape, n), shape, shape.len + 1) >= n);
}

static void check_codec(nx_codec codec, const uint8_t *in, size_t len)
{
    uint8_t back[4 + 2 * NX_PIECE];
    nx_lanes x, y;
    size_t n = NX_PIECE;

    while ((n > 0) && (nx_codec_bytes(codec, n) > len)) {
        n--;
    }
    if (n == 0) {
        return;
    }
    memset(&x, 0, sizeof(x));
    memset(&y, 0, sizeof(y));
    nx_codec_decode(codec, &x, in, n, NEXAR_F32);
    nx_codec_encode(codec, back, &x, n, NEXAR_F32, false);
    nx_codec_decode(codec, &y, back, n, NEXAR_F32);
    /* INT8 chooses its own scale; the other codes reproduce each value. */
    for (size_t i = 0; (codec != NX_CODEC_INT8) && (i < n); i++) {
        nxt_must((x.f32[i] == y.f32[i]) || (isnan(x.f32[i]) && isnan(y.f32[i])));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);
    nx_sparse_shape shape = {.value = (size_t)2 << nx_read_u8(&r) % 3};
    size_t step, len;
    const uint8_t *in;

    shape.len = nx_read_u16(&r) % (MOST + 1);
    step = (size_t)nx_read_u16(&r) + 1;
    len = nx_reader_left(&r);
    in = nx_read_bytes(&r, len);
    if (r.failed) {
        return 0;
    }
    check_sparse(in, len, shape, step);
    for (int codec = 0; codec < NX_CODECS; codec++) {
        check_codec((nx_codec)codec, in, len);
    }
    return 0;
}
