/*
 * envelope.h - encodes and decodes the frames of msg.
 *
 * The first byte of a frame is its type, below NX_FRAME_OTHER. Envelopes use the message lane,
 * other frames the control lane. Exceptions: RETRACT and FINISHED use the message lane, since they
 * must not overtake the envelopes they refer to.
 *
 *     INLINE, LONG, PULLED  class u8, kind u8, comm u32, tag u64; of NX_CLASS_COLL
 *                           the mark, u64 u64; then
 *       INLINE              the bytes, up to the end of the frame
 *       LONG, PULLED        id, length, eager: varints
 *     RETRACT               id
 *     FINISHED              class u8, kind u8, comm u32, how u8
 *     HELLO                 for each class the window: varints
 *     CREDIT                class u8, limit
 *     CLEAR                 id, upto
 *     STALLED               class u8, limit
 *     WANT                  class u8, any u8, kind u8, comm u32, tag u64
 *     UNWANT, UNASKED       class u8, count
 *     UNASK                 class u8
 *     PUTBACK               id
 *     RECLAIM, RETURN       class u8, bytes
 *
 * An id is (number << NX_ID_CLASS_BITS) | class. Numbers count the long messages of one direction
 * of a link from 1 without gaps, in the order of their envelopes. So a receiver knows for every id
 * whether it is past, present or future, and the class of bytes that overtake their envelope.
 *
 * Decoding checks everything that the frame alone determines. The owner of the state checks the
 * rest (credit, live ids).
 */
#ifndef NX_ENVELOPE_H
#define NX_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "msg/msg.h"

typedef enum nx_frame_type {
    NX_FRAME_INLINE = 1, /* a message with its bytes */
    NX_FRAME_LONG,       /* a message whose bytes follow as fragments */
    NX_FRAME_PULLED,     /* the same, without eager bytes, answering a WANT */
    NX_FRAME_RETRACT,    /* cancels a LONG that was not cleared */
    NX_FRAME_FINISHED,   /* no message of (comm, kind) follows */
    NX_FRAME_HELLO = 16, /* the first frame of each direction */
    NX_FRAME_CREDIT,     /* the receiver may spend |limit| in all */
    NX_FRAME_CLEAR,      /* requests the rest of |id|, up to byte |upto| */
    NX_FRAME_STALLED,    /* the sender holds messages back; its limit is |limit| */
    NX_FRAME_WANT,       /* a receive waits for (comm, kind, tag): requests its envelope */
    NX_FRAME_UNWANT,     /* nothing is held back: |count| WANTs will not be answered */
    NX_FRAME_UNASK,      /* withdraws all WANTs */
    NX_FRAME_UNASKED,    /* |count| WANTs are withdrawn, the others have been answered */
    NX_FRAME_PUTBACK,    /* no receive waits for the PULLED message |id| */
    NX_FRAME_RECLAIM,    /* asks the receiver to return up to |limit| of its credit */
    NX_FRAME_RETURN,     /* |limit| of the sender's credit is spent without data */
} nx_frame_type;

enum {
    NX_ID_CLASS_BITS = 2,
    NX_ENVELOPE_HEAD = 31, /* maximum number of bytes before an INLINE's data */
    NX_MSG_FRAME_ROOM = 64 /* size of any frame except an INLINE's data */
};
_Static_assert(NX_CLASSES <= 1 << NX_ID_CLASS_BITS, "the class fits in an id");
_Static_assert(NX_ENVELOPE_HEAD + 3 * 8 <= NX_MSG_FRAME_ROOM, "the longest frame fits");

/* Maximum of lengths, limits and ids: the range of a varint. */
#define NX_WIRE_MAX ((UINT64_C(1) << 62) - 1)

static inline uint64_t nx_id_make(uint64_t number, nx_class class)
{
    return (number << NX_ID_CLASS_BITS) | (uint64_t) class;
}
static inline uint64_t nx_id_number(uint64_t id)
{
    return id >> NX_ID_CLASS_BITS;
}
static inline nx_class nx_id_class(uint64_t id)
{
    return (nx_class)(id & ((1U << NX_ID_CLASS_BITS) - 1));
}

/* Any frame; the table above lists the fields of each type. */
typedef struct nx_frame {
    nx_frame_type type;
    nx_context context; /* its class is also that of CREDIT, STALLED, UN... */
    uint64_t tag;
    nx_mark mark;
    bool any_tag; /* WANT: any tag; |tag| is 0 */
    uint64_t id, length, eager;
    uint64_t limit; /* also upto, count, bytes, how */
    uint64_t window[NX_CLASSES];
    const uint8_t *data; /* INLINE: |length| bytes, borrowed from the input */
} nx_frame;

/* Encodes |f|, without an INLINE's data, to |out|; returns the length. */
/* The head of an INLINE of a class without a mark. */
size_t nx_frame_encode_short(nx_context context, uint64_t tag, uint8_t out[NX_MSG_FRAME_ROOM]);
size_t nx_frame_encode(const nx_frame *f, uint8_t out[NX_MSG_FRAME_ROOM]);

/*
 * Decodes a frame received on |lane|. On an error |*why| is a literal that describes it.
 *
 * NEXAR_EPROTO
 *     Unknown type, wrong lane, too short, too long, unknown class, the tag
 *     NX_ANY_TAG, an id with number 0, a LONG of 0 bytes, more eager bytes
 *     than the message has, or a partial eager part that ends inside a unit.
 */
NX_MUST_CHECK nexar_err nx_frame_decode(nx_lane lane, const void *data, size_t len, nx_frame *f,
                                        const char **why);

#endif /* NX_ENVELOPE_H */
