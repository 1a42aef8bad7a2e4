/*
 * sparse.h - encodes a block of elements most of which are 0.
 *
 * A block of |len| elements with |n| entries (index, value), indexes ascending, is the shortest of
 *
 *   nothing          0 bytes, for no entries
 *   list      'L'    1 + n * (index + value): all indexes, then all values
 *   bitmap    'B'    1 + ceil(len / 8) + n * value: bit i % 8 of byte i / 8 says that
 *                    i has an entry; then the values
 *   dense     'D'    1 + len * value: all elements
 *
 * so it is at most one byte longer than the block.  An index has 4 bytes, or 8 in blocks longer
 * than 2^32.  Indexes and values have the machine's byte order. Values are |value| = 2, 4 or 8
 * bytes, absent elements have all bits 0.
 *
 * A reader validates its input: indexes are within the block and ascending, and no byte beyond the
 * end is read. No function allocates.
 */
#ifndef NX_SPARSE_H
#define NX_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The shape of blocks: both ends know it. */
typedef struct nx_sparse_shape {
    size_t len;   /* elements; len * value is a size_t */
    size_t value; /* bytes */
} nx_sparse_shape;

/* Bytes of a block with |n| <= len entries; and the maximum over all n. */
size_t nx_sparse_bytes(nx_sparse_shape shape, size_t n);
size_t nx_sparse_most(nx_sparse_shape shape);

typedef struct nx_sparse_writer {
    nx_sparse_shape shape;
    char form;
    unsigned char *indexes, *values; /* of the next entry; |indexes| of a bitmap: its start */
} nx_sparse_writer;

/* Begins a block of exactly |n| entries in nx_sparse_bytes() bytes at |out|. */
void nx_sparse_write(nx_sparse_writer *w, void *out, nx_sparse_shape shape, size_t n);
/* Writes the next entry. */
void nx_sparse_put(nx_sparse_writer *w, size_t index, const void *value);

typedef struct nx_sparse_reader {
    nx_sparse_shape shape;
    char form;
    const unsigned char *indexes, *values; /* of the next entry */
    size_t left;                           /* entries; of a bitmap and dense: elements */
    size_t next;                           /* lowest index that may follow */
    const unsigned char *end;
    bool failed;
} nx_sparse_reader;

/* Begins to read |bytes| bytes at |in|, borrowed until the last entry is read. */
void nx_sparse_read(nx_sparse_reader *r, const void *in, size_t bytes, nx_sparse_shape shape);
/* Reads the next entry with an index below |limit|. False if there is none or the bytes are
 * invalid: |failed| distinguishes the two. |*value| is not aligned. */
bool nx_sparse_get(nx_sparse_reader *r, size_t limit, size_t *index, const void **value);
/* Whether the block was valid and has been read to its end. */
bool nx_sparse_over(nx_sparse_reader *r);

#endif /* NX_SPARSE_H */
