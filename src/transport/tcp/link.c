/*
 * link.c - the operations of a link, its callbacks, and its end.
 *
 * A link closed with drain sends BYE when all its data is sealed, and stays until the peer has sent
 * BYE too, or has closed. The peer does so as soon as it has read the BYE and has nothing to send,
 * so everything has arrived when the link ends.
 */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "tcp_inner.h"
#include "transport/quic/udp/address.h"

static const uint64_t DRAIN_NS = UINT64_C(5000000000);

static nx_tcp_link *of(nx_link *base)
{
    return nx_list_entry(base, nx_tcp_link, base);
}

static void on_task(nx_task *self);
static void on_timer(nx_timer *self, uint64_t now_ns);
static const nx_link_ops OPS;

nexar_err nx_tcp_link_create(nx_tcp_link **out, nx_tcp *t, const nx_tls_target *target)
{
    nx_tcp_link *link = nx_zalloc(sizeof(*link));
    nexar_err err = NEXAR_OK;

    if (link == NULL) {
        return nx_fail_nomem("a link");
    }
    link->base.ops = &OPS;
    link->t = t;
    link->target = *target;
    link->timer.on_expire = on_timer;
    nx_task_init(&link->task, on_task);
    nx_list_init(&link->conns);
    nx_tcp_queue_init(&link->queue);
    if ((target->member != 0) && !nx_tls_is_seed(t->tls)) {
        err = nx_map_put(&t->by_member, target->member, link);
    }
    if (err != NEXAR_OK) {
        nx_free(link);
        return err;
    }
    nx_list_push_back(&t->links, &link->in_all);
    *out = link;
    return NEXAR_OK;
}

/* ---- upcalls ------------------------------------------------------------------------- */

bool nx_tcp_link_wants_data(const nx_tcp_link *link)
{
    return !link->closing && (link->state == NX_TCP_LINK_UP);
}

void nx_tcp_link_deliver(nx_tcp_link *link)
{
    nexar_err err = NEXAR_OK;
    nx_tx *tx;

    while ((tx = nx_tcp_queue_take_done(&link->queue, &err)) != NULL) {
        link->base.up->on_sent(link->base.up_ctx, &link->base, tx, err);
    }
    if ((link->closing || link->peer_bye) && nx_tcp_queue_empty(&link->queue)) {
        nx_loop_defer(link->t->config.loop, &link->task);
    }
}

/* ---- the end ------------------------------------------------------------------------- */

void nx_tcp_link_leave_map(nx_tcp_link *link)
{
    nx_tcp *t = link->t;

    if (nx_map_get(&t->by_member, link->target.member) == link) {
        (void)nx_map_take(&t->by_member, link->target.member);
    }
}

static void close_conn(const nx_tcp_link *link, nx_tcp_conn *c, const char *why)
{
    if (link->last_len > 0) {
        nx_tcp_conn_close(c, NX_CLOSE_LAST, link->last, link->last_len);
    } else {
        nx_tcp_conn_close(c, NX_CLOSE_DONE, why, strlen(why));
    }
}

static void close_conns(nx_tcp_link *link, const char *why)
{
    nx_tcp_conn *used = link->used;

    if (used != NULL) {
        close_conn(link, used, why);
    }
    link->used = NULL;
    while (!nx_list_empty(&link->conns)) { /* closing removes the connection from the list */
        close_conn(link, nx_list_entry(link->conns.next, nx_tcp_conn, in_link), why);
    }
}

void nx_tcp_link_down(nx_tcp_link *link, nexar_err err, const char *why)
{
    char tell[NX_TCP_WHY];

    if (link->state == NX_TCP_LINK_DOWN) {
        return;
    }
    link->state = NX_TCP_LINK_DOWN;
    link->err = err;
    if (why != NULL) {
        (void)nx_sentence(link->why, sizeof(link->why), "%s", why);
    }
    nx_tcp_link_leave_map(link);
    nx_loop_timer_cancel(link->t->config.loop, &link->timer);
    (void)nx_sentence(tell, sizeof(tell), "the link is down: %.400s", link->why);
    close_conns(link, tell);
    nx_tcp_queue_fail(&link->queue, err);
    nx_loop_defer(link->t->config.loop, &link->task);
}

void nx_tcp_tell_drained(nx_tcp *t)
{
    if ((t->closing == 0) && (t->ending == 0) && (t->drained != NULL)) {
        nx_event_set(t->config.loop, t->drained);
    }
}

static void destroy(nx_tcp_link *link)
{
    nx_tcp *t = link->t;

    if (link->closing) {
        t->closing--;
    }
    nx_loop_timer_cancel(t->config.loop, &link->timer);
    nx_loop_undefer(&link->task);
    nx_list_remove(&link->in_all);
    nx_tcp_queue_fini(&link->queue);
    nx_free(link->addresses);
    nx_free(link);
    nx_tcp_tell_drained(t);
}

