/*
 * matched.c - messages that a matched probe has taken out of matching.
 *
 * Such a message stays in the list of held messages: more bytes may arrive, the sender may cancel
 * it, the peer may fail, the communicator may be freed. But its key becomes one that no receive
 * has: another kind, and a unique number as tag. So no other receive finds the message, and a
 * lookup of a freed message fails.
 */
#include "msg/engine.h"

/* A bit of the kind of a context that callers do not use. */
enum { MATCHED_KIND = 0x80 };

static uint64_t word_of(nx_context context)
{
    context.kind |= MATCHED_KIND;
    return nx_context_word(context);
}

void nx_matched_keep(nx_inbound *in, nx_req *r)
{
    nx_msg *m = in->from->msg;

    nx_req_outcome(r, &in->held.key, in->length);
    r->recv.number = ++m->matched;
    in->held.key.context = word_of(r->context);
    in->held.key.tag = r->recv.number;
    nx_match_hold(&m->match, &in->held);
    nx_req_end(m, r);
}

void nx_msg_match(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t tag)
{
    const nx_key key = {.context = nx_context_word(context), .tag = tag, .peer = peer};

    nx_post_begin(m, req, NX_REQ_MATCH, &key, context);
}

void nx_msg_take(nx_msg *m, nx_req *req, uint32_t peer, nx_context context, uint64_t number,
                 const nx_sink *sink)
{
    const nx_key key = {.context = word_of(context), .tag = number, .peer = peer};
    nx_held *held;

    nx_msg_enter(m);
    nx_delivery_init(&req->recv.delivery, sink);
    nx_req_begin(req, NX_REQ_RECV, &key, context);
    held = nx_match_find(&m->match, &key);
    if (held == NULL) {
        nx_req_fail(m, req, NEXAR_ECANCELED, "the sender cancelled the message");
    } else {
        nx_match_drop(&m->match, held);
        nx_recv_meet(nx_list_entry(held, nx_inbound, held), req);
    }
    nx_msg_leave(m);
}
