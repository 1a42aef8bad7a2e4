/*
 * send.c - from a request to envelopes and fragments.
 *
 * Credit decides how a message is sent (credit.h); the queue decides when. The transport releases
 * the memory by on_sent; only then is the send done.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "msg/engine.h"

enum { STRETCHES = 7 }; /* a frame of more stretches is gathered first */

static nx_frame envelope(const nx_req *r, nx_frame_type type)
{
    return (nx_frame){
        .type = type, .context = r->context, .tag = r->tag, .mark = r->mark, .length = r->bytes};
}

/* ---- short messages ------------------------------------------------------------------ */

static nexar_err send_gathered(nx_peer *p, const nx_req *r, nx_bytes head)
{
    uint8_t *data = nx_grow(NULL, (size_t)r->bytes, 1);
    nx_bytes bytes[2] = {head, {.ptr = data, .len = (size_t)r->bytes}};
    size_t at = 0;
    nexar_err err;

    if (data == NULL) {
        return NEXAR_ENOMEM;
    }
    for (size_t i = 0; i < r->send.n; i++) {
        if (r->send.bytes[i].len > 0) {
            memcpy(data + at, r->send.bytes[i].ptr, r->send.bytes[i].len);
            at += r->send.bytes[i].len;
        }
    }
    err = nx_link_send_frame(p->link, NX_LANE_MESSAGE, bytes, 2);
    nx_free(data);
    return err;
}

static void send_inline(nx_peer *p, nx_req *r)
{
    nx_frame f = envelope(r, NX_FRAME_INLINE);
    uint8_t head[NX_MSG_FRAME_ROOM];
    nx_bytes bytes[STRETCHES + 1] = {{.ptr = head, .len = nx_frame_encode(&f, head)}};
    nexar_err err;

    if (r->send.n > STRETCHES) {
        err = send_gathered(p, r, bytes[0]);
    } else {
        for (size_t i = 0; i < r->send.n; i++) {
            bytes[i + 1] = r->send.bytes[i];
        }
        err = nx_link_send_frame(p->link, NX_LANE_MESSAGE, bytes, r->send.n + 1);
    }
    if (err != NEXAR_OK) {
        nx_req_fail(p->msg, r, err, "to peer %u: %s", p->index, nexar_strerror(err));
        return;
    }
    nx_credit_spend(&p->out[r->context.class], r->bytes);
    p->msg->stats.messages_sent++;
    nx_req_end(p->msg, r);
}

/* ---- long ones ----------------------------------------------------------------------- */

/* Gives bytes [off, off + len) to the transport. */
static void send_part(nx_peer *p, nx_req *r, unsigned part, uint64_t off, uint64_t len)
{
    nx_req_send *s = &r->send;
    nx_tx *tx = &s->part[part].tx;
    nexar_err err;

    if (len == r->bytes) {
        tx->bytes = s->bytes;
        tx->nbytes = s->n;
    } else if (s->streamed) {
        s->cut[part] =
            (nx_bytes){.ptr = (const uint8_t *)s->one.ptr + (off - s->from), .len = (size_t)len};
        tx->bytes = &s->cut[part];
        tx->nbytes = 1;
    } else {
        nx_bytes *room = (s->n > 1) ? s->cuts + part * s->n : &s->cut[part];

        tx->bytes = room;
        tx->nbytes = nx_req_cut(r, off, len, room);
    }
    s->part[part].req = r;
    tx->id = s->id;
    tx->off = off;
    tx->len = len;
    err = nx_link_send_part(p->link, tx);
    if (err != NEXAR_OK) { /* announced bytes must follow */
        nx_peer_mark_failed(p, err, "a message could not be sent: %s", nexar_strerror(err));
        return;
    }
    s->parts_out++;
    s->out |= 1U << part;
    p->parts_out++;
    p->msg->parts_out++;
}