void nx_tcp_link_end(nx_tcp_link *link)
{
    nx_tcp_link_leave_map(link);
    close_conns(link, "the link was closed");
    nx_tcp_queue_fail(&link->queue, NEXAR_ECANCELED);
    nx_tcp_link_deliver(link);
    destroy(link);
}

/* A seed sends everything in its frames. */
static bool parts_by_bye(const nx_tcp_link *link)
{
    return (link->state == NX_TCP_LINK_UP) && (link->target.member != 0) &&
           (nx_tls_member(link->t->tls) != 0);
}

/* Whether a closed link may end. */
static bool is_spent(const nx_tcp_link *link)
{
    if ((link->state == NX_TCP_LINK_DOWN) || !link->drain ||
        (nx_loop_now(link->t->config.loop) >= link->give_up_ns)) {
        return true;
    }
    return parts_by_bye(link) ? (link->said_bye && link->peer_bye)
                              : nx_tcp_queue_empty(&link->queue);
}

static void take_leave(nx_tcp_link *link)
{
    if (link->drain && !link->said_bye && parts_by_bye(link) && nx_tcp_queue_empty(&link->queue) &&
        (nx_tcp_queue_bye(&link->queue) == NEXAR_OK)) {
        link->said_bye = true;
        nx_tcp_conn_wake(link->used);
    }
}

/* The peer's process has exited. The link reads what the peer has sent, up to the end that the
 * peer's kernel has appended; if that end has not arrived, there is none. */
static void hear_last(nx_tcp_link *link)
{
    nx_tcp_conn *c = link->used;
    char why[NX_TCP_WHY];

    for (uint64_t before = UINT64_MAX;
         (c != NULL) && (link->used == c) && (c->bytes_received != before);) {
        before = c->bytes_received;
        nx_tcp_conn_read(c);
    }
    if (link->state == NX_TCP_LINK_DOWN) {
        return;
    }
    link->base.ended = link->peer_bye ? NX_END_LEFT : NX_END_GONE;
    if (link->used == NULL) {
        (void)nx_sentence(why, sizeof(why), "the process of the peer has ended");
    } else {
        char text[NX_ADDRESS_TEXT];

        (void)nx_sentence(why, sizeof(why), "%s: the %s", nx_address_text(&c->remote, text),
                          link->peer_bye ? "peer has left" : "process of the peer has ended");
    }
    nx_tcp_link_down(link, NEXAR_EPEER, why);
}

static void on_peer_left(nx_tcp_link *link)
{
    char text[NX_ADDRESS_TEXT], why[NX_TCP_WHY];

    (void)nx_sentence(why, sizeof(why), "%s: the peer has left",
                      nx_address_text(&link->used->remote, text));
    link->base.ended = NX_END_LEFT;
    nx_tcp_link_down(link, NEXAR_EPEER, why);
}

static void on_task(nx_task *self)
{
    nx_tcp_link *link = nx_list_entry(self, nx_tcp_link, task);

    if (link->exited && (link->state != NX_TCP_LINK_DOWN)) {
        hear_last(link);
    }
    nx_tcp_link_deliver(link);
    if (link->closing) {
        take_leave(link);
        if (is_spent(link)) {
            nx_tcp_link_end(link);
        }
    } else if ((link->state == NX_TCP_LINK_DOWN) && !link->told_down) {
        link->told_down = true;
        link->base.up->on_down(link->base.up_ctx, &link->base, link->err, link->why);
    } else if (link->peer_bye && (link->state == NX_TCP_LINK_UP) &&
               nx_tcp_queue_empty(&link->queue)) {
        on_peer_left(link);
    }
}

/* Whether untried addresses are left. */
static bool is_dialling(const nx_tcp_link *link)
{
    return (link->state == NX_TCP_LINK_SETTLING) && (link->next < link->n);
}

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_tcp_link *link = nx_list_entry(self, nx_tcp_link, timer);

    if (link->closing && (!is_dialling(link) || (now_ns >= link->give_up_ns))) {
        nx_loop_defer(link->t->config.loop, &link->task);
    } else if (is_dialling(link)) {
        nx_tcp_dial_next(link);
    } else if (link->state == NX_TCP_LINK_SETTLING) {
        nx_tcp_link_down(link, NEXAR_ECONNECT,
                         (link->why[0] != '\0') ? NULL : "connected, but the peer does not talk");
    }
}

/* ---- operations ---------------------------------------------------------------------- */

static nexar_err state_error(const nx_tcp_link *link)
{
    return (link->state == NX_TCP_LINK_DOWN) ? nx_fail(link->err, "%s", link->why) : NEXAR_OK;
}

static void queued(nx_tcp_link *link)
{
    if (link->used != NULL) {
        nx_tcp_conn_wake(link->used);
    }
}

static nexar_err send_frame(nx_link *base, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_tcp_link *link = of(base);
    nexar_err err = state_error(link);

    if (err == NEXAR_OK) {
        err = nx_tcp_queue_frame(&link->queue, lane, bytes, n);
    }
    if (err == NEXAR_OK) {
        queued(link);
    }
    return err;
}

