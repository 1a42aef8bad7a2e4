/*
 * peek.h - what a packet carries, read off a few of its bytes before it is opened.
 *
 * Those bytes are not verified: anybody may have made them up.  So nothing follows from
 * them but where to put the rest (conn_direct_decrypt.c).
 */
#ifndef NX_PEEK_H
#define NX_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NX_PEEK_WINDOW = 192 }; /* bytes that are looked at at once */

/* A STREAM frame. */
typedef struct nx_peek {
    int64_t stream;
    uint64_t off;   /* of its bytes in the stream */
    size_t at, len; /* where in the packet they are */
} nx_peek;

/*
 * The first STREAM frame of the |len| last bytes of a packet, which begin with the |n| at
 * |head|; |at| counts from there.  Before it there may be acknowledgements, credit and the
 * like.  False: there is none, or not within |n| bytes, or it is not whole.
 */
bool nx_peek_stream(const uint8_t *head, size_t n, size_t len, nx_peek *out);

/* Bytes [from, to) of a packet to |out|. */
typedef void nx_peek_read(const void *packet, size_t from, size_t to, uint8_t *out);

/* The longest STREAM frame of a packet of |len| bytes, as far as it is easily found.  False:
 * there is none. */
bool nx_peek_longest(const void *packet, nx_peek_read *read, size_t len, nx_peek *out);

#endif /* NX_PEEK_H */
