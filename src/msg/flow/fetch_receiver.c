/*
 * fetch_receiver.c - the receiver's end of fetching by name.
 *
 * Credit bounds the unmatched messages at the receiver. A program may wait for a message behind
 * those. So when a sender reports that it is out of credit, the receiver requests by name (WANT)
 * whatever its posted receives wait for. The sender then transmits those envelopes ahead of its
 * queue. They cost no credit, because each matches a receive.
 *
 * If a fetched message matches no receive (the receive was cancelled, or took another peer's
 * message), the receiver puts the message back. Further fetched messages may be in flight behind
 * it, also younger messages of the same name, which must not overtake it. So the receiver recalls
 * everything: it withdraws the WANTs (UNASK) and puts back answers in flight. When none is left,
 * the receiver asks again for what receives still wait for.
 */
#include "msg/engine.h"

/* ---- requests ------------------------------------------------------------------------ */

static bool may_ask(const nx_peer *p, nx_class class)
{
    return p->in[class].starved && !p->asking[class].recalling && !p->doomed && (p->link != NULL);
}

static void want(nx_peer *p, nx_context context, uint64_t tag)
{
    nx_frame f = {.type = NX_FRAME_WANT, .context = context, .tag = tag};

    if (f.tag == NX_ANY_TAG) {
        f.any_tag = true;
        f.tag = 0;
    }
    p->asking[context.class].wants++;
    nx_peer_send_frame(p, NX_LANE_CONTROL, &f);
}

/* The oldest receive from any source that was not requested from |p|; NULL: none. The list is in
 * order of posting, asked receives first. */
static nx_req *next_any(const nx_peer *p, nx_class class)
{
    nx_list *head = &p->msg->any[class], *at = head->prev;
    nx_req *next = NULL;

    while (at != head) {
        nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if (r->recv.when <= p->asking[class].any) {
            break;
        }
        next = r;
        at = at->prev;
    }
    return next;
}

static void recall(nx_peer *p, nx_class class)
{
    nx_frame f = {.type = NX_FRAME_UNASK, .context.class = class};

    p->asking[class].recalling = true;
    p->asking[class].unasked = false;
    nx_peer_send_frame(p, NX_LANE_CONTROL, &f);
}

/* In order of posting: a younger receive's WANT must not give an older receive of any tag a younger
 * message. */
void nx_ask(nx_peer *p, nx_class class)
{
    nx_asking *a = &p->asking[class];
    nx_list *posted = &p->posted[class];

    while (may_ask(p, class)) {
        nx_req *any = next_any(p, class), *r = any;

        if (!nx_list_empty(posted)) {
            nx_req *named = nx_list_entry(posted->next, nx_req, peer_link);

            r = ((any == NULL) || (named->recv.when < any->recv.when)) ? named : any;
        }
        if (r == NULL) {
            return;
        }
        if (a->wants >= NX_WANTS_MAX) {
            if (a->stale > 0) {
                recall(p, class); /* some of them are stale */
            }
            return;
        }
        if (r != any) {
            nx_list_remove(&r->peer_link);
            nx_list_push_back(&p->asked[class], &r->peer_link);
            r->state |= NX_REQ_ASKED;
        } else {
            p->msg->asked_any = true;
            a->any = r->recv.when;
        }
        want(p, r->context, r->recv.posted.key.tag);
    }
}

void nx_ask_posted(nx_msg *m, nx_req *r)
{
    if (r->peer != NX_ANY_PEER) {
        nx_ask(nx_peer_get(m, r->peer), r->context.class);
        return;
    }
    if (m->stalls) {
        nx_list_for_each (at, &m->links) {
            nx_ask(nx_list_entry(at, nx_peer, links), r->context.class);
        }
    }
}

void nx_ask_ended(nx_msg *m, nx_req *r)
{
    nx_class class = r->context.class;
    uint32_t peer = r->recv.posted.key.peer;

    if (r->state & NX_REQ_ASKED) {
        nx_peer_get(m, peer)->asking[class].stale++;
    } else if ((peer == NX_ANY_PEER) && m->asked_any) {
        nx_list_for_each (at, &m->links) {
            nx_asking *a = &nx_list_entry(at, nx_peer, links)->asking[class];

            a->stale += (r->recv.when <= a->any) ? 1 : 0;
        }
    }
}

