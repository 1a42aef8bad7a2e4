/*
 * pull.c - fetching by name what is held back for want of credit.
 *
 * Credit bounds the messages that lie unmatched.  A program may wait for the one
 * that comes after them: so a receive that waits for a peer that is stalled asks it
 * for the message by name (WANT), and gets its envelope ahead of the queue, paid
 * from a small reserve that is kept for this.  The envelope finds its receive and
 * the reserve is free again; memory stays bounded and nobody waits for ever.
 *
 * The sender matches wishes and messages as a receiver would, with the same data
 * structure: its queue are the messages held, the wishes are the receives posted.
 * It exists from the first wish until the queue is empty; wishes that are left then
 * are void, and the receiver is told how many (UNWANT).
 */
#include <assert.h>

#include "base/alloc.h"
#include "msg/engine.h"

/* ---- the sender's end --------------------------------------------------------------------- */

typedef struct nx_want {
    nx_posted posted;
    nx_list link;
} nx_want;

struct nx_pull {
    nx_match match; /* wishes; the queue, in its order */
    nx_list wants;
    uint32_t nwants;
};

static void unwant(nx_peer *p, nx_class class, uint32_t count)
{
    nx_frame f = {.type = NX_FRAME_UNWANT, .context.class = class, .limit = count};

    if (count > 0) {
        nx_peer_tell(p, NX_LANE_CONTROL, &f);
    }
}

static void grant(nx_pull *pull, nx_want *want)
{
    nx_match_unpost(&pull->match, &want->posted);
    nx_list_remove(&want->link);
    nx_free(want);
    pull->nwants--;
}

static nx_pull *begin_pull(nx_peer *p, nx_class class)
{
    nx_pull *pull = nx_zalloc(sizeof(*pull));

    if (pull == NULL) {
        return NULL;
    }
    nx_match_init(&pull->match, p->msg->match.seed);
    nx_list_init(&pull->wants);
    nx_list_for_each (at, &p->queue[class]) {
        nx_match_hold(&pull->match, &nx_list_entry(at, nx_req, link)->send.held);
    }
    p->pull[class] = pull;
    return pull;
}

/* Keeps a wish that nothing fulfils yet. */
static bool keep_want(nx_pull *pull, const nx_key *key)
{
    nx_want *want = nx_zalloc(sizeof(*want));

    if (want == NULL) {
        return false;
    }
    want->posted.key = *key;
    nx_match_post(&pull->match, &want->posted);
    nx_list_push_back(&pull->wants, &want->link);
    pull->nwants++;
    return true;
}

void nx_pull_want(nx_peer *p, const nx_frame *f)
{
    nx_class class = f->context.class;
    nx_key key = {.context = nx_context_word(f->context), .tag = f->any_tag ? NX_ANY_TAG : f->tag};
    nx_pull *pull = p->pull[class];
    nx_held *held;

    if ((pull != NULL) && (pull->nwants >= NX_WANTS_MAX)) {
        nx_peer_doom(p, NEXAR_EPROTO, "it wished for too much");
        return;
    }
    if (nx_list_empty(&p->queue[class])) {
        unwant(p, class, 1);
        return;
    }
    if ((pull == NULL) && ((pull = begin_pull(p, class)) == NULL)) {
        nx_peer_doom(p, NEXAR_ENOMEM, "no memory for what it wishes");
        return;
    }
    held = nx_match_find(&pull->match, &key);
    if (held != NULL) {
        nx_req *r = nx_list_entry(held, nx_req, send.held);

        nx_send_unqueue(p, r);
        nx_send_pulled(p, r);
        nx_send_pump(p, class); /* ends the pulling if that was the last */
    } else if (!keep_want(pull, &key)) {
        nx_peer_doom(p, NEXAR_ENOMEM, "no memory for what it wishes");
    }
}

bool nx_pull_offer(nx_peer *p, nx_req *r)
{
    nx_pull *pull = p->pull[r->context.class];
    nx_posted *posted;

    if (pull == NULL) {
        return false;
    }
    posted = nx_match_arrive(&pull->match, &r->send.held.key);
    if (posted == NULL) {
        nx_match_hold(&pull->match, &r->send.held);
        return false;
    }
    grant(pull, nx_list_entry(posted, nx_want, posted));
    nx_send_pulled(p, r);
    return true;
}

