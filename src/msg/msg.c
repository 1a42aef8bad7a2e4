/* msg.c - the engine as a whole: lifetime, departure, cancellation, counters. */
#include "msg/msg.h"

#include <assert.h>

#include "base/alloc.h"
#include "base/random.h"
#include "msg/engine.h"

/* ---- making -------------------------------------------------------------------------- */

static nexar_err check_config(const nx_msg_config *c)
{
    if ((c->peers == 0) || (c->self >= c->peers)) {
        return nx_fail(NEXAR_EINVAL, "peer %u of %u", c->self, c->peers);
    }
    if (c->inline_max > NX_INLINE_MAX) {
        return nx_fail(NEXAR_EINVAL, "short messages of %zu bytes: at most %zu", c->inline_max,
                       NX_INLINE_MAX);
    }
    return NEXAR_OK;
}

static nexar_err check_pool(const nx_msg *m)
{
    const size_t pool = m->config.pool;

    if (pool / m->fresh / NX_CLASSES < NX_CREDIT_START) {
        return nx_fail(NEXAR_EINVAL, "a pool of %zu bytes for %u peers: at least %zu", pool,
                       m->fresh, (size_t)m->fresh * NX_CLASSES * NX_CREDIT_START);
    }
    return NEXAR_OK;
}

static void free_peers(nx_msg *m)
{
    for (uint32_t i = 0; (m->peers != NULL) && (i < m->config.peers); i++) {
        if ((m->peers[i] != NULL) && m->peers[i]->single) {
            nx_free(m->peers[i]);
        }
    }
    nx_free(m->peers);
    nx_free(m->first);
}

static nexar_err take_peers(nx_msg *m)
{
    const uint32_t n = m->config.peers;

    nexar_err err;

    if (m->config.there != NULL) {
        m->config.peers = 0;
        err = nx_credit_division_take(m, n);
        m->config.peers = (err == NEXAR_OK) ? n : 0;
        return err;
    }
    m->first = nx_calloc(n, sizeof(*m->first));
    m->peers = nx_calloc(n, sizeof(nx_peer *));
    if ((m->first == NULL) || (m->peers == NULL)) {
        return nx_fail_nomem("peers");
    }
    for (uint32_t i = 0; i < n; i++) {
        m->peers[i] = &m->first[i];
    }
    m->fresh = n;
    return NEXAR_OK;
}

nexar_err nx_msg_create(nx_msg **out, const nx_msg_config *config)
{
    nx_msg_config c = *config;
    uint64_t seed;
    nexar_err err;
    nx_msg *m;

    c.pool = (c.pool == 0) ? NX_POOL_DEFAULT : c.pool;
    err = check_config(&c);
    if (err != NEXAR_OK) {
        return err;
    }
    m = nx_zalloc(sizeof(*m));
    if (m == NULL) {
        return nx_fail_nomem("messages");
    }
    m->config = c;
    err = take_peers(m);
    err = (err == NEXAR_OK) ? check_pool(m) : err;
    if (err != NEXAR_OK) {
        free_peers(m);
        nx_free(m);
        return err;
    }
    nx_credit_division_start(m);
    nx_random_fill(&nx_random_system, &seed, sizeof(seed));
    nx_match_init(&m->match, seed);
    nx_match_init(&m->probes, seed);
    for (int class = 0; class < NX_CLASSES; class ++) {
        nx_list_init(&m->any[class]);
    }
    nx_list_init(&m->links);
    nx_list_init(&m->spare);
    nx_list_init(&m->finished);
    nx_list_init(&m->doomed);
    nx_list_init(&m->retired);
    nx_list_init(&m->downs);
    *out = m;
    return NEXAR_OK;
}

const nx_link_up *nx_msg_up(const nx_msg *m)
{
    (void)m;
    return &nx_peer_up;
}

void *nx_msg_up_ctx(nx_msg *m, uint32_t peer)
{
    return nx_peer_get(m, peer);
}

void nx_msg_attach(nx_msg *m, uint32_t peer, nx_link *link)
{
    nx_peer *p = nx_peer_get(m, peer);

    if (p->doomed || m->closing) {
        nx_link_close(link, !p->doomed); /* a peer that connects after the close is notified of the
                                            departure */
        return;
    }
    nx_msg_enter(m);
    nx_peer_attach(p, link);
    nx_msg_leave(m);
}

nx_link *nx_msg_link(const nx_msg *m, uint32_t peer)
{
    return (m->peers[peer] == NULL) ? NULL : m->peers[peer]->link;
}

