/*
 * path.c - packets in flight.
 *
 * A packet leaves when the wire is free, and arrives a delay later (plus jitter, plus a retry for
 * every loss). It then becomes its own acknowledgement and returns after another delay. Frames
 * arrive in order within their lane, and the pieces of a part in order within the part; any other
 * order is random.
 *
 * The bytes of a part are read on arrival, not on departure: this detects a sender that modifies
 * them before on_sent.
 */
#include <string.h>

#include "base/alloc.h"
#include "sim_inner.h"

enum { SHARING = 4 }; /* parts that share the wire */

static uint64_t chance(nx_sim_link *link, uint64_t limit)
{
    return (limit == 0) ? 0 : nx_random_below(&link->net->random.random, limit);
}

/* ---- departure of packets ------------------------------------------------------------ */

/* The arrival time of a packet of |len| bytes that leaves now. Control frames do not wait for the
 * wire. */
static uint64_t travel(nx_sim_link *link, size_t len, bool control)
{
    const nx_sim_path *path = &link->path;
    uint64_t now_ns = nx_sim_now(link->net);
    uint64_t start_ns = (!control && (link->busy_until > now_ns)) ? link->busy_until : now_ns;
    uint64_t at_ns = start_ns;

    if (path->rate > 0) {
        at_ns += (uint64_t)(len + NX_SIM_OVERHEAD) * UINT64_C(1000000000) / path->rate;
    }
    if (!control) {
        link->busy_until = at_ns;
    }
    at_ns += path->delay_ns + chance(link, path->jitter_ns);
    while ((path->loss_ppm > 0) && (chance(link, 1000000) < path->loss_ppm)) {
        at_ns += path->retry_ns;
        link->packets_lost++;
    }
    return at_ns;
}

static void launch(nx_sim_link *link, nx_sim_packet *packet, uint64_t *last_ns)
{
    bool control = (packet->lane == NX_LANE_CONTROL);
    uint64_t at_ns = travel(link, packet->len, control);

    *last_ns = (at_ns > *last_ns) ? at_ns : *last_ns;
    nx_list_push_back(&link->flying, &packet->link);
    link->bytes_sent += packet->len;
    if (!control) {
        link->in_flight += packet->len + NX_SIM_OVERHEAD;
    }
    packet->event.link = link->peer;
    nx_sim_schedule(link->net, &packet->event, *last_ns);
}

static bool launch_frame(nx_sim_link *link, nx_lane lane)
{
    nx_list *at = nx_list_pop(&link->frames[lane]);

    if (at == NULL) {
        return false;
    }
    launch(link, nx_list_entry(at, nx_sim_packet, link), &link->lane_last[lane]);
    return true;
}

/* One of the first few parts that are not fully sent. */
static nx_sim_part *choose_part(nx_sim_link *link)
{
    nx_sim_part *open[SHARING];
    size_t n = 0;

    nx_list_for_each (at, &link->parts) {
        nx_sim_part *part = nx_list_entry(at, nx_sim_part, link);

        if (!part->all_sent) {
            open[n++] = part;
        }
        if (n == SHARING) {
            break;
        }
    }
    return (n == 0) ? NULL : open[chance(link, n)];
}

static bool launch_piece(nx_sim_link *link)
{
    nx_sim_part *part = nx_list_empty(&link->free_packets) ? NULL : choose_part(link);
    nx_sim_packet *packet;
    uint64_t left;

    if (part == NULL) {
        return false;
    }
    packet = nx_list_entry(nx_list_pop(&link->free_packets), nx_sim_packet, link);
    left = part->tx->len - part->tx->queued;
    packet->event.kind = NX_SIM_PIECE;
    packet->lane = NX_LANE_MESSAGE;
    packet->part = part;
    packet->off = part->tx->queued;
    packet->len = (size_t)chance(link, link->path.piece) + 1;
    if (packet->len > left) {
        packet->len = (size_t)left;
    }
    part->tx->queued += packet->len;
    part->all_sent = (part->tx->queued == part->tx->len);
    launch(link, packet, &part->last_ns);
    return true;
}

