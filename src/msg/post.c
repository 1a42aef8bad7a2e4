/* post.c - receives and probes: match a message that has arrived, or wait. */
#include "msg/engine.h"

void nx_post_remove(nx_msg *m, nx_req *r)
{
    nx_match_unpost((r->kind == NX_REQ_PROBE) ? &m->probes : &m->match, &r->recv.posted);
    nx_ask_ended(m, r);
    nx_list_remove(&r->peer_link);
    r->state = 0;
}

void nx_post_complete_probes(nx_msg *m, const nx_key *key, uint64_t length)
{
    nx_posted *probe;

    while ((probe = nx_match_arrive(&m->probes, key)) != NULL) {
        nx_req *r = nx_list_entry(probe, nx_req, recv.posted);

        nx_post_remove(m, r);
        nx_req_outcome(r, key, length);
        nx_req_end(m, r);
    }
}

static void post(nx_msg *m, nx_req *r)
{
    nx_class class = r->context.class;

    nx_match_post((r->kind == NX_REQ_PROBE) ? &m->probes : &m->match, &r->recv.posted);
    r->state = NX_REQ_POSTED;
    r->recv.when = ++m->posts;
    nx_list_push_back((r->peer == NX_ANY_PEER) ? &m->any[class]
                                               : &nx_peer_get(m, r->peer)->posted[class],
                      &r->peer_link);
    nx_ask_posted(m, r);
}

/* Matches the oldest fitting message, or waits. */
static void start(nx_msg *m, nx_req *r)
{
    nx_held *held = nx_match_find(&m->match, &r->recv.posted.key);
    nx_peer *p = (r->peer == NX_ANY_PEER) ? NULL : nx_peer_get(m, r->peer);

    if (held != NULL) {
        nx_inbound *in = nx_list_entry(held, nx_inbound, held);

        if (r->kind == NX_REQ_PROBE) {
            nx_req_outcome(r, &held->key, in->length);
            nx_req_end(m, r);
        } else {
            nx_match_drop(&m->match, held);
            nx_recv_meet(in, r);
        }
    } else if ((p != NULL) && p->doomed && !p->held) {
        nx_req_fail(m, r, p->err, "%s", p->why);
    } else {
        post(m, r);
    }
}

void nx_post_begin(nx_msg *m, nx_req *r, nx_req_kind kind, const nx_key *key, nx_context context)
{
    nx_msg_enter(m);
    nx_req_begin(r, kind, key, context);
    r->recv.posted.key = *key;
    if ((key->peer != NX_ANY_PEER) && (key->peer >= m->config.peers)) {
        nx_req_fail(m, r, NEXAR_EINVAL, "there is no peer %u; peers are 0 to %u", key->peer,
                    m->config.peers - 1);
    } else if ((key->peer != NX_ANY_PEER) && (m->peers[key->peer] == NULL)) {
        nx_req_fail(m, r, NEXAR_EPEER, "it is gone");
    } else if (m->closing) {
        nx_req_fail(m, r, NEXAR_ECANCELED, "it was started after the shutdown");
    } else {
        start(m, r);
    }
    nx_msg_leave(m);
}

void nx_msg_recv(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag,
                 const nx_sink *sink)
{
    nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};

    nx_delivery_init(&req->recv.delivery, sink);
    nx_post_begin(m, req, NX_REQ_RECV, &key, context);
}

void nx_msg_probe(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag)
{
    nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};

    nx_post_begin(m, req, NX_REQ_PROBE, &key, context);
}

/* Whether a peer that holds messages back has a matching one. */
static bool glance(nx_msg *m, const nx_key *key, nx_context context, nx_req *found)
{
    bool seen = false;

    nx_msg_enter(m);
    nx_list_for_each (at, &m->links) {
        nx_peer *p = nx_list_entry(at, nx_peer, links);

        if (!seen && ((key->peer == NX_ANY_PEER) || (key->peer == p->index))) {
            seen = nx_ask_glance(p, key, context, found);
        }
    }
    nx_msg_leave(m);
    return seen;
}

bool nx_msg_iprobe(nx_msg *m, uint32_t peer, nx_context context, uint64_t tag, nx_req *found)
{
    nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};
    nx_held *held = nx_match_find(&m->match, &key);

    if (held == NULL) {
        return m->stalls && glance(m, &key, context, found);
    }
    nx_req_outcome(found, &held->key, nx_list_entry(held, nx_inbound, held)->length);
    return true;
}
