/*
 * queue.c - sends held back for lack of credit.
 *
 * Envelopes of one peer and class leave in the order of their sends: a new send queues behind
 * waiting ones. A message that the receiver fetches by name (fetch_sender.c) is the exception. That
 * message is the oldest of its name, so the order of (peer, context, tag) holds.
 */
#include "base/alloc.h"
#include "msg/engine.h"

/* Reports that messages wait for credit: once per limit, and not before the receiver's first
 * limit. */
static void stall(nx_peer *p, nx_class class)
{
    nx_credit_out *out = &p->out[class];
    nx_frame f = {.type = NX_FRAME_STALLED, .context.class = class, .limit = out->limit};

    if (p->greeted && !out->stalled && (out->limit - out->spent < NX_ENVELOPE_COST)) {
        out->stalled = true;
        nx_peer_send_frame(p, NX_LANE_CONTROL, &f);
    }
}

/* No credit, or a fetched message is not yet confirmed. */
static bool blocked(const nx_peer *p, nx_class class)
{
    return (p->out[class].limit - p->out[class].spent < NX_ENVELOPE_COST) ||
           nx_pull_pending(p, class);
}

bool nx_queue_blocked(const nx_peer *p, nx_class class)
{
    return !nx_list_empty(&p->queue[class]) || blocked(p, class);
}

void nx_queue_add(nx_peer *p, nx_req *r)
{
    r->send.order = ++p->orders;
    r->send.held.key = (nx_key){.context = nx_context_word(r->context), .tag = r->tag};
    if (nx_pull_offer(p, r)) {
        return;
    }
    r->state |= NX_REQ_QUEUED;
    nx_list_push_back(&p->queue[r->context.class], &r->link);
    p->msg->stats.waiting++;
    stall(p, r->context.class);
}

void nx_queue_remove(nx_peer *p, nx_req *r)
{
    nx_pull_forget(p, r);
    nx_list_remove(&r->link);
    r->state &= ~(uint32_t)NX_REQ_QUEUED;
    p->msg->stats.waiting--;
}

void nx_queue_pump(nx_peer *p, nx_class class)
{
    nx_list *head = &p->queue[class];

    while (!nx_list_empty(head) && !p->doomed) {
        nx_req *r = nx_list_entry(head->next, nx_req, link);

        if (blocked(p, class)) {
            stall(p, class);
            return;
        }
        nx_queue_remove(p, r);
        nx_send_now(p, r);
    }
    p->out[class].stalled = false;
    nx_pull_check(p, class);
}

/* Searches from the end: most fetched messages come from there. */
static void requeue(nx_peer *p, nx_req *r)
{
    nx_list *head = &p->queue[r->context.class], *at = head;

    while ((at->prev != head) &&
           (nx_list_entry(at->prev, nx_req, link)->send.order > r->send.order)) {
        at = at->prev;
    }
    nx_list_insert(at, &r->link);
    r->state = NX_REQ_QUEUED;
    p->msg->stats.waiting++;
    p->msg->stats.messages_sent--;
}

void nx_queue_putback(nx_peer *p, const nx_frame *f)
{
    nx_req *r = nx_map_get(&p->out_ids, f->id);

    if ((r == NULL) || !(r->state & NX_REQ_PULLED)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it put back a message that it had not fetched");
        return;
    }
    (void)nx_map_take(&p->out_ids, f->id);
    nx_list_remove(&r->peer_link);
    nx_free(r->send.cuts);
    r->send.cuts = NULL;
    requeue(p, r);
    nx_pull_confirm(p, r->context.class, false);
    if (r->send.broken || r->send.refused) {
        nx_send_broken(p, r);
    } else {
        nx_queue_pump(p, r->context.class);
    }
}
