/* revoke.c - fails every pending request of one context. */
#include "msg/engine.h"

typedef struct wish {
    uint64_t context;
    nexar_err err;
    const char *why;
} wish;

static void fail_receives(nx_msg *m, nx_list *head, const wish *w)
{
    nx_list_for_each (at, head) {
        nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if (nx_context_word(r->context) == w->context) {
            nx_post_remove(m, r);
            nx_req_fail(m, r, w->err, "%s", w->why);
        }
    }
}

static void cancel_sends(nx_peer *p, nx_class class, const wish *w)
{
    /* Completing one request may complete others: restart at the front. */
    for (nx_list *at = p->queue[class].next; at != &p->queue[class];) {
        nx_req *r = nx_list_entry(at, nx_req, link);

        at = at->next;
        if (nx_context_word(r->context) == w->context) {
            (void)nx_send_cancel(p->msg, r);
            at = p->queue[class].next;
        }
    }
    nx_list_for_each (at, &p->busy) {
        nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if ((nx_context_word(r->context) == w->context) && !(r->state & NX_REQ_ENDING)) {
            (void)nx_send_cancel(p->msg, r);
        }
    }
}

void nx_msg_fail_context(nx_msg *m, nx_context context, bool any, nexar_err err, const char *why)
{
    const wish w = {.context = nx_context_word(context), .err = err, .why = why};

    nx_msg_enter(m);
    fail_receives(m, &m->any[context.class], &w);
    for (uint32_t i = 0; !any && (i < m->config.peers); i++) {
        nx_peer *p = m->peers[i];

        if ((p != NULL) && p->ready) {
            fail_receives(m, &p->posted[context.class], &w);
            fail_receives(m, &p->asked[context.class], &w);
            cancel_sends(p, context.class, &w);
        }
    }
    nx_msg_leave(m);
}

void nx_msg_fail_from(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why)
{
    const wish w = {.context = nx_context_word(context), .err = err, .why = why};
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;

    if ((p == NULL) || !p->ready || p->doomed) {
        return; /* on a link that is down, requests have ended or end in a moment */
    }
    nx_msg_enter(m);
    fail_receives(m, &p->posted[context.class], &w);
    fail_receives(m, &p->asked[context.class], &w);
    nx_msg_leave(m);
}

/* Whether |p| may still need a frame of |context|, perhaps a repeated one. */
static bool owes(const nx_peer *p, nx_context context)
{
    const uint64_t word = nx_context_word(context);

    for (const nx_list *at = p->queue[context.class].next; at != &p->queue[context.class];
         at = at->next) {
        if (nx_context_word(nx_list_entry(at, nx_req, link)->context) == word) {
            return true;
        }
    }
    for (const nx_list *at = p->busy.next; at != &p->busy; at = at->next) {
        const nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if ((nx_context_word(r->context) == word) && ((r->state & NX_REQ_PULLED) != 0)) {
            return true;
        }
    }
    return false;
}

void nx_msg_finish(nx_msg *m, uint32_t peer, nx_context context, uint8_t how)
{
    const nx_frame f = {.type = NX_FRAME_FINISHED, .context = context, .limit = how};
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;

    if ((p != NULL) && p->ready && !p->doomed && (p->link != NULL) && !owes(p, context)) {
        nx_msg_enter(m);
        nx_peer_send_frame(p, NX_LANE_MESSAGE, &f);
        nx_msg_leave(m);
    }
}

/* Calls |each| for the requests of |list|, which is in order of posting, that were already pending
 * at the last call. */
static void tell_waiting(const nx_msg *m, const nx_list *list,
                         void (*each)(void *ctx, uint32_t peer, nx_context context), void *ctx)
{
    for (const nx_list *at = list->prev; at != list; at = at->prev) {
        const nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if (r->recv.when <= m->looked[1]) {
            break;
        }
        if (r->recv.when <= m->looked[0]) {
            each(ctx, r->peer, r->context);
        }
    }
}

void nx_msg_each_waiting(nx_msg *m, nx_class class,
                         void (*each)(void *ctx, uint32_t peer, nx_context context), void *ctx)
{
    nx_msg_enter(m); /* nothing completes until the leave */
    for (uint32_t i = 0; (m->looked[0] != m->looked[1]) && (i < m->config.peers); i++) {
        const nx_peer *p = m->peers[i];

        if ((p != NULL) && p->ready && !p->doomed) {
            tell_waiting(m, &p->posted[class], each, ctx);
        }
    }
    if (m->looked[0] != m->looked[1]) {
        tell_waiting(m, &m->any[class], each, ctx);
    }
    m->looked[1] = m->looked[0];
    m->looked[0] = m->posts;
    nx_msg_leave(m);
}

void nx_msg_refuse(nx_msg *m, uint32_t peer, nx_context context, nexar_err err, const char *why)
{
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;
    const uint64_t word = nx_context_word(context);

    if ((p == NULL) || !p->ready || p->doomed) {
        return;
    }
    nx_msg_enter(m);
    /* Completing one request may complete others: restart at the front. */
    for (nx_list *at = p->queue[context.class].next; at != &p->queue[context.class];) {
        nx_req *r = nx_list_entry(at, nx_req, link);

        at = at->next;
        if (nx_context_word(r->context) == word) {
            nx_send_refuse(p, r, err, why);
            at = p->queue[context.class].next;
        }
    }
    nx_list_for_each (at, &p->busy) {
        nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if (nx_context_word(r->context) == word) {
            nx_send_refuse(p, r, err, why);
        }
    }
    nx_msg_leave(m);
}
