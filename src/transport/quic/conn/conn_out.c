/*
 * conn_out.c - packets out of a send queue.
 *
 * A packet takes from the control lane first, then from the message lane, then from the current
 * part. While there is room the next part follows (many small parts share a packet). Parts leave a
 * little of the connection's window to the lanes, so that control frames never wait for
 * acknowledgements of data.
 */
#include <string.h>

#include "base/memory/prefetch_hint.h"
#include "conn_impl.h"

enum { LANES_RESERVE = 8192 }; /* some hundred control frames */

/* The data that the next write call offers to ngtcp2. */
typedef struct offer {
    nx_outlane *lane; /* or */
    nx_outpart *part;
    int64_t stream; /* -1: no data, finish the packet */
    uint32_t flags;
    ngtcp2_vec vec[NX_SENDQ_VECS];
    size_t n;
} offer;

/* ---- between packets ----------------------------------------------------------------- */

/* In order: the number of a stream identifies its lane. */
static int open_lanes(nx_conn *c)
{
    for (int i = 0; i < NX_LANES; i++) {
        nx_outlane *lane = &c->q->lanes[i];

        if (lane->stream < 0) {
            int rv = ngtcp2_conn_open_uni_stream(c->ng, &lane->stream, NULL);

            if (rv != 0) {
                lane->stream = -1;
                return rv;
            }
        }
    }
    return 0;
}

/* The kind of stream that the peer allows for parts: see ngtcp2_compat.h. */
static bool are_parts_bidi(nx_conn *c)
{
    return ngtcp2_conn_get_remote_transport_params(c->ng)->initial_max_streams_bidi > 0;
}

static int open_parts(nx_conn *c)
{
    while (!nx_list_empty(&c->q->waiting)) {
        nx_outpart *part = nx_list_entry(c->q->waiting.next, nx_outpart, link);
        int rv = are_parts_bidi(c) ? ngtcp2_conn_open_bidi_stream(c->ng, &part->stream, part)
                                   : ngtcp2_conn_open_uni_stream(c->ng, &part->stream, part);

        if (rv != 0) {
            part->stream = -1;
            /* When the peer allows more streams, the next write opens them. */
            return (rv == NGTCP2_ERR_STREAM_ID_BLOCKED) ? 0 : rv;
        }
        part->tx->stream = (uint64_t)part->stream;
        nx_list_remove(&part->link);
        nx_list_push_back(&c->q->open, &part->link);
    }
    return 0;
}

static void reset_cancelled(nx_conn *c)
{
    nx_list *at;

    while ((at = nx_list_pop(&c->q->cancelled)) != NULL) {
        nx_outpart *part = nx_list_entry(at, nx_outpart, link);

        nx_list_push_back(&c->q->held, at);
        (void)nx_ng_cancel_stream(c->ng, part->stream, NX_CLOSE_DONE);
    }
}

/* Performs the work that must not happen while a packet is being filled; returns the bytes that
 * parts may put into it. */
static size_t prepare(nx_conn *c)
{
    uint64_t left;
    int rv;

    if ((c->q == NULL) || (c->state != NX_CONN_UP)) {
        return 0;
    }
    rv = open_lanes(c);
    if (rv == 0) {
        reset_cancelled(c);
        rv = open_parts(c);
    }
    if (rv != 0) {
        nx_conn_died(c, rv);
        return 0;
    }
    left = ngtcp2_conn_get_max_data_left(c->ng);
    return (left > LANES_RESERVE) ? (size_t)(left - LANES_RESERVE) : 0;
}

/* ---- filling one packet -------------------------------------------------------------- */

/* Whether |o| contains all data left to send: then its packet needs only one call. */
static bool takes_all(const nx_conn *c, const offer *o)
{
    uint64_t left = 0;

    for (int i = 0; i < NX_LANES; i++) {
        left += c->q->lanes[i].queued - c->q->lanes[i].written;
    }
    for (size_t i = 0; i < o->n; i++) {
        left -= o->vec[i].len;
    }
    return (left == 0) && nx_list_empty(&c->q->open);
}

