/* pending_link.c - a link that is not up yet: its queue, its operations, its end. */
#include "transport/inet/pending_link.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"

static const uint64_t DRAIN_NS = UINT64_C(5000000000);

static const nx_link_ops OPS;

static nx_inet_link *of(const nx_link *base)
{
    return nx_list_entry((nx_link *)base, nx_inet_link, base);
}

bool nx_inet_link_is(const nx_link *link)
{
    return link->ops == &OPS;
}

/* ---- the queue ------------------------------------------------------------------------- */

static void drop_frames(nx_inet_link *p)
{
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_list *at;

        while ((at = nx_list_pop(&p->frames[lane])) != NULL) {
            nx_free(nx_list_entry(at, nx_inet_frame, link));
        }
    }
}

/* Ends all held parts with |err|. */
static void fail_parts(nx_inet_link *p, nexar_err err)
{
    nx_list *at;

    while ((at = nx_list_pop(&p->parts)) != NULL) {
        nx_list_entry(at, nx_tx, link)->stream = (uint64_t)err;
        nx_list_push_back(&p->cancelled, at);
    }
}

static void tell_sent(nx_inet_link *p)
{
    nx_list *at;

    while ((at = nx_list_pop(&p->cancelled)) != NULL) {
        nx_tx *tx = nx_list_entry(at, nx_tx, link);

        tx->owner = NULL;
        p->base.up->on_sent(p->base.up_ctx, &p->base, tx, (nexar_err)tx->stream);
    }
}

static nexar_err move_frames(nx_inet_link *p, nx_link *to, nx_lane lane)
{
    nexar_err err = NEXAR_OK;

    for (nx_list *at = p->frames[lane].next; (err == NEXAR_OK) && (at != &p->frames[lane]);
         at = at->next) {
        nx_inet_frame *f = nx_list_entry(at, nx_inet_frame, link);
        const nx_bytes bytes = {.ptr = f->data, .len = f->len};

        err = nx_link_send_frame(to, lane, &bytes, 1);
    }
    return err;
}

static nexar_err move_queue(nx_inet_link *p, nx_link *to)
{
    nexar_err err = move_frames(p, to, NX_LANE_CONTROL);

    err = (err == NEXAR_OK) ? move_frames(p, to, NX_LANE_MESSAGE) : err;
    while ((err == NEXAR_OK) && !nx_list_empty(&p->parts)) {
        nx_tx *tx = nx_list_entry(p->parts.next, nx_tx, link);

        nx_list_remove(&tx->link);
        err = nx_link_send_part(to, tx);
        if (err != NEXAR_OK) {
            nx_list_push_front(&p->parts, &tx->link);
        }
    }
    return err;
}

/* ---- the end --------------------------------------------------------------------------- */

void nx_inet_link_leave_map(nx_inet_link *p)
{
    if ((p->member != 0) && (nx_map_get(&p->net->by_member, p->member) == p)) {
        (void)nx_map_take(&p->net->by_member, p->member);
    }
}

void nx_inet_link_down(nx_inet_link *p, nexar_err err, const char *why)
{
    if (p->down || p->moved) {
        return;
    }
    p->down = true;
    p->err = err;
    (void)nx_sentence(p->why, sizeof(p->why), "%s", why);
    nx_inet_link_leave_map(p);
    nx_loop_timer_cancel(p->net->config.quic.loop, &p->timer);
    nx_inet_close_legs(p);
    fail_parts(p, err);
    nx_loop_defer(p->net->config.quic.loop, &p->task);
}

/* The task frees the link. */
static void retire(nx_inet_link *p)
{
    p->moved = true;
    nx_inet_link_leave_map(p);
    nx_loop_timer_cancel(p->net->config.quic.loop, &p->timer);
    nx_inet_close_legs(p);
    nx_loop_defer(p->net->config.quic.loop, &p->task);
}

