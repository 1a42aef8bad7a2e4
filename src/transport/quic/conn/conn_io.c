/* conn_io.c - a connection with its timer and its ids: life, reading, end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

enum {
    LINGER_PTOS = 3,       /* RFC 9000, 10.2 */
    UNREACHABLE_TIMES = 2, /* the network repeats the message, and */
    SILENT_PATIENCES = 3, /* or sends it once, and then no answer arrives for this many time-outs */
    LITTLE = 4096,        /* bytes that are not worth an immediate acknowledgement, */
    LITTLE_HERE = 65536,  /* inside a host */
};

static const uint64_t LINGER_MOST_NS = UINT64_C(1000000000);
static const uint64_t UNREACHABLE_NS = UINT64_C(100000000); /* for this long, without a packet */

/* If this process did not run for this long, packets that arrived in that time count before any
 * time-out. */
static const uint64_t AWAY_NS = UINT64_C(100000000);

static size_t little(const nx_conn_io *k)
{
    return k->same_host ? LITTLE_HERE : LITTLE;
}

/* ---- upcalls of the connection ------------------------------------------------------- */

static void on_frame(void *ctx, nx_lane lane, const void *data, size_t len)
{
    nx_conn_io *k = ctx;
    nx_quic_link *link = k->link;

    if ((link != NULL) && (link->used == k) && nx_quic_link_wants_data(link)) {
        link->base.up->on_frame(link->base.up_ctx, &link->base, lane, data, len);
    }
}

static void on_data(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len)
{
    nx_conn_io *k = ctx;
    nx_quic_link *link = k->link;

    k->unanswered += little(k); /* the sender waits until its memory is released */
    if ((link != NULL) && (link->used == k) && nx_quic_link_wants_data(link)) {
        link->base.up->on_data(link->base.up_ctx, &link->base, id, off, data, len);
    }
}

static void *on_want(void *ctx, uint64_t id, uint64_t off, size_t *len)
{
    const nx_conn_io *k = ctx;
    nx_quic_link *link = k->link;

    if ((link == NULL) || (link->used != k) || !nx_quic_link_wants_data(link) ||
        (link->base.up->on_want == NULL)) {
        return NULL;
    }
    return link->base.up->on_want(link->base.up_ctx, &link->base, id, off, len);
}

static void on_bye(void *ctx)
{
    const nx_conn_io *k = ctx;

    if ((k->link != NULL) && (k->link->used == k)) {
        k->link->peer_bye = true;
        nx_loop_defer(k->q->config.loop, &k->link->task);
    }
}

static void on_used(void *ctx)
{
    nx_open_resolve_used(ctx);
}

static bool on_cid(void *ctx, uint64_t cid)
{
    return nx_quic_add_cid(ctx, cid);
}

static void on_cid_gone(void *ctx, uint64_t cid)
{
    nx_quic_remove_cid(ctx, cid);
}

static const nx_conn_up UP = {
    .inbox = {.on_frame = on_frame, .on_data = on_data, .on_bye = on_bye, .on_want = on_want},
    .on_used = on_used,
    .on_cid = on_cid,
    .on_cid_gone = on_cid_gone,
};

/* ---- life ---------------------------------------------------------------------------- */

static int open_qlog(nx_quic *q, bool dialled)
{
    char path[512];
    uint64_t id;
    int n;

    if ((q->config.qlog_dir == NULL) || (q->config.qlog_dir[0] == '\0')) {
        return -1;
    }
    nx_random_fill(q->config.random, &id, sizeof(id));
    n = snprintf(path, sizeof(path), "%s/%016" PRIx64 "-%s.sqlog", q->config.qlog_dir, id,
                 dialled ? "dialled" : "accepted");
    if ((n < 0) || ((size_t)n >= sizeof(path))) {
        return -1;
    }
    n = nx_sys_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (n < 0) {
        nx_log(NX_LOG_WARN, "quic: cannot write %s: errno %d", path, errno);
    }
    return n;
}

static void on_timer(nx_timer *self, uint64_t now_ns);

/* Inside a host only the window keeps the peer from filling the socket's buffer; between hosts
 * congestion control does. A dialled seed sends next to nothing. */
