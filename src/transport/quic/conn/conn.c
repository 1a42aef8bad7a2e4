/*
 * conn.c - a connection's life: reading, time, and every kind of end.
 *
 * A path that silently stops carrying large datagrams (a black hole) escapes ngtcp2 once its probes
 * have succeeded. So, when nothing is acknowledged for STUCK_PTOS times the probe time-out,
 * datagrams shrink to 1200 bytes for a while. The while doubles each time this happens again. It
 * begins short: an interrupted path looks the same, and carries large datagrams again when it
 * recovers.
 */
#include "conn.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "base/text/text.h"
#include "conn_impl.h"

enum { STUCK_PTOS = 5 }; /* two rounds of probes are unanswered by then */

static const uint64_t NARROW_FIRST_NS = UINT64_C(1000000000);
static const uint64_t NARROW_MOST_NS = UINT64_C(600000000000);

nexar_err nx_conn_create(nx_conn **out, const nx_conn_config *config)
{
    nx_conn *c = nx_zalloc(sizeof(*c));
    nexar_err err;

    if (c == NULL) {
        return nx_fail_nomem("a connection");
    }
    c->random = config->random;
    c->up = config->up;
    c->ctx = config->ctx;
    c->server = (config->target == NULL);
    c->to_member = (config->target != NULL) && (config->target->member != 0);
    c->same_host = config->same_host;
    c->local = config->local;
    c->remote = config->remote;
    c->min_rtt_ns = UINT64_MAX;
    c->limit = c->datagram = config->datagram;
    c->now_ns = c->last_ack_ns = config->now_ns;
    c->narrow_ns = NARROW_FIRST_NS;
    c->qlog_fd = config->qlog_fd;
    memcpy(c->secret, config->secret, sizeof(c->secret));
    ngtcp2_ccerr_default(&c->ccerr);
    nx_lane_parser_init(&c->inbox, &config->up->inbox, config->ctx);
    err = nx_conn_setup(c, config);
    if (err != NEXAR_OK) {
        c->qlog_fd = -1; /* still the caller's */
        nx_conn_destroy(c);
        return err;
    }
    *out = c;
    return NEXAR_OK;
}

void nx_conn_destroy(nx_conn *c)
{
    if (c == NULL) {
        return;
    }
    c->q = NULL;
    ngtcp2_conn_del(c->ng);
    nx_tls_session_fini(&c->tls);
    nx_lane_parser_fini(&c->inbox);
    if (c->qlog_fd >= 0) {
        (void)nx_sys_close(c->qlog_fd);
    }
    nx_free(c);
}

void nx_conn_attach(nx_conn *c, nx_sendq *q)
{
    c->q = q;
}

/* ---- failure ------------------------------------------------------------------------- */

void nx_conn_fail(nx_conn *c, nexar_err err, const char *why)
{
    if (c->err == NEXAR_OK) {
        c->err = err;
        (void)nx_sentence(c->why, sizeof(c->why), "%s", why);
    }
}

/* An acceptor that could not decrypt the first packet has no keys to send a close with. */
static void die(nx_conn *c, bool silent)
{
    c->state = NX_CONN_DEAD;
    c->silent = silent || (c->server && !c->has_keys);
}

/* Whether the reason of |e| is a frame. (An application's error arrives under the handshake's keys:
 * it is from the peer, whose certificate was verified.) */
static bool take_last(nx_conn *c, const ngtcp2_ccerr *e)
{
    c->last_len = 0;
    if ((e->type != NGTCP2_CCERR_TYPE_APPLICATION) || (e->error_code != NX_CLOSE_LAST)) {
        return false;
    }
    if (e->reasonlen <= sizeof(c->last)) {
        memcpy(c->last, e->reason, e->reasonlen);
        c->last_len = e->reasonlen;
    }
    return true;
}

/* The peer has closed: its reason, if it gives one, becomes the connection's reason. The sender is
 * not authenticated. */