void nx_sim_pump(nx_sim_link *link)
{
    if (!link->up || link->down || (link->peer == NULL)) {
        return;
    }
    while (launch_frame(link, NX_LANE_CONTROL)) {
    }
    while (link->in_flight < link->path.window) {
        bool frame_first = (chance(link, 2) == 0);

        if (frame_first && launch_frame(link, NX_LANE_MESSAGE)) {
            continue;
        }
        if (!launch_piece(link) && !launch_frame(link, NX_LANE_MESSAGE)) {
            return;
        }
    }
}

/* ---- arrival of packets -------------------------------------------------------------- */

/* Copies the next |len| bytes of the part, which arrive in order. */
static void gather(nx_sim_part *part, uint8_t *out, size_t len)
{
    while (len > 0) {
        const nx_bytes *b = &part->tx->bytes[part->at];
        size_t n = b->len - part->at_off;

        if (n == 0) {
            part->at++;
            part->at_off = 0;
            continue;
        }
        n = (n < len) ? n : len;
        memcpy(out, (const uint8_t *)b->ptr + part->at_off, n);
        part->at_off += n;
        out += n;
        len -= n;
    }
}

/* The packet becomes its acknowledgement before the callback: whatever the callback does, the
 * acknowledgement is in flight. */
void nx_sim_arrive(nx_sim_packet *packet)
{
    nx_sim_link *link = packet->event.link;
    uint8_t *data = link->net->scratch;
    bool frame = (packet->event.kind == NX_SIM_FRAME);
    size_t len = packet->len;
    bool deliver = !link->closed;

    if (link->down) { /* the destination receives nothing any more, and does not answer */
        nx_sim_packet_drop(packet);
        return;
    }
    if (frame) {
        memcpy(data, packet->data, len);
    } else if (packet->part != NULL) {
        gather(packet->part, data, len);
    } else {
        deliver = false;
    }
    link->bytes_received += len;
    packet->event.kind = NX_SIM_ACK;
    packet->event.link = packet->from;
    nx_sim_schedule(link->net, &packet->event,
                    nx_sim_now(link->net) + link->path.delay_ns +
                        chance(link, link->path.jitter_ns));
    if (!deliver) {
        return;
    }
    if (frame) {
        link->base.up->on_frame(link->base.up_ctx, &link->base, packet->lane, data, len);
    } else {
        const nx_tx *tx = packet->part->tx;

        link->base.up->on_data(link->base.up_ctx, &link->base, tx->id, tx->off + packet->off, data,
                               len);
    }
    memset(data, 0xdd, len); /* the memory was borrowed */
}

void nx_sim_packet_drop(nx_sim_packet *packet)
{
    nx_sim_link *from = packet->from;

    nx_sim_unschedule(from->net, &packet->event);
    nx_list_remove(&packet->link);
    if ((packet >= from->pool) && (packet < from->pool + NX_SIM_PACKETS)) {
        packet->part = NULL;
        nx_list_push_back(&from->free_packets, &packet->link);
    } else {
        nx_sim_unreserve(from->net, 1);
        nx_free(packet);
    }
}

void nx_sim_acknowledge(nx_sim_packet *packet)
{
    nx_sim_link *link = packet->from;
    nx_sim_part *part = packet->part;

    if (packet->lane != NX_LANE_CONTROL) {
        link->in_flight -= packet->len + NX_SIM_OVERHEAD;
    }
    if (part != NULL) {
        part->tx->acked += packet->len;
        if (part->all_sent && (part->tx->acked == part->tx->len)) {
            nx_list_remove(&part->link);
            part->err = NEXAR_OK;
            nx_list_push_back(&link->ended, &part->link);
        }
    }
    nx_sim_packet_drop(packet);
    nx_sim_pump(link);
    nx_sim_work(link);
}
