/*
 * conn_direct_decrypt.c - packets that are decrypted directly into the receiver's memory.
 *
 * ngtcp2 decrypts a packet into a buffer of its own and passes on its contents, which are then
 * copied to the receiver's memory: a tenth of the time of a large transfer. So a large packet is
 * inspected first. If its longest stream is a part that is being received, and the receiver has
 * memory for these bytes, they are decrypted there. ngtcp2 finds everything but these bytes in its
 * buffer.
 *
 * S1. The bytes that decide this are not authenticated yet. So the only state that changes is
 *     memory that waits for bytes which have not arrived (nx_lane_parser_place). A packet that
 *     fails authentication leaves zeros there.
 * S2. The bytes are the next bytes of their stream. So ngtcp2 passes on all of them immediately and
 *     keeps none for later: it has only its buffer, which does not contain them.
 * S3. ngtcp2 first passes on the frames before them in the packet, and the receiver may react in
 *     any way, for instance give up the memory. So the receiver is asked again. Unless it gives the
 *     same answer, nothing is read from that memory: the bytes are decrypted once more, into the
 *     buffer.
 */
#include <string.h>

#include "conn_impl.h"

enum { WORTH_IT = 8192 }; /* bytes; less are copied out of the nearest cache */

_Thread_local nx_conn *nx_conn_reading;

static void read_packet(const void *packet, size_t from, size_t to, uint8_t *out)
{
    nx_protect_peek(packet, from, to, out);
}

/* The destination of |frame|, whose first |n| bytes are at |known|. */
static uint8_t *place_of(nx_conn *c, const nx_peek *frame, const uint8_t *known, size_t n,
                         size_t *skip)
{
    const nx_inpiece piece = {
        .stream = frame->stream, .off = frame->off, .len = frame->len, .nknown = n, .known = known};

    return nx_lane_parser_place(&c->inbox, &piece, skip);
}

/* Finds the destination of bytes of |p|, if there is one. */
static void look_into(nx_conn *c, const nx_protect_packet *p)
{
    const size_t len = p->len - NX_AEAD_TAG;
    nx_direct_decrypt *s = &c->straight;
    uint8_t head[NX_PART_HEAD];
    size_t skip;

    if (!c->used || !nx_protect_is_ours(p) || !nx_peek_longest(p, read_packet, len, &s->frame) ||
        (s->frame.len < WORTH_IT) || nx_stream_is_lane(s->frame.stream)) {
        return;
    }
    nx_protect_peek(p, s->frame.at, s->frame.at + sizeof(head), head);
    s->place.at = place_of(c, &s->frame, head, sizeof(head), &skip);
    s->place.from = s->frame.at + skip;
    s->place.to = s->frame.at + s->frame.len;
    s->packet = *p;
    s->key = *p->ctx;
    s->packet.ctx = &s->key;
    memcpy(s->nonce, p->nonce, sizeof(s->nonce));
    s->packet.nonce = s->nonce;
}

/* NOLINTNEXTLINE(readability-function-size): ngtcp2 has made the list */
int nx_conn_on_decrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                       const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *sealed, size_t len,
                       const uint8_t *nonce, size_t nonce_len, const uint8_t *head, size_t head_len)
{
    const nx_protect_packet packet = {.aead = aead,
                                      .ctx = ctx,
                                      .sealed = sealed,
                                      .len = len,
                                      .nonce = nonce,
                                      .nonce_len = nonce_len,
                                      .head = head,
                                      .head_len = head_len};
    nx_conn *c = nx_conn_reading;
    int rv;

    if (c == NULL) {
        return nx_protect_open(&packet, dest, &(nx_aead_place){0});
    }
    c->straight.place = (nx_aead_place){0};
    if (len >= WORTH_IT) {
        look_into(c, &packet);
    }
    rv = nx_protect_open(&packet, dest, &c->straight.place);
    c->opened = c->opened || (rv == 0);
    return rv;
}

const uint8_t *nx_conn_straight(nx_conn *c, int64_t stream, uint64_t off, const uint8_t *data)
{
    nx_direct_decrypt *s = &c->straight;
    uint8_t *at = s->place.at;
    size_t skip = s->place.from - s->frame.at, now;

    if ((at == NULL) || (stream != s->frame.stream) || (off != s->frame.off)) {
        return NULL;
    }
    s->place.at = NULL;
    if (place_of(c, &s->frame, data, skip, &now) == at) {
        return at;
    }
    nx_protect_peek(&s->packet, s->place.from, s->place.to, (uint8_t *)data + skip);
    return NULL;
}