static void read_close(nx_conn *c)
{
    const ngtcp2_ccerr reason = nx_ng_close_reason(c->ng), *e = &reason;
    char words[NX_TLS_WHY] = "", why[NX_CONN_WHY];
    nexar_err err = NEXAR_EPEER;
    size_t len = (e->reasonlen < sizeof(words)) ? e->reasonlen : sizeof(words) - 1;

    c->peer_closed = true;
    c->peer_code = UINT64_MAX;
    if (take_last(c, e)) {
        len = 0; /* the reason is not text */
    }
    if (len > 0) {
        memcpy(words, e->reason, len);
        words[len] = '\0';
        nx_clean_ascii(words, len);
    }
    if (e->type == NGTCP2_CCERR_TYPE_APPLICATION) {
        c->peer_code = e->error_code;
        err = (e->error_code == NX_CLOSE_REFUSED) ? NEXAR_EAUTH
              : (e->error_code == NX_CLOSE_PROTO) ? NEXAR_EPROTO
                                                  : NEXAR_EPEER;
    } else if ((e->error_code >= NGTCP2_CRYPTO_ERROR) &&
               (e->error_code < NGTCP2_CRYPTO_ERROR + 256)) {
        char tls[NX_TLS_WHY];

        err =
            nx_tls_alert(&c->tls, (uint8_t)(e->error_code - NGTCP2_CRYPTO_ERROR), tls, sizeof(tls));
        if (len == 0) {
            memcpy(words, tls, sizeof(tls));
        }
    } else if ((e->error_code == NGTCP2_CONNECTION_REFUSED) ||
               (e->error_code == NGTCP2_INVALID_TOKEN)) {
        err = NEXAR_ECONNECT;
    } else if ((e->error_code != NGTCP2_NO_ERROR) && (e->error_code != NGTCP2_APPLICATION_ERROR)) {
        err = NEXAR_EPROTO; /* an application error is how a close during the handshake appears */
    }
    (void)nx_sentence(why, sizeof(why), "%s%s%s",
                      (err == NEXAR_EAUTH) ? "refused by the peer" : "closed by the peer",
                      (words[0] == '\0') ? "" : ": ", words);
    nx_conn_fail(c, err, why);
}

static void fail_tls(nx_conn *c)
{
    uint8_t alert = ngtcp2_conn_get_tls_alert(c->ng);
    char why[NX_CONN_WHY];

    nx_tls_session_failed(&c->tls, alert);
    (void)nx_sentence(why, sizeof(why), "the peer was refused: %s", c->tls.why);
    nx_conn_fail(c, c->tls.err, why);
    (void)nx_sentence(c->tell, sizeof(c->tell), "%s", c->tls.why);
    ngtcp2_ccerr_set_tls_alert(&c->ccerr, alert, (const uint8_t *)c->tell, strlen(c->tell));
}

/* A callback has refused and has recorded the reason. */
static void fail_callback(nx_conn *c)
{
    nx_close_code code = (c->err == NEXAR_EAUTH)    ? NX_CLOSE_REFUSED
                         : (c->err == NEXAR_EPROTO) ? NX_CLOSE_PROTO
                                                    : NX_CLOSE_FAILED;

    nx_conn_fail(c, NEXAR_EINTERNAL, "a callback failed");
    (void)nx_sentence(c->tell, sizeof(c->tell), "%s", c->why);
    ngtcp2_ccerr_set_application_error(&c->ccerr, code, (const uint8_t *)c->tell, strlen(c->tell));
}

void nx_conn_died(nx_conn *c, int rv)
{
    bool silent = true;

    switch (rv) {
    case NGTCP2_ERR_DRAINING:
        if (c->reset_by_peer) {
            nx_conn_fail(c, NEXAR_EPEER, "the peer does not know the connection any more");
        } else {
            read_close(c);
        }
        break;
    case NGTCP2_ERR_IDLE_CLOSE:
        nx_conn_fail(c, NEXAR_EPEER, "nothing was heard any more");
        break;
    case NGTCP2_ERR_HANDSHAKE_TIMEOUT:
        nx_conn_fail(c, NEXAR_ECONNECT, "no answer");
        break;
    case NGTCP2_ERR_DROP_CONN:
    case NGTCP2_ERR_RETRY:
    case NGTCP2_ERR_CLOSING:
        nx_conn_fail(c, NEXAR_ECONNECT, "the connection was dropped");
        break;
    case NGTCP2_ERR_RECV_VERSION_NEGOTIATION:
        nx_conn_fail(c, NEXAR_EPROTO, "the peer does not speak QUIC version 1");
        break;
    case NGTCP2_ERR_CRYPTO:
        fail_tls(c);
        silent = false;
        break;
    case NGTCP2_ERR_CALLBACK_FAILURE:
        fail_callback(c);
        silent = false;
        break;
    default:
        nx_conn_fail(c, (rv == NGTCP2_ERR_NOMEM) ? NEXAR_ENOMEM : NEXAR_EPROTO,
                     ngtcp2_strerror(rv));
        ngtcp2_ccerr_set_liberr(&c->ccerr, rv, NULL, 0);
        silent = false;
        break;
    }
    die(c, silent);
}

void nx_conn_kill(nx_conn *c, nexar_err err, const char *why, bool silent)
{
    nx_conn_fail(c, err, why);
    fail_callback(c);
    die(c, silent);
}

