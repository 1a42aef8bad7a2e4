/*
 * conn_io_out.c - packets of a connection to the socket: datagrams of one length leave in one call
 * (UDP_SEGMENT), at most an iteration's quota at a time.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

/* Sends the batch; false: the socket is full and keeps it. */
static bool send_batch(nx_conn_io *k, int *code)
{
    nx_quic *q = k->q;
    nx_quic_out *out = &q->out;

    *code = 0;
    if (out->len == 0) {
        return true;
    }
    *code = nx_udp_send(q->udp, &out->path, out->buf, out->len, out->segment);
    if (*code == EAGAIN) {
        *code = 0; /* the error reveals nothing about the path */
        q->blocked = true;
        (void)!nx_loop_fd_change(q->config.loop, &q->fd, EPOLLIN | EPOLLOUT);
        return false;
    }
    if (((*code == EINVAL) || (*code == EADDRNOTAVAIL) || (*code == ENETUNREACH)) &&
        k->path.has_source) {
        /* The local address has disappeared with its interface: the kernel chooses another. */
        k->path.has_source = out->path.has_source = false;
        *code = nx_udp_send(q->udp, &out->path, out->buf, out->len, out->segment);
    }
    out->len = 0;
    return true;
}

bool nx_quic_unblock(nx_quic *q)
{
    nx_quic_out *out = &q->out;

    if (!q->blocked) {
        return true;
    }
    if (nx_udp_send(q->udp, &out->path, out->buf, out->len, out->segment) == EAGAIN) {
        return false;
    }
    out->len = 0;
    q->blocked = false;
    (void)!nx_loop_fd_change(q->config.loop, &q->fd, EPOLLIN);
    return true;
}

/* Whether a packet of |n| bytes fits into the batch. */
static bool joins(const nx_quic_out *out, size_t n)
{
    return (out->len > 0) && (n <= out->segment) && (out->len + n <= NX_UDP_MAX);
}

/* Whether no more packets fit into the batch. */
static bool is_full(const nx_quic_out *out, size_t last)
{
    return (last < out->segment) || (out->len + out->segment > NX_UDP_MAX) ||
           (out->len / out->segment >= NX_UDP_SEGMENTS);
}

/* A send failed permanently: the packets are lost; use the error code. */
static void learn(nx_conn_io *k, int code)
{
    if (code == EMSGSIZE) {
        nx_conn_limit(k->conn, nx_udp_datagram_max(&k->path.remote));
    } else if ((code != 0) && (code != ENOBUFS)) {
        nx_conn_io_unreachable(k, &(nx_udp_refusal){.code = code});
    }
}

/* Appends the packet of |n| bytes, which follows the batch in memory, to the batch, or sends the
 * batch and begins another with the packet. False: the socket is full. Then, or if the batch has
 * failed with |*code|, the packet is lost, which is rare and repaired like any loss. Nothing may
 * stay in the batch after the iteration, because the next connection uses the same batch. */
static bool add_packet(nx_conn_io *k, size_t n, int *code)
{
    nx_quic_out *out = &k->q->out;

    if (!joins(out, n)) {
        const uint8_t *packet = out->buf + out->len;

        if (!send_batch(k, code)) {
            return false;
        }
        if (*code != 0) {
            return true;
        }
        if (packet != out->buf) {
            memmove(out->buf, packet, n);
        }
        out->segment = n;
        out->path = k->path;
    }
    out->len += n;
    return !is_full(out, n) || send_batch(k, code);
}

/* Writes up to an iteration's quota; |*more|: there may be more to write. */
static void write_turn(nx_conn_io *k, uint64_t now_ns, bool *more)
{
    nx_quic_out *out = &k->q->out;
    const size_t burst = nx_conn_burst(k->conn);
    const size_t most = (burst < NX_QUIC_TURN) ? burst : NX_QUIC_TURN;
    size_t total = 0, n;
    bool room = true;
    int code = 0;

    do {
        n = nx_conn_write(k->conn, out->buf + out->len, NX_UDP_MAX, now_ns);
        total += n;
        room = (n == 0) || add_packet(k, n, &code);
    } while (room && !nx_conn_is_dry(k->conn) && (total < most) && (code == 0));
    if (room && (code == 0)) {
        (void)send_batch(k, &code);
    }
    *more = !nx_conn_is_dry(k->conn);
    learn(k, code);
}

/* Sets the next timer; the next packet makes up for a pass that failed for lack of memory. */
static void set_timer(nx_conn_io *k)
{
    nx_loop *loop = k->q->config.loop;
    uint64_t at = nx_conn_expiry(k->conn), silent_at = nx_conn_io_silent_at(k);

    /* ngtcp2 asks to be called a few microseconds after each packet, to send the next one. With no
     * data that would be a lone acknowledgement. */
    if ((at < nx_loop_now(loop) + NX_QUIC_RIDE_NS) && !nx_conn_has_data(k->conn)) {
        at = nx_loop_now(loop) + NX_QUIC_RIDE_NS;
    }
    if (k->up && (k->link == NULL) && (k->used_by_ns < at)) {
        at = k->used_by_ns;
    }
    if ((silent_at > nx_loop_now(loop)) && (silent_at < at)) {
        at = silent_at;
    }
    if (at == UINT64_MAX) {
        nx_loop_timer_cancel(loop, &k->timer);
    } else {
        (void)!nx_loop_timer_set(loop, &k->timer, at);
    }
}

void nx_conn_io_flush(nx_task *self)
{
    nx_conn_io *k = nx_list_entry(self, nx_conn_io, task);
    nx_quic *q = k->q;
    uint64_t now_ns = nx_loop_refresh(q->config.loop);
    bool more = false;

    if (k->conn == NULL) {
        return;
    }
    if (!q->blocked) {
        k->unanswered = 0;
        write_turn(k, now_ns, &more);
        nx_conn_wrote(k->conn, now_ns);
    }
    if (!nx_conn_io_conclude(k)) {
        return;
    }
    if (q->blocked) {
        nx_list_remove(&k->in_stalled);
        nx_list_push_back(&q->stalled, &k->in_stalled);
    } else if (more) {
        nx_conn_io_wake(k);
    }
    set_timer(k);
}
