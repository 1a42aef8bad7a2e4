/* peek.c - parses frames of QUIC (RFC 9000, 19) up to the first STREAM frame. */
#include "peek.h"

#include "wire/wire.h"

enum {
    PADDING = 0x00,
    PING = 0x01,
    ACK = 0x02,
    ACK_ECN = 0x03,
    RESET_STREAM = 0x04,
    STREAM = 0x08, /* to 0x0f, by the bits below */
    STREAM_LEN = 0x02,
    STREAM_OFF = 0x04,
    STREAM_LAST = 0x0f,
    MAX_DATA = 0x10,
    MAX_STREAM_DATA = 0x11,
    MAX_STREAMS_BIDI = 0x12,
    MAX_STREAMS_UNI = 0x13,
    DATA_BLOCKED = 0x14,
    STREAM_DATA_BLOCKED = 0x15,
    STREAMS_BLOCKED_BIDI = 0x16,
    STREAMS_BLOCKED_UNI = 0x17,
};

static void skip(nx_reader *r, uint64_t varints)
{
    while ((varints > 0) && !r->failed) {
        (void)nx_read_varint(r);
        varints--;
    }
}

static void skip_ack(nx_reader *r, uint64_t type)
{
    uint64_t ranges;

    skip(r, 2); /* the largest, the delay */
    ranges = nx_read_varint(r);
    skip(r, 1);
    /* At most the number of bytes left, so doubling cannot overflow. */
    skip(r, (ranges < nx_reader_left(r)) ? 2 * ranges : UINT64_MAX);
    skip(r, (type == ACK_ECN) ? 3 : 0);
}

/* False: the frame is unknown, or has consequences. */
static bool skip_frame(nx_reader *r, uint64_t type)
{
    switch (type) {
    case PADDING:
    case PING:
        return true;
    case ACK:
    case ACK_ECN:
        skip_ack(r, type);
        return true;
    case MAX_DATA:
    case MAX_STREAMS_BIDI:
    case MAX_STREAMS_UNI:
    case DATA_BLOCKED:
    case STREAMS_BLOCKED_BIDI:
    case STREAMS_BLOCKED_UNI:
        skip(r, 1);
        return true;
    case MAX_STREAM_DATA:
    case STREAM_DATA_BLOCKED:
        skip(r, 2);
        return true;
    case RESET_STREAM: /* resets an unused direction; or the receiver is asked for its memory again
                        */
        skip(r, 3);
        return true;
    default:
        return false;
    }
}

bool nx_peek_stream(const uint8_t *head, size_t n, size_t len, nx_peek *out)
{
    nx_reader r = nx_reader_make(head, n);
    uint64_t type = nx_read_varint(&r), said = 0;
    size_t left;

    while (!r.failed && ((type < STREAM) || (type > STREAM_LAST))) {
        if (!skip_frame(&r, type)) {
            return false;
        }
        type = nx_read_varint(&r);
    }
    out->stream = (int64_t)nx_read_varint(&r);
    out->off = ((type & STREAM_OFF) != 0) ? nx_read_varint(&r) : 0;
    said = ((type & STREAM_LEN) != 0) ? nx_read_varint(&r) : 0;
    out->at = (size_t)(r.at - head);
    left = len - out->at;
    out->len =
        ((type & STREAM_LEN) != 0) ? (size_t)said : left; /* without a length: up to the end */
    return !r.failed && (said <= left);
}

bool nx_peek_longest(const void *packet, nx_peek_read *look, size_t len, nx_peek *out)
{
    enum { FRAMES = 8 }; /* frames inspected: the end of a part, some frames of the lanes */
    uint8_t window[NX_PEEK_WINDOW];
    nx_peek frame;
    size_t at = 0;

    out->len = 0;
    for (int i = 0; (i < FRAMES) && (len - at > out->len); i++) {
        size_t n = (len - at < sizeof(window)) ? len - at : sizeof(window);

        look(packet, at, at + n, window);
        if (!nx_peek_stream(window, n, len - at, &frame)) {
            break;
        }
        frame.at += at;
        at = frame.at + frame.len;
        if (frame.len > out->len) {
            *out = frame;
        }
    }
    return out->len > 0;
}
