/*
 * link.c - a link of the virtual network: its operations, and its end.
 *
 * Operations only queue. nx_sim_link_work performs what they owe the owner (on_sent, on_down, free)
 * in a later step, one callback at a time, so that the owner may do anything in the callback.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sim_inner.h"

enum { EVENTS = NX_SIM_PACKETS + 3 }; /* of a link: its packets, up, fin, drain */

static nx_sim_link *from_base(nx_link *link)
{
    return nx_list_entry(link, nx_sim_link, base);
}

/* ---- giving up ----------------------------------------------------------------------- */

static void end_part(nx_sim_link *link, nx_sim_part *part, nexar_err err)
{
    nx_list_for_each (at, &link->flying) {
        nx_sim_packet *packet = nx_list_entry(at, nx_sim_packet, link);

        if (packet->part == part) {
            packet->part = NULL; /* the packet travels on, empty */
        }
    }
    part->err = err;
    nx_list_remove(&part->link);
    nx_list_push_back(&link->ended, &part->link);
    nx_sim_work(link);
}

/* Nothing more leaves, and packets in flight do not arrive. */
static void silence(nx_sim_link *link)
{
    for (int lane = 0; lane < NX_LANES; lane++) {
        while (!nx_list_empty(&link->frames[lane])) {
            nx_sim_packet_drop(nx_list_entry(link->frames[lane].next, nx_sim_packet, link));
        }
    }
    while (!nx_list_empty(&link->flying)) {
        nx_sim_packet_drop(nx_list_entry(link->flying.next, nx_sim_packet, link));
    }
}

static void give_up(nx_sim_link *link, nexar_err err)
{
    silence(link);
    while (!nx_list_empty(&link->parts)) {
        end_part(link, nx_list_entry(link->parts.next, nx_sim_part, link), err);
    }
}

static void free_parts(nx_list *parts)
{
    for (nx_list *at = nx_list_pop(parts); at != NULL; at = nx_list_pop(parts)) {
        nx_free(nx_list_entry(at, nx_sim_part, link));
    }
}

/* Schedules the end of |link|, unless it is scheduled already. */
static void send_fin(nx_sim_link *link, uint64_t delay_ns, const char *why)
{
    if (!link->down && (link->fin_why == NULL)) {
        link->fin_err = NEXAR_EPEER;
        link->fin_why = why;
        nx_sim_schedule(link->net, &link->fin, nx_sim_now(link->net) + delay_ns);
    }
}

static void part_with_peer(nx_sim_link *link, const char *why)
{
    nx_sim_link *peer = link->peer;

    if (peer == NULL) {
        return;
    }
    send_fin(peer, link->path.delay_ns, why);
    nx_list_for_each (at, &peer->flying) {
        nx_sim_packet_drop(
            nx_list_entry(at, nx_sim_packet, link)); /* the destination does not exist */
    }
    peer->peer = NULL;
    link->peer = NULL;
}

void nx_sim_link_free(nx_sim_link *link)
{
    nx_sim_net *net = link->net;

    part_with_peer(link, "the peer closed the link");
    silence(link);
    free_parts(&link->parts);
    free_parts(&link->ended);
    nx_sim_unschedule(net, &link->up_event);
    nx_sim_unschedule(net, &link->fin);
    nx_sim_unschedule(net, &link->drain);
    nx_list_remove(&link->work);
    nx_list_remove(&link->links);
    net->nlinks--;
    nx_sim_unreserve(net, EVENTS);
    nx_free(link->pool);
    nx_free(link);
}

/* ---- events -------------------------------------------------------------------------- */

static void come_up(nx_sim_link *link)
{
    link->up = true;
    nx_sim_pump(link);
    if (!link->closed) {
        link->base.up->on_up(link->base.up_ctx, &link->base);
    }
}

static void go_down(nx_sim_link *link)
{
    if ((link->last_len > 0) && link->up && !link->closed) {
        link->base.up->on_frame(link->base.up_ctx, &link->base, NX_LANE_CONTROL, link->last,
                                link->last_len);
    }
    link->down = true;
    link->down_err = link->fin_err;
    nx_sim_unschedule(link->net, &link->up_event); /* the link may never have come up */
    give_up(link, link->fin_err);
    nx_sim_work(link);
}

void nx_sim_link_happen(nx_sim_event *event)
{
    nx_sim_link *link = event->link;

    if (link->blocked && (event->kind != NX_SIM_DRAIN)) {
        nx_list_push_back(&link->held, &event->held);
        return;
    }
    switch (event->kind) {
    case NX_SIM_UP:
        come_up(link);
        break;
    case NX_SIM_FIN:
        go_down(link);
        break;
    case NX_SIM_DRAIN:
        link->draining = false;
        give_up(link, NEXAR_ETIMEDOUT);
        nx_sim_work(link);
        break;
    case NX_SIM_FRAME:
    case NX_SIM_PIECE:
        nx_sim_arrive(nx_list_entry(event, nx_sim_packet, event));
        break;
    case NX_SIM_ACK:
        nx_sim_acknowledge(nx_list_entry(event, nx_sim_packet, event));
        break;
    }
}

