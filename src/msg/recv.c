/*
 * recv.c - from envelopes and fragments to receives.
 *
 * A message with a posted receive costs only the delivery. Otherwise the message waits as an
 * nx_inbound. A receive that takes the message gets the bytes that have arrived and requests the
 * rest.
 */
#include "base/alloc.h"
#include "msg/engine.h"

/* ---- a message and its receive ------------------------------------------------------- */

/* No more bytes are expected for |in|. */
static void forget(nx_inbound *in)
{
    if (!(in->state & NX_IN_TINY)) {
        (void)nx_map_take(&in->from->in_ids, in->id); /* id 0 is unused */
    }
    if (in->req != NULL) {
        in->from->matched--;
    }
}

/* Completes the receive if all requested bytes have arrived. */
static void settle(nx_inbound *in)
{
    nx_msg *m = in->from->msg;
    nx_req *r = in->req;

    if ((in->got == in->eager) && (in->rest == in->upto)) {
        forget(in);
        nx_inbound_free(m, in);
        nx_req_received(m, r);
    }
}

/* Whether the sender of |in| waits for a CLEAR though no byte is left to request. An empty message
 * has an envelope of its own only if it is synchronous (docs/internals/messages.md). */
static bool awaits_receive(const nx_inbound *in)
{
    return (in->length == 0) && (in->id != 0) && !(in->state & (NX_IN_BROKEN | NX_IN_PULLED));
}

static void tell_taken(const nx_inbound *in)
{
    const nx_frame clear = {.type = NX_FRAME_CLEAR, .id = in->id, .limit = in->eager};

    nx_peer_send_frame(in->from, NX_LANE_CONTROL, &clear);
}

/* |r| takes |in|, including the bytes still to come. */
static void stream(nx_inbound *in, nx_req *r)
{
    uint64_t room = r->recv.delivery.sink.room;
    nx_frame clear = {.type = NX_FRAME_CLEAR, .id = in->id};

    in->req = r;
    in->from->matched++;
    in->upto = in->rest = in->eager;
    r->state = NX_REQ_MATCHED;
    if ((in->eager < in->length) || ((in->state & (NX_IN_PULLED | NX_IN_ASKED)) == NX_IN_PULLED)) {
        /* Bytes beyond the sink's room are not requested. */
        in->upto = (room < in->eager) ? in->eager : (room < in->length) ? room : in->length;
        clear.limit = in->upto;
        nx_peer_send_frame(in->from, NX_LANE_CONTROL, &clear);
    }
    settle(in);
}

/* The message |in| and the receive |r|, both in no set, have met. */
void nx_recv_meet(nx_inbound *in, nx_req *r)
{
    nx_peer *p = in->from;
    nx_msg *m = p->msg;

    if (r->kind == NX_REQ_MATCH) {
        nx_matched_keep(in, r);
        return;
    }
    nx_req_outcome(r, &in->held.key, in->length);
    if (in->state & NX_IN_FREE) {
        nx_local_take(m, in, r);
        return;
    }
    nx_inbound_release(in);
    if (in->state & NX_IN_BROKEN) {
        nx_inbound_free(m, in);
        nx_req_fail(m, r, p->err, "%s", p->why);
        return;
    }
    nx_delivery_put(&r->recv.delivery, 0, 0, in->data, (size_t)in->got);
    m->stats.copied += in->got;
    if (in->got == in->length) {
        if (awaits_receive(in)) {
            tell_taken(in);
        }
        forget(in);
        nx_inbound_free(m, in);
        nx_req_received(m, r);
        return;
    }
    nx_free(in->data);
    in->data = NULL;
    stream(in, r);
}

/* ---- unmatched messages -------------------------------------------------------------- */

/* Discards an unmatched message in no set; its later bytes are dropped, like the bytes of a
 * retracted message. */
static void discard(nx_inbound *in)
{
    const bool waits = ((in->eager < in->length) && !(in->state & NX_IN_BROKEN));

    nx_inbound_release(in);
    forget(in);
    if (waits || awaits_receive(in)) {
        tell_taken(in);
    }
    nx_inbound_free(in->from->msg, in);
}

static void drop(nx_msg *m, nx_inbound *in)
{
    nx_req *own = in->req; /* a message to the own rank: the send */

    nx_match_drop(&m->match, &in->held);
    if (own != NULL) {
        nx_inbound_free(m, in);
        nx_req_end(m, own);
    } else {
        discard(in);
    }
}

