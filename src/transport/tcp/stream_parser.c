/* stream_parser.c - units of a TLS stream. */
#include "transport/tcp/stream_parser.h"

#include <string.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "wire/wire.h"

void nx_tcp_parser_init(nx_tcp_parser *p, const nx_tcp_parser_up *up, void *ctx)
{
    *p = (nx_tcp_parser){.up = up, .ctx = ctx};
}

void nx_tcp_parser_fini(nx_tcp_parser *p)
{
    nx_free(p->body);
    p->body = NULL;
}

/* Length of the head of a unit of |type|; 0: the type is unknown. */
static size_t head_size(uint8_t type)
{
    switch (type) {
    case NX_UNIT_HELLO:
    case NX_UNIT_USE:
    case NX_UNIT_BYE:
        return 1;
    case NX_UNIT_CONTROL:
    case NX_UNIT_MESSAGE:
        return NX_TCP_HEAD_FRAME;
    case NX_UNIT_PART:
        return NX_TCP_HEAD_PART;
    case NX_UNIT_CLOSE:
        return NX_TCP_HEAD_CLOSE;
    default:
        return 0;
    }
}

static void hand_on_signal(const nx_tcp_parser *p, uint8_t type)
{
    if (type == NX_UNIT_HELLO) {
        p->up->on_hello(p->ctx);
    } else if (type == NX_UNIT_USE) {
        p->up->on_use(p->ctx);
    } else {
        p->up->on_bye(p->ctx);
    }
}

static void hand_on_body(nx_tcp_parser *p, const uint8_t *data, size_t len)
{
    if (p->head[0] == NX_UNIT_CLOSE) {
        p->ended = true;
        p->up->on_close(p->ctx, p->code, data, len);
    } else {
        p->up->on_frame(p->ctx, (p->head[0] == NX_UNIT_CONTROL) ? NX_LANE_CONTROL : NX_LANE_MESSAGE,
                        data, len);
    }
}

static nexar_err begin_part(nx_tcp_parser *p, nx_reader *r)
{
    p->id = nx_read_u64(r);
    p->at = nx_read_u64(r);
    p->left = nx_read_u32(r);
    if (p->at + p->left < p->at) {
        return nx_fail(NEXAR_EPROTO, "a part beyond the end of all messages");
    }
    p->in_body = (p->left > 0);
    if (p->left == 0) {
        p->up->on_data(p->ctx, p->id, p->at, p->head, 0);
    }
    return NEXAR_OK;
}

/* The head is complete. */
static nexar_err begin_body(nx_tcp_parser *p)
{
    nx_reader r = nx_reader_make(p->head + 1, p->head_len - 1);
    const uint8_t type = p->head[0];
    size_t most = NX_FRAME_MAX;

    p->head_len = 0;
    p->body_len = 0;
    if (type == NX_UNIT_PART) {
        return begin_part(p, &r);
    }
    if ((type != NX_UNIT_CONTROL) && (type != NX_UNIT_MESSAGE) && (type != NX_UNIT_CLOSE)) {
        hand_on_signal(p, type);
        return NEXAR_OK;
    }
    if (type == NX_UNIT_CLOSE) {
        p->code = nx_read_u8(&r);
        p->left = nx_read_u16(&r);
        most = NX_TCP_CLOSE_MOST;
    } else {
        p->left = nx_read_u32(&r);
    }
    if (p->left > most) {
        return nx_fail(NEXAR_EPROTO, "a frame of %zu bytes", p->left);
    }
    p->in_body = (p->left > 0);
    if (p->left == 0) {
        hand_on_body(p, p->head, 0);
    }
    return NEXAR_OK;
}

/* Takes up to |len| bytes of a head; returns the number taken. */
static size_t take_head(nx_tcp_parser *p, const uint8_t *data, size_t len, nexar_err *err)
{
    const size_t size = head_size((p->head_len > 0) ? p->head[0] : data[0]);
    size_t n;

    if (size == 0) {
        *err = nx_fail(NEXAR_EPROTO, "a unit of the unknown type %u", data[0]);
        return 0;
    }
    n = size - p->head_len;
    n = (n < len) ? n : len;
    memcpy(p->head + p->head_len, data, n);
    p->head_len += n;
    if (p->head_len == size) {
        *err = begin_body(p);
    }
    return n;
}

/* Takes a fragment of a frame. */
static nexar_err gather(nx_tcp_parser *p, const uint8_t *data, size_t len)
{
    const size_t whole = p->body_len + p->left;
    uint8_t *body = nx_vec_grow(p->body, &p->body_room, whole, 1);

    if (body == NULL) {
        return nx_fail_nomem("a frame");
    }
    p->body = body;
    memcpy(body + p->body_len, data, len);
    p->body_len += len;
    p->left -= len;
    if (p->left == 0) {
        p->in_body = false;
        hand_on_body(p, body, p->body_len);
    }
    return NEXAR_OK;
}

static size_t take_body(nx_tcp_parser *p, const uint8_t *data, size_t len, nexar_err *err)
{
    const size_t n = (p->left < len) ? p->left : len;

    if (p->head[0] == NX_UNIT_PART) {
        const uint64_t at = p->at;

        p->at += n;
        p->left -= n;
        p->in_body = (p->left > 0);
        p->up->on_data(p->ctx, p->id, at, data, n);
    } else if ((p->body_len == 0) && (n == p->left)) {
        p->left = 0;
        p->in_body = false;
        hand_on_body(p, data, n);
    } else {
        *err = gather(p, data, n);
    }
    return n;
}

nexar_err nx_tcp_parse(nx_tcp_parser *p, const uint8_t *data, size_t len)
{
    nexar_err err = NEXAR_OK;

    while ((len > 0) && (err == NEXAR_OK) && !p->ended) {
        const size_t n = p->in_body ? take_body(p, data, len, &err) : take_head(p, data, len, &err);

        data += n;
        len -= n;
    }
    return err;
}
