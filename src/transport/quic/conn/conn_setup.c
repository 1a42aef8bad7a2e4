/* conn_setup.c - configures ngtcp2: settings, parameters, callbacks. */
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "conn_impl.h"
#include "transport/quic/crypto/protect.h"

enum {
    PARTS = 4096, /* in flight, per direction */
    STREAMS = PARTS + NX_LANES,
    DCID_SIZE = 18, /* length of the id that a dialler makes for the other side */
    PROBES = 8,
};

static const uint64_t RTT_SAME_HOST_NS = UINT64_C(1000000); /* ample on loopback */
/* A guess for cooperating machines: a lost hello is repeated after three times this. */
static const uint64_t RTT_ELSEWHERE_NS = UINT64_C(50000000);

/* ---- allocation ---------------------------------------------------------------------- */

static void *mem_malloc(size_t size, void *ctx)
{
    (void)ctx;
    return nx_grow(NULL, size, 1);
}

static void mem_free(void *ptr, void *ctx)
{
    (void)ctx;
    nx_free(ptr);
}

static void *mem_calloc(size_t count, size_t size, void *ctx)
{
    (void)ctx;
    return nx_calloc(count, size);
}

static void *mem_realloc(void *ptr, size_t size, void *ctx)
{
    (void)ctx;
    return nx_grow(ptr, size, 1);
}

static const ngtcp2_mem MEM = {
    .malloc = mem_malloc, .free = mem_free, .calloc = mem_calloc, .realloc = mem_realloc};

/* ---- small callbacks ----------------------------------------------------------------- */

static void on_rand(uint8_t *dest, size_t len, const ngtcp2_rand_ctx *ctx)
{
    nx_random_fill(((const nx_conn *)ctx->native_handle)->random, dest, len);
}

static int on_client_initial(ngtcp2_conn *ng, const ngtcp2_cid *dcid, void *user)
{
    int rv = ngtcp2_crypto_recv_client_initial_cb(ng, dcid, NULL);

    ((nx_conn *)user)->has_keys = (rv == 0);
    return rv;
}