void nx_msg_forget(nx_msg *m, uint32_t comm)
{
    nx_msg_enter(m);
    nx_list_for_each (at, &m->match.held) {
        nx_inbound *in = nx_list_entry(at, nx_inbound, held.order);

        if (((uint32_t)in->held.key.context == comm) &&
            ((in->class == NX_CLASS_USER) || (in->class == NX_CLASS_COLL))) {
            drop(m, in);
        }
    }
    nx_msg_leave(m);
}

void nx_msg_forget_tags(nx_msg *m, nx_context context, uint64_t tag, uint64_t mask)
{
    const uint64_t word = nx_context_word(context);

    nx_msg_enter(m);
    nx_list_for_each (at, &m->match.held) {
        nx_inbound *in = nx_list_entry(at, nx_inbound, held.order);

        if ((in->held.key.context == word) && ((in->held.key.tag & mask) == tag)) {
            drop(m, in);
        }
    }
    nx_msg_leave(m);
}

/* ---- envelopes ----------------------------------------------------------------------- */

/* Removes the posted receive for |key| from its sets; NULL: none matches. */
static nx_req *take_posted(nx_msg *m, const nx_key *key)
{
    nx_posted *posted = nx_match_arrive(&m->match, key);
    nx_req *r;

    if (posted == NULL) {
        return NULL;
    }
    r = nx_list_entry(posted, nx_req, recv.posted);
    nx_post_remove(m, r);
    return r;
}

/* Whether |f| can still be received. */
static bool judge(nx_peer *p, const nx_frame *f)
{
    const nx_msg_config *c = &p->msg->config;

    return (f->context.class != NX_CLASS_COLL) || (c->on_mark == NULL) ||
           (c->on_mark(c->ctx, p->index, f->context, f->tag, &f->mark) == NX_KEEP);
}

/* Whether a receive may still take |f|, though none is posted. */
static bool is_expected(nx_peer *p, const nx_frame *f)
{
    const nx_msg_config *c = &p->msg->config;

    return (f->context.class == NX_CLASS_COLL) || (c->on_unexpected == NULL) ||
           (c->on_unexpected(c->ctx, f->context) == NX_KEEP);
}

static void recv_inline(nx_peer *p, const nx_frame *f, const nx_key *key)
{
    uint64_t cost = NX_ENVELOPE_COST + f->length;
    nx_bytes bytes = {.ptr = f->data, .len = (size_t)f->length};
    nx_msg *m = p->msg;
    nx_inbound *in;
    nx_req *r;

    if (!nx_peer_charge(p, f->context.class, cost)) {
        return;
    }
    if (!judge(p, f)) {
        nx_peer_release(p, f->context.class, cost);
        return;
    }
    r = take_posted(m, key);
    if ((r != NULL) && (r->kind == NX_REQ_RECV)) {
        nx_peer_release(p, f->context.class, cost);
        nx_req_outcome(r, key, f->length);
        nx_delivery_put(&r->recv.delivery, 0, 0, f->data, (size_t)f->length);
        m->stats.delivered += f->length;
        nx_req_received(m, r);
        return;
    }
    if ((r == NULL) && !is_expected(p, f)) {
        nx_peer_release(p, f->context.class, cost);
        return;
    }
    in = nx_inbound_make(p, key, f->context.class);
    if ((in == NULL) || (nx_inbound_keep_whole(in, &bytes, 1, f->length) != NEXAR_OK)) {
        nx_peer_mark_failed(p, NEXAR_ENOMEM, "no memory for an incoming message");
        nx_peer_release(p, f->context.class, cost);
        if (in != NULL) {
            nx_inbound_free(m, in);
        }
        if (r != NULL) {
            nx_req_fail(m, r, p->err, "%s", p->why);
        }
        return;
    }
    if (r != NULL) {
        nx_matched_keep(in, r);
    } else {
        nx_inbound_hold(m, in);
    }
}

/* The first frame of a fragmented message, its envelope or bytes that overtook the envelope:
 * creates the message's node and charges it, unless it was fetched. NULL: the peer has failed. */
static nx_inbound *open_inbound(nx_peer *p, uint64_t id, bool pulled)
{
    nx_class class = nx_id_class(id);
    nx_inbound *in = nx_inbound_make(p, &(nx_key){.peer = p->index}, class);

    if ((in == NULL) || (nx_map_put(&p->in_ids, id, in) != NEXAR_OK)) {
        nx_peer_mark_failed(p, NEXAR_ENOMEM, "no memory for an incoming message");
        goto fail_free;
    }
    in->id = id;
    in->state = NX_IN_EARLY | (pulled ? NX_IN_PULLED : 0);
    if (!pulled && !nx_peer_charge(p, class, NX_ENVELOPE_COST)) {
        goto fail_forget;
    }
    p->early++;
    return in;

fail_forget:
    (void)nx_map_take(&p->in_ids, id);
fail_free:
    if (in != NULL) {
        nx_inbound_free(p->msg, in);
    }
    return NULL;
}