/* Prefetches what the next packet reads after |o|: more of its part, or the next part. */
static void look_ahead(const nx_conn *c, const offer *o, bool fin)
{
    const nx_list *next = o->part->link.next;

    if (!fin && (o->n > 0)) {
        const ngtcp2_vec *last = &o->vec[o->n - 1];

        nx_prefetch_read = (nx_prefetch){.at = last->base + last->len, .len = c->limit};
    } else if (next != &c->q->open) {
        const nx_tx *tx = nx_list_entry(next, nx_outpart, link)->tx;

        if (tx->nbytes > 0) {
            nx_prefetch_read = (nx_prefetch){.at = tx->bytes[0].ptr, .len = c->limit};
        }
    }
}

static void pick(const nx_conn *c, size_t parts_room, offer *o)
{
    *o = (offer){.stream = -1};
    if ((c->q == NULL) || (c->state != NX_CONN_UP)) {
        return;
    }
    for (int i = 0; i < NX_LANES; i++) {
        nx_outlane *lane = &c->q->lanes[i];

        if ((lane->written < lane->queued) && !lane->blocked && (lane->stream >= 0)) {
            o->lane = lane;
            o->stream = lane->stream;
            o->n = nx_outlane_peek(lane, o->vec, c->limit);
            o->flags = takes_all(c, o) ? 0 : NGTCP2_WRITE_STREAM_FLAG_MORE;
            return;
        }
    }
    if ((parts_room >= NX_PART_HEAD) && !nx_list_empty(&c->q->open)) {
        bool fin;

        o->part = nx_list_entry(c->q->open.next, nx_outpart, link);
        o->stream = o->part->stream;
        o->n =
            nx_outpart_peek(o->part, o->vec, (parts_room < c->limit) ? parts_room : c->limit, &fin);
        o->flags = NGTCP2_WRITE_STREAM_FLAG_MORE | (fin ? NGTCP2_WRITE_STREAM_FLAG_FIN : 0);
        look_ahead(c, o, fin);
    }
}

static void took(nx_conn *c, const offer *o, size_t len, size_t *parts_room)
{
    if (o->lane != NULL) {
        nx_outlane_wrote(o->lane, len);
    } else if (o->part != NULL) {
        nx_sendq_wrote_part(c->q, len);
        *parts_room -= (len < *parts_room) ? len : *parts_room;
    }
}

/* The stream takes no more for now, or never again (the peer has cancelled it). It returns to the
 * queue with credit, or ends when ngtcp2 reports it closed. */
static void set_aside(nx_conn *c, const offer *o)
{
    if (o->lane != NULL) {
        o->lane->blocked = true;
    } else if (o->part != NULL) {
        nx_list_remove(&o->part->link);
        nx_list_push_back(&c->q->held, &o->part->link);
        c->q->turn_left = NX_SENDQ_TURN;
    }
}

/* Writes one packet; 0: there is none to write. */
static size_t write_packet(nx_conn *c, uint8_t *buf, size_t room)
{
    size_t parts_room = prepare(c);
    ngtcp2_path_storage ps; /* always the only path */
    ngtcp2_ssize n, len;
    offer o;

    if (c->state == NX_CONN_DEAD) {
        return 0;
    }
    ngtcp2_path_storage_zero(&ps);
    for (;;) {
        pick(c, parts_room, &o);
        len = -1;
        n = ngtcp2_conn_writev_stream(c->ng, &ps.path, NULL, buf, room, &len, o.flags, o.stream,
                                      o.vec, o.n, c->now_ns);
        if (len >= 0) {
            took(c, &o, (size_t)len, &parts_room);
        }
        if (n >= 0) {
            return (size_t)n;
        }
        if ((n == NGTCP2_ERR_STREAM_DATA_BLOCKED) || (n == NGTCP2_ERR_STREAM_SHUT_WR) ||
            (n == NGTCP2_ERR_STREAM_NOT_FOUND)) {
            set_aside(c, &o);
        } else if (n != NGTCP2_ERR_WRITE_MORE) {
            nx_conn_died(c, (int)n);
            return 0;
        }
    }
}

/* Whether nothing follows before the peer answers: no data is left, or the window is closed. */
static bool is_last(const nx_conn *c)
{
    return c->dry || (ngtcp2_conn_get_cwnd_left(c->ng) < c->limit) ||
           (ngtcp2_conn_get_max_data_left(c->ng) < LANES_RESERVE + c->limit);
}

