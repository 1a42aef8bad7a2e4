/*
 * link.c - the operations of a link, its callbacks, and its end.
 *
 * A departing member must not discard acknowledgements that the other side still waits for:
 * messages that have arrived would count as lost there. So the member sends BYE when it has all of
 * its own acknowledgements, and stays until the other side has sent BYE too, or has closed. The
 * other side does so as soon as it has all of its own. Until then the member repeats a short frame
 * from time to time: if the other side's last packet was lost, the answer to the frame shows it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

static const uint64_t DRAIN_NS = UINT64_C(5000000000);
static const uint64_t WORD_NS = UINT64_C(250000000); /* a few round trips of most networks */

static nx_quic_link *of(nx_link *base)
{
    return nx_list_entry(base, nx_quic_link, base);
}

static void on_task(nx_task *self);
static void on_timer(nx_timer *self, uint64_t now_ns);
static const nx_link_ops OPS;

nexar_err nx_quic_link_create(nx_quic_link **out, nx_quic *q, const nx_tls_target *target)
{
    nx_quic_link *link = nx_zalloc(sizeof(*link));
    nexar_err err;

    if (link == NULL) {
        return nx_fail_nomem("a link");
    }
    link->base.ops = &OPS;
    link->q = q;
    link->target = *target;
    link->timer.on_expire = on_timer;
    nx_task_init(&link->task, on_task);
    nx_list_init(&link->conn_ios);
    nx_list_init(&link->in_all);
    err = nx_sendq_init(&link->sendq);
    if ((err == NEXAR_OK) && (target->member != 0) && !nx_tls_is_seed(q->tls)) {
        err = nx_map_put(&q->by_member, target->member, link);
    }
    if (err != NEXAR_OK) {
        nx_sendq_fini(&link->sendq);
        nx_free(link);
        return err;
    }
    nx_list_push_back(&q->links, &link->in_all);
    *out = link;
    return NEXAR_OK;
}

/* ---- upcalls ------------------------------------------------------------------------- */

bool nx_quic_link_wants_data(const nx_quic_link *link)
{
    return !link->closing && (link->state == NX_LINK_UP);
}

void nx_quic_link_deliver(nx_quic_link *link)
{
    nexar_err err = NEXAR_OK;
    nx_tx *tx;

    while ((tx = nx_sendq_take_done(&link->sendq, &err)) != NULL) {
        link->base.up->on_sent(link->base.up_ctx, &link->base, tx, err);
    }
    if ((link->closing || link->peer_bye) && nx_sendq_empty(&link->sendq)) {
        nx_loop_defer(link->q->config.loop, &link->task);
    }
}

/* ---- the end ------------------------------------------------------------------------- */

void nx_quic_link_leave_map(nx_quic_link *link)
{
    nx_quic *q = link->q;

    if (nx_map_get(&q->by_member, link->target.member) == link) {
        (void)nx_map_take(&q->by_member, link->target.member);
    }
}

static void close_conn_io(const nx_quic_link *link, nx_conn_io *k, nx_close_code code,
                          const char *why)
{
    if ((link->last_len > 0) && (k->conn != NULL)) {
        nx_conn_keep_last(k->conn, link->last, link->last_len);
        k->outlasts = true;
    }
    nx_conn_io_close(k, code, why);
}

static void close_conn_ios(nx_quic_link *link, nx_close_code code, const char *why)
{
    nx_conn_io *used = link->used;
    nx_list *at;

    link->used = NULL;
    if (used != NULL) {
        close_conn_io(link, used, code, why);
    }
    while ((at = nx_list_pop(&link->conn_ios)) != NULL) {
        close_conn_io(link, nx_list_entry(at, nx_conn_io, in_link), code, why);
    }
}

/* A connection that waited for this link to end becomes the next link. */
static void release_rival(nx_quic_link *link)
{
    nx_conn_io *rival = link->rival;

    link->rival = NULL;
    if ((rival != NULL) && (rival->conn != NULL)) {
        rival->link = NULL;
        nx_open_resolve_up(rival);
    }
}