nexar_err nx_msg_send_control(nx_msg *m, uint32_t peer, const void *data, size_t len)
{
    nx_bytes bytes = {.ptr = data, .len = len};
    nx_peer *p;
    nexar_err err;
    bool lost;

    if ((peer >= m->config.peers) || (peer == m->config.self) || (len == 0) ||
        (len > NX_FRAME_MAX) || (*(const uint8_t *)data < NX_FRAME_OTHER)) {
        return nx_fail(NEXAR_EINVAL, "a control frame of %zu bytes to peer %u", len, peer);
    }
    if (m->peers[peer] == NULL) {
        return nx_fail(NEXAR_EPEER, "peer %u is retired", peer);
    }
    p = nx_peer_get(m, peer);
    if (p->doomed || m->closing) {
        return p->doomed ? nx_fail(p->err, "peer %u: %s", peer, p->why)
                         : nx_fail(NEXAR_ECANCELED, "peer %u: the engine is closing", peer);
    }
    nx_msg_enter(m);
    err = nx_peer_connect(p);
    lost = (err != NEXAR_OK);
    if (!lost) {
        err = p->doomed ? p->err : nx_link_send_frame(p->link, NX_LANE_CONTROL, &bytes, 1);
        lost = (err == NEXAR_ENOMEM); /* other errors are reported when the link ends */
    }
    if (lost) { /* users of the control lane rely on it */
        nx_peer_mark_failed(p, err, "a control frame could not be sent: %s", nexar_strerror(err));
    }
    nx_msg_leave(m);
    return err;
}

/* ---- leaving the engine -------------------------------------------------------------- */

static void close_idle(nx_msg *m)
{
    m->stir = false;
    nx_list_for_each (at, &m->links) {
        nx_peer *p = nx_list_entry(at, nx_peer, links);

        if (nx_peer_idle(p)) {
            nx_link_close(p->link, true);
            p->link = NULL;
            nx_list_remove(&p->links);
        }
    }
    if (nx_list_empty(&m->links) && (m->closed != NULL)) {
        nx_event_set(m->config.loop, m->closed);
        m->closed = NULL;
    }
}

/* No request, link or fragment is left. */
static void free_all(nx_msg *m)
{
    nx_list *at;

    while ((at = nx_list_pop(&m->spare)) != NULL) {
        nx_free(nx_list_entry(at, nx_inbound, held.order));
    }
    nx_match_fini(&m->match);
    nx_match_fini(&m->probes);
    free_peers(m);
    nx_free(m);
}

static void announce_downs(nx_msg *m)
{
    nx_list *at;

    while ((at = nx_list_pop(&m->downs)) != NULL) {
        nx_peer *p = nx_list_entry(at, nx_peer, troubled);

        if ((m->config.on_peer_down != NULL) && !m->dying) {
            m->config.on_peer_down(m->config.ctx, p->index, p->err, p->why);
        }
    }
}

static bool pending(const nx_msg *m)
{
    return !nx_list_empty(&m->doomed) || !nx_list_empty(&m->finished) ||
           !nx_list_empty(&m->downs) || m->stir;
}

void nx_msg_leave(nx_msg *m)
{
    nx_list *at;

    while ((m->depth == 1) && pending(m)) {
        while ((at = nx_list_pop(&m->doomed)) != NULL) {
            nx_peer_release_failed(nx_list_entry(at, nx_peer, troubled));
            nx_list_push_back(&m->downs, at);
        }
        nx_req_run_finished(m);
        announce_downs(m);
        if (m->stir) {
            close_idle(m);
        }
    }
    m->depth--;
    if ((m->depth == 0) && m->dying && (m->parts_out == 0)) {
        free_all(m);
    }
}

/* ---- the end ------------------------------------------------------------------------- */

static void cancel_waiting(nx_msg *m, nx_list *head)
{
    while (!nx_list_empty(head)) {
        nx_req *r = nx_list_entry(head->next, nx_req, peer_link);

        nx_post_remove(m, r);
        nx_req_fail(m, r, NEXAR_ECANCELED, "closed");
    }
}

void nx_msg_stop_receiving(nx_msg *m, nx_class class)
{
    nx_msg_enter(m);
    cancel_waiting(m, &m->any[class]);
    for (uint32_t i = 0; i < m->config.peers; i++) {
        if ((m->peers[i] != NULL) && m->peers[i]->ready) {
            cancel_waiting(m, &m->peers[i]->posted[class]);
            cancel_waiting(m, &m->peers[i]->asked[class]);
        }
    }
    nx_msg_leave(m);
}

void nx_msg_close(nx_msg *m, nx_event *done)
{
    nx_msg_enter(m);
    m->closing = m->stir = true;
    m->closed = done;
    for (int c = 0; c < NX_CLASSES; c++) {
        nx_msg_stop_receiving(m, (nx_class)c);
    }
    nx_msg_leave(m);
}

