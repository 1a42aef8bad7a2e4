/*
 * credit_division.c - division of the pool among peers; peers that join and leave.
 *
 * Each account has a window; the sum of all windows is at most the pool (engine.h). The fair share,
 * |target|, is the pool divided among living peers. An account below it gets more when it needs
 * more and there is room. An account above it must return credit when others need it.
 */
#include "base/alloc.h"
#include "msg/engine.h"

enum { RESERVE = 16 }; /* 1/16 of the pool is reserved for future peers */

/* The fair share of |living| peers. */
static uint64_t fair(const nx_msg_config *c, uint32_t living)
{
    const size_t divided = c->grows ? c->pool - c->pool / RESERVE : c->pool;
    const uint64_t each = divided / living / NX_CLASSES;

    return (each < NX_CREDIT_START) ? NX_CREDIT_START : each;
}

static uint64_t min64(uint64_t a, uint64_t b)
{
    return (a < b) ? a : b;
}

void nx_credit_division_start(nx_msg *m)
{
    m->living = m->fresh;
    m->stats.peers = m->fresh;
    m->share = m->target = fair(&m->config, m->living);
    m->granted = m->share * NX_CLASSES * m->fresh;
}

/* ---- peers that are there ------------------------------------------------------------ */

void nx_credit_division_end(nx_peer *p)
{
    p->msg->living--;
    for (int c = 0; c < NX_CLASSES; c++) {
        nx_credit_in *in = &p->in[c];
        const uint64_t used = nx_credit_used(in);

        p->msg->granted -= in->window - used;
        in->window = in->excess = used;
        in->told = in->charged;
    }
}

void nx_credit_division_enrich(nx_peer *p, nx_class class)
{
    nx_msg *m = p->msg;
    nx_credit_in *in = &p->in[class];

    if ((in->window < m->target) && !p->doomed) {
        const uint64_t by = min64(m->target - in->window, m->config.pool - m->granted);

        in->window += by;
        in->excess = 0;
        m->granted += by;
    }
}

void nx_credit_division_reclaim(nx_peer *p, const nx_frame *f)
{
    nx_frame answer = {.type = NX_FRAME_RETURN, .context.class = f->context.class};

    answer.limit = nx_credit_give_back(&p->out[f->context.class], f->limit);
    if (answer.limit > 0) {
        nx_peer_send_frame(p, NX_LANE_CONTROL, &answer);
    }
}

void nx_credit_division_return(nx_peer *p, const nx_frame *f)
{
    nx_credit_in *in = &p->in[f->context.class];

    if (!nx_credit_returned(in, f->limit)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it returned more credit than it had");
        return;
    }
    p->msg->granted -= f->limit;
}

/* An account above its share is reduced to the share. */
static void reclaim(nx_peer *p, nx_class class)
{
    nx_msg *m = p->msg;
    nx_credit_in *in = &p->in[class];
    nx_frame f = {.type = NX_FRAME_RECLAIM, .context.class = class};

    if (in->window <= m->target) {
        in->excess = 0;
        return;
    }
    f.limit = in->window - m->target;
    if (p->link == NULL) { /* never granted over a link */
        const uint64_t now = in->window - min64(f.limit, in->window - nx_credit_used(in));

        m->granted -= in->window - now;
        in->window = in->told = now;
        in->told += in->released;
        return;
    }
    in->excess = f.limit;
    nx_peer_send_frame(p, NX_LANE_CONTROL, &f);
}

/* ---- new peers ----------------------------------------------------------------------- */

/* The share of each peer that is not ready, if |fresh| of them divide what is free. */
static uint64_t share_of(const nx_msg *m, uint32_t fresh, uint64_t target)
{
    const uint64_t ready = m->granted - m->share * NX_CLASSES * m->fresh;

    return (fresh == 0) ? target : min64(target, (m->config.pool - ready) / NX_CLASSES / fresh);
}

static void free_peer(nx_peer *p)
{
    nx_list_remove(&p->retiring);
    p->msg->stats.peers--;
    if (p->single) {
        p->msg->peers[p->index] = NULL;
        nx_free(p);
    }
}

/* Frees retired peers without references. */
static void sweep(nx_msg *m)
{
    nx_list_for_each (at, &m->retired) {
        nx_peer *p = nx_list_entry(at, nx_peer, retiring);

        if (p->down && (p->inbounds == 0) && (p->parts_out == 0) && !nx_list_linked(&p->troubled)) {
            free_peer(p);
        }
    }
}

nexar_err nx_credit_division_take(nx_msg *m, uint32_t peers)
{
    const nx_msg_config *c = &m->config;
    nx_peer **grown = nx_grow(m->peers, peers, sizeof(nx_peer *));
    uint32_t taken = 0;

    if (grown == NULL) {
        return nx_fail_nomem("peers");
    }
    m->peers = grown;
    for (uint32_t i = c->peers; i < peers; i++) {
        grown[i] = NULL;
        if ((c->there != NULL) && !c->there(c->ctx, i)) {
            continue;
        }
        grown[i] = nx_zalloc(sizeof(nx_peer));
        if (grown[i] == NULL) {
            while (i-- > c->peers) {
                nx_free(grown[i]);
            }
            return nx_fail_nomem("a peer");
        }
        grown[i]->single = true;
        taken++;
    }
    m->fresh += taken;
    return NEXAR_OK;
}

static void divide_again(nx_msg *m, bool short_of)
{
    for (uint32_t i = 0; i < m->config.peers; i++) {
        nx_peer *p = m->peers[i];

        if ((p == NULL) || !p->ready || p->doomed) {
            continue;
        }
        for (int c = 0; c < NX_CLASSES; c++) {
            if (short_of) {
                reclaim(p, (nx_class)c);
            } else if (p->in[c].window <= m->target) {
                p->in[c].excess = 0;
            }
        }
    }
}

nexar_err nx_msg_grow(nx_msg *m, uint32_t peers)
{
    const uint32_t more = peers - m->config.peers;
    const uint64_t target = fair(&m->config, m->living + more);
    uint64_t share;
    nexar_err err;

    nx_msg_enter(m);
    sweep(m);
    share = share_of(m, m->fresh + more, target);
    m->granted -= m->share * NX_CLASSES * m->fresh;
    err = (share < NX_CREDIT_START)
              ? nx_fail(NEXAR_EINVAL, "a pool of %zu bytes is too small for %u additional peers",
                        m->config.pool, more)
              : nx_credit_division_take(m, peers);
    m->share = (err == NEXAR_OK) ? share : m->share;
    m->granted += m->share * NX_CLASSES * m->fresh;
    if (err == NEXAR_OK) {
        m->target = target;
        m->config.peers = peers;
        m->living += more;
        m->stats.peers += more;
        divide_again(m, share < target);
    }
    nx_msg_leave(m);
    return err;
}

void nx_msg_retire(nx_msg *m, uint32_t peer, nexar_err err, const char *why)
{
    nx_peer *p = (peer < m->config.peers) ? m->peers[peer] : NULL;

    if ((p == NULL) || (peer == m->config.self)) {
        return;
    }
    nx_msg_enter(m);
    p = nx_peer_get(m, peer);
    if (!p->retired) {
        p->retired = true;
        nx_list_push_back(&m->retired, &p->retiring);
    }
    if (p->link == NULL) {
        nx_peer_mark_failed_why(p, err, why);
    }
    nx_msg_leave(m);
    sweep(m);
}