/* The envelope |f| of |in| has arrived. */
static void set_envelope(nx_inbound *in, const nx_frame *f, const nx_key *key)
{
    in->state &= ~(uint32_t)NX_IN_EARLY;
    in->from->early--;
    in->held.key = *key;
    in->length = f->length;
    in->eager = f->eager;
}

static void recv_long(nx_peer *p, const nx_frame *f, const nx_key *key)
{
    nx_inbound *in = nx_map_get(&p->in_ids, f->id);
    nx_req *r;

    if ((in == NULL) && ((in = open_inbound(p, f->id, false)) == NULL)) {
        return;
    }
    if (in->got > f->eager) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent more bytes unasked than it announced");
        return;
    }
    if (!nx_peer_charge(p, f->context.class, f->eager - in->got)) {
        return;
    }
    set_envelope(in, f, key);
    if ((in->got == in->length) && !awaits_receive(in)) {
        forget(in);
    }
    if (!judge(p, f)) {
        discard(in);
        return;
    }
    r = take_posted(p->msg, key);
    if (r != NULL) {
        nx_recv_meet(in, r);
    } else if (is_expected(p, f)) {
        nx_inbound_hold(p->msg, in);
    } else {
        discard(in);
    }
}

/* |r|, a match, takes |in|, which was fetched by name. The sender sends nothing else until the
 * receiver requests the rest, so the receiver requests all of it now and keeps it. */
static void fetch(nx_inbound *in, nx_req *r)
{
    const nx_frame clear = {.type = NX_FRAME_CLEAR, .id = in->id, .limit = in->length};

    in->eager = in->length;
    in->state |= NX_IN_ASKED;
    nx_peer_send_frame(in->from, NX_LANE_CONTROL, &clear);
    if (in->length == 0) {
        forget(in);
    }
    nx_matched_keep(in, r);
}

/* A message that was fetched by name matches its receive, or is put back. */
static void recv_pulled(nx_peer *p, const nx_frame *f, const nx_key *key)
{
    bool wanted = nx_ask_answered(p, f);
    nx_inbound *in;
    nx_req *r;

    if (p->doomed) {
        return;
    }
    if (nx_map_get(&p->in_ids, f->id) != NULL) {
        nx_peer_mark_failed(p, NEXAR_EPROTO,
                            "it sent bytes of a message before they were requested");
        return;
    }
    /* A receive waits for the message: the verdict can only be to keep it. */
    (void)judge(p, f);
    r = wanted ? take_posted(p->msg, key) : NULL;
    if (r == NULL) {
        nx_post_complete_probes(p->msg, key, f->length);
        nx_ask_putback(p, f);
        return;
    }
    p->msg->stats.pulled++;
    nx_req_outcome(r, key, f->length);
    in = open_inbound(p, f->id, true);
    if (in == NULL) {
        nx_req_fail(p->msg, r, p->err, "%s", p->why);
        return;
    }
    set_envelope(in, f, key);
    if (r->kind == NX_REQ_MATCH) {
        fetch(in, r);
    } else {
        stream(in, r);
    }
    nx_ask(p, f->context.class);
}

void nx_recv_envelope(nx_peer *p, const nx_frame *f)
{
    nx_key key = {.context = nx_context_word(f->context), .tag = f->tag, .peer = p->index};

    if (f->type == NX_FRAME_INLINE) {
        recv_inline(p, f, &key);
    } else if (nx_id_number(f->id) != p->in_number + 1) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "its message numbers are not consecutive");
    } else {
        p->in_number++;
        if (f->type == NX_FRAME_PULLED) {
            recv_pulled(p, f, &key);
        } else {
            recv_long(p, f, &key);
        }
    }
}

void nx_recv_retract(nx_peer *p, const nx_frame *f)
{
    nx_inbound *in = nx_map_get(&p->in_ids, f->id);
    nx_req *r;

    if (nx_id_number(f->id) > p->in_number) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it retracted a message that it had not sent");
        return;
    }
    if (in == NULL) {
        return; /* all requested bytes had arrived */
    }
    r = in->req;
    forget(in);
    if (r == NULL) {
        nx_match_drop(&p->msg->match, &in->held);
        nx_inbound_release(in);
    }
    nx_inbound_free(p->msg, in);
    if (r != NULL) {
        nx_req_fail(p->msg, r, NEXAR_ECANCELED, "the sender %u cancelled the message", p->index);
    }
}

