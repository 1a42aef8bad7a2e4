/* endpoint.c - one socket for all peers: finds the connection of each packet. */
#include <gnutls/crypto.h>
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/log.h"
#include "base/text/text.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

enum {
    READS_PER_TURN = 4, /* then other descriptors are served */
    DATAGRAM_ROOM = 512 /* the least that the kernel charges for one datagram in its buffer */
};

static const uint64_t IDLE_NS = UINT64_C(30000000000);
static const uint64_t HANDSHAKE_NS = UINT64_C(10000000000);
static const uint64_t DROPS_EVERY_NS = UINT64_C(1000000000);

/* ---- connection ids ------------------------------------------------------------------ */

uint64_t nx_quic_hash_cid(const nx_quic *q, const uint8_t *cid, size_t len)
{
    uint8_t digest[32] = {0};
    uint64_t key;

    (void)gnutls_hmac_fast(GNUTLS_MAC_SHA256, q->secret, sizeof(q->secret), cid, len, digest);
    memcpy(&key, digest, sizeof(key));
    return key;
}

bool nx_quic_add_cid(nx_conn_io *k, uint64_t cid)
{
    uint64_t *cids = nx_vec_grow(k->cids, &k->cids_room, k->ncids + 1, sizeof(*k->cids));

    if (cids == NULL) {
        return false;
    }
    k->cids = cids;
    if (nx_map_put(&k->q->by_cid, cid, k) != NEXAR_OK) {
        return false;
    }
    k->cids[k->ncids++] = cid;
    return true;
}

void nx_quic_remove_cid(nx_conn_io *k, uint64_t cid)
{
    (void)nx_map_take(&k->q->by_cid, cid);
    k->q->last = NULL;
    for (size_t i = 0; i < k->ncids; i++) {
        if (k->cids[i] == cid) {
            k->cids[i] = k->cids[--k->ncids];
            return;
        }
    }
}

/* ---- receiving ----------------------------------------------------------------------- */

/* The connection of a datagram; NULL: none. */
static nx_conn_io *find(nx_quic *q, const uint8_t *data, size_t len)
{
    ngtcp2_version_cid vc;
    uint64_t cid;
    int rv;

    if ((len > NX_CID_SIZE) && ((data[0] & 0x80) == 0)) { /* a short header */
        memcpy(&cid, data + 1, sizeof(cid));
        if ((q->last == NULL) || (q->last_cid != cid)) {
            q->last = nx_map_get(&q->by_cid, cid);
            q->last_cid = cid;
        }
        return q->last;
    }
    rv = ngtcp2_pkt_decode_version_cid(&vc, data, len, NX_CID_SIZE);
    if (rv != 0) {
        return NULL;
    }
    if (vc.dcidlen == NX_CID_SIZE) {
        nx_conn_io *k;

        memcpy(&cid, vc.dcid, sizeof(cid));
        k = nx_map_get(&q->by_cid, cid);
        if (k != NULL) {
            return k;
        }
    }
    return nx_map_get(&q->by_cid, nx_quic_hash_cid(q, vc.dcid, vc.dcidlen));
}

static void on_datagram(void *ctx, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    nx_quic *q = ctx;
    nx_conn_io *k = (len == 0) ? NULL : find(q, data, len);

    if (k != NULL) {
        nx_conn_io_read(k, path, data, len, nx_loop_now(q->config.loop));
    } else if (len > 0) {
        nx_quic_on_stray(q, path, data, len);
    }
}

static void on_unreachable(void *ctx, const nx_udp_refusal *r)
{
    nx_quic *q = ctx;
    nx_list *at = q->conn_ios.next;

    /* One at a time: processing one connection may remove any other from the list, but frees
     * none. */
    for (; at != &q->conn_ios; at = at->next) {
        nx_conn_io *k = nx_list_entry(at, nx_conn_io, in_all);

        if (nx_address_equal(&k->path.remote, &r->remote)) {
            nx_conn_io_unreachable(k, r);
        }
    }
}

static void on_batch(void *ctx)
{
    const nx_quic *q = ctx;

    (void)nx_loop_refresh(q->config.loop);
}