void nx_quic_link_down(nx_quic_link *link, nexar_err err, const char *why)
{
    char tell[NX_QUIC_WHY];

    if (link->state == NX_LINK_DOWN) {
        return;
    }
    link->state = NX_LINK_DOWN;
    link->err = err;
    if (why != NULL) {
        (void)nx_sentence(link->why, sizeof(link->why), "%s", why);
    }
    nx_quic_link_leave_map(link);
    nx_loop_timer_cancel(link->q->config.loop, &link->timer);
    (void)nx_sentence(tell, sizeof(tell), "the link is down: %.400s", link->why);
    close_conn_ios(link, NX_CLOSE_DONE, tell);
    nx_sendq_fail(&link->sendq, err);
    nx_loop_defer(link->q->config.loop, &link->task);
}

static void destroy(nx_quic_link *link)
{
    nx_quic *q = link->q;

    if (link->closing) {
        q->closing--;
    }
    nx_loop_timer_cancel(q->config.loop, &link->timer);
    nx_loop_undefer(&link->task);
    nx_list_remove(&link->in_all);
    nx_sendq_fini(&link->sendq);
    nx_free(link->addresses);
    nx_free(link);
    if ((q->closing == 0) && (q->drained != NULL)) {
        nx_event_set(q->config.loop, q->drained);
    }
}

void nx_quic_link_end(nx_quic_link *link)
{
    nx_conn_io *rival = link->rival;

    nx_quic_link_leave_map(link);
    link->rival = NULL;
    if (rival != NULL) {
        rival->link = NULL;
    }
    close_conn_ios(link, NX_CLOSE_DONE, "the link was closed");
    nx_sendq_fail(&link->sendq, NEXAR_ECANCELED);
    nx_quic_link_deliver(link);
    destroy(link);
}

/* A seed sends everything in its frames. */
static bool parts_by_bye(const nx_quic_link *link)
{
    return (link->state == NX_LINK_UP) && (link->target.member != 0) &&
           (nx_tls_member(link->q->tls) != 0);
}

/* Whether a closed link may end. */
static bool is_spent(const nx_quic_link *link)
{
    if ((link->state == NX_LINK_DOWN) || !link->drain ||
        (nx_loop_now(link->q->config.loop) >= link->give_up_ns)) {
        return true;
    }
    return parts_by_bye(link) ? (link->said_bye && link->peer_bye) : nx_sendq_empty(&link->sendq);
}

/* Sends BYE, or, once BYE is sent, a sign of life. */
static void take_leave(nx_quic_link *link)
{
    nx_loop *loop = link->q->config.loop;
    const uint64_t next = nx_loop_now(loop) + WORD_NS;

    if (!link->drain || !parts_by_bye(link) || !nx_sendq_empty(&link->sendq) ||
        (link->said_bye && (nx_loop_now(loop) < link->word_ns))) {
        return;
    }
    /* Without memory for the frame or the timer, the link ends when its time is up. */
    if ((link->said_bye ? nx_sendq_word(&link->sendq) : nx_sendq_bye(&link->sendq)) == NEXAR_OK) {
        link->said_bye = true;
        link->word_ns = next;
        (void)!nx_loop_timer_set(loop, &link->timer,
                                 (next < link->give_up_ns) ? next : link->give_up_ns);
        nx_conn_io_wake(link->used);
    }
}

/* The peer's process has exited: its last packets may still be in the socket. */
static void hear_last(nx_quic_link *link)
{
    char why[NX_QUIC_WHY];

    nx_quic_read_all(link->q);
    if (link->state == NX_LINK_DOWN) {
        return;
    }
    link->base.ended = link->peer_bye ? NX_END_LEFT : NX_END_GONE;
    if (link->used == NULL) {
        (void)nx_sentence(why, sizeof(why), "the process of the peer has ended");
    } else {
        char text[NX_ADDRESS_TEXT];

        (void)nx_sentence(why, sizeof(why), "%s: the %s",
                          nx_address_text(&link->used->path.remote, text),
                          link->peer_bye ? "peer has left" : "process of the peer has ended");
    }
    nx_quic_link_down(link, NEXAR_EPEER, why);
}

