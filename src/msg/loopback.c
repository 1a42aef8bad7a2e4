/*
 * loopback.c - messages to the own rank.
 *
 * With a posted receive the bytes are copied once, from the sender's memory to the sink. Otherwise
 * a short message is copied to the pool, if the own credit allows, and the send is done. A longer
 * message waits by reference.
 */
#include "engine.h"

/* Copies the pieces of |s| into the sink of |r|; completes both. */
static void copy(nx_msg *m, nx_req *s, nx_req *r)
{
    uint64_t off = 0;

    r->peer = s->peer;
    r->tag = s->tag;
    r->bytes = s->bytes;
    for (size_t i = 0; i < s->send.n; i++) {
        nx_delivery_put(&r->recv.delivery, 0, off, s->send.bytes[i].ptr, s->send.bytes[i].len);
        off += s->send.bytes[i].len;
    }
    m->stats.delivered += off;
    nx_req_end(m, s);
    nx_req_received(m, r);
}

/* Whether |r| was copied to the pool, and is done. */
static bool keep_copy(nx_peer *self, nx_req *r, nx_inbound *in)
{
    nx_msg *m = self->msg;
    nx_credit_in *c = &self->in[r->context.class];
    uint64_t cost = NX_ENVELOPE_COST + r->bytes;

    if (r->send.synchronous || (r->bytes > m->config.inline_max) ||
        (nx_credit_used(c) + cost > c->window)) {
        return false;
    }
    if (nx_inbound_keep_whole(in, r->send.bytes, r->send.n, r->bytes) != NEXAR_OK) {
        return false; /* then by reference */
    }
    c->told = c->charged + cost; /* no frame is needed */
    return nx_peer_charge(self, r->context.class, cost);
}

void nx_local_send(nx_msg *m, nx_req *r)
{
    nx_key key = {.context = nx_context_word(r->context), .tag = r->tag, .peer = r->peer};
    nx_posted *posted = nx_match_arrive(&m->match, &key);
    nx_req *recv = (posted == NULL) ? NULL : nx_list_entry(posted, nx_req, recv.posted);
    nx_peer *self = nx_peer_get(m, r->peer);
    nx_inbound *in;

    m->stats.messages_sent++;
    if ((recv != NULL) && (recv->kind == NX_REQ_RECV)) {
        nx_post_remove(m, recv);
        copy(m, r, recv);
        return;
    }
    in = nx_inbound_make(self, &key, r->context.class);
    if (in == NULL) {
        nx_req_fail(m, r, NEXAR_ENOMEM, "to the own rank: %s", nexar_strerror(NEXAR_ENOMEM));
        return;
    }
    if (keep_copy(self, r, in)) {
        nx_req_end(m, r);
    } else {
        in->state |= NX_IN_FREE;
        in->length = r->bytes;
        in->req = r;
        r->send.local = in;
        r->state = NX_REQ_LOCAL;
        nx_list_push_back(&self->busy, &r->peer_link);
    }
    if (recv != NULL) {
        nx_post_remove(m, recv);
        nx_matched_keep(in, recv);
    } else {
        nx_inbound_hold(m, in);
    }
}

void nx_local_take(nx_msg *m, nx_inbound *in, nx_req *r)
{
    nx_req *s = in->req;

    nx_inbound_free(m, in);
    copy(m, s, r);
}

void nx_local_cancel(nx_msg *m, nx_req *r)
{
    nx_match_drop(&m->match, &r->send.local->held);
    nx_inbound_free(m, r->send.local);
}
