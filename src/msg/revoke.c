/* revoke.c - the end of all that waits in one context. */
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
    /* One that goes may let others go: from the front again. */
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