static void on_task(nx_task *self)
{
    nx_quic_link *link = nx_list_entry(self, nx_quic_link, task);

    if (link->exited && (link->state != NX_LINK_DOWN)) {
        hear_last(link);
    }
    nx_quic_link_deliver(link);
    if (link->closing) {
        take_leave(link);
        if (is_spent(link)) {
            nx_quic_link_leave_map(link);
            close_conn_ios(link, NX_CLOSE_DONE, "the link was closed");
            release_rival(link);
            nx_quic_link_end(link);
        }
    } else if ((link->state == NX_LINK_DOWN) && !link->told_down) {
        link->told_down = true;
        link->base.up->on_down(link->base.up_ctx, &link->base, link->err, link->why);
        release_rival(link);
    } else if (link->peer_bye && (link->state == NX_LINK_UP) && nx_sendq_empty(&link->sendq)) {
        char text[NX_ADDRESS_TEXT], why[NX_QUIC_WHY];

        (void)nx_sentence(why, sizeof(why), "%s: the peer has left",
                          nx_address_text(&link->used->path.remote, text));
        link->base.ended = NX_END_LEFT;
        nx_quic_link_down(link, NEXAR_EPEER, why);
    }
}

/* For a closed link: its time is up, or the next frame is due. */
static void on_closing_timer(nx_quic_link *link)
{
    nx_loop *loop = link->q->config.loop;

    if (nx_loop_now(loop) < link->give_up_ns) {
        (void)!nx_loop_timer_set(loop, &link->timer, link->give_up_ns);
    }
    nx_loop_defer(loop, &link->task);
}

/* Whether untried addresses are left. */
static bool is_dialling(const nx_quic_link *link)
{
    return (link->state == NX_LINK_SETTLING) && (link->next < link->n);
}

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_quic_link *link = nx_list_entry(self, nx_quic_link, timer);

    if (link->closing && (!is_dialling(link) || (now_ns >= link->give_up_ns))) {
        on_closing_timer(link);
    } else if (link->state == NX_LINK_UP) {
        nx_open_resolve_rival(link);
    } else if (is_dialling(link)) {
        nx_dial_next(link);
    } else if (link->state == NX_LINK_SETTLING) {
        nx_quic_link_down(link, NEXAR_ECONNECT,
                          (link->why[0] != '\0') ? NULL : "connected, but the peer does not talk");
    }
}

/* ---- operations ---------------------------------------------------------------------- */

static nexar_err state_error(const nx_quic_link *link)
{
    return (link->state == NX_LINK_DOWN) ? nx_fail(link->err, "%s", link->why) : NEXAR_OK;
}

static void queued(nx_quic_link *link)
{
    if (link->used != NULL) {
        nx_conn_io_wake(link->used);
    }
}

static nexar_err send_frame(nx_link *base, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_quic_link *link = of(base);
    nexar_err err = state_error(link);

    if (err == NEXAR_OK) {
        err = nx_sendq_frame(&link->sendq, lane, bytes, n);
    }
    if (err == NEXAR_OK) {
        queued(link);
    }
    return err;
}

static nexar_err send_part(nx_link *base, nx_tx *tx)
{
    nx_quic_link *link = of(base);
    nexar_err err = state_error(link);

    if (err == NEXAR_OK) {
        err = nx_sendq_part(&link->sendq, tx);
    }
    if (err == NEXAR_OK) {
        queued(link);
    }
    return err;
}

static void cancel_part(nx_link *base, nx_tx *tx)
{
    nx_quic_link *link = of(base);

    nx_sendq_cancel(&link->sendq, tx);
    nx_loop_defer(link->q->config.loop, &link->task);
    queued(link);
}

static void close_link(nx_link *base, bool drain)
{
    nx_quic_link *link = of(base);
    nx_loop *loop = link->q->config.loop;

    if (link->closing) {
        return;
    }
    link->closing = true;
    link->drain = drain;
    link->give_up_ns = nx_loop_now(loop) + DRAIN_NS;
    link->q->closing++;
    if (!drain) { /* otherwise the peer, which may be dialling as well, should find this link */
        nx_quic_link_leave_map(link);
    }
    if (drain && !is_dialling(link)) { /* while the link dials, the timer is for the next address */
        /* Without memory for the timer, the link ends when the peer ends it. */
        (void)!nx_loop_timer_set(loop, &link->timer, link->give_up_ns);
    }
    nx_loop_defer(loop, &link->task);
}