static uint64_t window_of(const nx_quic *q, const nx_tls_target *target, bool same_host)
{
    if ((target != NULL) && (target->member == 0)) {
        return NX_QUIC_WINDOW_LEAST;
    }
    return same_host ? q->window : NX_CONN_WINDOW_FIRST;
}

static nexar_err make_conn(nx_conn_io *k, const nx_tls_target *target, const ngtcp2_pkt_hd *hd,
                           const ngtcp2_cid *retried)
{
    nx_quic *q = k->q;
    nx_conn_config c = {
        .now_ns = nx_loop_refresh(q->config.loop),
        .random = q->config.random,
        .tls = q->tls,
        .secret = q->secret,
        .local = q->local,
        .remote = k->path.remote,
        .idle_ns = q->config.idle_timeout_ns,
        .handshake_ns = q->config.handshake_timeout_ns,
        .datagram = nx_udp_datagram_max(&k->path.remote),
        .up = &UP,
        .ctx = k,
        .target = target,
        .hd = hd,
        .retried = retried,
    };
    nexar_err err;

    if (q->far) {
        c.datagram = NX_QUIC_FAR;
    }
    c.same_host = (c.datagram > NX_QUIC_SAME_HOST);
    c.datagram = c.same_host ? NX_QUIC_SAME_HOST : c.datagram;
    k->same_host = c.same_host;
    c.window = window_of(q, target, c.same_host);
    c.bbr = !c.same_host && (q->config.congestion != NX_CONGESTION_CUBIC);
    c.qlog_fd = open_qlog(q, k->dialled);
    err = nx_conn_create(&k->conn, &c);
    if ((err != NEXAR_OK) && (c.qlog_fd >= 0)) {
        (void)nx_sys_close(c.qlog_fd);
    }
    return err;
}

nexar_err nx_conn_io_create(nx_conn_io **out, nx_quic *q, const nx_udp_path *path,
                            const nx_tls_target *target, const ngtcp2_pkt_hd *hd,
                            const ngtcp2_cid *retried)
{
    nx_conn_io *k = nx_zalloc(sizeof(*k));
    nexar_err err;

    if (k == NULL) {
        return nx_fail_nomem("a connection");
    }
    k->q = q;
    k->path = *path;
    k->dialled = (target != NULL);
    k->timer.on_expire = on_timer;
    nx_task_init(&k->task, nx_conn_io_flush);
    k->task.patient = true; /* a packet has room for many messages */
    nx_list_init(&k->in_all);
    nx_list_init(&k->in_link);
    nx_list_init(&k->in_stalled);
    nx_list_push_back(&q->conn_ios, &k->in_all);
    err = make_conn(k, target, hd, retried);
    if (err != NEXAR_OK) {
        nx_conn_io_destroy(k);
        return err;
    }
    if (!k->dialled) {
        k->half_open = true;
        k->since_ns = nx_loop_now(q->config.loop);
        q->half_open++;
    }
    nx_conn_io_wake(k);
    *out = k;
    return NEXAR_OK;
}

static void not_half_open(nx_conn_io *k)
{
    if (k->half_open) {
        k->half_open = false;
        k->q->half_open--;
    }
}

void nx_conn_io_destroy(nx_conn_io *k)
{
    nx_quic *q = k->q;

    nx_loop_timer_cancel(q->config.loop, &k->timer);
    nx_loop_undefer(&k->task);
    nx_list_remove(&k->in_all);
    nx_list_remove(&k->in_link);
    nx_list_remove(&k->in_stalled);
    not_half_open(k);
    nx_conn_destroy(k->conn);
    while (k->ncids > 0) {
        nx_quic_remove_cid(k, k->cids[k->ncids - 1]);
    }
    nx_free(k->cids);
    nx_free(k->last_word);
    nx_free(k);
}

