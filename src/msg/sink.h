/*
 * sink.h - delivery: the fragments of one message into scattered memory or into
 * a function, wherever they were cut.
 *
 * A message comes in at most two parts (eager, rest), each in order, but one
 * beside the other.  So there are two cursors.  A function gets whole units: the
 * bytes of a unit that a fragment cuts are carried to the next one of the same
 * part.  Parts meet at a multiple of NX_UNIT_MAX, and units are powers of two: no
 * unit lies in both.
 */
#ifndef NX_SINK_H
#define NX_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NX_UNIT_MAX = 16 };

typedef struct nx_iov_span {
    void *ptr;
    size_t len;
} nx_iov_span;

/* Where received bytes go: memory, or a function that takes them as they come. */
typedef struct nx_sink {
    const nx_iov_span *iov; /* memory, in order; NULL: |take| */
    size_t niov;
    uint64_t room; /* bytes; with |iov| the sum of its lengths */
    /* Bytes at |off| of the message; whole |unit|s, in any order of |off|s, at any
     * alignment of |data|.  Makes no call to msg.  NULL, as |iov|: dropped. */
    void (*take)(void *ctx, uint64_t off, const void *data, size_t len);
    void *ctx;
    uint32_t unit; /* of |take|: 1, 2, 4, 8 or 16 */
} nx_sink;

/* Two of them: the eager part, the rest. */
enum { NX_PARTS = 2 };

typedef struct nx_sink_cursor {
    size_t span;   /* where the next byte goes */
    uint64_t base; /* the offset at which that span begins */
    uint8_t carry[NX_UNIT_MAX];
    uint32_t ncarry;
} nx_sink_cursor;

/* Zero cursors are at the beginning. */
typedef struct nx_delivery {
    nx_sink sink;
    nx_iov_span one; /* the span, when there is one: the caller's need not live on */
    nx_sink_cursor cursor[NX_PARTS];
} nx_delivery;

/* Copies |sink|; what it points to is held, a single span apart. */
void nx_delivery_init(nx_delivery *d, const nx_sink *sink);

/* The memory where bytes [off, off + *len) of the message, the next ones of |part|, go;
 * |*len| is cut to what lies in one stretch.  NULL: not into memory. */
void *nx_delivery_place(nx_delivery *d, unsigned part, uint64_t off, size_t *len);

/* Bytes [off, off + len) of the message, the next ones of |part|.  What lies
 * beyond the room is dropped.  |data| may be what nx_delivery_place has returned. */
void nx_delivery_put(nx_delivery *d, unsigned part, uint64_t off, const void *data, size_t len);

#endif /* NX_SINK_H */