/* Writes a packet, and reports whether there may be another; keeps a packet that may have to be
 * repeated. */
static size_t write_kept(nx_conn *c, uint8_t *buf, size_t room)
{
    const bool probing = nx_conn_is_probing(c);
    const uint64_t before = nx_conn_in_flight(c);
    size_t n;

    n = write_packet(c, buf, room);
    c->expired = c->expired && (n > 0);
    c->dry = (n == 0) || ((n < room / 2) && !c->expired && !nx_conn_has_data(c));
    if ((n == 0) || c->same_host || (!probing && !is_last(c)) || (nx_conn_in_flight(c) == before)) {
        return n; /* no packet, or more follows, or no answer is requested */
    }
    if (probing) {
        n = nx_conn_keep_back(c, buf, n);
        return (n > 0) ? n : write_packet(c, buf, room);
    }
    nx_conn_keep_call(c, buf, n);
    return n;
}

size_t nx_conn_write(nx_conn *c, uint8_t *buf, size_t room, uint64_t now_ns)
{
    size_t n;

    c->dry = true;
    if (c->state == NX_CONN_DEAD) {
        return 0;
    }
    c->now_ns = (now_ns > c->now_ns) ? now_ns : c->now_ns;
    n = nx_conn_take_spare(c, buf, room);
    if (n > 0) {
        c->dry = false;
    } else {
        n = write_kept(c, buf, (room < c->limit) ? room : c->limit);
    }
    c->bytes_sent += n;
    return n;
}

bool nx_conn_is_dry(const nx_conn *c)
{
    return c->dry;
}

bool nx_conn_has_data(const nx_conn *c)
{
    const nx_sendq *q = c->q;

    if ((c->state != NX_CONN_UP) || c->spare_due) {
        return true;
    }
    return (q != NULL) && ((q->lanes[NX_LANE_CONTROL].written < q->lanes[NX_LANE_CONTROL].queued) ||
                           (q->lanes[NX_LANE_MESSAGE].written < q->lanes[NX_LANE_MESSAGE].queued) ||
                           !nx_list_empty(&q->open) || !nx_list_empty(&q->waiting) ||
                           !nx_list_empty(&q->cancelled));
}

/* ---- acknowledgements ---------------------------------------------------------------- */

int nx_conn_on_acked(ngtcp2_conn *ng, int64_t stream, uint64_t offset, uint64_t len, void *user,
                     void *stream_user)
{
    nx_conn *c = user;

    (void)ng;
    c->last_ack_ns = c->now_ns;
    if (c->q == NULL) {
        return 0;
    }
    if (stream_user != NULL) {
        ((nx_outpart *)stream_user)->tx->acked = offset + len;
        return 0;
    }
    for (int i = 0; i < NX_LANES; i++) {
        if (c->q->lanes[i].stream == stream) {
            nx_outlane_acked(c->q, &c->q->lanes[i], offset + len);
        }
    }
    return 0;
}

int nx_conn_on_stream_credit(ngtcp2_conn *ng, int64_t stream, uint64_t most, void *user,
                             void *stream_user)
{
    nx_outpart *part = stream_user;
    nx_conn *c = user;

    (void)ng;
    (void)most;
    if (c->q == NULL) {
        return 0;
    }
    for (int i = 0; (part == NULL) && (i < NX_LANES); i++) {
        if (c->q->lanes[i].stream == stream) {
            c->q->lanes[i].blocked = false;
        }
    }
    if ((part != NULL) && !part->cancelled && !part->done && (nx_outpart_left(part) > 0)) {
        bool first = (c->q->open.next == &part->link);

        if (!first) { /* in |held|, or waiting in line: the end of |open| is fair */
            nx_list_remove(&part->link);
            nx_list_push_back(&c->q->open, &part->link);
        }
    }
    return 0;
}

void nx_conn_local_stream_closed(nx_conn *c, void *stream_user)
{
    if ((stream_user != NULL) && (c->q != NULL)) {
        nx_sendq_part_closed(c->q, stream_user);
    }
}