/* Replaces the connection by its close packet, for as long as late packets may arrive. */
static void entomb(nx_conn_io *k, const uint8_t *word, size_t len)
{
    nx_quic *q = k->q;
    uint64_t linger = LINGER_PTOS * nx_conn_pto(k->conn);

    not_half_open(k);
    k->link = NULL;
    nx_list_remove(&k->in_link);
    nx_list_remove(&k->in_stalled);
    nx_loop_undefer(&k->task);
    nx_conn_destroy(k->conn);
    k->conn = NULL;
    if (len > 0) {
        k->last_word = nx_zalloc(len);
        if (k->last_word != NULL) {
            memcpy(k->last_word, word, len);
            k->last_word_len = len;
        }
    }
    linger = (linger < LINGER_MOST_NS) ? linger : LINGER_MOST_NS;
    if (k->outlasts) {
        linger = q->config.idle_timeout_ns; /* the peer may read it this late */
    } else if (!k->up && !k->dialled && (len == 0)) {
        linger = 0; /* noise that resembled a new peer: there may be much of it */
    }
    /* Without memory for the timer, the connection stays until the endpoint closes. */
    (void)!nx_loop_timer_set(q->config.loop, &k->timer, nx_loop_now(q->config.loop) + linger);
}

void nx_conn_io_close(nx_conn_io *k, nx_close_code code, const char *why)
{
    uint8_t word[NX_DATAGRAM_MIN];
    nx_quic *q = k->q;
    size_t len;

    if (k->conn == NULL) {
        return;
    }
    len = nx_conn_close(k->conn, code, why, word, sizeof(word), nx_loop_refresh(q->config.loop));
    if (len > 0) {
        (void)nx_udp_send(q->udp, &k->path, word, len, len);
    }
    entomb(k, word, len);
}

/* ---- after ngtcp2 has returned ------------------------------------------------------- */

static bool close_unwanted(nx_conn_io *k)
{
    if (k->unwanted) {
        nx_conn_io_close(k, NX_CLOSE_OTHER, "another connection is used");
    }
    return k->unwanted;
}

bool nx_conn_io_conclude(nx_conn_io *k)
{
    if (k->doomed) {
        nx_conn_kill(k->conn, NEXAR_ENOMEM, "out of memory", false);
    }
    if (nx_conn_get_state(k->conn) == NX_CONN_DEAD) {
        nx_open_resolve_failed(k);
        return false;
    }
    if (close_unwanted(k)) {
        return false;
    }
    if ((nx_conn_get_state(k->conn) == NX_CONN_UP) && !k->up) {
        k->up = true;
        /* As long as the other side may take to decide: dial.c. */
        k->used_by_ns = nx_loop_now(k->q->config.loop) + 2 * k->q->config.handshake_timeout_ns;
        not_half_open(k);
        nx_open_resolve_up(k);
        if ((k->conn == NULL) || close_unwanted(k)) {
            return false;
        }
    }
    if ((k->link != NULL) && (k->link->used == k)) {
        nx_quic_link_deliver(k->link);
    }
    return k->conn != NULL;
}

/* Writes at the end of the iteration, or shortly after the |first| unanswered packet if there is
 * next to nothing to send: no timer of ngtcp2 is that precise. */
static void answer(nx_conn_io *k, bool first, uint64_t now_ns)
{
    if ((k->unanswered > little(k)) || nx_conn_has_data(k->conn) ||
        (first &&
         (nx_loop_timer_set(k->q->config.loop, &k->timer, now_ns + NX_QUIC_ACK_NS) != NEXAR_OK))) {
        nx_conn_io_wake(k);
    }
}

void nx_conn_io_read(nx_conn_io *k, const nx_udp_path *path, const uint8_t *data, size_t len,
                     uint64_t now_ns)
{
    const bool here = nx_roam_is_here(k, path);
    bool first;

    if (k->conn == NULL) {
        /* Late: logs it again, at powers of two. */
        k->heard++;
        if ((k->last_word_len > 0) && ((k->heard & (k->heard - 1)) == 0)) {
            (void)nx_udp_send(k->q->udp, &k->path, k->last_word, k->last_word_len,
                              k->last_word_len);
        }
        return;
    }
    if (here && !k->path.has_source) {
        k->path = *path;
    }
    first = (k->unanswered == 0);
    k->unanswered += len;
    nx_conn_read(k->conn, &path->remote, data, len, now_ns);
    /* Bytes that any host can send are no sign of life of the peer. */
    if (nx_conn_opened(k->conn)) {
        k->heard_ns = here ? now_ns : k->heard_ns;
        k->unreachable = 0;
        k->silent_ns = 0;
    }
    if (!nx_conn_io_conclude(k)) {
        return;
    }
    if (!here && k->up) {
        nx_roam_heard(k, path, now_ns);
    }
    answer(k, first, now_ns);
}

