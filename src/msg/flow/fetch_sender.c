/*
 * fetch_sender.c - the sender's end of fetching by name: matches WANTs with held-back messages.
 *
 * The sender matches as a receiver does, with the same data structure: queued messages are the held
 * messages, WANTs are the posted receives. A matching message leaves the queue as an envelope
 * without bytes, PULLED. The receiver confirms it (CLEAR) or puts it back. Until then only other
 * PULLED messages of this peer and class may be sent, since nothing may overtake a message that is
 * put back.
 *
 * This state exists from the first WANT until no message is held back and every fetched message is
 * confirmed. WANTs left at that point are void, and the sender notifies the receiver of their
 * number (UNWANT).
 */
#include "base/alloc.h"
#include "msg/engine.h"

typedef struct nx_want {
    nx_posted posted;
    nx_list link;
} nx_want;

struct nx_pull {
    nx_match wants; /* its posted half: WANTs */
    nx_match queue; /* its held half: the queue, in its order, if |indexed| */
    bool indexed;
    nx_list all; /* nx_want.link */
    uint32_t nwants, pending;
};

static void tell_count(nx_peer *p, nx_class class, nx_frame_type type, uint32_t count)
{
    nx_frame f = {.type = type, .context.class = class, .limit = count};

    nx_peer_send_frame(p, NX_LANE_CONTROL, &f);
}

static nx_pull *begin_pull(nx_peer *p, nx_class class)
{
    nx_pull *pull = nx_zalloc(sizeof(*pull));

    if (pull != NULL) {
        nx_match_init(&pull->wants, p->msg->match.seed);
        nx_match_init(&pull->queue, p->msg->match.seed);
        nx_list_init(&pull->all);
        p->pull[class] = pull;
    }
    return pull;
}

static void index_queue(nx_peer *p, nx_class class)
{
    nx_pull *pull = p->pull[class];

    if (!pull->indexed) {
        nx_match_fini(&pull->queue);
        nx_match_init(&pull->queue, p->msg->match.seed);
        nx_list_for_each (at, &p->queue[class]) {
            nx_match_hold(&pull->queue, &nx_list_entry(at, nx_req, link)->send.held);
        }
        pull->indexed = true;
    }
}

static void drop_want(nx_pull *pull, nx_want *want)
{
    nx_match_unpost(&pull->wants, &want->posted);
    nx_list_remove(&want->link);
    nx_free(want);
    pull->nwants--;
}

static uint32_t drop_all(nx_pull *pull)
{
    uint32_t n = pull->nwants;

    while (!nx_list_empty(&pull->all)) {
        drop_want(pull, nx_list_entry(pull->all.next, nx_want, link));
    }
    return n;
}

/* Stores a WANT that no message matches yet. */
static void keep_want(nx_peer *p, nx_pull *pull, const nx_key *key)
{
    nx_want *want = nx_zalloc(sizeof(*want));

    if (want == NULL) {
        nx_peer_mark_failed(p, NEXAR_ENOMEM, "no memory for its WANT");
        return;
    }
    want->posted.key = *key;
    nx_match_post(&pull->wants, &want->posted);
    nx_list_push_back(&pull->all, &want->link);
    pull->nwants++;
}

static void fulfil(nx_peer *p, nx_pull *pull, nx_req *r)
{
    pull->pending++;
    r->state |= NX_REQ_PULLED;
    nx_send_pulled(p, r);
}

void nx_pull_want(nx_peer *p, const nx_frame *f)
{
    nx_class class = f->context.class;
    nx_key key = {.context = nx_context_word(f->context), .tag = f->any_tag ? NX_ANY_TAG : f->tag};
    nx_pull *pull = p->pull[class];
    nx_held *held;

    if (pull == NULL) {
        if (nx_list_empty(&p->queue[class])) {
            tell_count(p, class, NX_FRAME_UNWANT, 1);
            return;
        }
        pull = begin_pull(p, class);
        if (pull == NULL) {
            nx_peer_mark_failed(p, NEXAR_ENOMEM, "no memory for its WANT");
            return;
        }
    }
    if (pull->nwants >= NX_WANTS_MAX) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent more WANTs than allowed");
        return;
    }
    index_queue(p, class);
    held = nx_match_find(&pull->queue, &key);
    if (held == NULL) {
        keep_want(p, pull, &key);
    } else {
        nx_req *r = nx_list_entry(held, nx_req, send.held);

        nx_queue_remove(p, r);
        fulfil(p, pull, r);
    }
}

bool nx_pull_offer(nx_peer *p, nx_req *r)
{
    nx_pull *pull = p->pull[r->context.class];
    nx_posted *posted;

    if (pull == NULL) {
        return false;
    }
    posted = nx_match_arrive(&pull->wants, &r->send.held.key);
    if (posted == NULL) {
        if (pull->indexed) {
            nx_match_hold(&pull->queue, &r->send.held);
        }
        return false;
    }
    drop_want(pull, nx_list_entry(posted, nx_want, posted));
    fulfil(p, pull, r);
    return true;
}

void nx_pull_forget(nx_peer *p, nx_req *r)
{
    nx_pull *pull = p->pull[r->context.class];

    if ((pull != NULL) && pull->indexed) {
        nx_match_drop(&pull->queue, &r->send.held);
    }
}

void nx_pull_confirm(nx_peer *p, nx_class class, bool taken)
{
    nx_pull *pull = p->pull[class];

    pull->pending--;
    if (!taken) {
        pull->indexed = false; /* inserted in the middle of the queue */
    }
}

bool nx_pull_pending(const nx_peer *p, nx_class class)
{
    return (p->pull[class] != NULL) && (p->pull[class]->pending > 0);
}

void nx_pull_end(nx_peer *p, nx_class class)
{
    nx_pull *pull = p->pull[class];

    if (pull != NULL) {
        (void)drop_all(pull);
        nx_match_fini(&pull->wants);
        nx_match_fini(&pull->queue);
        nx_free(pull);
        p->pull[class] = NULL;
    }
}

void nx_pull_check(nx_peer *p, nx_class class)
{
    nx_pull *pull = p->pull[class];
    uint32_t left;

    if ((pull == NULL) || !nx_list_empty(&p->queue[class]) || (pull->pending > 0)) {
        return;
    }
    left = pull->nwants;
    nx_pull_end(p, class);
    if (left > 0) {
        tell_count(p, class, NX_FRAME_UNWANT, left);
    }
}

void nx_pull_unask(nx_peer *p, const nx_frame *f)
{
    nx_class class = f->context.class;

    tell_count(p, class, NX_FRAME_UNASKED, (p->pull[class] == NULL) ? 0 : drop_all(p->pull[class]));
}
