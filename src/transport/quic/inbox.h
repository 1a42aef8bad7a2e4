/*
 * inbox.h - what arrives on the streams of a connection, made into frames and
 * fragments: the other end of sendq.h.
 *
 * Bytes of a stream come in order and in pieces of any size.  A frame that lies
 * whole in one piece is handed on where it is; others are put together in a buffer
 * of NX_FRAME_MAX bytes at most, one per lane.  Of a part only its head is ever
 * kept.
 */
#ifndef NX_QUIC_INBOX_H
#define NX_QUIC_INBOX_H

#include "transport/quic/sendq.h"

/* Where things go; |ctx| is the inbox's.  All data is borrowed. */
typedef struct nx_inbox_up {
    void (*on_frame)(void *ctx, nx_lane lane, const void *data, size_t len);
    void (*on_data)(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len);
    void (*on_bye)(void *ctx); /* the peer wants to leave: see NX_FRAME_BYE */
} nx_inbox_up;

typedef struct nx_inlane {
    uint8_t head[NX_FRAME_HEAD];
    size_t head_len; /* bytes of the varint that have come */
    size_t len;      /* of the frame; valid in its body */
    bool in_body;
    uint8_t *body; /* NULL before the first frame that comes in pieces */
    size_t body_len, body_room;
} nx_inlane;

/* A part that is arriving, the user data of its stream. */
typedef struct nx_inpart {
    nx_list link;
    uint64_t id, off, len; /* valid when in_body */
    uint64_t got;
    bool in_body;
    uint8_t head[NX_PART_HEAD];
    size_t head_len;
} nx_inpart;

typedef struct nx_inbox {
    const nx_inbox_up *up;
    void *ctx;
    nx_inlane lanes[NX_LANES];
    nx_list parts, spare; /* nx_inpart */
} nx_inbox;

void nx_inbox_init(nx_inbox *in, const nx_inbox_up *up, void *ctx);
void nx_inbox_fini(nx_inbox *in);

/* Bytes of a lane.  NEXAR_EPROTO: a frame that is too long.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_inbox_lane(nx_inbox *in, nx_lane lane, const uint8_t *data, size_t len);

/* A stream of a part has been opened; NULL: no memory. */
nx_inpart *nx_inbox_open(nx_inbox *in);
/* Bytes of it; |fin|: the last ones.  NEXAR_EPROTO: they are not what the head
 * says. */
NX_MUST_CHECK nexar_err nx_inbox_part(nx_inbox *in, nx_inpart *part, const uint8_t *data,
                                      size_t len, bool fin);
void nx_inbox_close(nx_inbox *in, nx_inpart *part);

#endif /* NX_QUIC_INBOX_H */