static int on_new_cid(ngtcp2_conn *ng, ngtcp2_cid *cid, uint8_t *token, size_t len, void *user)
{
    nx_conn *c = user;
    uint64_t key;

    (void)ng;
    nx_random_fill(c->random, cid->data, len);
    cid->datalen = len;
    memcpy(&key, cid->data, sizeof(key));
    if ((len != NX_CID_SIZE) ||
        (ngtcp2_crypto_generate_stateless_reset_token(token, c->secret, sizeof(c->secret), cid) !=
         0) ||
        !c->up->on_cid(c->ctx, key)) {
        nx_conn_fail(c, NEXAR_ENOMEM, "out of memory for a connection id");
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    return 0;
}

static int on_cid_gone(ngtcp2_conn *ng, const ngtcp2_cid *cid, void *user)
{
    nx_conn *c = user;
    uint64_t key;

    (void)ng;
    if (cid->datalen == sizeof(key)) {
        memcpy(&key, cid->data, sizeof(key));
        c->up->on_cid_gone(c->ctx, key);
    }
    return 0;
}

/* The acceptor has authenticated the peer now. The dialler knows only which peer it has reached,
 * not that it was accepted: it waits for the confirmation. */
static int on_completed(ngtcp2_conn *ng, void *user)
{
    nx_conn *c = user;

    (void)ng;
    if (nx_tls_session_check(&c->tls) != NEXAR_OK) {
        nx_conn_fail(c, c->tls.err, c->tls.why);
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    c->completed = true;
    return 0;
}

static int on_confirmed(ngtcp2_conn *ng, void *user)
{
    (void)ng;
    ((nx_conn *)user)->confirmed = true;
    return 0;
}

static int on_reset_token(ngtcp2_conn *ng, const ngtcp2_pkt_stateless_reset *sr, void *user)
{
    (void)ng;
    (void)sr;
    ((nx_conn *)user)->reset_by_peer = true;
    return 0;
}

static void on_qlog(void *user, uint32_t flags, const void *data, size_t len)
{
    const nx_conn *c = user;

    (void)flags;
    if (c->qlog_fd >= 0) {
        (void)nx_sys_write_all(c->qlog_fd, data, len); /* a full disk costs the log, no more */
    }
}

static ngtcp2_callbacks callbacks(bool server)
{
    ngtcp2_callbacks cb = {
        .recv_crypto_data = ngtcp2_crypto_recv_crypto_data_cb,
        .get_path_challenge_data = ngtcp2_crypto_get_path_challenge_data_cb,
        .version_negotiation = ngtcp2_crypto_version_negotiation_cb,
        .rand = on_rand,
        .get_new_connection_id = on_new_cid,
        .remove_connection_id = on_cid_gone,
        .handshake_completed = on_completed,
        .handshake_confirmed = on_confirmed,
        .recv_stateless_reset = on_reset_token,
        .stream_open = nx_conn_on_stream_open,
        .recv_stream_data = nx_conn_on_stream_data,
        .stream_reset = nx_conn_on_stream_reset,
        .stream_close = nx_conn_on_stream_close,
        .acked_stream_data_offset = nx_conn_on_acked,
        .extend_max_stream_data = nx_conn_on_stream_credit,
    };

    nx_protect_callbacks(&cb);
    cb.decrypt = nx_conn_on_decrypt;
    if (server) {
        cb.recv_client_initial = on_client_initial;
    } else {
        cb.client_initial = ngtcp2_crypto_client_initial_cb;
        cb.recv_retry = ngtcp2_crypto_recv_retry_cb;
    }
    return cb;
}

/* ---- settings ------------------------------------------------------------------------ */

/* Sizes to probe: the interface's MTU, then sizes common on paths, so that one narrow hop does not
 * reduce the connection to 1200 bytes. */
static size_t probes(size_t most, uint16_t list[PROBES])
{
    static const uint16_t common[] = {8952, 4052, 1472, 1452, 1420, 1372, 1232};
    size_t n = 0;

    if (most > NX_DATAGRAM_MIN) {
        list[n++] = (uint16_t)most;
    }
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        if ((common[i] < most) && (n < PROBES)) {
            list[n++] = common[i];
        }
    }
    return n;
}

static void set_settings(nx_conn *c, const nx_conn_config *config, uint16_t list[PROBES],
                         ngtcp2_settings *s)
{
    ngtcp2_settings_default(s);
    s->initial_ts = config->now_ns;
    s->handshake_timeout = config->handshake_ns;
    s->rand_ctx.native_handle = c;
    s->initial_rtt = config->same_host ? RTT_SAME_HOST_NS : RTT_ELSEWHERE_NS;
    s->ack_thresh = 1; /* with 2 an ACK never rides on the answer (measured on loopback) */
    s->max_tx_udp_payload_size = config->datagram;
    s->cc_algo = config->bbr ? NGTCP2_CC_ALGO_BBR : NGTCP2_CC_ALGO_CUBIC;
    if (config->qlog_fd >= 0) {
        nx_ng_set_qlog(s, on_qlog);
    }
    if (config->same_host) {
        s->no_pmtud = 1;
        s->no_tx_udp_payload_size_shaping = 1;
    } else {
        s->max_window = NX_CONN_WINDOW_MOST;
        nx_ng_set_probes(s, list, probes(config->datagram, list));
    }
    if (config->retried != NULL) {
        nx_ng_set_token(s, config->hd);
    }
}

static void set_params(const nx_conn_config *config, ngtcp2_transport_params *p)
{
    /* The connection's window limits; one stream may use all of it. */
    const uint64_t stream = config->same_host ? config->window : NX_CONN_WINDOW_MOST;

    ngtcp2_transport_params_default(p);
    p->initial_max_stream_data_uni = stream;
    p->initial_max_data = config->window;
    p->initial_max_streams_uni = NX_NG_BIDI_PARTS ? NX_LANES : STREAMS;
    if (NX_NG_BIDI_PARTS) {
        p->initial_max_streams_bidi = PARTS;
        p->initial_max_stream_data_bidi_remote = stream;
    }
    p->max_idle_timeout = config->idle_ns;
    p->max_udp_payload_size = 65527; /* the receive buffers take any size */
    if (config->target == NULL) {
        nx_ng_set_original_dcid(p, (config->retried != NULL) ? config->retried : &config->hd->dcid);
        if (config->retried != NULL) {
            p->retry_scid = config->hd->dcid;
            p->retry_scid_present = 1;
        }
    }
}

/* ---- the connection ------------------------------------------------------------------ */

static ngtcp2_conn *get_conn(ngtcp2_crypto_conn_ref *ref)
{
    return ((nx_conn *)ref->user_data)->ng;
}

static socklen_t address_len(const struct sockaddr_storage *a)
{
    return (a->ss_family == AF_INET6) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

static void make_cid(nx_conn *c, size_t len, ngtcp2_cid *cid)
{
    nx_random_fill(c->random, cid->data, len);
    cid->datalen = len;
}

static int make_conn(nx_conn *c, const nx_conn_config *config, const ngtcp2_cid *scid)
{
    ngtcp2_path path = {
        .local = {.addr = (ngtcp2_sockaddr *)&c->local, .addrlen = address_len(&c->local)},
        .remote = {.addr = (ngtcp2_sockaddr *)&config->remote,
                   .addrlen = address_len(&config->remote)}};
    ngtcp2_callbacks cb = callbacks(c->server);
    ngtcp2_transport_params params;
    ngtcp2_settings settings;
    uint16_t list[PROBES];
    ngtcp2_cid dcid;

    set_settings(c, config, list, &settings);
    set_params(config, &params);
    if (c->server) {
        params.stateless_reset_token_present = 1;
        if (ngtcp2_crypto_generate_stateless_reset_token(params.stateless_reset_token, c->secret,
                                                         sizeof(c->secret), scid) != 0) {
            return NGTCP2_ERR_INTERNAL;
        }
        return ngtcp2_conn_server_new(&c->ng, &config->hd->scid, scid, &path, config->hd->version,
                                      &cb, &settings, &params, &MEM, c);
    }
    make_cid(c, DCID_SIZE, &dcid);
    return ngtcp2_conn_client_new(&c->ng, &dcid, scid, &path, NGTCP2_PROTO_VER_V1, &cb, &settings,
                                  &params, &MEM, c);
}

nexar_err nx_conn_setup(nx_conn *c, const nx_conn_config *config)
{
    ngtcp2_cid scid;
    uint64_t key;
    nexar_err err;
    int rv;

    make_cid(c, NX_CID_SIZE, &scid);
    rv = make_conn(c, config, &scid);
    if (rv != 0) {
        c->ng = NULL;
        return nx_fail((rv == NGTCP2_ERR_NOMEM) ? NEXAR_ENOMEM : NEXAR_EINTERNAL,
                       "a connection: %s", ngtcp2_strerror(rv));
    }
    err = nx_tls_session_init(&c->tls, config->tls, config->target, get_conn, c);
    if (err != NEXAR_OK) {
        return err;
    }
    ngtcp2_conn_set_tls_native_handle(c->ng, c->tls.session);
    ngtcp2_conn_set_keep_alive_timeout(c->ng, config->idle_ns / 3);
    memcpy(&key, scid.data, sizeof(key));
    return c->up->on_cid(c->ctx, key) ? NEXAR_OK : nx_fail_nomem("a connection id");
}
