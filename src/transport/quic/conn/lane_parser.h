/*
 * lane_parser.h - turns the streams of a connection into frames and fragments: the counterpart of
 * sendq.h.
 *
 * The bytes of a stream arrive in order and in pieces of any size. A frame that is complete in one
 * piece is passed on in place. Others are assembled in a buffer of at most NX_FRAME_MAX bytes per
 * lane. Of a part only the head is buffered.
 */
#ifndef NX_LANE_PARSER_H
#define NX_LANE_PARSER_H

#include "sendq.h"

/* Upcalls; |ctx| is the parser's. All data is borrowed. */
typedef struct nx_lane_parser_up {
    void (*on_frame)(void *ctx, nx_lane lane, const void *data, size_t len);
    void (*on_data)(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len);
    void (*on_bye)(void *ctx); /* the peer wants to leave: see NX_FRAME_BYE */
    /* Optional: as nx_link_up.on_want. */
    void *(*on_want)(void *ctx, uint64_t id, uint64_t off, size_t *len);
} nx_lane_parser_up;

typedef struct nx_inlane {
    uint8_t head[NX_FRAME_HEAD];
    size_t head_len; /* received bytes of the varint */
    size_t len;      /* of the frame; valid in its body */
    bool in_body;
    uint8_t *body; /* NULL before the first fragmented frame */
    size_t body_len, body_room;
} nx_inlane;

/* A part that is arriving; user data of its stream. */
typedef struct nx_inpart {
    nx_list link;
    int64_t stream;
    uint64_t id, off, len; /* valid when in_body */
    uint64_t got;
    bool in_body;
    uint8_t head[NX_PART_HEAD];
    size_t head_len;
} nx_inpart;

typedef struct nx_lane_parser {
    const nx_lane_parser_up *up;
    void *ctx;
    nx_inlane lanes[NX_LANES];
    nx_list parts, spare; /* nx_inpart */
    size_t nparts;
} nx_lane_parser;

void nx_lane_parser_init(nx_lane_parser *in, const nx_lane_parser_up *up, void *ctx);
void nx_lane_parser_fini(nx_lane_parser *in);

/* Bytes of a lane.  NEXAR_EPROTO: a frame that is too long.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_lane_parser_lane(nx_lane_parser *in, nx_lane lane, const uint8_t *data,
                                            size_t len);

/* The |stream| of a part was opened; NULL: out of memory. */
nx_inpart *nx_lane_parser_open(nx_lane_parser *in, int64_t stream);

typedef struct nx_inbytes {
    const uint8_t *data;
    size_t len;
    bool fin;                /* the last ones */
    const uint8_t *in_place; /* where the bytes after the part's head are, if not at |data| */
} nx_inbytes;

/* Bytes of a part.  NEXAR_EPROTO: they contradict the head. */
NX_MUST_CHECK nexar_err nx_lane_parser_part(nx_lane_parser *in, nx_inpart *part, nx_inbytes bytes);

/* Bytes [off, off + len) of |stream|, of which the first |nknown| are known. */
typedef struct nx_inpiece {
    int64_t stream;
    uint64_t off;
    size_t len, nknown;
    const uint8_t *known;
} nx_inpiece;

/*
 * The destination of |piece|, if it is what it seems: the next bytes of a part, contiguous. The
 * first |*skip| bytes are the part's head; the others may be written there. If the packet proves
 * authentic, pass in_place to nx_lane_parser_part. NULL: unknown.
 *
 * Changes no state. A forged piece is written to memory that still waits for its bytes and receives
 * the right ones later.
 */
uint8_t *nx_lane_parser_place(nx_lane_parser *in, const nx_inpiece *piece, size_t *skip);
void nx_lane_parser_close(nx_lane_parser *in, nx_inpart *part);

#endif /* NX_LANE_PARSER_H */
