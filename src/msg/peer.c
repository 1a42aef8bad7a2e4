/* peer.c - the life of a link: hello, control frames, going down. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "msg/engine.h"

/* ---- making -------------------------------------------------------------------------- */

nx_peer *nx_peer_get(nx_msg *m, uint32_t index)
{
    nx_peer *p = m->peers[index];

    if (p->ready) {
        return p;
    }
    p->ready = true;
    m->fresh--;
    p->msg = m;
    p->index = index;
    for (int c = 0; c < NX_CLASSES; c++) {
        nx_credit_out_init(&p->out[c]);
        nx_credit_in_init(&p->in[c], m->share);
        nx_list_init(&p->queue[c]);
        nx_list_init(&p->posted[c]);
        nx_list_init(&p->asked[c]);
    }
    nx_list_init(&p->busy);
    nx_list_init(&p->links);
    nx_list_init(&p->troubled);
    nx_list_init(&p->retiring);
    return p;
}

void nx_peer_attach(nx_peer *p, nx_link *link)
{
    nx_frame hello = {.type = NX_FRAME_HELLO};

    assert(p->link == NULL);
    p->link = link;
    p->msg->stats.links++;
    nx_list_push_back(&p->msg->links, &p->links);
    for (int c = 0; c < NX_CLASSES; c++) {
        hello.window[c] = p->in[c].told;
    }
    nx_peer_send_frame(p, NX_LANE_CONTROL, &hello);
}

nexar_err nx_peer_connect(nx_peer *p)
{
    const nx_msg_config *config = &p->msg->config;
    nx_link *link = NULL;
    nexar_err err;

    if (p->link != NULL) {
        return NEXAR_OK;
    }
    err = config->connect(config->ctx, p->index, &nx_peer_up, p, &link);
    if (err == NEXAR_OK) {
        nx_peer_attach(p, link);
    }
    return err;
}

/* ---- frames to the peer -------------------------------------------------------------- */

void nx_peer_send_frame(nx_peer *p, nx_lane lane, const nx_frame *f)
{
    uint8_t data[NX_MSG_FRAME_ROOM];
    nx_bytes bytes = {.ptr = data, .len = nx_frame_encode(f, data)};
    nexar_err err;

    if (p->doomed) {
        return;
    }
    err = nx_link_send_frame(p->link, lane, &bytes, 1);
    if (err != NEXAR_OK) {
        nx_peer_mark_failed(p, err, "a control frame could not be sent: %s", nexar_strerror(err));
    }
}

void nx_pool_count(nx_msg *m, int64_t bytes)
{
    m->stats.pool_used += (uint64_t)bytes;
    if (m->stats.pool_used > m->stats.pool_peak) {
        m->stats.pool_peak = m->stats.pool_used;
    }
    assert(m->stats.pool_used <= m->config.pool);
}

static void tell_credit(nx_peer *p, nx_class class)
{
    uint64_t limit;

    if (!p->doomed && (p->link != NULL) && nx_credit_due(&p->in[class], &limit)) {
        nx_frame credit = {.type = NX_FRAME_CREDIT, .context.class = class, .limit = limit};

        p->msg->stats.credit_frames++;
        nx_peer_send_frame(p, NX_LANE_CONTROL, &credit);
    }
}

bool nx_peer_charge(nx_peer *p, nx_class class, uint64_t cost)
{
    if (!nx_credit_charge(&p->in[class], cost)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent more than its credit allows");
        return false;
    }
    nx_pool_count(p->msg, (int64_t)cost);
    if (p->in[class].window < p->msg->target) {
        nx_credit_division_enrich(p, class);
        tell_credit(p, class);
    }
    return true;
}

void nx_peer_release(nx_peer *p, nx_class class, uint64_t cost)
{
    p->msg->granted -= nx_credit_release(&p->in[class], cost);
    nx_credit_division_enrich(p, class);
    nx_pool_count(p->msg, -(int64_t)cost);
    tell_credit(p, class);
}

/* ---- going down ---------------------------------------------------------------------- */

static void fail_soon(nx_peer *p)
{
    p->held = false;
    nx_list_push_back(&p->msg->doomed, &p->troubled);
}

static void note_end(nx_peer *p, nexar_err err, const char *why)
{
    p->doomed = true;
    p->err = err;
    (void)nx_sentence(p->why, sizeof(p->why), "%s", why);
}

void nx_peer_mark_failed_why(nx_peer *p, nexar_err err, const char *why)
{
    if (!p->doomed || p->held) {
        note_end(p, err, why);
        fail_soon(p);
    }
}

enum { WHY = sizeof(((nx_peer *)NULL)->why) };

/* |cause|, and the time it occurred. */
static const char *date(char why[WHY], const char *cause)
{
    const size_t fits = nx_sentence_fit(cause, WHY - NX_TIME_TEXT - sizeof(", at "));
    char at[NX_TIME_TEXT];

    (void)nx_sentence(why, WHY, "%.*s%s, at %s", (int)fits, cause,
                      (cause[fits] == '\0') ? "" : "...", nx_time_text(at));
    return why;
}

