/*
 * sink.h - delivery: writes the fragments of one message into scattered memory or passes them to a
 * function, however they were cut.
 *
 * A message arrives in at most two parts (eager, rest), each in order, both concurrently. So there
 * are two cursors. A function receives whole units: the bytes of a unit that a fragment cuts are
 * kept for the next fragment of the same part. Parts meet at a multiple of NX_UNIT_MAX, and units
 * are powers of two, so no unit spans both.
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

/* The destination of received bytes: memory, or a function. */
typedef struct nx_sink {
    const nx_iov_span *iov; /* memory, in order; NULL: |take| */
    size_t niov;
    uint64_t room; /* bytes; with |iov| the sum of its lengths */
    /* Takes bytes at |off| of the message: whole |unit|s, in any order of |off|, at any alignment
     * of |data|. Must not call msg. NULL with a NULL |iov|: bytes are dropped. */
    void (*take)(void *ctx, uint64_t off, const void *data, size_t len);
    void *ctx;
    uint32_t unit; /* of |take|: 1, 2, 4, 8 or 16 */
} nx_sink;

/* The eager part and the rest. */
enum { NX_PARTS = 2 };

typedef struct nx_sink_cursor {
    size_t span;   /* position of the next byte */
    uint64_t base; /* the offset of that span in the message */
    uint8_t carry[NX_UNIT_MAX];
    uint32_t ncarry;
} nx_sink_cursor;

/* Zero-initialised cursors are at the beginning. */
typedef struct nx_delivery {
    nx_sink sink;
    nx_iov_span one; /* copy of the span, if there is one */
    nx_sink_cursor cursor[NX_PARTS];
} nx_delivery;

/* Copies |sink|; the memory it points to is borrowed, except a single span. */
void nx_delivery_init(nx_delivery *d, const nx_sink *sink);

/* The memory for bytes [off, off + *len) of the message, the next ones of |part|; |*len| is cut to
 * one contiguous piece. NULL: the sink is no memory. */
void *nx_delivery_place(nx_delivery *d, unsigned part, uint64_t off, size_t *len);

/* Delivers bytes [off, off + len) of the message, the next ones of |part|. Bytes beyond the room
 * are dropped. |data| may be what nx_delivery_place has returned. */
void nx_delivery_put(nx_delivery *d, unsigned part, uint64_t off, const void *data, size_t len);

#endif /* NX_SINK_H */