void nx_msg_fail_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why)
{
    if ((peer >= m->config.peers) || (peer == m->config.self) || (m->peers[peer] == NULL)) {
        return;
    }
    nx_msg_enter(m);
    nx_peer_mark_failed_why(nx_peer_get(m, peer), err, why);
    nx_msg_leave(m);
}

void nx_msg_hold_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why)
{
    nx_msg_enter(m);
    nx_peer_hold_why(nx_peer_get(m, peer), err, why);
    nx_msg_leave(m);
}

void nx_msg_let_go(nx_msg *m, uint32_t peer)
{
    if ((peer < m->config.peers) && (m->peers[peer] != NULL)) {
        nx_msg_enter(m);
        nx_peer_fail_held(m->peers[peer]);
        nx_msg_leave(m);
    }
}

void nx_msg_dismiss_peer(nx_msg *m, uint32_t peer, nexar_err err, const char *why,
                         const void *frame, size_t len)
{
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;

    assert(m->depth == 0);
    nx_msg_enter(m);
    if ((p != NULL) && (p->link != NULL)) {
        nx_peer_mark_failed_why(p, err, why);
        nx_link_dismiss(p->link, frame, len);
        p->link = NULL;
        nx_list_remove(&p->links);
    }
    nx_msg_fail_peer(m, peer, err, why);
    nx_msg_leave(m);
}

bool nx_msg_heard(nx_msg *m, uint32_t peer)
{
    nx_peer *p = m->peers[peer];
    const bool heard = (p != NULL) && p->heard;

    if (heard) {
        p->heard = false;
    }
    return heard;
}

bool nx_msg_starved(const nx_msg *m, uint32_t peer)
{
    const nx_peer *p = m->peers[peer];

    return (p != NULL) && p->doomed && (p->err == NEXAR_ENOMEM);
}

nx_end nx_msg_ended(const nx_msg *m, uint32_t peer, const char **why)
{
    const nx_peer *p = m->peers[peer];

    *why = (p == NULL) ? "it is gone" : p->why;
    return (p == NULL) ? NX_END_LEFT : p->ended;
}

void nx_msg_destroy(nx_msg *m)
{
    nx_list *at;

    if (m == NULL) {
        return;
    }
    nx_msg_close(m, NULL);
    nx_msg_enter(m);
    m->dying = true;
    for (uint32_t i = 0; i < m->config.peers; i++) {
        if ((m->peers[i] != NULL) && m->peers[i]->ready && !m->peers[i]->down) {
            nx_peer_mark_failed_why(m->peers[i], NEXAR_ECANCELED, "closed");
        }
    }
    while ((at = nx_list_pop(&m->doomed)) != NULL) {
        nx_peer_release_failed(nx_list_entry(at, nx_peer, troubled));
    }
    while (!nx_list_empty(&m->match.held)) {
        nx_inbound *in = nx_list_entry(m->match.held.next, nx_inbound, held.order);

        nx_match_drop(&m->match, &in->held);
        nx_inbound_release(in);
        nx_inbound_free(m, in);
    }
    nx_msg_leave(m);
}

/* ---- cancelling and counting --------------------------------------------------------- */

bool nx_msg_cancel(nx_msg *m, nx_req *req)
{
    bool cancelled = true;

    if (req->done || nx_list_linked(&req->link) != ((req->state & NX_REQ_QUEUED) != 0)) {
        return req->err == NEXAR_ECANCELED; /* completed; its on_done may be due */
    }
    nx_msg_enter(m);
    if (req->kind == NX_REQ_SEND) {
        cancelled = nx_send_cancel(m, req);
    } else if (req->state & NX_REQ_POSTED) {
        nx_post_remove(m, req);
        nx_req_fail(m, req, NEXAR_ECANCELED, "cancelled");
    } else {
        cancelled = false;
    }
    nx_msg_leave(m);
    return cancelled;
}

bool nx_msg_unmatched(const nx_msg *m, nx_context context, uint32_t peer, uint64_t *tag)
{
    const uint64_t word = nx_context_word(context);

    for (const nx_list *at = m->match.held.next; at != &m->match.held; at = at->next) {
        const nx_key *key = &nx_list_entry(at, nx_held, order)->key;

        if ((key->context == word) && (key->peer == peer)) {
            *tag = key->tag;
            return true;
        }
    }
    return false;
}

void nx_msg_stats_get(const nx_msg *m, nx_msg_stats *out)
{
    *out = m->stats;
    out->granted = m->granted;
    out->unexpected = m->match.nheld;
    out->posted = m->match.nposted;
}