size_t nx_conn_close(nx_conn *c, nx_close_code code, const char *why, uint8_t *buf, size_t room,
                     uint64_t now_ns)
{
    ngtcp2_path_storage ps;
    ngtcp2_ssize n;
    bool silent = c->silent || (c->server && !c->has_keys);

    c->now_ns = (now_ns > c->now_ns) ? now_ns : c->now_ns;
    if ((c->state != NX_CONN_DEAD) && (c->last_len > 0)) {
        ngtcp2_ccerr_set_application_error(&c->ccerr, NX_CLOSE_LAST, c->last, c->last_len);
        nx_conn_fail(c, NEXAR_ECANCELED, why);
    } else if (c->state != NX_CONN_DEAD) {
        (void)nx_sentence(c->tell, sizeof(c->tell), "%s", why);
        ngtcp2_ccerr_set_application_error(&c->ccerr, code, (const uint8_t *)c->tell,
                                           strlen(c->tell));
        nx_conn_fail(c, NEXAR_ECANCELED, why);
    }
    die(c, true);
    if (silent) {
        return 0;
    }
    ngtcp2_path_storage_zero(&ps);
    room = (room < NX_DATAGRAM_MIN) ? room : NX_DATAGRAM_MIN;
    n = ngtcp2_conn_write_connection_close(c->ng, &ps.path, NULL, buf, room, &c->ccerr, c->now_ns);
    return (n > 0) ? (size_t)n : 0;
}

void nx_conn_keep_last(nx_conn *c, const void *frame, size_t len)
{
    if ((c->state != NX_CONN_DEAD) && (len <= sizeof(c->last))) {
        memcpy(c->last, frame, len);
        c->last_len = len;
    }
}

const void *nx_conn_last(const nx_conn *c, size_t *len)
{
    *len = c->last_len;
    return (c->peer_closed && (c->last_len > 0)) ? c->last : NULL;
}

/* ---- packets and time ---------------------------------------------------------------- */

static void step_state(nx_conn *c)
{
    if ((c->state == NX_CONN_HANDSHAKE) && (c->server ? c->completed : c->confirmed)) {
        c->state = NX_CONN_UP;
    }
}

uint64_t nx_conn_in_flight(nx_conn *c)
{
    ngtcp2_conn_info info;

    ngtcp2_conn_get_conn_info(c->ng, &info);
    c->min_rtt_ns = info.min_rtt;
    return info.bytes_in_flight;
}