void nx_peer_mark_failed(nx_peer *p, nexar_err err, const char *format, ...)
{
    char why[WHY], cause[WHY];
    va_list args;

    va_start(args, format);
    (void)nx_sentence_v(cause, sizeof(cause), format, args);
    va_end(args);
    nx_peer_mark_failed_why(p, err, date(why, cause));
}

static void drop_link(nx_peer *p)
{
    if (p->link != NULL) {
        nx_link_close(p->link, false);
        p->link = NULL;
        nx_list_remove(&p->links);
    }
}

/* The requests of the failed |p| wait for the owner's decision. */
static void hold(nx_peer *p)
{
    p->held = true;
    drop_link(p);
    for (int c = 0; c < NX_CLASSES; c++) {
        nx_pull_end(p, (nx_class)c); /* the failed peer fetches nothing more */
    }
    p->msg->stir = p->msg->closing;
}

void nx_peer_hold_why(nx_peer *p, nexar_err err, const char *why)
{
    if (!p->doomed) {
        note_end(p, err, why);
        hold(p);
    }
}

void nx_peer_fail_held(nx_peer *p)
{
    if (p->held) {
        fail_soon(p);
    }
}

static void fail_waiting(nx_peer *p, nx_list *head)
{
    while (!nx_list_empty(head)) {
        nx_req *r = nx_list_entry(head->next, nx_req, peer_link);

        nx_post_remove(p->msg, r);
        nx_req_fail(p->msg, r, p->err, "%s", p->why);
    }
}

void nx_peer_release_failed(nx_peer *p)
{
    nx_msg *m = p->msg;

    p->down = true;
    if (p->link != NULL) {
        if ((p->err == NEXAR_EPROTO) || (p->err == NEXAR_ENOMEM)) {
            nx_log(NX_LOG_WARN, "closed the link to peer %u: %s", p->index, p->why);
        }
        drop_link(p);
    }
    for (int c = 0; c < NX_CLASSES; c++) {
        nx_pull_end(p, (nx_class)c);
        while (!nx_list_empty(&p->queue[c])) {
            nx_req *r = nx_list_entry(p->queue[c].next, nx_req, link);

            nx_queue_remove(p, r);
            nx_req_fail(m, r, p->err, "%s", p->why);
        }
        fail_waiting(p, &p->posted[c]);
        fail_waiting(p, &p->asked[c]);
        p->in[c].starved = false;
    }
    nx_list_for_each (at, &p->busy) {
        nx_send_fail_all(p, nx_list_entry(at, nx_req, peer_link));
    }
    nx_recv_fail_all(p);
    nx_credit_division_end(p);
    nx_map_fini(&p->out_ids);
    nx_map_fini(&p->in_ids);
    m->stir = m->closing;
}

bool nx_peer_idle(const nx_peer *p)
{
    for (int c = 0; c < NX_CLASSES; c++) {
        if (!nx_list_empty(&p->queue[c])) {
            return false;
        }
    }
    return nx_list_empty(&p->busy) && (p->matched == 0);
}

/* ---- upcalls ------------------------------------------------------------------------- */

static void on_hello(nx_peer *p, const nx_frame *f)
{
    if (p->greeted) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent HELLO twice");
        return;
    }
    p->greeted = true;
    for (int c = 0; c < NX_CLASSES; c++) {
        if (nx_credit_open(&p->out[c], f->window[c]) != NEXAR_OK) {
            nx_peer_mark_failed(p, NEXAR_EPROTO, "it opened a window out of range");
            return;
        }
        nx_queue_pump(p, (nx_class)c);
    }
}

static void on_credit(nx_peer *p, const nx_frame *f)
{
    nx_credit_out *out = &p->out[f->context.class];

    if (nx_credit_raise(out, f->limit) != NEXAR_OK) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it lowered a limit");
        return;
    }
    out->stalled = false;
    nx_queue_pump(p, f->context.class);
}

static void on_stalled(nx_peer *p, const nx_frame *f)
{
    nx_credit_in *in = &p->in[f->context.class];

    if (f->limit > in->told) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it reported STALLED at an unknown limit");
        return;
    }
    if (f->limit < in->told) {
        return; /* more is in flight */
    }
    p->msg->stalls = true;
    in->starved = true;
    nx_credit_division_enrich(p, f->context.class);
    tell_credit(p, f->context.class);
    nx_ask(p, f->context.class);
}

