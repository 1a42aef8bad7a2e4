/*
 * request.c - completion of requests.
 *
 * A request without on_done is completed in place: no caller can see it before the entry is left. A
 * request with on_done is queued for the outermost leave, since the callback may free it and start
 * others.
 */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "msg/engine.h"

void nx_req_begin(nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context)
{
    r->done = false;
    r->err = NEXAR_OK;
    r->peer = key->peer;
    r->tag = key->tag;
    r->bytes = 0;
    r->kind = kind;
    r->state = 0;
    r->context = context;
    nx_list_init(&r->link);
    nx_list_init(&r->peer_link);
}

/* The outcome is set. */
static void finish(nx_msg *m, nx_req *r)
{
    nx_list_remove(&r->peer_link);
    if ((r->kind == NX_REQ_SEND) && (r->send.cuts != NULL)) {
        nx_free(r->send.cuts);
        r->send.cuts = NULL;
    }
    r->state = 0;
    m->stir = m->closing;
    if (r->on_done != NULL) {
        nx_list_push_back(&m->finished, &r->link);
        return;
    }
    r->done = true;
    if (r->event != NULL) {
        nx_event_set(m->config.loop, r->event);
    }
}

void nx_req_end(nx_msg *m, nx_req *r)
{
    finish(m, r);
}

void nx_req_fail(nx_msg *m, nx_req *r, nexar_err err, const char *format, ...)
{
    va_list args;

    r->err = err;
    va_start(args, format);
    (void)nx_sentence_v(r->why, sizeof(r->why), format, args);
    va_end(args);
    finish(m, r);
}

void nx_req_outcome(nx_req *r, const nx_key *key, uint64_t bytes)
{
    r->peer = key->peer;
    r->tag = key->tag;
    r->bytes = bytes;
}

void nx_req_received(nx_msg *m, nx_req *r)
{
    const nx_sink *sink = &r->recv.delivery.sink;

    m->stats.messages_received++;
    if (r->bytes > sink->room) {
        nx_req_fail(m, r, NEXAR_ETRUNC, "a message of %llu bytes from %u, and room for %llu",
                    (unsigned long long)r->bytes, r->peer, (unsigned long long)sink->room);
    } else if ((sink->iov == NULL) && (sink->take != NULL) && (r->bytes & (sink->unit - 1))) {
        nx_req_fail(m, r, NEXAR_EMISMATCH,
                    "a message of %llu bytes from %u, which is not a multiple of %u",
                    (unsigned long long)r->bytes, r->peer, sink->unit);
    } else {
        finish(m, r);
    }
}

void nx_req_run_finished(nx_msg *m)
{
    nx_list *at;

    while ((at = nx_list_pop(&m->finished)) != NULL) {
        nx_req *r = nx_list_entry(at, nx_req, link);

        r->done = true;
        if (r->event != NULL) {
            nx_event_set(m->config.loop, r->event);
        }
        r->on_done(r);
    }
}

size_t nx_req_cut(const nx_req *r, uint64_t off, uint64_t len, nx_bytes *out)
{
    size_t n = 0;

    for (size_t i = 0; (i < r->send.n) && (len > 0); i++) {
        nx_bytes b = r->send.bytes[i];

        if (off >= b.len) {
            off -= b.len;
            continue;
        }
        b.ptr = (const uint8_t *)b.ptr + off;
        b.len -= (size_t)off;
        off = 0;
        if (b.len > len) {
            b.len = (size_t)len;
        }
        len -= b.len;
        out[n++] = b;
    }
    return n;
}