static socklen_t address_len(const struct sockaddr_storage *a)
{
    return (a->ss_family == AF_INET6) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

void nx_conn_read(nx_conn *c, const struct sockaddr_storage *from, const uint8_t *data, size_t len,
                  uint64_t now_ns)
{
    const struct sockaddr_storage *remote = (c->state == NX_CONN_UP) ? &c->remote : from;
    ngtcp2_path path = {
        .local = {.addr = (ngtcp2_sockaddr *)&c->local, .addrlen = address_len(&c->local)},
        .remote = {.addr = (ngtcp2_sockaddr *)remote, .addrlen = address_len(remote)}};
    uint64_t flight;
    int rv;

    c->opened = false;
    if (c->state == NX_CONN_DEAD) {
        return;
    }
    c->now_ns = (now_ns > c->now_ns) ? now_ns : c->now_ns;
    c->bytes_received += len;
    nx_conn_reading = c;
    rv = ngtcp2_conn_read_pkt(c->ng, &path, NULL, data, len, c->now_ns);
    nx_conn_reading = NULL;
    c->straight.place.at = NULL; /* for instance of a duplicate packet */
    if (rv != 0) {
        c->opened = false;
        nx_conn_died(c, rv);
        return;
    }
    step_state(c);
    c->spare_due = c->opened && (c->spare_len > 0);
    flight = nx_conn_in_flight(c);
    if (flight < c->flight) {
        c->progress_ns = c->now_ns;
    }
    c->flight = flight;
}

bool nx_conn_opened(const nx_conn *c)
{
    return c->opened;
}

void nx_conn_wrote(nx_conn *c, uint64_t now_ns)
{
    if (c->state == NX_CONN_DEAD) {
        return;
    }
    c->now_ns = (now_ns > c->now_ns) ? now_ns : c->now_ns;
    ngtcp2_conn_update_pkt_tx_time(c->ng, c->now_ns);
    if (c->flight == 0) {
        c->progress_ns = c->now_ns;
    }
    c->flight = nx_conn_in_flight(c);
}

void nx_conn_limit(nx_conn *c, size_t most)
{
    if ((most < c->limit) && (most >= NX_DATAGRAM_MIN)) {
        c->limit = most;
        c->wide_at_ns = c->now_ns + NARROW_MOST_NS; /* the kernel forgets its path MTU then, too */
    }
}

static void watch_path(nx_conn *c)
{
    if (c->same_host) {
        return;
    }
    if ((c->limit < c->datagram) && (c->now_ns >= c->wide_at_ns) &&
        (c->now_ns - c->progress_ns < c->narrow_ns)) {
        c->limit = c->datagram;
    } else if ((c->limit > NX_DATAGRAM_MIN) && (c->flight > 0) && (c->state == NX_CONN_UP) &&
               (c->now_ns - c->progress_ns > STUCK_PTOS * ngtcp2_conn_get_pto(c->ng))) {
        c->limit = NX_DATAGRAM_MIN;
        c->wide_at_ns = c->now_ns + c->narrow_ns;
        c->narrow_ns = (c->narrow_ns < NARROW_MOST_NS / 2) ? 2 * c->narrow_ns : NARROW_MOST_NS;
    }
}

size_t nx_conn_burst(nx_conn *c)
{
    return c->same_host ? SIZE_MAX : ngtcp2_conn_get_send_quantum(c->ng);
}

uint64_t nx_conn_expiry(nx_conn *c)
{
    uint64_t at, call;

    if (c->state == NX_CONN_DEAD) {
        return UINT64_MAX;
    }
    at = ngtcp2_conn_get_expiry(c->ng);
    call = nx_conn_call_due(c);
    return (at < call) ? at : call;
}

void nx_conn_expire(nx_conn *c, uint64_t now_ns)
{
    int rv;

    if (c->state == NX_CONN_DEAD) {
        return;
    }
    c->now_ns = (now_ns > c->now_ns) ? now_ns : c->now_ns;
    c->expired = true; /* probes may come in pairs */
    c->probes = 0;
    rv = ngtcp2_conn_handle_expiry(c->ng, c->now_ns);
    if (rv != 0) {
        nx_conn_died(c, rv);
        return;
    }
    watch_path(c);
}

/* ---- queries ------------------------------------------------------------------------- */

nx_conn_state nx_conn_get_state(const nx_conn *c)
{
    return c->state;
}

nexar_err nx_conn_error(const nx_conn *c, const char **why)
{
    *why = c->why;
    return c->err;
}

bool nx_conn_closed_by_peer(const nx_conn *c, nx_close_code *code)
{
    if (!c->peer_closed || (c->peer_code > NX_CLOSE_LAST)) {
        return false;
    }
    *code = (nx_close_code)c->peer_code;
    return true;
}

bool nx_conn_gone(const nx_conn *c)
{
    return c->peer_closed || c->reset_by_peer;
}

uint64_t nx_conn_member(const nx_conn *c)
{
    return c->server ? c->tls.member : c->tls.target.member;
}

bool nx_conn_sent(nx_conn *c, const uint8_t *data, size_t len)
{
    const ngtcp2_cid *cid = ngtcp2_conn_get_dcid(c->ng);

    return (len > cid->datalen) && ((data[0] & 0x80) == 0) &&
           (memcmp(data + 1, cid->data, cid->datalen) == 0);
}

uint64_t nx_conn_last_ack(const nx_conn *c)
{
    return c->last_ack_ns;
}

uint64_t nx_conn_pto(nx_conn *c)
{
    return ngtcp2_conn_get_pto(c->ng);
}

void nx_conn_keep_alive(nx_conn *c, uint64_t ns)
{
    ngtcp2_conn_set_keep_alive_timeout(c->ng, ns);
}

void nx_conn_info(nx_conn *c, nx_link_info *info)
{
    size_t mtu = ngtcp2_conn_get_path_max_tx_udp_payload_size(c->ng);
    ngtcp2_conn_info ng;

    ngtcp2_conn_get_conn_info(c->ng, &ng);
    info->rtt_ns = ng.smoothed_rtt;
    info->mtu = (uint32_t)((mtu < c->limit) ? mtu : c->limit);
    info->bytes_sent = c->bytes_sent;
    info->bytes_received = c->bytes_received;
    info->packets_lost = c->packets_lost;
    info->waiting = c->flight;
    info->waiting_ns = c->progress_ns;
    for (int i = 0; (c->q != NULL) && (i < NX_LANES); i++) {
        info->packets_lost += ngtcp2_conn_get_stream_loss_count(c->ng, c->q->lanes[i].stream);
    }
}

nexar_err nx_conn_export(const nx_conn *c, const char *label, uint8_t out[NX_TLS_SECRET])
{
    return nx_tls_export(&c->tls, label, out);
}