/* ---- answers ------------------------------------------------------------------------- */

/* No WANT of this account is open: asks again for all posted receives, now or when the sender runs
 * out of credit. */
static void start_over(nx_peer *p, nx_class class)
{
    nx_asking *a = &p->asking[class];
    nx_list *asked = &p->asked[class];

    while (!nx_list_empty(asked)) {
        nx_req *last = nx_list_entry(asked->prev, nx_req, peer_link);

        last->state &= ~(uint32_t)NX_REQ_ASKED;
        nx_list_remove(&last->peer_link);
        nx_list_push_front(&p->posted[class], &last->peer_link);
    }
    a->any = 0;
    a->stale = 0;
    a->glanced = (a->glanced == NX_GLANCE_SEEN) ? NX_GLANCE_SEEN : NX_GLANCE_NONE;
    a->recalling = false;
    nx_ask(p, class);
}

static void check_recalled(nx_peer *p, nx_class class)
{
    const nx_asking *a = &p->asking[class];

    if (a->recalling && a->unasked && (a->wants == 0)) {
        start_over(p, class);
    }
}

bool nx_ask_answered(nx_peer *p, const nx_frame *f)
{
    nx_asking *a = &p->asking[f->context.class];

    if (a->wants == 0) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it answered a WANT that was not sent");
        return false;
    }
    a->wants--;
    return !a->recalling;
}

void nx_ask_putback(nx_peer *p, const nx_frame *f)
{
    nx_frame back = {.type = NX_FRAME_PUTBACK, .id = f->id};
    nx_class class = f->context.class;
    nx_asking *a = &p->asking[class];

    if ((a->glanced == NX_GLANCE_ASKED) && (a->glance.context == nx_context_word(f->context)) &&
        ((a->glance.tag == NX_ANY_TAG) || (a->glance.tag == f->tag))) {
        a->glanced = NX_GLANCE_SEEN;
        a->seen_tag = f->tag;
        a->seen_bytes = f->length;
    }
    nx_peer_send_frame(p, NX_LANE_CONTROL, &back);
    if (!a->recalling) {
        recall(p, class);
    }
    check_recalled(p, class);
}

void nx_ask_unasked(nx_peer *p, const nx_frame *f)
{
    nx_asking *a = &p->asking[f->context.class];

    if (!a->recalling || a->unasked || (f->limit > a->wants)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it withdrew more WANTs than were open");
        return;
    }
    a->wants -= (uint32_t)f->limit;
    a->unasked = true;
    check_recalled(p, f->context.class);
}

void nx_ask_unwanted(nx_peer *p, const nx_frame *f)
{
    nx_asking *a = &p->asking[f->context.class];

    if (f->limit > a->wants) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it refused more WANTs than were open");
        return;
    }
    a->wants -= (uint32_t)f->limit;
    p->in[f->context.class].starved = false; /* the sender reports if it runs out of credit again */
    if (!a->recalling && (a->wants == 0)) {
        start_over(p, f->context.class);
    } else if (!a->recalling) {
        recall(p, f->context.class); /* the number of WANTs left is unknown */
    }
    check_recalled(p, f->context.class);
}

/* ---- iprobe -------------------------------------------------------------------------- */

bool nx_ask_glance(nx_peer *p, const nx_key *key, nx_context context, nx_req *found)
{
    nx_asking *a = &p->asking[context.class];
    bool same = (a->glance.context == key->context) && (a->glance.tag == key->tag);

    if ((a->glanced == NX_GLANCE_SEEN) && same) {
        a->glanced = NX_GLANCE_NONE;
        found->peer = p->index;
        found->tag = a->seen_tag;
        found->bytes = a->seen_bytes;
        return true;
    }
    if (may_ask(p, context.class) && (a->wants < NX_WANTS_MAX) &&
        !((a->glanced == NX_GLANCE_ASKED) && same)) {
        a->glance = *key;
        a->glanced = NX_GLANCE_ASKED;
        a->stale++; /* no receive waits for it: the receiver will put it back */
        want(p, context, key->tag);
    }
    return false;
}
