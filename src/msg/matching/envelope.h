/*
 * envelope.h - the frames of msg as bytes, and back.
 *
 * The first byte of a frame is its type, below NX_FRAME_OTHER.  Envelopes go on
 * the message lane, the rest on the control lane, except RETRACT and FINISHED: they must
 * not overtake the envelopes that they are about.
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
 * An id is (number << NX_ID_CLASS_BITS) | class.  Numbers count the long messages
 * of one direction of one link from 1 without a gap, in the order of their
 * envelopes, so that a receiver knows of every id whether it is past, present or
 * to come, and the class of bytes that overtake their envelope.
 *
 * Decoding checks all that can be known from the frame alone.  Everything else
 * (credit, which ids live) is checked where the state is.
 */
#ifndef NX_ENVELOPE_H
#define NX_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "msg/msg.h"

typedef enum nx_frame_type {
    NX_FRAME_INLINE = 1, /* a message with its bytes */
    NX_FRAME_LONG,       /* a message whose bytes come as parts */
    NX_FRAME_PULLED,     /* the same, without eager bytes, in answer to a WANT */
    NX_FRAME_RETRACT,    /* a LONG one that was not cleared has been cancelled */
    NX_FRAME_FINISHED,   /* no message of (comm, kind) follows */
    NX_FRAME_HELLO = 16, /* the first frame of each direction */
    NX_FRAME_CREDIT,     /* you may have spent |limit| in all */
    NX_FRAME_CLEAR,      /* send the rest of |id|, up to byte |upto| */
    NX_FRAME_STALLED,    /* I hold messages back; my limit is |limit| */
    NX_FRAME_WANT,       /* a receive waits for (comm, kind, tag): send its envelope */
    NX_FRAME_UNWANT,     /* nothing is held back: |count| WANTs will not be answered */
    NX_FRAME_UNASK,      /* forget my WANTs */
    NX_FRAME_UNASKED,    /* |count| WANTs are forgotten, the others have been answered */
    NX_FRAME_PUTBACK,    /* nobody waits for the PULLED message |id| any more */
    NX_FRAME_RECLAIM,    /* others need room: give back up to |limit| of your credit */
    NX_FRAME_RETURN,     /* |limit| of my credit is spent on nothing */
} nx_frame_type;

enum {
    NX_ID_CLASS_BITS = 2,
    NX_ENVELOPE_HEAD = 31, /* bytes before an INLINE's own, at most */
    NX_MSG_FRAME_ROOM = 64 /* bytes of any frame here but an INLINE's data */
};
_Static_assert(NX_CLASSES <= 1 << NX_ID_CLASS_BITS, "the class fits in an id");
_Static_assert(NX_ENVELOPE_HEAD + 3 * 8 <= NX_MSG_FRAME_ROOM, "the longest frame fits");

/* Lengths, limits and ids: what a varint holds. */
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

/* Any frame; which fields count is above. */
typedef struct nx_frame {
    nx_frame_type type;
    nx_context context; /* its class is also that of CREDIT, STALLED, UN... */
    uint64_t tag;
    nx_mark mark;
    bool any_tag; /* WANT: of whatever tag; |tag| is 0 */
    uint64_t id, length, eager;
    uint64_t limit; /* and upto, count, bytes, how */
    uint64_t window[NX_CLASSES];
    const uint8_t *data; /* INLINE: |length| bytes, borrowed from the input */
} nx_frame;

/* Writes |f|, without an INLINE's data, to |out|; returns how many bytes. */
/* The head of an INLINE, of a class that has no mark. */
size_t nx_frame_encode_short(nx_context context, uint64_t tag, uint8_t out[NX_MSG_FRAME_ROOM]);
size_t nx_frame_encode(const nx_frame *f, uint8_t out[NX_MSG_FRAME_ROOM]);

/*
 * Reads the frame that came on |lane|.  |*why| becomes a literal that says what
 * is wrong with it.
 *
 * NEXAR_EPROTO
 *     Unknown type, wrong lane, too short, too long, no such class, the tag
 *     NX_ANY_TAG, an id with number 0, a LONG of 0 bytes, more eager bytes
 *     than there are, or an eager part that is not the whole and ends inside a unit.
 */
NX_MUST_CHECK nexar_err nx_frame_decode(nx_lane lane, const void *data, size_t len, nx_frame *f,
                                        const char **why);

#endif /* NX_ENVELOPE_H */
