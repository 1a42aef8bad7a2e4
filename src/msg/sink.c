/* sink.c - scattering, and carrying of cut units. */
#include "msg/sink.h"

#include <assert.h>
#include <string.h>

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

static void scatter(nx_delivery *d, nx_sink_cursor *c, uint64_t off, const uint8_t *data,
                    size_t len)
{
    while (len > 0) {
        const nx_iov_span *span = &d->sink.iov[c->span];
        uint64_t in = off - c->base;
        size_t n;

        if (in >= span->len) {
            c->base += span->len;
            c->span++;
            assert(c->span < d->sink.niov);
            continue;
        }
        n = (span->len - in < len) ? (size_t)(span->len - in) : len;
        memcpy((uint8_t *)span->ptr + in, data, n);
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
