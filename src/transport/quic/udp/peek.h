/*
 * peek.h - finds the data of a packet from a few decrypted bytes, before authentication.
 *
 * These bytes are not verified and may be forged. They only determine where the rest is written
 * (conn_direct_decrypt.c).
 */
#ifndef NX_PEEK_H
#define NX_PEEK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NX_PEEK_WINDOW = 192 }; /* bytes that one call inspects */

/* A STREAM frame. */
typedef struct nx_peek {
    int64_t stream;
    uint64_t off;   /* offset of its data in the stream */
    size_t at, len; /* position of its data in the packet */
} nx_peek;

/*
 * The first STREAM frame in the |len| last bytes of a packet, of which the first |n| are at |head|;
 * |at| counts from there. Acknowledgements, credit and the like may precede it. False: none, or not
 * within |n| bytes, or incomplete.
 */
bool nx_peek_stream(const uint8_t *head, size_t n, size_t len, nx_peek *out);

/* Decrypts bytes [from, to) of a packet to |out|. */
typedef void nx_peek_read(const void *packet, size_t from, size_t to, uint8_t *out);

/* The longest STREAM frame of a packet of |len| bytes, if it is easily found. False: there is
 * none. */
bool nx_peek_longest(const void *packet, nx_peek_read *read, size_t len, nx_peek *out);

#endif /* NX_PEEK_H */
