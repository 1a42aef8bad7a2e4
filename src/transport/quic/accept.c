/*
 * accept.c - packets that belong to no connection: first packets, late packets, garbage.
 *
 * The endpoint keeps no state for an unknown peer before its first packet is a well-formed Initial.
 * When many handshakes are open, or many such packets were noise, the peer must first prove that it
 * receives at its address (Retry), which costs the endpoint less. When the limit of open handshakes
 * is reached, a peer with that proof replaces a handshake that has taken too long. Every answer is
 * shorter than the packet it answers: no attacker can use the endpoint to amplify a flood.
 */
#include <string.h>

#include "base/log.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

enum {
    RETRY_ABOVE = 64, /* open handshakes, or noisy first packets per second, that require tokens */
    HALF_OPEN_MOST = 256, /* above it new peers must wait: about a second's work, which must be done
                             before accepted peers give up */
    STRAYS_PER_S = 1000,
    RESET_MOST = 43,  /* as long as other short packets */
    RESET_LEAST = 21, /* RFC 9000, 10.3: the least that is indistinguishable from noise */
};

static const uint64_t SECOND_NS = UINT64_C(1000000000);
static const uint64_t TOKEN_NS = UINT64_C(10000000000);
/* A handshake takes a few round trips, and a second behind all other open handshakes. */
static const uint64_t TOO_LONG_NS = UINT64_C(2000000000);

static bool may_answer(nx_quic *q)
{
    uint64_t now = nx_loop_now(q->config.loop);

    if (now - q->strays_ns >= SECOND_NS) {
        q->strays_ns = now;
        q->strays = 0;
    }
    return q->strays++ < STRAYS_PER_S;
}

/* Whether unknown peers must present a token. */
static bool is_crowded(nx_quic *q)
{
    uint64_t now = nx_loop_now(q->config.loop);

    if (now - q->noise_ns >= SECOND_NS) {
        q->noise_ns = now;
        q->noise = 0;
    }
    return (q->half_open >= RETRY_ABOVE) || (q->noise >= RETRY_ABOVE);
}

static void answer(nx_quic *q, const nx_udp_path *path, const uint8_t *data, ngtcp2_ssize len)
{
    if (len > 0) {
        (void)nx_udp_send(q->udp, path, data, (size_t)len, (size_t)len);
    }
}

static void send_version(nx_quic *q, const nx_udp_path *path, const ngtcp2_version_cid *vc)
{
    static const uint32_t versions[] = {NGTCP2_PROTO_VER_V1};
    uint8_t buf[NX_DATAGRAM_MIN], unused;

    if (may_answer(q)) {
        nx_random_fill(q->config.random, &unused, 1);
        answer(q, path, buf,
               ngtcp2_pkt_write_version_negotiation(buf, sizeof(buf), unused, vc->scid, vc->scidlen,
                                                    vc->dcid, vc->dcidlen, versions, 1));
    }
}

/* A packet of an unknown connection: a stateless reset ends it on the peer. One byte shorter than
 * the packet, so that two endpoints do not answer each other endlessly. */
static void send_reset(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    uint8_t buf[RESET_MOST], noise[RESET_MOST], token[NGTCP2_STATELESS_RESET_TOKENLEN];
    size_t size = (len <= RESET_MOST) ? len - 1 : RESET_MOST;
    ngtcp2_cid cid;

    if ((size < RESET_LEAST) || !may_answer(q)) {
        return;
    }
    ngtcp2_cid_init(&cid, data + 1, NX_CID_SIZE);
    nx_random_fill(q->config.random, noise, sizeof(noise));
    if (ngtcp2_crypto_generate_stateless_reset_token(token, q->secret, sizeof(q->secret), &cid) ==
        0) {
        answer(q, path, buf,
               ngtcp2_pkt_write_stateless_reset(buf, size, token, noise, size - sizeof(token)));
    }
}

/* A reset from the peer names no connection of this endpoint: all connections with that peer check
 * it. Returns whether one has ended by it. */
static bool is_reset(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    uint64_t now = nx_loop_now(q->config.loop);

    for (nx_list *at = q->conn_ios.next; at != &q->conn_ios; at = at->next) {
        nx_conn_io *k = nx_list_entry(at, nx_conn_io, in_all);

        if ((k->conn != NULL) && k->up && nx_address_equal(&k->path.remote, &path->remote)) {
            nx_conn_io_read(k, path, data, len, now);
            if (k->conn == NULL) {
                return true;
            }
        }
    }
    return false;
}