/* Prepares for a CLEAR that requests a part of the rest. */
static nexar_err expect_clear(nx_peer *p, nx_req *r)
{
    nexar_err err;

    if (r->send.n > 1) {
        r->send.cuts = nx_calloc(NX_PARTS * r->send.n, sizeof(nx_bytes));
        if (r->send.cuts == NULL) {
            return NEXAR_ENOMEM;
        }
    }
    err = nx_map_put(&p->out_ids, r->send.id, r);
    if (err == NEXAR_OK) {
        r->state |= NX_REQ_UNCLEAR;
    }
    return err;
}

static void send_long(nx_peer *p, nx_req *r, nx_frame_type type, uint64_t eager)
{
    nx_frame f = envelope(r, type);
    uint8_t head[NX_MSG_FRAME_ROOM];
    nx_bytes bytes = {.ptr = head};
    nexar_err err = NEXAR_OK;

    f.id = r->send.id = nx_id_make(p->out_number + 1, r->context.class);
    f.eager = r->send.eager = eager;
    bytes.len = nx_frame_encode(&f, head);
    if ((eager < r->bytes) || r->send.synchronous || (type == NX_FRAME_PULLED)) {
        err = expect_clear(p, r);
    }
    if (err == NEXAR_OK) {
        err = nx_link_send_frame(p->link, NX_LANE_MESSAGE, &bytes, 1);
    }
    if (err != NEXAR_OK) {
        (void)nx_map_take(&p->out_ids, r->send.id);
        if (type == NX_FRAME_PULLED) {
            nx_peer_mark_failed(p, err, "a message that it requested could not be sent: %s",
                                nexar_strerror(err));
        }
        nx_req_fail(p->msg, r, err, "to peer %u: %s", p->index, nexar_strerror(err));
        return;
    }
    p->out_number++;
    p->msg->stats.messages_sent++;
    if (type == NX_FRAME_LONG) {
        nx_credit_spend(&p->out[r->context.class], eager);
    }
    nx_list_push_back(&p->busy, &r->peer_link);
    if (eager > 0) {
        send_part(p, r, 0, 0, eager);
    }
}

void nx_send_pulled(nx_peer *p, nx_req *r)
{
    send_long(p, r, NX_FRAME_PULLED, 0);
}

void nx_send_now(nx_peer *p, nx_req *r)
{
    const nx_msg_config *config = &p->msg->config;
    uint64_t eager = 0;

    const bool whole = nx_credit_plan(&p->out[r->context.class], r->bytes, nx_send_inline_max(p),
                                      config->eager_max, &eager) == NX_SEND_PLAN_INLINE;

    if (r->send.synchronous) {
        send_long(p, r, NX_FRAME_LONG, 0);
    } else if (r->send.streamed) {
        const uint64_t most = whole ? r->bytes : eager, here = r->send.one.len;

        eager = (most < here) ? most : here;
        send_long(p, r, NX_FRAME_LONG, eager - eager % NX_UNIT_MAX);
    } else if (whole) {
        send_inline(p, r);
    } else {
        send_long(p, r, NX_FRAME_LONG, eager);
    }
}

/* ---- the request --------------------------------------------------------------------- */

/* Sums up the stretches; false: impossible. */
static bool measure(nx_req *r, const nx_bytes *bytes, size_t n)
{
    nx_req_send *s = &r->send;

    s->cuts = NULL;
    s->parts_out = s->out = 0;
    s->synchronous = false;
    s->streamed = s->needs = s->broken = s->refused = false;
    s->from = s->off = s->limit = 0;
    s->n = n;
    s->bytes = bytes;
    if (n == 1) {
        s->one = bytes[0];
        s->bytes = &s->one;
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > NX_WIRE_MAX - r->bytes) {
            return false;
        }
        r->bytes += bytes[i].len;
    }
    return true;
}