void nx_pull_forget(nx_peer *p, nx_req *r)
{
    nx_pull *pull = p->pull[r->context.class];

    if (pull != NULL) {
        nx_match_drop(&pull->match, &r->send.held);
    }
}

void nx_pull_end(nx_peer *p, nx_class class)
{
    nx_pull *pull = p->pull[class];
    uint32_t left;

    if (pull == NULL) {
        return;
    }
    left = pull->nwants;
    while (!nx_list_empty(&pull->wants)) {
        grant(pull, nx_list_entry(pull->wants.next, nx_want, link));
    }
    nx_match_fini(&pull->match);
    nx_free(pull);
    p->pull[class] = NULL;
    unwant(p, class, left);
}

/* ---- the receiver's end --------------------------------------------------------------------- */

static bool may_ask(const nx_peer *p, nx_class class)
{
    const nx_credit_in *c = &p->in[class];

    assert(c->wants + c->pulled <= c->reserve);
    return c->starved && !p->doomed && (p->link != NULL) && (c->wants + c->pulled < c->reserve);
}

static void ask(nx_peer *p, const nx_req *r)
{
    nx_frame f = {.type = NX_FRAME_WANT, .context = r->context, .tag = r->recv.posted.key.tag};

    if (f.tag == NX_ANY_TAG) {
        f.any_tag = true;
        f.tag = 0;
    }
    p->in[r->context.class].wants++;
    nx_peer_tell(p, NX_LANE_CONTROL, &f);
}

/* The oldest receive from anybody that |p| was not asked for; NULL: none.  The
 * list is in the order of posting; what was asked is at its beginning. */
static nx_req *next_any(nx_peer *p, nx_class class)
{
    nx_list *head = &p->msg->any[class], *at = head->prev;
    nx_req *next = NULL;

    while (at != head) {
        nx_req *r = nx_list_entry(at, nx_req, peer_link);

        if (r->recv.when <= p->asked_any[class]) {
            break;
        }
        next = r;
        at = at->prev;
    }
    return next;
}

/* In the order of posting: a receive of any tag must not get a younger message
 * than its own because somebody behind it asked by name. */
void nx_pull_ask(nx_peer *p, nx_class class)
{
    nx_list *posted = &p->posted[class];

    while (may_ask(p, class)) {
        nx_req *any = next_any(p, class), *named = NULL;

        if (!nx_list_empty(posted)) {
            named = nx_list_entry(posted->next, nx_req, peer_link);
        }
        if ((named != NULL) && ((any == NULL) || (named->recv.when < any->recv.when))) {
            nx_list_remove(&named->peer_link);
            nx_list_push_back(&p->asked[class], &named->peer_link);
            ask(p, named);
        } else if (any != NULL) {
            p->asked_any[class] = any->recv.when;
            ask(p, any);
        } else {
            return;
        }
    }
}

void nx_pull_posted(nx_msg *m, nx_req *r)
{
    if (r->peer != NX_ANY_PEER) {
        nx_pull_ask(nx_peer_get(m, r->peer), r->context.class);
        return;
    }
    nx_list_for_each (at, &m->links) {
        nx_pull_ask(nx_list_entry(at, nx_peer, links), r->context.class);
    }
}

void nx_pull_unwanted(nx_peer *p, const nx_frame *f)
{
    nx_class class = f->context.class;
    nx_credit_in *c = &p->in[class];
    nx_list *asked = &p->asked[class];

    if (f->limit > c->wants) {
        nx_peer_doom(p, NEXAR_EPROTO, "it refused more wishes than there were");
        return;
    }
    c->wants -= (uint32_t)f->limit;
    /* The queue over there is empty, or was: if it stalls again it says so, and all
     * are asked for again, since nobody knows which wishes are left. */
    c->starved = false;
    while (!nx_list_empty(asked)) {
        nx_list *last = asked->prev;

        nx_list_remove(last);
        nx_list_push_front(&p->posted[class], last);
    }
    p->asked_any[class] = 0;
}
