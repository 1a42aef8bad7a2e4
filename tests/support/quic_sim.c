/* quic_sim.c - the network in memory: a heap of packets in flight. */
#include "quic_sim.h"

#include <string.h>

#include "base/alloc.h"
#include "transport/quic/quic.h"
#include "unit.h"

enum { WRITE_ROOM = 65536 };

typedef struct packet {
    nx_heap_item item;
    int to;
    size_t len;
    uint8_t data[];
} packet;

static const nx_job_id JOB = {{3}};

/* ---- upcalls ------------------------------------------------------------------- */

static void on_frame(void *ctx, nx_lane lane, const void *data, size_t len)
{
    nxt_side *side = ctx;
    uint64_t n = 0;

    if (len >= sizeof(n)) {
        memcpy(&n, data, sizeof(n));
    }
    side->disordered += ((n != side->frames[lane]) || (len != 8 + n % 2000));
    side->frames[lane]++;
}

static uint64_t sum_of(uint64_t id, uint64_t off, const uint8_t *data, size_t len)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < len; i++) {
        sum += (off + i + 1) * (data[i] + UINT64_C(1));
    }
    return (id + 1) * sum;
}

static void on_data(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len)
{
    nxt_side *side = ctx;
    nxt_places *p = side->places;

    side->bytes += len;
    side->sum += sum_of(id, off, data, len);
    if (p != NULL) {
        uint8_t *place = p->memory + id * p->stride + off;

        assert_true((id < p->n) && (off == p->got[id]));
        if (place == data) {
            p->straight += len;
        } else if (len > 0) {
            memcpy(place, data, len);
        }
        p->got[id] += len;
    }
}

/* As in msg: offers memory only for the next bytes of the part. */
static void *on_want(void *ctx, uint64_t id, uint64_t off, size_t *len)
{
    nxt_places *p = ((nxt_side *)ctx)->places;

    if ((p == NULL) || (id >= p->n) || (off != p->got[id])) {
        return NULL;
    }
    p->asked++;
    *len = (*len < p->stride - off) ? *len : (size_t)(p->stride - off);
    if ((p->fickle != 0) && (p->asked % p->fickle == 0)) {
        memset(p->memory + id * p->stride + off, 0xee, *len); /* used otherwise meanwhile */
        return NULL;
    }
    return p->memory + id * p->stride + off;
}

uint64_t nxt_sim_part_sum(const nx_tx *tx)
{
    uint64_t off = tx->off, sum = 0;

    for (size_t i = 0; i < tx->nbytes; i++) {
        sum += sum_of(tx->id, off, tx->bytes[i].ptr, tx->bytes[i].len);
        off += tx->bytes[i].len;
    }
    return sum;
}

static void on_used(void *ctx)
{
    ((nxt_side *)ctx)->used = true;
}

static bool on_cid(void *ctx, uint64_t cid)
{
    (void)ctx;
    (void)cid;
    return true;
}

static void on_cid_gone(void *ctx, uint64_t cid)
{
    (void)ctx;
    (void)cid;
}

/* Connections that are simulated without links close without it. */
static void on_bye(void *ctx)
{
    (void)ctx;
}

static const nx_conn_up UP = {
    .inbox = {.on_frame = on_frame, .on_data = on_data, .on_bye = on_bye, .on_want = on_want},
    .on_used = on_used,
    .on_cid = on_cid,
    .on_cid_gone = on_cid_gone};

/* ---- creation of the ends ------------------------------------------------------- */

static nx_tls *member_tls(nx_authority *a, uint64_t member)
{
    nx_tls_config c = {.job = JOB, .alpn = NX_ALPN};
    nx_identity *id = NULL;
    nx_der csr, cert;
    nx_tls *tls;

    assert_int_equal(nx_identity_create(&id), NEXAR_OK);
    assert_int_equal(nx_identity_request(id, &csr), NEXAR_OK);
    assert_int_equal(nx_authority_sign(a, &csr, member, &cert), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(id, &cert, nx_authority_cert(a)), NEXAR_OK);
    c.identity = id;
    assert_int_equal(nx_tls_create(&tls, &c), NEXAR_OK);
    nx_identity_destroy(id);
    return tls;
}