/* ---- bytes --------------------------------------------------------------------------- */

/* Whether a message of number |n| may be in flight: each either costs credit that is not charged
 * yet, or was fetched by name. */
static bool may_come(const nx_peer *p, uint64_t n)
{
    uint64_t most = p->early;

    for (int c = 0; c < NX_CLASSES; c++) {
        most += (p->in[c].told - p->in[c].charged) / NX_ENVELOPE_COST + p->asking[c].wants;
    }
    return n - p->in_number <= most;
}

static void keep(nx_inbound *in, uint64_t off, const void *data, size_t len)
{
    nx_peer *p = in->from;

    if ((off != in->got) || (!(in->state & NX_IN_EARLY) && (len > in->eager - in->got))) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent bytes that were not requested");
        return;
    }
    if ((in->state & NX_IN_EARLY) && !nx_peer_charge(p, in->class, len)) {
        return;
    }
    if (nx_inbound_keep(in, data, len) != NEXAR_OK) {
        nx_peer_mark_failed(p, NEXAR_ENOMEM, "no memory for an incoming message");
        if (in->state & NX_IN_EARLY) {
            nx_peer_release(p, in->class, len);
        }
        return;
    }
    if (in->got == in->length) {
        forget(in);
    }
}

static void deliver(nx_inbound *in, uint64_t off, const void *data, size_t len)
{
    unsigned part = (off < in->eager) ? 0 : 1;
    uint64_t *next = (part == 0) ? &in->got : &in->rest;
    uint64_t end = (part == 0) ? in->eager : in->upto;

    if ((off != *next) || (len > end - off)) {
        nx_peer_mark_failed(in->from, NEXAR_EPROTO, "it sent bytes twice or out of order");
        return;
    }
    *next += len;
    nx_delivery_put(&in->req->recv.delivery, part, off, data, len);
    in->from->msg->stats.delivered += len;
    settle(in);
}

void nx_recv_data(nx_peer *p, uint64_t id, uint64_t off, const void *data, size_t len)
{
    nx_inbound *in = nx_map_get(&p->in_ids, id);

    if (len == 0) {
        return;
    }
    if (in == NULL) {
        if (nx_id_number(id) <= p->in_number) {
            return; /* bytes of a retracted message */
        }
        if (((unsigned)nx_id_class(id) >= NX_CLASSES) || !may_come(p, nx_id_number(id))) {
            nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent bytes of a message with an invalid id");
            return;
        }
        in = open_inbound(p, id, false);
        if (in == NULL) {
            return;
        }
    }
    if (in->req != NULL) {
        deliver(in, off, data, len);
    } else {
        keep(in, off, data, len);
    }
}

void *nx_recv_want(nx_peer *p, uint64_t id, uint64_t off, size_t *len)
{
    nx_inbound *in = nx_map_get(&p->in_ids, id);
    unsigned part;
    uint64_t end;

    if ((in == NULL) || (in->req == NULL)) {
        return NULL;
    }
    part = (off < in->eager) ? 0 : 1;
    end = (part == 0) ? in->eager : in->upto;
    if ((off != ((part == 0) ? in->got : in->rest)) || (off >= end)) {
        return NULL; /* invalid id; nx_recv_data reports it */
    }
    if (*len > end - off) {
        *len = (size_t)(end - off);
    }
    return nx_delivery_place(&in->req->recv.delivery, part, off, len);
}

/* ---- a failed peer ------------------------------------------------------------------- */

void nx_recv_fail_all(nx_peer *p)
{
    nx_msg *m = p->msg;
    nx_inbound *in;
    size_t at = 0;

    while ((in = nx_map_next(&p->in_ids, &at)) != NULL) {
        if (in->req != NULL) {
            nx_req_fail(m, in->req, p->err, "%s", p->why);
            nx_inbound_free(m, in);
        } else if (in->state & NX_IN_EARLY) {
            nx_inbound_release(in);
            nx_inbound_free(m, in);
        } else {
            /* The matching receive must fail, and no younger message may take this one's
             * position. */
            in->state |= NX_IN_BROKEN;
            nx_free(in->data);
            in->data = NULL;
        }
    }
    p->matched = p->early = 0;
}
