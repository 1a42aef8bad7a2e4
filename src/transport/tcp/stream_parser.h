/*
 * stream_parser.h - parses the bytes of a TLS stream into frames and fragments: the other end of
 * send_queue.h. No sockets, no clock.
 *
 * The stream is a sequence of units.  A unit is a type (one byte), the fields of its type
 * (big-endian) and its body:
 *
 *     HELLO                      from the accepting side, once: the dialler is accepted
 *     USE                        from the deciding side: this connection is used
 *     CONTROL, MESSAGE  len:4    a frame of that lane, at most NX_FRAME_MAX bytes
 *     PART  id:8 off:8 len:4     bytes [off, off + len) of message |id|
 *     BYE                        this side has sent all its data and wants to leave
 *     CLOSE code:1 len:2         the last unit: an nx_close_code, and text, or (NX_CLOSE_LAST)
 *                                a frame of the control lane, at most NX_TCP_CLOSE_MOST bytes
 *
 * Bytes may arrive in pieces of any size. A body that arrives in one piece is passed on in place;
 * otherwise frames and CLOSE are assembled in one buffer. Only the head of a PART is kept.
 */
#ifndef NX_TCP_STREAM_PARSER_H
#define NX_TCP_STREAM_PARSER_H

#include "transport/transport.h"

enum {
    NX_UNIT_HELLO = 1,
    NX_UNIT_USE,
    NX_UNIT_CONTROL,
    NX_UNIT_MESSAGE,
    NX_UNIT_PART,
    NX_UNIT_BYE,
    NX_UNIT_CLOSE,

    NX_TCP_HEAD_FRAME = 1 + 4,
    NX_TCP_HEAD_PART = 1 + 8 + 8 + 4,
    NX_TCP_HEAD_CLOSE = 1 + 1 + 2,
    NX_TCP_HEAD_MOST = NX_TCP_HEAD_PART,
    NX_TCP_CLOSE_MOST = 512
};

/* The callbacks; |ctx| is the parser's. All data is borrowed. */
typedef struct nx_tcp_parser_up {
    void (*on_hello)(void *ctx);
    void (*on_use)(void *ctx);
    void (*on_frame)(void *ctx, nx_lane lane, const void *data, size_t len);
    void (*on_data)(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len);
    void (*on_bye)(void *ctx);
    /* The stream ends here: later bytes are ignored. */
    void (*on_close)(void *ctx, uint8_t code, const void *data, size_t len);
} nx_tcp_parser_up;

typedef struct nx_tcp_parser {
    const nx_tcp_parser_up *up;
    void *ctx;
    uint8_t head[NX_TCP_HEAD_MOST];
    size_t head_len;
    bool in_body, ended;
    uint8_t code;    /* of CLOSE */
    uint64_t id, at; /* of PART: the offset of its next byte */
    size_t left;     /* bytes of the body still missing */
    uint8_t *body;   /* NULL before the first body that arrives in pieces */
    size_t body_len, body_room;
} nx_tcp_parser;

void nx_tcp_parser_init(nx_tcp_parser *p, const nx_tcp_parser_up *up, void *ctx);
void nx_tcp_parser_fini(nx_tcp_parser *p);

/* Parses the next |len| bytes. NEXAR_EPROTO: invalid format. NEXAR_ENOMEM. After an error the
 * parser must not be used. */
NX_MUST_CHECK nexar_err nx_tcp_parse(nx_tcp_parser *p, const uint8_t *data, size_t len);

#endif /* NX_TCP_STREAM_PARSER_H */