static const nx_udp_up UDP_UP = {
    .on_batch = on_batch, .on_datagram = on_datagram, .on_unreachable = on_unreachable};

/* Retries the batch that the socket refused; returns whether it was sent. */
static bool resume(nx_quic *q)
{
    nx_list *at;

    if (!nx_quic_unblock(q)) {
        return false;
    }
    while ((at = nx_list_pop(&q->stalled)) != NULL) {
        nx_conn_io_wake(nx_list_entry(at, nx_conn_io, in_stalled));
    }
    return true;
}

/* After a burst, checks whether the kernel has dropped packets, and logs it once. */
static void look_for_drops(nx_quic *q)
{
    const uint64_t now_ns = nx_loop_now(q->config.loop);
    nx_udp_features f;
    char size[NX_NUMBER_ROOM];
    uint32_t drops;

    nx_udp_get_features(q->udp, &f);
    if (q->drops_told || (f.rcvbuf >= NX_UDP_BUFFERS) || (now_ns - q->drops_ns < DROPS_EVERY_NS)) {
        return;
    }
    q->drops_ns = now_ns;
    drops = nx_udp_drops(q->udp);
    if (drops > 0) {
        q->drops_told = true;
        nx_log(NX_LOG_WARN,
               "quic: the kernel dropped %" PRIu32
               " datagrams: the receive buffer of %s was full: allow a larger one: sysctl -w "
               "net.core.rmem_max=%d",
               drops, nx_format_size(f.rcvbuf, size), NX_UDP_BUFFERS);
    }
}

/* Retries a full socket as well: while the loop spins, it asks epoll, which would report the
 * socket, only now and then. */
static bool on_spin(nx_fd *self)
{
    nx_quic *q = nx_list_entry(self, nx_quic, fd);
    bool any = nx_udp_receive(q->udp);

    for (int i = 1; (i < READS_PER_TURN) && nx_udp_has_more(q->udp); i++) {
        any = nx_udp_receive(q->udp) || any;
        look_for_drops(q);
    }
    return (q->blocked && resume(q)) || any;
}

static void on_ready(nx_fd *self, uint32_t events)
{
    (void)events;
    (void)on_spin(self);
}

/* Bounds the work on a peer that sends continuously: at most one buffer. (Nothing is written during
 * the loop, so flow-control windows end it before.) */
void nx_quic_read_all(nx_quic *q)
{
    nx_udp_features f;
    size_t most;
    int none = 0;

    nx_udp_get_features(q->udp, &f);
    /* A call may return only a pending error: two empty calls end the loop. */
    for (most = f.rcvbuf / DATAGRAM_ROOM; (most > 0) && (none < 2); most--) {
        none = nx_udp_receive(q->udp) ? 0 : none + 1;
    }
}

/* ---- life ---------------------------------------------------------------------------- */

static nexar_err make_tls(nx_quic *q, const nx_identity *identity, const nx_job_id *job)
{
    nx_tls_config c = {
        .authority = q->config.authority, .identity = identity, .job = *job, .alpn = q->alpn};
    nx_tls *tls;
    nexar_err err = nx_tls_create(&tls, &c);

    if (err == NEXAR_OK) {
        nx_tls_release(q->tls);
        q->tls = tls;
    }
    return err;
}

nexar_err nx_quic_set_identity(nx_quic *q, const nx_identity *identity, const nx_job_id *job)
{
    q->config.identity = identity;
    q->config.job = *job;
    return make_tls(q, identity, job);
}

/* The data in flight from all peers must fit in the socket's buffer: on one host nothing else
 * limits a sender (measured on loopback). */
static uint64_t window_for(size_t rcvbuf, size_t peers)
{
    uint64_t share = rcvbuf / ((peers == 0) ? 1 : peers);

    if (share > NX_QUIC_WINDOW_MOST) {
        return NX_QUIC_WINDOW_MOST;
    }
    return (share < NX_QUIC_WINDOW_LEAST) ? NX_QUIC_WINDOW_LEAST : share;
}