static void send_retry(nx_quic *q, const nx_udp_path *path, const ngtcp2_pkt_hd *hd)
{
    uint8_t token[NGTCP2_CRYPTO_MAX_RETRY_TOKENLEN2], buf[NX_DATAGRAM_MIN];
    ngtcp2_cid scid = {.datalen = NX_CID_SIZE};
    ngtcp2_ssize n;

    nx_random_fill(q->config.random, scid.data, NX_CID_SIZE);
    n = ngtcp2_crypto_generate_retry_token2(
        token, q->secret, sizeof(q->secret), hd->version, (const ngtcp2_sockaddr *)&path->remote,
        nx_address_len(&path->remote), &scid, &hd->dcid, nx_loop_now(q->config.loop));
    if (n > 0) {
        answer(q, path, buf,
               ngtcp2_crypto_write_retry(buf, sizeof(buf), hd->version, &hd->scid, &scid, &hd->dcid,
                                         token, (size_t)n));
    }
}

static bool claims_token(const ngtcp2_pkt_hd *hd)
{
    const ngtcp2_vec token = nx_ng_token(hd);

    return (token.len > 0) && (token.base[0] == NGTCP2_CRYPTO_TOKEN_MAGIC_RETRY2);
}

/* The token has expired: the endpoint can neither accept the peer (which expects an acknowledgement
 * of its retry) nor send another Retry. The peer should start over. */
static void refuse_token(nx_quic *q, const nx_udp_path *path, const ngtcp2_pkt_hd *hd)
{
    uint8_t buf[NX_DATAGRAM_MIN];

    if (may_answer(q)) {
        answer(q, path, buf,
               ngtcp2_crypto_write_connection_close(buf, sizeof(buf), hd->version, &hd->scid,
                                                    &hd->dcid, NGTCP2_INVALID_TOKEN, NULL, 0));
    }
}

/* Whether the packet carries a token of this endpoint for its sender; then |odcid| is the id that
 * the packet was first sent to. */
static bool has_token(const nx_quic *q, const nx_udp_path *path, const ngtcp2_pkt_hd *hd,
                      ngtcp2_cid *odcid)
{
    const ngtcp2_vec token = nx_ng_token(hd);

    return claims_token(hd) &&
           (ngtcp2_crypto_verify_retry_token2(
                odcid, token.base, token.len, q->secret, sizeof(q->secret), hd->version,
                (const ngtcp2_sockaddr *)&path->remote, nx_address_len(&path->remote), &hd->dcid,
                TOKEN_NS, nx_loop_now(q->config.loop)) == 0);
}

/* Makes room for one more handshake; false: there is none, the peer may retry. */
static bool make_room(nx_quic *q)
{
    nx_list *at = q->conn_ios.next; /* the oldest first */
    nx_conn_io *k;

    if (q->half_open < HALF_OPEN_MOST) {
        return true;
    }
    while ((at != &q->conn_ios) && !nx_list_entry(at, nx_conn_io, in_all)->half_open) {
        at = at->next;
    }
    k = nx_list_entry(at, nx_conn_io, in_all);
    if ((at == &q->conn_ios) || (nx_loop_now(q->config.loop) - k->since_ns < TOO_LONG_NS)) {
        return false;
    }
    nx_conn_io_close(k, NX_CLOSE_FAILED, "the handshake takes too long, and others wait");
    return true;
}

static void accept_initial(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    ngtcp2_pkt_hd hd;
    ngtcp2_cid odcid;
    nx_conn_io *k;
    bool shown;

    if (!nx_tls_can_accept(q->tls) || (ngtcp2_accept(&hd, data, len) != 0)) {
        return;
    }
    shown = has_token(q, path, &hd, &odcid);
    if (!shown && claims_token(&hd)) {
        refuse_token(q, path, &hd);
        return;
    }
    if (!shown && is_crowded(q)) {
        send_retry(q, path, &hd);
        return;
    }
    if (!make_room(q)) {
        return;
    }
    if (nx_conn_io_create(&k, q, path, NULL, &hd, shown ? &odcid : NULL) != NEXAR_OK) {
        nx_log_limited(&q->refusals, nx_loop_now(q->config.loop), NX_LOG_WARN,
                       "quic: a connection was not accepted: %s", nexar_last_error());
        return;
    }
    if (!nx_quic_add_cid(k, nx_quic_hash_cid(q, hd.dcid.data, hd.dcid.datalen))) {
        nx_conn_io_destroy(k);
        return;
    }
    nx_conn_io_read(k, path, data, len, nx_loop_now(q->config.loop));
    q->noise += (k->conn == NULL) && (k->last_word == NULL);
}

void nx_quic_on_stray(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    ngtcp2_version_cid vc;
    int rv;

    if ((data[0] & 0x80) == 0) {
        if ((len >= RESET_LEAST) && !is_reset(q, path, data, len)) {
            send_reset(q, path, data, len);
        }
        return;
    }
    rv = ngtcp2_pkt_decode_version_cid(&vc, data, len, NX_CID_SIZE);
    if ((rv == NGTCP2_ERR_VERSION_NEGOTIATION) && (len >= NX_DATAGRAM_MIN)) {
        send_version(q, path, &vc);
    } else if (rv == 0) {
        accept_initial(q, path, data, len);
    }
}