static void on_control(nx_peer *p, const nx_frame *f)
{
    if (!p->greeted && (f->type != NX_FRAME_HELLO)) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "its first frame was not HELLO");
        return;
    }
    switch ((int)f->type) {
    case NX_FRAME_HELLO:
        on_hello(p, f);
        break;
    case NX_FRAME_CREDIT:
        on_credit(p, f);
        break;
    case NX_FRAME_CLEAR:
        nx_send_clear(p, f);
        break;
    case NX_FRAME_STALLED:
        on_stalled(p, f);
        break;
    case NX_FRAME_WANT:
        nx_pull_want(p, f);
        break;
    case NX_FRAME_UNASK:
        nx_pull_unask(p, f);
        break;
    case NX_FRAME_PUTBACK:
        nx_queue_putback(p, f);
        break;
    case NX_FRAME_UNASKED:
        nx_ask_unasked(p, f);
        break;
    case NX_FRAME_RECLAIM:
        nx_credit_division_reclaim(p, f);
        break;
    case NX_FRAME_RETURN:
        nx_credit_division_return(p, f);
        break;
    default:
        assert(f->type == NX_FRAME_UNWANT);
        nx_ask_unwanted(p, f);
        break;
    }
}

static void on_own_frame(nx_peer *p, nx_lane lane, const void *data, size_t len)
{
    const char *why = NULL;
    nx_frame f;

    if (nx_frame_decode(lane, data, len, &f, &why) != NEXAR_OK) {
        nx_peer_mark_failed(p, NEXAR_EPROTO, "it sent %s", why);
    } else if (lane == NX_LANE_CONTROL) {
        on_control(p, &f);
    } else if (f.type == NX_FRAME_RETRACT) {
        nx_recv_retract(p, &f);
    } else if (f.type == NX_FRAME_FINISHED) {
        if (p->msg->config.on_finished != NULL) {
            p->msg->config.on_finished(p->msg->config.ctx, p->index, f.context, (uint8_t)f.limit);
        }
    } else {
        nx_recv_envelope(p, &f);
    }
}

static void up_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    nx_peer *p = ctx;
    nx_msg *m = p->msg;

    if ((p->link != link) || p->doomed) {
        return;
    }
    p->heard = true;
    nx_msg_enter(m);
    if ((lane == NX_LANE_CONTROL) && (len > 0) && (*(const uint8_t *)data >= NX_FRAME_OTHER)) {
        if (m->config.on_control != NULL) {
            m->config.on_control(m->config.ctx, p->index, data, len);
        }
    } else {
        on_own_frame(p, lane, data, len);
    }
    nx_msg_leave(m);
}

static void up_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    nx_peer *p = ctx;
    nx_msg *m = p->msg;

    if ((p->link != link) || p->doomed) {
        return;
    }
    p->heard = true;
    nx_msg_enter(m);
    nx_recv_data(p, id, off, data, len);
    nx_msg_leave(m);
}

static void up_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    nx_peer *p = ctx;
    nx_msg *m = p->msg;

    (void)link; /* this engine may have closed it long ago */
    nx_msg_enter(m);
    nx_send_on_sent(p, tx, err);
    nx_msg_leave(m);
}

static void up_up(void *ctx, nx_link *link)
{
    (void)ctx; /* earlier frames are in flight; nothing waits for this */
    (void)link;
}

static void up_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    nx_peer *p = ctx;
    nx_msg *m = p->msg;

    if (p->link != link) {
        return;
    }
    p->ended = link->ended;
    if ((err == NEXAR_OK) || (p->ended == NX_END_GONE)) {
        err = NEXAR_EPEER;
    } else if (err == NEXAR_EAUTH) {
        err = NEXAR_ECONNECT; /* another process answers at its address: the peer is unreachable */
    }
    if ((p->ended == NX_END_GONE) && !p->greeted) {
        p->ended = NX_END_ABSENT; /* the peer has failed or left before */
    }
    nx_msg_enter(m);
    if (!p->doomed) {
        char said[WHY], cause[WHY];

        (void)nx_sentence(cause, sizeof(cause), "%s%s",
                          (p->ended == NX_END_LEFT)     ? "called nexar_finalize"
                          : (p->ended == NX_END_ABSENT) ? "called nexar_finalize or has ended: "
                                                        : "",
                          (p->ended == NX_END_LEFT) ? "" : why);
        note_end(p, err, date(said, cause));
        if ((m->config.on_peer_end != NULL) &&
            m->config.on_peer_end(m->config.ctx, p->index, p->ended, err)) {
            hold(p);
        } else {
            fail_soon(p);
        }
    }
    nx_msg_leave(m);
}

static void *up_want(void *ctx, nx_link *link, uint64_t id, uint64_t off, size_t *len)
{
    nx_peer *p = ctx;

    return ((p->link != link) || p->doomed) ? NULL : nx_recv_want(p, id, off, len);
}

static void up_moved(void *ctx, nx_link *link, nx_link *to)
{
    nx_peer *p = ctx;

    if (p->link == link) {
        p->link = to;
    }
}

const nx_link_up nx_peer_up = {
    .on_up = up_up,
    .on_frame = up_frame,
    .on_data = up_data,
    .on_sent = up_sent,
    .on_down = up_down,
    .on_want = up_want,
    .on_moved = up_moved,
};