static void send_to_peer(nx_msg *m, nx_req *r)
{
    nx_peer *p = nx_peer_get(m, r->peer);
    nx_class class = r->context.class;
    nexar_err err;

    if (p->held) {
        nx_queue_add(p, r);
        return;
    }
    if (p->doomed) {
        nx_req_fail(m, r, p->err, "%s", p->why);
        return;
    }
    err = nx_peer_connect(p);
    if (err != NEXAR_OK) {
        nx_req_fail(m, r, err, "no link to peer %u: %s", r->peer, nexar_strerror(err));
    } else if (p->doomed) { /* the link did not take the greeting */
        nx_req_fail(m, r, p->err, "%s", p->why);
    } else if (nx_queue_blocked(p, class)) {
        nx_queue_add(p, r);
    } else {
        nx_send_now(p, r);
    }
}

/* Fails |req| if its peer does not exist or its tag is a wildcard; returns whether it did. */
static bool refuse(nx_msg *m, nx_req *req, uint32_t peer, uint64_t tag)
{
    if (peer >= m->config.peers) {
        nx_req_fail(m, req, NEXAR_EINVAL, "there is no peer %u; peers are 0 to %u", peer,
                    m->config.peers - 1);
        return true;
    }
    if (tag == NX_ANY_TAG) {
        nx_req_fail(m, req, NEXAR_EINVAL, "the tag is the wildcard, which only receives may use");
        return true;
    }
    return false;
}

static void refuse_length(nx_msg *m, nx_req *req)
{
    nx_req_fail(m, req, NEXAR_EINVAL, "the message is longer than 2^62 - 1 bytes");
}

static nx_key key_of(uint32_t peer, nx_context context, uint64_t tag)
{
    return (nx_key){.context = nx_context_word(context), .tag = tag, .peer = peer};
}

static void send_whole(nx_msg *m, nx_req *req, nx_key key, nx_context context,
                       const nx_bytes *bytes, size_t n, bool synchronous)
{
    const uint32_t peer = key.peer;

    nx_msg_enter(m);
    nx_req_begin(req, NX_REQ_SEND, &key, context);
    if (!measure(req, bytes, n)) {
        refuse_length(m, req);
    } else if (refuse(m, req, peer, key.tag)) {
        /* the peer has failed */
    } else if (m->closing) {
        nx_req_fail(m, req, NEXAR_ECANCELED, "it was started after the shutdown");
    } else if (peer == m->config.self) {
        req->send.synchronous = synchronous;
        nx_local_send(m, req);
    } else if (m->peers[peer] == NULL) {
        nx_req_fail(m, req, NEXAR_EPEER, "it is gone");
    } else {
        req->send.synchronous = synchronous;
        send_to_peer(m, req);
    }
    nx_msg_leave(m);
}

void nx_msg_send(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_bytes *bytes, size_t n)
{
    send_whole(m, req, key_of(peer, context, tag), context, bytes, n, false);
}

void nx_msg_send_synchronous(nx_msg *m, nx_req *req, uint32_t peer, nx_context context,
                             uint64_t tag, const nx_bytes *bytes, size_t n)
{
    send_whole(m, req, key_of(peer, context, tag), context, bytes, n, true);
}

void nx_msg_send_stream(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                        nx_bytes first, uint64_t total)
{
    const nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};

    nx_msg_enter(m);
    nx_req_begin(req, NX_REQ_SEND, &key, context);
    if (!measure(req, &first, 1) || (total > NX_WIRE_MAX)) {
        refuse_length(m, req);
    } else if (refuse(m, req, peer, tag)) {
        /* the peer has failed */
    } else if (total <= first.len) {
        nx_req_fail(m, req, NEXAR_EINVAL, "the first part is the whole message: it is no stream");
    } else if (peer == m->config.self) {
        nx_req_fail(m, req, NEXAR_EINVAL, "a stream to the own rank is not possible");
    } else if (m->closing) {
        nx_req_fail(m, req, NEXAR_ECANCELED, "it was started after the shutdown");
    } else if (m->peers[peer] == NULL) {
        nx_req_fail(m, req, NEXAR_EPEER, "it is gone");
    } else {
        req->bytes = total;
        req->send.streamed = true;
        send_to_peer(m, req);
    }
    nx_msg_leave(m);
}