static struct sockaddr_storage address(int side)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)(1000 + side))};
    struct sockaddr_storage out = {0};

    a.sin_addr.s_addr = htonl(0x0a000001 + (uint32_t)side);
    memcpy(&out, &a, sizeof(a));
    return out;
}

static void make_conn(nxt_sim *s, int side, const nx_tls_target *target, const ngtcp2_pkt_hd *hd)
{
    nx_conn_config c = {.now_ns = s->now_ns,
                        .random = &s->random.random,
                        .tls = s->tls[side],
                        .secret = s->secret,
                        .local = address(side),
                        .remote = address(1 - side),
                        .window = (s->net.window != 0) ? s->net.window : 1 << 20,
                        .idle_ns = UINT64_C(30000000000),
                        .handshake_ns = UINT64_C(20000000000),
                        .datagram = s->net.interface,
                        .same_host = s->net.same_host,
                        .qlog_fd = -1,
                        .up = &UP,
                        .ctx = &s->side[side],
                        .target = target,
                        .hd = hd};

    assert_int_equal(nx_conn_create(&s->side[side].conn, &c), NEXAR_OK);
}

void nxt_sim_open(nxt_sim *s, const nxt_quic_net *net, uint64_t seed)
{
    nx_tls_target target = {.member = 2};
    nx_authority *a = NULL;

    *s = (nxt_sim){.net = *net, .now_ns = 1000};
    nx_random_seeded_init(&s->random, seed);
    assert_int_equal(nx_authority_create(&a, &JOB), NEXAR_OK);
    for (int i = 0; i < 2; i++) {
        s->tls[i] = member_tls(a, (uint64_t)i + 1);
        s->side[i].sim = s;
        assert_int_equal(nx_sendq_init(&s->side[i].q), NEXAR_OK);
    }
    nx_authority_destroy(a);
    make_conn(s, 0, &target, NULL);
}

void nxt_sim_close(nxt_sim *s)
{
    nx_heap_item *top;
    nexar_err err;

    for (int i = 0; i < 2; i++) {
        nx_conn_destroy(s->side[i].conn);
        nx_sendq_fail(&s->side[i].q, NEXAR_ECANCELED);
        while (nx_sendq_take_done(&s->side[i].q, &err) != NULL) {
        }
        nx_sendq_fini(&s->side[i].q);
        nx_tls_release(s->tls[i]);
    }
    while ((top = nx_heap_top(&s->wire)) != NULL) {
        nx_heap_remove(&s->wire, top);
        nx_free(nx_list_entry(top, packet, item));
    }
    nx_heap_fini(&s->wire);
}

/* ---- the wire -------------------------------------------------------------------- */

static bool chance(nxt_sim *s, uint32_t ppm)
{
    return nx_random_below(&s->random.random, 1000000) < ppm;
}

static void put_on_wire(nxt_sim *s, int from, const uint8_t *data, size_t len)
{
    nxt_side *side = &s->side[from];
    packet *p = nx_zalloc(sizeof(*p) + len);
    uint64_t at = s->now_ns;

    assert_non_null(p);
    if (s->net.rate != 0) {
        at = (side->busy_until_ns > at) ? side->busy_until_ns : at;
        at += len * UINT64_C(1000000000) / s->net.rate;
        side->busy_until_ns = at;
    }
    at += s->net.delay_ns;
    if (s->net.jitter_ns != 0) {
        at += nx_random_below(&s->random.random, s->net.jitter_ns);
    }
    p->to = 1 - from;
    p->len = len;
    memcpy(p->data, data, len);
    assert_int_equal(nx_heap_push(&s->wire, &p->item, at), NEXAR_OK);
}

/* An attacker has changed the packet, usually in its header. */
static void put_flipped(nxt_sim *s, int from, const uint8_t *data, size_t len)
{
    static uint8_t copy[WRITE_ROOM];
    const size_t most = (len < 64) || chance(s, 300000) ? len : 64;

    memcpy(copy, data, len);
    copy[nx_random_below(&s->random.random, most)] ^=
        (uint8_t)(1U << nx_random_below(&s->random.random, 8));
    put_on_wire(s, from, copy, len);
}