static void dismiss(nx_link *base, const void *frame, size_t len)
{
    nx_quic_link *link = of(base);

    if (!link->closing && (len <= sizeof(link->last))) {
        memcpy(link->last, frame, len);
        link->last_len = len;
    }
    close_link(base, false);
}

/* The attempt over which the peer was last heard; otherwise the first attempt; NULL: there is
 * none. */
static const nx_conn_io *last_heard(const nx_quic_link *link)
{
    const nx_conn_io *last = NULL;

    for (const nx_list *at = link->conn_ios.next; at != &link->conn_ios; at = at->next) {
        const nx_conn_io *k = nx_list_entry((nx_list *)at, nx_conn_io, in_link);

        last = ((last == NULL) || (k->heard_ns > last->heard_ns)) ? k : last;
    }
    return last;
}

static void link_info(const nx_link *base, nx_link_info *info)
{
    const nx_quic_link *link = of((nx_link *)base);
    static const char *const states[] = {
        [NX_LINK_SETTLING] = "dialling", [NX_LINK_UP] = "up", [NX_LINK_DOWN] = "down"};
    const nx_conn_io *k = (link->used != NULL) ? link->used : last_heard(link);

    *info = (nx_link_info){.state = states[link->state]};
    if ((k == NULL) || (k->conn == NULL)) {
        return;
    }
    info->heard_ns = k->heard_ns;
    (void)nx_address_text(&k->path.remote, info->remote);
    if (k->path.has_source) {
        struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = k->path.source};
        struct sockaddr_storage local = {0};

        memcpy(&local, &a, sizeof(a));
        nx_address_set_port(&local, nx_quic_port(link->q));
        (void)nx_address_text(&local, info->local);
    }
    nx_conn_info(k->conn, info);
}

static const nx_link_ops OPS = {
    .name = "quic",
    .send_frame = send_frame,
    .send_part = send_part,
    .cancel_part = cancel_part,
    .close = close_link,
    .info = link_info,
    .dismiss = dismiss,
};

bool nx_quic_is(const nx_link *link)
{
    return link->ops == &OPS;
}

bool nx_quic_has(const nx_quic *q, uint64_t member)
{
    return nx_map_get(&q->by_member, member) != NULL;
}

bool nx_quic_lives(const nx_quic *q, uint64_t member)
{
    const nx_quic_link *link = nx_map_get(&q->by_member, member);

    return (link != NULL) && !link->closing;
}

void nx_quic_refuse(nx_link *link)
{
    of(link)->unwanted = true;
    close_link(link, false);
}

void nx_quic_link_exited(nx_link *link)
{
    nx_quic_link *self = of(link);

    self->exited = true;
    nx_loop_defer(self->q->config.loop, &self->task);
}

nexar_err nx_quic_link_know(nx_link *link, const struct sockaddr_storage *addresses, size_t n)
{
    nx_quic_link *self = of(link);
    struct sockaddr_storage *copy;

    if (n == 0) {
        return NEXAR_OK;
    }
    copy = nx_calloc(n, sizeof(*copy));
    if (copy == NULL) {
        return nx_fail_nomem("addresses");
    }
    memcpy(copy, addresses, n * sizeof(*copy));
    nx_free(self->addresses);
    self->addresses = copy;
    self->n = self->next = n;
    return NEXAR_OK;
}

nexar_err nx_quic_link_export(nx_link *link, const char *label, uint8_t out[32])
{
    const nx_quic_link *self = of(link);

    if (self->used == NULL) {
        return nx_fail(NEXAR_EINVAL, "the link is not up");
    }
    return nx_conn_export(self->used->conn, label, out);
}

void nx_quic_link_address(const nx_link *link, struct sockaddr_storage *out)
{
    const nx_quic_link *self = of((nx_link *)link);

    memset(out, 0, sizeof(*out));
    if (self->used != NULL) {
        nx_address_plain(&self->used->path.remote, out);
    }
}