void nx_inet_link_move(nx_inet_link *p, nx_link *leg)
{
    const nx_link_up *up = p->base.up;
    void *up_ctx = p->base.up_ctx;

    leg->up = up; /* for on_sent of what is sent from now on */
    leg->up_ctx = up_ctx;
    if (move_queue(p, leg) != NEXAR_OK) {
        nx_link_close(leg, false);
        nx_inet_link_down(p, NEXAR_ENOMEM, "out of memory for what was queued");
        return;
    }
    retire(p);
    if (p->closing) {
        nx_link_close(leg, p->drain);
        return;
    }
    up->on_moved(up_ctx, &p->base, leg);
    up->on_up(up_ctx, leg);
}

static void destroy(nx_inet_link *p)
{
    nx_inet *net = p->net;

    if (p->closing) {
        net->closing--;
    }
    nx_loop_timer_cancel(net->config.quic.loop, &p->timer);
    nx_loop_undefer(&p->task);
    nx_list_remove(&p->in_all);
    drop_frames(p);
    nx_free(p->addresses);
    nx_free(p);
    if ((net->closing == 0) && (net->drained != NULL)) {
        nx_event_set(net->config.quic.loop, net->drained);
    }
}

void nx_inet_link_end(nx_inet_link *p)
{
    nx_inet_link_leave_map(p);
    nx_inet_close_legs(p);
    fail_parts(p, NEXAR_ECANCELED);
    tell_sent(p);
    destroy(p);
}

/* Whether a closed link has nothing more to send, or its time is up. */
static bool is_spent(const nx_inet_link *p)
{
    return p->down || !p->drain || (nx_loop_now(p->net->config.quic.loop) >= p->give_up_ns) ||
           (nx_list_empty(&p->frames[NX_LANE_CONTROL]) &&
            nx_list_empty(&p->frames[NX_LANE_MESSAGE]) && nx_list_empty(&p->parts));
}

static void on_task(nx_task *self)
{
    nx_inet_link *p = nx_list_entry(self, nx_inet_link, task);

    tell_sent(p);
    if (p->moved) {
        destroy(p);
    } else if (p->closing) {
        if (is_spent(p)) {
            nx_inet_link_end(p);
        }
    } else if (p->down && !p->told_down) {
        p->told_down = true;
        p->base.up->on_down(p->base.up_ctx, &p->base, p->err, p->why);
    }
}

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_inet_link *p = nx_list_entry(self, nx_inet_link, timer);

    if (p->closing && (now_ns >= p->give_up_ns)) {
        nx_loop_defer(p->net->config.quic.loop, &p->task);
    } else {
        nx_inet_choose(p);
    }
}

/* ---- operations -------------------------------------------------------------------------- */

static nexar_err state_error(const nx_inet_link *p)
{
    return p->down ? nx_fail(p->err, "%s", p->why) : NEXAR_OK;
}

static nexar_err send_frame(nx_link *base, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_inet_link *p = of(base);
    nexar_err err = state_error(p);
    nx_inet_frame *f;
    size_t len = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    f = nx_zalloc(sizeof(*f) + len);
    if (f == NULL) {
        return nx_fail_nomem("a frame");
    }
    f->len = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(f->data + f->len, bytes[i].ptr, bytes[i].len);
            f->len += bytes[i].len;
        }
    }
    nx_list_push_back(&p->frames[lane], &f->link);
    return NEXAR_OK;
}

static nexar_err send_part(nx_link *base, nx_tx *tx)
{
    nx_inet_link *p = of(base);
    nexar_err err = state_error(p);

    if (err == NEXAR_OK) {
        nx_list_push_back(&p->parts, &tx->link);
    }
    return err;
}

static void cancel_part(nx_link *base, nx_tx *tx)
{
    nx_inet_link *p = of(base);

    nx_list_for_each (at, &p->cancelled) {
        if (at == &tx->link) {
            return; /* the link ends already, for another reason */
        }
    }
    nx_list_remove(&tx->link);
    tx->stream = (uint64_t)NEXAR_ECANCELED;
    nx_list_push_back(&p->cancelled, &tx->link);
    nx_loop_defer(p->net->config.quic.loop, &p->task);
}