static bool is_drained(const nx_sim_link *link)
{
    return nx_list_empty(&link->frames[NX_LANE_CONTROL]) &&
           nx_list_empty(&link->frames[NX_LANE_MESSAGE]) && nx_list_empty(&link->parts) &&
           nx_list_empty(&link->flying);
}

void nx_sim_link_work(nx_sim_link *link)
{
    nx_list *at = nx_list_pop(&link->ended);

    if (at != NULL) {
        nx_sim_part *part = nx_list_entry(at, nx_sim_part, link);
        nx_tx *tx = part->tx;
        nexar_err err = part->err;

        nx_free(part);
        tx->owner = NULL;
        nx_sim_work(link);
        link->base.up->on_sent(link->base.up_ctx, &link->base, tx, err);
        return;
    }
    if (link->closed) {
        if (!link->draining || link->down || is_drained(link)) {
            nx_sim_link_free(link);
        }
        return;
    }
    if (link->down && !link->down_told) {
        link->down_told = true;
        link->base.up->on_down(link->base.up_ctx, &link->base, link->down_err, link->fin_why);
    }
}

/* ---- operations ---------------------------------------------------------------------- */

static nexar_err check_open(const nx_sim_link *link)
{
    assert(!link->closed);
    return link->down ? nx_fail(link->down_err, "%s", link->fin_why) : NEXAR_OK;
}

static nexar_err send_frame(nx_link *base, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_sim_link *link = from_base(base);
    nexar_err err = check_open(link);
    nx_sim_packet *packet;
    size_t len = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    if (len > NX_FRAME_MAX) {
        return nx_fail(NEXAR_EINVAL, "a frame of %zu bytes, more than %d", len, NX_FRAME_MAX);
    }
    packet = nx_zalloc(sizeof(*packet) + len);
    if (packet == NULL) {
        return nx_fail_nomem("a frame");
    }
    err = nx_sim_reserve(link->net, 1);
    if (err != NEXAR_OK) {
        nx_free(packet);
        return err;
    }
    packet->event.kind = NX_SIM_FRAME;
    nx_list_init(&packet->event.held);
    packet->from = link;
    packet->lane = lane;
    packet->data = (uint8_t *)(packet + 1);
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(packet->data + packet->len, bytes[i].ptr, bytes[i].len);
            packet->len += bytes[i].len;
        }
    }
    nx_list_push_back(&link->frames[lane], &packet->link);
    nx_sim_pump(link);
    return NEXAR_OK;
}

static nexar_err send_part(nx_link *base, nx_tx *tx)
{
    nx_sim_link *link = from_base(base);
    nexar_err err = check_open(link);
    nx_sim_part *part;
    uint64_t len = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; i < tx->nbytes; i++) {
        len += tx->bytes[i].len;
    }
    if (len != tx->len) {
        return nx_fail(NEXAR_EINVAL, "a part of %llu bytes whose stretches have %llu",
                       (unsigned long long)tx->len, (unsigned long long)len);
    }
    part = nx_zalloc(sizeof(*part));
    if (part == NULL) {
        return nx_fail_nomem("a part");
    }
    part->tx = tx;
    tx->queued = 0;
    tx->acked = 0;
    tx->owner = part;
    nx_list_push_back(&link->parts, &part->link);
    nx_sim_pump(link);
    return NEXAR_OK;
}

static void cancel_part(nx_link *base, nx_tx *tx)
{
    nx_sim_link *link = from_base(base);
    nx_sim_part *part = tx->owner;

    assert(part != NULL);
    end_part(link, part, NEXAR_ECANCELED);
    nx_sim_pump(link);
}

static void close_link(nx_link *base, bool drain)
{
    nx_sim_link *link = from_base(base);

    assert(!link->closed);
    link->closed = true;
    link->draining = drain && !link->down;
    if (link->draining) {
        nx_sim_schedule(link->net, &link->drain, nx_sim_now(link->net) + link->path.drain_ns);
    } else {
        give_up(link, NEXAR_ECANCELED);
    }
    nx_sim_work(link);
}

static void dismiss(nx_link *base, const void *frame, size_t len)
{
    const nx_sim_link *link = from_base(base);

    if ((link->peer != NULL) && (len <= sizeof(link->peer->last))) {
        memcpy(link->peer->last, frame, len);
        link->peer->last_len = len;
    }
    close_link(base, false);
}

static void info(const nx_link *base, nx_link_info *out)
{
    const nx_sim_link *link = (const nx_sim_link *)(const void *)base;

    *out = (nx_link_info){
        .state = link->down ? "down" : "up",
        .rtt_ns = 2 * link->path.delay_ns,
        .bytes_sent = link->bytes_sent,
        .bytes_received = link->bytes_received,
        .packets_lost = link->packets_lost,
    };
    (void)snprintf(out->local, sizeof(out->local), "sim:%p", (const void *)link);
    (void)snprintf(out->remote, sizeof(out->remote), "sim:%p", (const void *)link->peer);
}