void nx_quic_set_peers(nx_quic *q, size_t peers)
{
    nx_udp_features f;

    nx_udp_get_features(q->udp, &f);
    q->window = window_for(f.rcvbuf, peers);
}

static nexar_err open_socket(nx_quic *q)
{
    nexar_err err = nx_udp_open(&q->udp, &q->config.listen, q->config.port_first,
                                q->config.port_last, &UDP_UP, q);

    if (err != NEXAR_OK) {
        return err;
    }
    nx_quic_set_peers(q, q->config.peers);
    q->local.ss_family = (sa_family_t)nx_udp_family(q->udp);
    nx_address_set_port(&q->local, nx_udp_port(q->udp));
    q->fd = (nx_fd){.fd = nx_udp_fd(q->udp), .on_ready = on_ready, .on_spin = on_spin};
    err = nx_loop_fd_add(q->config.loop, &q->fd, EPOLLIN);
    if (err != NEXAR_OK) {
        nx_udp_close(q->udp);
    }
    return err;
}

nexar_err nx_quic_open(nx_quic **out, const nx_quic_config *config)
{
    nx_quic *q = nx_zalloc(sizeof(*q));
    nexar_err err;

    if (q == NULL) {
        return nx_fail_nomem("an endpoint");
    }
    q->config = *config;
    q->alpn = NX_ALPN;
    q->config.idle_timeout_ns = (config->idle_timeout_ns != 0) ? config->idle_timeout_ns : IDLE_NS;
    q->config.handshake_timeout_ns =
        (config->handshake_timeout_ns != 0) ? config->handshake_timeout_ns : HANDSHAKE_NS;
    nx_list_init(&q->conn_ios);
    nx_list_init(&q->links);
    nx_list_init(&q->stalled);
    nx_random_fill(config->random, q->secret, sizeof(q->secret));
    err = make_tls(q, config->identity, &config->job);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = open_socket(q);
    if (err != NEXAR_OK) {
        goto fail_tls;
    }
    *out = q;
    return NEXAR_OK;

fail_tls:
    nx_tls_release(q->tls);
fail_free:
    nx_free(q);
    return err;
}

void nx_quic_close(nx_quic *q)
{
    if (q == NULL) {
        return;
    }
    while (!nx_list_empty(&q->links)) {
        nx_quic_link_end(nx_list_entry(q->links.next, nx_quic_link, in_all));
    }
    while (!nx_list_empty(&q->conn_ios)) {
        nx_conn_io *k = nx_list_entry(q->conn_ios.next, nx_conn_io, in_all);

        nx_conn_io_close(k, NX_CLOSE_DONE, "the process ends");
        nx_conn_io_destroy(k);
    }
    nx_log_limit_end(&q->refusals, NX_LOG_WARN);
    nx_loop_fd_remove(q->config.loop, &q->fd);
    nx_udp_close(q->udp);
    nx_map_fini(&q->by_cid);
    nx_map_fini(&q->by_member);
    nx_tls_release(q->tls);
    nx_free(q);
}

uint16_t nx_quic_port(const nx_quic *q)
{
    return nx_udp_port(q->udp);
}

void nx_quic_drain(nx_quic *q, nx_event *done)
{
    q->drained = done;
    if ((q->closing == 0) && (done != NULL)) {
        nx_event_set(q->config.loop, done);
    }
}

void nx_quic_features_probe(nx_quic_features *out)
{
    static const nx_udp_up nobody = {0};
    struct sockaddr_storage any = {0};
    nx_udp_features f = {0};
    nx_udp *udp;

    if (nx_udp_open(&udp, &any, 0, 0, &nobody, NULL) == NEXAR_OK) {
        nx_udp_get_features(udp, &f);
        nx_udp_close(udp);
    }
    *out = (nx_quic_features){.gso = f.gso,
                              .gro = f.gro,
                              .recvmmsg = f.recvmmsg,
                              .ipv6 = f.ipv6,
                              .rcvbuf = f.rcvbuf,
                              .sndbuf = f.sndbuf,
                              .small = (f.rcvbuf < NX_UDP_BUFFERS),
                              .ngtcp2 = ngtcp2_version(0)->version_str};
}