static void close_link(nx_link *base, bool drain)
{
    nx_inet_link *p = of(base);
    nx_loop *loop = p->net->config.quic.loop;

    if (p->closing) {
        return;
    }
    p->closing = true;
    p->drain = drain;
    p->give_up_ns = nx_loop_now(loop) + DRAIN_NS;
    p->net->closing++;
    if (!drain) { /* otherwise the peer, which may be dialling as well, should find this link */
        nx_inet_link_leave_map(p);
    }
    nx_loop_defer(loop, &p->task);
}

/* The link never came up: only peers whose connection is about to come up can read |frame|. */
static void dismiss(nx_link *base, const void *frame, size_t len)
{
    nx_inet_link *p = of(base);

    for (int i = 0; i < NX_INET_LEGS; i++) {
        if (p->legs[i].link != NULL) {
            nx_link_dismiss(p->legs[i].link, frame, len);
            p->legs[i].link = NULL;
        }
    }
    close_link(base, false);
}

static void link_info(const nx_link *base, nx_link_info *info)
{
    const nx_inet_link *p = of(base);

    *info = (nx_link_info){.state = p->down ? "down" : "dialling"};
    for (int i = 0; i < NX_INET_LEGS; i++) {
        if (p->legs[i].link != NULL) {
            p->legs[i].link->ops->info(p->legs[i].link, info);
            return;
        }
    }
}

static const nx_link_ops OPS = {
    .name = "network",
    .send_frame = send_frame,
    .send_part = send_part,
    .cancel_part = cancel_part,
    .close = close_link,
    .info = link_info,
    .dismiss = dismiss,
};

nexar_err nx_inet_link_create(nx_inet_link **out, nx_inet *net, const nx_quic_target *target)
{
    nx_inet_link *p = nx_zalloc(sizeof(*p));
    nexar_err err = NEXAR_OK;

    if (p == NULL) {
        return nx_fail_nomem("a link");
    }
    p->base.ops = &OPS;
    p->net = net;
    p->member = target->member;
    p->pin = target->pin;
    p->timer.on_expire = on_timer;
    nx_task_init(&p->task, on_task);
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_list_init(&p->frames[lane]);
    }
    nx_list_init(&p->parts);
    nx_list_init(&p->cancelled);
    p->addresses = nx_calloc(target->n, sizeof(*p->addresses));
    if (p->addresses == NULL) {
        err = nx_fail_nomem("addresses");
    } else if (target->member != 0) {
        err = nx_map_put(&net->by_member, target->member, p);
    }
    if ((err != NEXAR_OK) || (p->addresses == NULL)) {
        nx_free(p->addresses);
        nx_free(p);
        return err;
    }
    memcpy(p->addresses, target->addresses, target->n * sizeof(*p->addresses));
    p->n = target->n;
    nx_list_push_back(&net->links, &p->in_all);
    *out = p;
    return NEXAR_OK;
}

/* ---- links of all three kinds ---------------------------------------------------------------- */

nexar_err nx_inet_link_know(nx_link *link, const struct sockaddr_storage *addresses, size_t n)
{
    return nx_quic_is(link) ? nx_quic_link_know(link, addresses, n) : NEXAR_OK;
}

void nx_inet_link_exited(nx_link *link)
{
    if (nx_quic_is(link)) {
        nx_quic_link_exited(link);
    } else if (nx_tcp_is(link)) {
        nx_tcp_link_exited(link);
    } else if (nx_inet_link_is(link)) {
        nx_inet_link *p = of(link);

        p->exited = true;
        for (int i = 0; i < NX_INET_LEGS; i++) {
            if (p->legs[i].link != NULL) {
                nx_inet_link_exited(p->legs[i].link);
            }
        }
    }
}

nexar_err nx_inet_link_export(nx_link *link, const char *label, uint8_t out[32])
{
    return nx_tcp_is(link) ? nx_tcp_link_export(link, label, out)
                           : nx_quic_link_export(link, label, out);
}

void nx_inet_link_address(const nx_link *link, struct sockaddr_storage *out)
{
    if (nx_tcp_is(link)) {
        nx_tcp_link_address(link, out);
    } else {
        nx_quic_link_address(link, out);
    }
}

bool nx_inet_link_unreached(const nx_link *link)
{
    return nx_inet_link_is(link) && of(link)->unreached;
}