static nexar_err send_part(nx_link *base, nx_tx *tx)
{
    nx_tcp_link *link = of(base);
    nexar_err err = state_error(link);

    if (err == NEXAR_OK) {
        err = nx_tcp_queue_part(&link->queue, tx);
    }
    if (err == NEXAR_OK) {
        queued(link);
    }
    return err;
}

static void cancel_part(nx_link *base, nx_tx *tx)
{
    nx_tcp_link *link = of(base);

    nx_tcp_queue_cancel(&link->queue, tx);
    nx_loop_defer(link->t->config.loop, &link->task);
}

static void close_link(nx_link *base, bool drain)
{
    nx_tcp_link *link = of(base);
    nx_loop *loop = link->t->config.loop;

    if (link->closing) {
        return;
    }
    link->closing = true;
    link->drain = drain;
    link->give_up_ns = nx_loop_now(loop) + DRAIN_NS;
    link->t->closing++;
    if (!drain) { /* otherwise the peer, which may be dialling as well, should find this link */
        nx_tcp_link_leave_map(link);
    }
    if (drain && !is_dialling(link)) { /* while the link dials, the timer is for the next address */
        /* Without memory for the timer, the link ends when the peer ends it. */
        (void)!nx_loop_timer_set(loop, &link->timer, link->give_up_ns);
    }
    nx_loop_defer(loop, &link->task);
}

static void dismiss(nx_link *base, const void *frame, size_t len)
{
    nx_tcp_link *link = of(base);

    if (!link->closing && (len <= sizeof(link->last))) {
        memcpy(link->last, frame, len);
        link->last_len = len;
    }
    close_link(base, false);
}

/* The kernel's data about the connection. */
static void kernel_info(const nx_tcp_conn *c, nx_link_info *info)
{
    struct sockaddr_storage local = {0}, plain = {0};
    socklen_t len = sizeof(local);
    struct tcp_info k = {0};

    if (getsockname(c->fd.fd, (struct sockaddr *)&local, &len) == 0) {
        nx_address_plain(&local, &plain);
        (void)nx_address_text(&plain, info->local);
    }
    len = sizeof(k);
    if (getsockopt(c->fd.fd, IPPROTO_TCP, TCP_INFO, &k, &len) == 0) {
        info->rtt_ns = (uint64_t)k.tcpi_rtt * 1000;
        info->packets_lost = k.tcpi_total_retrans;
        info->waiting = (uint64_t)k.tcpi_unacked * k.tcpi_snd_mss;
        info->waiting_ns = c->progress_ns;
    }
}

/* The attempt over which the peer was last heard; otherwise the first attempt; NULL: there is
 * none. */
static const nx_tcp_conn *last_heard(const nx_tcp_link *link)
{
    const nx_tcp_conn *last = NULL;

    for (const nx_list *at = link->conns.next; at != &link->conns; at = at->next) {
        const nx_tcp_conn *c = nx_list_entry((nx_list *)at, nx_tcp_conn, in_link);

        last = ((last == NULL) || (c->heard_ns > last->heard_ns)) ? c : last;
    }
    return last;
}

static void link_info(const nx_link *base, nx_link_info *info)
{
    const nx_tcp_link *link = of((nx_link *)base);
    static const char *const states[] = {
        [NX_TCP_LINK_SETTLING] = "dialling", [NX_TCP_LINK_UP] = "up", [NX_TCP_LINK_DOWN] = "down"};
    const nx_tcp_conn *c = (link->used != NULL) ? link->used : last_heard(link);

    *info = (nx_link_info){.state = states[link->state]};
    if (c == NULL) {
        return;
    }
    info->heard_ns = c->heard_ns;
    info->bytes_sent = c->bytes_sent;
    info->bytes_received = c->bytes_received;
    (void)nx_address_text(&c->remote, info->remote);
    kernel_info(c, info);
}

static const nx_link_ops OPS = {
    .name = "tcp",
    .send_frame = send_frame,
    .send_part = send_part,
    .cancel_part = cancel_part,
    .close = close_link,
    .info = link_info,
    .dismiss = dismiss,
};

bool nx_tcp_is(const nx_link *link)
{
    return link->ops == &OPS;
}

void nx_tcp_refuse(nx_link *link)
{
    of(link)->unwanted = true;
    close_link(link, false);
}

void nx_tcp_link_exited(nx_link *link)
{
    nx_tcp_link *self = of(link);

    self->exited = true;
    nx_loop_defer(self->t->config.loop, &self->task);
}

nexar_err nx_tcp_link_export(nx_link *link, const char *label, uint8_t out[32])
{
    const nx_tcp_link *self = of(link);

    if (self->used == NULL) {
        return nx_fail(NEXAR_EINVAL, "the link is not up");
    }
    return nx_tls_export(&self->used->tls, label, out);
}

void nx_tcp_link_address(const nx_link *link, struct sockaddr_storage *out)
{
    const nx_tcp_link *self = of((nx_link *)link);

    memset(out, 0, sizeof(*out));
    if (self->used != NULL) {
        *out = self->used->remote;
    }
}