/* ---- events from the receiver -------------------------------------------------------- */

/* Completes |r| if nothing is left to do. */
static void settle(nx_msg *m, nx_req *r)
{
    if ((r->send.parts_out == 0) && !(r->state & NX_REQ_UNCLEAR)) {
        nx_req_end(m, r);
    }
}

/* Sends the next part of a streamed message that the peer has requested. Concurrent fragments may
 * overtake each other, so one is in flight at a time. When a whole part is acknowledged, its owner
 * may reuse the memory. */
static void go_on(nx_peer *p, nx_req *r)
{
    nx_req_send *s = &r->send;
    const uint64_t end = s->from + s->one.len, to = (end < s->limit) ? end : s->limit;

    if (s->off == s->limit) {
        settle(p->msg, r);
    } else if (s->parts_out > 0) {
        return;
    } else if (s->off < to) {
        send_part(p, r, 1, s->off, to - s->off);
        s->off = to;
    } else if (!s->needs) {
        s->needs = true;
        r->on_need(r, s->off);
    }
}

void nx_send_clear(nx_peer *p, const nx_frame *f)
{
    nx_req *r;

    if (nx_id_number(f->id) > p->out_number) {
        nx_peer_mark_failed(p, NEXAR_EPROTO,
                            "it requested the rest of a message that was not sent");
        return;
    }
    r = nx_map_get(&p->out_ids, f->id);
    if (r == NULL) {
        return; /* cancelled before the CLEAR arrived */
    }
    if ((f->limit < r->send.eager) || (f->limit > r->bytes)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it requested bytes beyond the end of a message");
        return;
    }
    (void)nx_map_take(&p->out_ids, f->id);
    if (r->state & NX_REQ_PULLED) {
        nx_pull_confirm(p, r->context.class, true);
        nx_queue_pump(p, r->context.class);
    }
    r->state &= ~(uint32_t)(NX_REQ_UNCLEAR | NX_REQ_PULLED);
    if (r->send.refused) { /* requested before the message was refused */
        r->send.refused = false;
        r->err = NEXAR_OK;
        r->why[0] = '\0';
    }
    if (r->send.broken) {
        nx_send_broken(p, r);
    } else if (r->send.streamed) {
        r->send.off = r->send.eager;
        r->send.limit = f->limit;
        go_on(p, r);
    } else if (f->limit > r->send.eager) {
        send_part(p, r, 1, r->send.eager, f->limit - r->send.eager);
    } else {
        settle(p->msg, r);
    }
}

void nx_send_on_sent(nx_peer *p, nx_tx *tx, nexar_err err)
{
    nx_req *r = nx_list_entry(tx, nx_out_part, tx)->req;
    nx_msg *m = p->msg;

    assert((r->send.parts_out > 0) && (m->parts_out > 0));
    r->send.parts_out--;
    r->send.out &= (tx == &r->send.part[0].tx) ? ~1U : ~2U;
    p->parts_out--;
    m->parts_out--;
    if (r->state & NX_REQ_ENDING) {
        if (r->send.parts_out == 0) {
            nx_req_end(m, r); /* the result is set already */
        }
    } else if ((err == NEXAR_OK) && r->send.streamed && !(r->state & NX_REQ_UNCLEAR)) {
        go_on(p, r);
    } else if (err == NEXAR_OK) {
        settle(m, r);
    } /* otherwise the link fails, and |r| with it */
}

void nx_msg_send_more(nx_msg *m, nx_req *req, nx_bytes next)
{
    nx_req_send *s = &req->send;
    nx_peer *p;

    if (req->done || (req->state & NX_REQ_ENDING) || !s->needs || (next.len == 0)) {
        return;
    }
    nx_msg_enter(m);
    p = nx_peer_get(m, req->peer);
    s->needs = false;
    s->from = s->off;
    s->one = next;
    if (!p->doomed) { /* it fails together with its peer */
        go_on(p, req);
    }
    nx_msg_leave(m);
}