void nx_conn_io_wake(nx_conn_io *k)
{
    if (k->conn != NULL) {
        nx_loop_defer(k->q->config.loop, &k->task);
    }
}

/* ---- reports of the network ---------------------------------------------------------- */

/* Whether |r| proves that the process of a connection that has been up has exited. Such a message
 * is easily forged. So it must quote a packet of this connection and be repeated after a while, and
 * nothing else may arrive from the peer.
 *
 * The repetition is not reliable: a host sends six such messages to another host in a burst, then
 * one per second (icmp_ratelimit of Linux), whichever process they are for. Packets in flight to a
 * failed process consume this budget. So one message suffices if the peer then stays silent for a
 * while, though it is probed all the time. */
static bool is_gone(nx_conn_io *k, const nx_udp_refusal *r, uint64_t now_ns)
{
    if ((r->code != ECONNREFUSED) || !nx_conn_sent(k->conn, r->sent, r->len)) {
        return false;
    }
    if (k->unreachable++ == 0) {
        k->unreachable_ns = now_ns;
    }
    return (k->unreachable >= UNREACHABLE_TIMES) && (now_ns - k->unreachable_ns >= UNREACHABLE_NS);
}

uint64_t nx_conn_io_silent_at(const nx_conn_io *k)
{
    return (k->silent_ns > 0) ? k->silent_ns + SILENT_PATIENCES * nx_conn_patience(k->conn)
                              : UINT64_MAX;
}

/* The network's |code| is believed. */
static void end(nx_conn_io *k, int code)
{
    char text[64] = "", why[128];

    (void)nx_sentence(why, sizeof(why), "%s",
                      (code == ECONNREFUSED) ? "no process listens there"
                                             : strerror_r(code, text, sizeof(text)));
    k->refused = (code == ECONNREFUSED);
    nx_conn_kill(k->conn, k->up ? NEXAR_EPEER : NEXAR_ECONNECT, why, true);
    nx_conn_io_wake(k); /* its task handles the error: this call may be nested in a send */
}

void nx_conn_io_unreachable(nx_conn_io *k, const nx_udp_refusal *r)
{
    const uint64_t now_ns = nx_loop_now(k->q->config.loop);

    if (k->conn == NULL) {
        return;
    }
    if (r->code == EMSGSIZE) {
        if (r->mtu > 0) {
            nx_conn_limit(k->conn, nx_udp_datagram_max(&k->path.remote));
        }
        return;
    }
    /* No route, a firewall's refusal, a neighbour that does not answer: these may be temporary, and
     * other layers judge whether they last too long. */
    if (k->up && !is_gone(k, r, now_ns)) {
        nx_conn_urge(k->conn);
        if ((k->unreachable > 0) && (k->silent_ns == 0) && nx_conn_is_stuck(k->conn, now_ns)) {
            k->silent_ns = now_ns;
        }
        nx_conn_io_wake(k);
        return;
    }
    end(k, r->code);
}

/* ---- time ---------------------------------------------------------------------------- */

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_conn_io *k = nx_list_entry(self, nx_conn_io, timer);

    if (k->conn == NULL) {
        nx_conn_io_destroy(k);
        return;
    }
    if (now_ns - self->item.key >= AWAY_NS) {
        nx_quic_read_all(k->q);
        if (k->conn == NULL) {
            return;
        }
    }
    nx_conn_expire(k->conn, now_ns);
    if (k->up && (k->link == NULL) && (now_ns >= k->used_by_ns)) {
        nx_conn_kill(k->conn, NEXAR_ETIMEDOUT, "connected, but nothing was said", false);
    }
    if (now_ns >= nx_conn_io_silent_at(k)) {
        end(k, ECONNREFUSED);
    }
    if (nx_conn_io_conclude(k)) {
        nx_roam_call(k, now_ns);
        nx_conn_io_wake(k);
    }
}
