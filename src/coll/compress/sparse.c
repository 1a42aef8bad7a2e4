/* sparse.c - writes and reads blocks as lists, bitmaps, or complete. */
#include "coll/compress/sparse.h"

#include <assert.h>
#include <string.h>

#include "coll/compress/lanes.h"

enum { LIST = 'L', BITMAP = 'B', DENSE = 'D', HEADER = 1 };

static size_t index_bytes(nx_sparse_shape shape)
{
    return (shape.len > UINT32_MAX) ? sizeof(uint64_t) : sizeof(uint32_t);
}

static size_t bitmap_bytes(nx_sparse_shape shape)
{
    return shape.len / 8 + (shape.len % 8 > 0);
}

/* Compared as doubles: a product may overflow size_t. */
static char shortest(nx_sparse_shape shape, size_t n)
{
    const double list = (double)n * (double)(index_bytes(shape) + shape.value);
    const double bitmap = (double)bitmap_bytes(shape) + (double)n * (double)shape.value;
    const double dense = (double)shape.len * (double)shape.value;

    if ((list <= bitmap) && (list <= dense)) {
        return LIST;
    }
    return (bitmap <= dense) ? BITMAP : DENSE;
}

size_t nx_sparse_bytes(nx_sparse_shape shape, size_t n)
{
    if (n == 0) {
        return 0;
    }
    switch (shortest(shape, n)) {
    case LIST:
        return HEADER + n * (index_bytes(shape) + shape.value);
    case BITMAP:
        return HEADER + bitmap_bytes(shape) + n * shape.value;
    default:
        return nx_sparse_most(shape);
    }
}

size_t nx_sparse_most(nx_sparse_shape shape)
{
    return (shape.len == 0) ? 0 : HEADER + shape.len * shape.value;
}

/* ---- writing ------------------------------------------------------------------------- */

void nx_sparse_write(nx_sparse_writer *w, void *out, nx_sparse_shape shape, size_t n)
{
    unsigned char *at = out;

    *w = (nx_sparse_writer){.shape = shape, .form = shortest(shape, n)};
    if (n == 0) {
        return;
    }
    at[0] = (unsigned char)w->form;
    w->indexes = w->values = at + HEADER;
    if (w->form == LIST) {
        w->values += n * index_bytes(shape);
    } else {
        if (w->form == BITMAP) {
            w->values += bitmap_bytes(shape);
        }
        memset(w->indexes, 0, nx_sparse_bytes(shape, n) - HEADER);
    }
}

void nx_sparse_put(nx_sparse_writer *w, size_t index, const void *value)
{
    const size_t size = w->shape.value;
    const uint32_t short_index = (uint32_t)index;
    const uint64_t long_index = index;

    assert(index < w->shape.len);
    if (w->form == DENSE) {
        nx_element_copy(w->values + index * size, value, size);
        return;
    }
    if (w->form == BITMAP) {
        w->indexes[index / 8] |= (unsigned char)(1U << index % 8);
    } else if (index_bytes(w->shape) == sizeof short_index) {
        memcpy(w->indexes, &short_index, sizeof short_index);
        w->indexes += sizeof short_index;
    } else {
        memcpy(w->indexes, &long_index, sizeof long_index);
        w->indexes += sizeof long_index;
    }
    nx_element_copy(w->values, value, size);
    w->values += size;
}

/* ---- reading ------------------------------------------------------------------------- */

void nx_sparse_read(nx_sparse_reader *r, const void *in, size_t bytes, nx_sparse_shape shape)
{
    const unsigned char *at = in;
    const size_t entry = index_bytes(shape) + shape.value, body = bytes - HEADER;

    *r = (nx_sparse_reader){.shape = shape, .form = LIST};
    if (bytes == 0) {
        return;
    }
    r->form = (char)at[0];
    r->end = at + bytes;
    r->indexes = r->values = at + HEADER;
    if ((r->form == LIST) && (body % entry == 0)) {
        r->left = body / entry;
        r->values += r->left * index_bytes(shape);
    } else if ((r->form == BITMAP) && (body >= bitmap_bytes(shape))) {
        r->left = shape.len;
        r->values += bitmap_bytes(shape);
    } else if ((r->form == DENSE) && (bytes == nx_sparse_most(shape))) {
        r->left = shape.len;
    } else {
        r->failed = true;
    }
}

static size_t list_index(const nx_sparse_reader *r)
{
    uint32_t short_index;
    uint64_t long_index;

    if (index_bytes(r->shape) == sizeof short_index) {
        memcpy(&short_index, r->indexes, sizeof short_index);
        return short_index;
    }
    memcpy(&long_index, r->indexes, sizeof long_index);
    return (size_t)long_index;
}

/* The next index of a bitmap that has an entry; the bitmap's length if there is none. */
static size_t bitmap_index(const nx_sparse_reader *r, size_t limit)
{
    size_t i = r->next;

    while (i < limit) {
        const unsigned rest = (unsigned)r->indexes[i / 8] >> i % 8;

        if (rest != 0) {
            i += (size_t)__builtin_ctz(rest);
            return (i < limit) ? i : limit;
        }
        i += 8 - i % 8;
    }
    return limit;
}

static bool list_get(nx_sparse_reader *r, size_t limit, size_t *index)
{
    if (r->left == 0) {
        return false;
    }
    *index = list_index(r);
    if ((*index < r->next) || (*index >= r->shape.len)) {
        r->failed = true;
        return false;
    }
    if (*index >= limit) {
        return false;
    }
    r->indexes += index_bytes(r->shape);
    r->left--;
    return true;
}

static bool bitmap_get(nx_sparse_reader *r, size_t limit, size_t *index)
{
    *index = bitmap_index(r, limit);
    if (*index >= limit) {
        r->next = (limit > r->next) ? limit : r->next;
        return false;
    }
    if ((size_t)(r->end - r->values) < r->shape.value) {
        r->failed = true;
        return false;
    }
    return true;
}

bool nx_sparse_get(nx_sparse_reader *r, size_t limit, size_t *index, const void **value)
{
    bool found;

    limit = (limit < r->shape.len) ? limit : r->shape.len;
    if (r->failed || (r->left == 0)) {
        return false;
    }
    if (r->form == LIST) {
        found = list_get(r, limit, index);
    } else if (r->form == BITMAP) {
        found = bitmap_get(r, limit, index);
    } else {
        *index = r->next;
        found = (r->next < limit);
    }
    if (!found) {
        return false;
    }
    *value = r->values;
    r->values += r->shape.value;
    r->next = *index + 1;
    return true;
}

bool nx_sparse_over(nx_sparse_reader *r)
{
    const void *value;
    size_t index;

    if (nx_sparse_get(r, SIZE_MAX, &index, &value)) {
        return false;
    }
    return !r->failed && (r->values == r->end);
}