static const nx_link_ops ops = {
    .name = "sim",
    .send_frame = send_frame,
    .send_part = send_part,
    .cancel_part = cancel_part,
    .close = close_link,
    .info = info,
    .dismiss = dismiss,
};

/* ---- creation and faults ------------------------------------------------------------- */

static void init_event(nx_sim_event *event, nx_sim_link *link, nx_sim_kind kind)
{
    event->link = link;
    event->kind = kind;
    nx_list_init(&event->held);
}

void nx_sim_set_path(nx_link *link, const nx_sim_path *path)
{
    nx_sim_path *own = &from_base(link)->path;

    *own = *path;
    own->window = (own->window == 0) ? (size_t)1 << 20 : own->window;
    own->piece = (own->piece == 0) ? 16384 : own->piece;
    own->piece = (own->piece > NX_FRAME_MAX) ? NX_FRAME_MAX : own->piece;
    own->drain_ns = (own->drain_ns == 0) ? UINT64_C(10000000000) : own->drain_ns;
}

static nx_sim_link *make_link(nx_sim_net *net, const nx_sim_path *path, const nx_sim_end *end)
{
    nx_sim_link *link = nx_zalloc(sizeof(*link));
    nx_sim_packet *pool = nx_calloc(NX_SIM_PACKETS, sizeof(*pool));

    if ((link == NULL) || (pool == NULL) || (nx_sim_reserve(net, EVENTS) != NEXAR_OK)) {
        nx_free(link);
        nx_free(pool);
        return NULL;
    }
    link->base.ops = &ops;
    if (end != NULL) {
        link->base.up = end->up;
        link->base.up_ctx = end->up_ctx;
    }
    link->net = net;
    nx_sim_set_path(&link->base, path);
    nx_list_init(&link->work);
    nx_list_init(&link->held);
    nx_list_init(&link->frames[NX_LANE_CONTROL]);
    nx_list_init(&link->frames[NX_LANE_MESSAGE]);
    nx_list_init(&link->parts);
    nx_list_init(&link->ended);
    nx_list_init(&link->flying);
    nx_list_init(&link->free_packets);
    link->pool = pool;
    for (int i = 0; i < NX_SIM_PACKETS; i++) {
        nx_list_init(&pool[i].event.held);
        pool[i].from = link;
        nx_list_push_back(&link->free_packets, &pool[i].link);
    }
    init_event(&link->up_event, link, NX_SIM_UP);
    init_event(&link->fin, link, NX_SIM_FIN);
    init_event(&link->drain, link, NX_SIM_DRAIN);
    nx_list_push_back(&net->links, &link->links);
    net->nlinks++;
    return link;
}

nexar_err nx_sim_pair(nx_sim_net *net, const nx_sim_path *path, const nx_sim_end ends[2],
                      nx_link *links[2])
{
    nx_sim_link *a = make_link(net, path, ends);
    nx_sim_link *b = make_link(net, path, (ends == NULL) ? NULL : &ends[1]);

    if ((a == NULL) || (b == NULL)) {
        if (a != NULL) {
            nx_sim_link_free(a);
        }
        if (b != NULL) {
            nx_sim_link_free(b);
        }
        return nx_fail_nomem("a link of the virtual network");
    }
    a->peer = b;
    b->peer = a;
    nx_sim_schedule(net, &a->up_event, nx_sim_now(net) + 2 * path->delay_ns);
    nx_sim_schedule(net, &b->up_event, nx_sim_now(net) + 2 * path->delay_ns);
    links[0] = &a->base;
    links[1] = &b->base;
    return NEXAR_OK;
}

void nx_sim_block(nx_link *link, bool blocked)
{
    nx_sim_link *self = from_base(link);

    self->blocked = blocked;
    if (blocked) {
        return;
    }
    /* At time 0: in order of arrival, and before later packets. */
    for (nx_list *at = nx_list_pop(&self->held); at != NULL; at = nx_list_pop(&self->held)) {
        nx_sim_schedule(self->net, nx_list_entry(at, nx_sim_event, held), 0);
    }
}

void nx_sim_cut(nx_link *link)
{
    nx_sim_link *self = from_base(link);

    send_fin(self, self->path.delay_ns, "the connection was cut");
    if (self->peer != NULL) {
        send_fin(self->peer, self->path.delay_ns, "the connection was cut");
    }
}

void nx_sim_kill(nx_link *link)
{
    nx_sim_link *self = from_base(link);

    silence(self);
    part_with_peer(self, "the peer died");
    free_parts(&self->parts);
    free_parts(&self->ended);
    self->closed = true;
    self->draining = false;
    nx_sim_work(self);
}