/* ---- early end ----------------------------------------------------------------------- */

/* Fails |r| with |err| and |why| once the transport has released it. */
static void end_later(nx_msg *m, nx_req *r, nexar_err err, const char *why)
{
    if (r->send.parts_out == 0) {
        nx_req_fail(m, r, err, "%s", why);
        return;
    }
    r->err = err;
    (void)strncpy(r->why, why, sizeof(r->why) - 1);
    r->why[sizeof(r->why) - 1] = '\0';
    r->state = NX_REQ_ENDING;
    nx_list_remove(&r->peer_link);
}

void nx_send_fail_all(nx_peer *p, nx_req *r)
{
    if (r->state & NX_REQ_LOCAL) {
        nx_local_cancel(p->msg, r);
    }
    end_later(p->msg, r, p->err, p->why);
}

static void retract(nx_peer *p, nx_req *r)
{
    nx_frame f = {.type = NX_FRAME_RETRACT, .id = r->send.id};

    (void)nx_map_take(&p->out_ids, r->send.id);
    nx_peer_send_frame(p, NX_LANE_MESSAGE, &f);
    for (unsigned i = 0; i < NX_PARTS; i++) {
        if (r->send.out & (1U << i)) {
            nx_link_cancel_part(p->link, &r->send.part[i].tx);
        }
    }
}

bool nx_send_cancel(nx_msg *m, nx_req *r)
{
    static const char why[] = "cancelled";
    nx_peer *p = nx_peer_get(m, r->peer);

    if (r->state & NX_REQ_LOCAL) {
        nx_local_cancel(m, r);
        nx_req_fail(m, r, NEXAR_ECANCELED, "%s", why);
    } else if (r->state & NX_REQ_QUEUED) {
        nx_queue_remove(p, r);
        nx_queue_pump(p, r->context.class); /* the last fetched message ends the fetching */
        nx_req_fail(m, r, NEXAR_ECANCELED, "%s", why);
    } else if (((r->state & (NX_REQ_UNCLEAR | NX_REQ_PULLED)) == NX_REQ_UNCLEAR) && !p->doomed) {
        retract(p, r);
        end_later(m, r, NEXAR_ECANCELED, why);
    } else {
        return (r->state & NX_REQ_ENDING) && (r->err == NEXAR_ECANCELED);
    }
    return true;
}

void nx_send_broken(nx_peer *p, nx_req *r)
{
    char why[sizeof(r->why)];

    memcpy(why, r->why, sizeof(why));
    if (r->state & NX_REQ_QUEUED) {
        nx_queue_remove(p, r);
        nx_queue_pump(p, r->context.class);
    } else {
        retract(p, r);
    }
    end_later(p->msg, r, r->err, why);
}

void nx_send_refuse(nx_peer *p, nx_req *r, nexar_err err, const char *why)
{
    if ((r->state & NX_REQ_ENDING) || r->send.broken || r->send.refused) {
        return;
    }
    if (r->state & (NX_REQ_QUEUED | NX_REQ_UNCLEAR)) {
        r->err = err;
        (void)nx_sentence(r->why, sizeof(r->why), "%s", why);
        r->send.refused = true;
        if (!(r->state & NX_REQ_PULLED)) {
            nx_send_broken(p, r);
        }
    }
}

void nx_msg_send_break(nx_msg *m, nx_req *req, nexar_err err, const char *why)
{
    nx_peer *p;

    if (req->done || (req->state & NX_REQ_ENDING) || req->send.broken) {
        return;
    }
    nx_msg_enter(m);
    p = nx_peer_get(m, req->peer);
    req->err = err;
    (void)nx_sentence(req->why, sizeof(req->why), "%s", why);
    req->send.broken = true;
    req->send.refused = false;
    /* A request of a failed peer ends with the peer; a message fetched by name waits for the
     * receiver's answer. */
    if (!p->doomed && !(req->state & NX_REQ_PULLED)) {
        nx_send_broken(p, req);
    }
    nx_msg_leave(m);
}
