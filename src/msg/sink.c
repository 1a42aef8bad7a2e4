/* sink.c - scatters data; carries units that a fragment boundary cuts. */
#include "msg/sink.h"

#include <assert.h>
#include <string.h>

#include "base/memory/copy.h"
#include "base/memory/prefetch_hint.h"

void nx_delivery_init(nx_delivery *d, const nx_sink *sink)
{
    d->sink = *sink;
    if (sink->niov == 1) {
        d->one = sink->iov[0];
        d->sink.iov = &d->one;
    }
    for (unsigned part = 0; part < NX_PARTS; part++) {
        d->cursor[part].span = 0;
        d->cursor[part].base = 0;
        d->cursor[part].ncarry = 0;
    }
}

/* The cursor's stretch that contains byte |off|, and the offset in it. */
static const nx_iov_span *seek(const nx_delivery *d, nx_sink_cursor *c, uint64_t off, uint64_t *in)
{
    while (off - c->base >= d->sink.iov[c->span].len) {
        c->base += d->sink.iov[c->span].len;
        c->span++;
        assert(c->span < d->sink.niov);
    }
    *in = off - c->base;
    return &d->sink.iov[c->span];
}

void *nx_delivery_place(nx_delivery *d, unsigned part, uint64_t off, size_t *len)
{
    const nx_iov_span *span;
    uint64_t in;

    if ((d->sink.iov == NULL) || (off >= d->sink.room)) {
        return NULL;
    }
    span = seek(d, &d->cursor[part], off, &in);
    if (*len > span->len - in) {
        *len = (size_t)(span->len - in);
    }
    return (uint8_t *)span->ptr + in;
}

static void scatter(nx_delivery *d, nx_sink_cursor *c, uint64_t off, const uint8_t *data,
                    size_t len)
{
    while (len > 0) {
        uint64_t in;
        const nx_iov_span *span = seek(d, c, off, &in);
        size_t n = (span->len - in < len) ? (size_t)(span->len - in) : len;
        uint8_t *to = (uint8_t *)span->ptr + in;

        if (to != data) { /* otherwise the transport wrote it in place */
            nx_memcpy(to, data, n);
            nx_prefetch_wrote(to, n);
        }
        off += n;
        data += n;
        len -= n;
    }
}

static void take(nx_delivery *d, nx_sink_cursor *c, uint64_t off, const uint8_t *data, size_t len)
{
    size_t unit = d->sink.unit, whole;

    if (c->ncarry > 0) {
        size_t n = (unit - c->ncarry < len) ? unit - c->ncarry : len;

        memcpy(c->carry + c->ncarry, data, n);
        c->ncarry += (uint32_t)n;
        off += n;
        data += n;
        len -= n;
        if (c->ncarry < unit) {
            return;
        }
        d->sink.take(d->sink.ctx, off - unit, c->carry, unit);
        c->ncarry = 0;
    }
    whole = len - (len & (unit - 1));
    if (whole > 0) {
        d->sink.take(d->sink.ctx, off, data, whole);
    }
    memcpy(c->carry, data + whole, len - whole);
    c->ncarry = (uint32_t)(len - whole);
}

void nx_delivery_put(nx_delivery *d, unsigned part, uint64_t off, const void *data, size_t len)
{
    nx_sink_cursor *c = &d->cursor[part];

    if ((len == 0) || (off >= d->sink.room)) {
        return;
    }
    if (len > d->sink.room - off) {
        len = (size_t)(d->sink.room - off);
    }
    if (d->sink.iov != NULL) {
        scatter(d, c, off, data, len);
    } else if (d->sink.take != NULL) {
        take(d, c, off, data, len);
    }
}