static void transmit(nxt_sim *s, int from, const uint8_t *data, size_t len)
{
    s->side[from].datagrams++;
    if (len > s->side[from].longest) {
        s->side[from].longest = len;
    }
    if (s->net.cut || s->net.mute[from] || ((s->net.mtu != 0) && (len > s->net.mtu)) ||
        chance(s, s->net.loss_ppm)) {
        s->drops++;
        return;
    }
    if (chance(s, s->net.flip_ppm)) {
        put_flipped(s, from, data, len);
    }
    put_on_wire(s, from, data, len);
    if (chance(s, s->net.dup_ppm)) {
        put_on_wire(s, from, data, len);
    }
}

static void write_side(nxt_sim *s, int i)
{
    static uint8_t buf[WRITE_ROOM];
    nxt_side *side = &s->side[i];
    size_t n;

    if (side->conn == NULL) {
        return;
    }
    while ((n = nx_conn_write(side->conn, buf, sizeof(buf), s->now_ns)) > 0) {
        transmit(s, i, buf, n);
    }
    nx_conn_wrote(side->conn, s->now_ns);
}

static void collect(nxt_side *side)
{
    nexar_err err = NEXAR_OK;

    while (nx_sendq_take_done(&side->q, &err) != NULL) {
        side->sent++;
        side->failed += (err != NEXAR_OK);
    }
}

static void arrive(nxt_sim *s, const packet *p)
{
    struct sockaddr_storage from = address(1 - p->to);
    nxt_side *side = &s->side[p->to];
    ngtcp2_pkt_hd hd;

    if (side->conn == NULL) {
        if (ngtcp2_accept(&hd, p->data, p->len) != 0) {
            return;
        }
        make_conn(s, p->to, NULL, &hd);
    }
    nx_conn_read(side->conn, &from, p->data, p->len, s->now_ns);
    collect(side);
}

/* Executes the next event. False: there is none. */
static bool step(nxt_sim *s, uint64_t end_ns)
{
    nx_heap_item *top = nx_heap_top(&s->wire);
    uint64_t at = (top == NULL) ? UINT64_MAX : top->key;
    int due = -1;

    for (int i = 0; i < 2; i++) {
        uint64_t expiry = (s->side[i].conn == NULL) ? UINT64_MAX : nx_conn_expiry(s->side[i].conn);

        if (expiry < at) {
            at = expiry;
            due = i;
        }
    }
    if ((at == UINT64_MAX) || (at > end_ns)) {
        return false;
    }
    s->now_ns = (at > s->now_ns) ? at : s->now_ns;
    if (due >= 0) {
        const uint8_t *data;
        size_t len;

        nx_conn_expire(s->side[due].conn, s->now_ns);
        len = nx_conn_call(s->side[due].conn, s->now_ns, &data);
        if (len > 0) {
            s->side[due].calls++;
            transmit(s, due, data, len);
        }
        collect(&s->side[due]);
        write_side(s, due);
    } else {
        packet *p = nx_list_entry(top, packet, item);
        int to = p->to;

        nx_heap_remove(&s->wire, top);
        arrive(s, p);
        nx_free(p);
        top = nx_heap_top(&s->wire);
        if ((top == NULL) || (top->key > s->now_ns)) { /* answers simultaneous packets together */
            write_side(s, to);
            write_side(s, 1 - to);
        }
    }
    return true;
}

bool nxt_sim_run(nxt_sim *s, bool (*done)(const nxt_sim *s), uint64_t limit_ns)
{
    uint64_t end_ns = s->now_ns + limit_ns;

    write_side(s, 0);
    write_side(s, 1);
    while (!done(s)) {
        if (!step(s, end_ns)) {
            return false;
        }
    }
    return true;
}

static bool is_up(const nxt_sim *s)
{
    return (s->side[1].conn != NULL) && (nx_conn_get_state(s->side[0].conn) == NX_CONN_UP) &&
           (nx_conn_get_state(s->side[1].conn) == NX_CONN_UP);
}

void nxt_sim_connect(nxt_sim *s)
{
    assert_true(nxt_sim_run(s, is_up, UINT64_C(20000000000)));
    nx_conn_attach(s->side[0].conn, &s->side[0].q);
    nx_conn_attach(s->side[1].conn, &s->side[1].q);
}

void nxt_sim_frame(nxt_side *side, nx_lane lane, uint64_t n)
{
    static const uint8_t zeros[2000];
    nx_bytes b[2] = {{&n, sizeof(n)}, {zeros, n % 2000}};

    assert_int_equal(nx_sendq_frame(&side->q, lane, b, 2), NEXAR_OK);
}
