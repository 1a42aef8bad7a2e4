/* tcp_auth_test.c - which peers TCP accepts and which it refuses; unknown peers and their noise; a
 * network that cuts, alters and eavesdrops. */
#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <unistd.h>

#include "quic_pair.h"
#include "tcp_inner.h"

/* The cluster of quic_pair.h, whose members also have TCP endpoints. */
typedef struct tcp_cluster {
    nxt_cluster c;
    nx_tcp *at[NXT_MEMBERS];
} tcp_cluster;

static nx_tcp_config config_of(tcp_cluster *t, size_t i)
{
    return (nx_tcp_config){.loop = t->c.loop,
                           .identity = t->c.at[i].identity,
                           .job = t->c.job,
                           .on_accept = nxt_on_accept,
                           .ctx = &t->c.at[i]};
}

static void reopen(tcp_cluster *t, size_t i, const nx_tcp_config *config)
{
    nx_tcp_close(t->at[i]);
    t->at[i] = NULL;
    assert_int_equal(nx_tcp_open(&t->at[i], config), NEXAR_OK);
}

static void open_cluster(tcp_cluster *t, size_t n)
{
    *t = (tcp_cluster){0};
    nxt_cluster_open(&t->c, n);
    for (size_t i = 0; i < n; i++) {
        const nx_tcp_config config = config_of(t, i);

        reopen(t, i, &config);
    }
}

static void close_cluster(tcp_cluster *t)
{
    for (size_t i = 0; i < t->c.n; i++) {
        nx_tcp_close(t->at[i]);
    }
    nxt_cluster_close(&t->c);
}

static void dial_port(tcp_cluster *t, size_t from, size_t to, uint16_t port, nxt_peer *p)
{
    const struct sockaddr_storage a = nxt_loopback(port);
    const nx_tcp_target target = {.member = to + 1, .addresses = &a, .n = 1};

    *p = (nxt_peer){.member = to + 1, .at = &t->c.at[from]};
    assert_int_equal(nx_tcp_dial(t->at[from], &target, &NXT_UP, p, &p->link), NEXAR_OK);
}

static void dial(tcp_cluster *t, size_t from, size_t to, nxt_peer *p)
{
    dial_port(t, from, to, nx_tcp_port(t->at[to]), p);
}

static void expect_refusal(tcp_cluster *t, size_t from, nexar_err err, const char *words)
{
    nxt_peer p;

    dial(t, from, 1 - from, &p);
    nxt_until(t->c.loop, p.down);
    assert_false(p.up);
    assert_int_equal(p.err, err);
    if (strstr(p.why, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, p.why);
    }
    assert_int_equal(t->c.at[1 - from].naccepted, 0);
}

/* ---- certificates and versions ------------------------------------------------------- */

static void test_a_member_of_another_authority_is_refused(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nx_authority *foreign = NULL;
        nx_tcp_config config;
        tcp_cluster t;

        open_cluster(&t, 2);
        assert_int_equal(nx_authority_create(&foreign, &t.c.job), NEXAR_OK);
        nx_identity_destroy(t.c.at[1].identity);
        t.c.at[1].identity = nxt_identity(foreign, 2);
        config = config_of(&t, 1);
        reopen(&t, 1, &config);
        expect_refusal(&t, from, NEXAR_EAUTH, (from == 0) ? "authority" : "refused");
        close_cluster(&t);
        nx_authority_destroy(foreign);
    }
}

static void test_a_member_of_another_job_is_refused(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nx_tcp_config config;
        tcp_cluster t;

        open_cluster(&t, 2);
        config = config_of(&t, 1);
        config.job = (nx_job_id){{1, 2, 3}};
        reopen(&t, 1, &config);
        expect_refusal(&t, from, NEXAR_EAUTH, "");
        close_cluster(&t);
    }
}

static void test_a_member_that_is_not_the_one_wanted_is_refused(void **state)
{
    tcp_cluster t;
    nxt_peer p;

    (void)state;
    open_cluster(&t, 3);
    dial_port(&t, 0, 2, nx_tcp_port(t.at[1]), &p);
    nxt_until(t.c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_non_null(strstr(p.why, "member 2, wanted was 3"));
    assert_int_equal(t.c.at[1].naccepted, 0);
    close_cluster(&t);
}

static void test_another_version_is_refused_and_named(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        tcp_cluster t;

        open_cluster(&t, 2);
        t.at[1]->alpn = "nexar/2";
        assert_int_equal(nx_tcp_set_identity(t.at[1], t.c.at[1].identity, &t.c.job), NEXAR_OK);
        expect_refusal(&t, from, NEXAR_EPROTO, (from == 0) ? "nexar/1" : "nexar/2");
        close_cluster(&t);
    }
}

static void make_seed(tcp_cluster *t, nx_tcp_target *target, struct sockaddr_storage *address)
{
    nx_tcp_config config = config_of(t, 0);

    config.identity = NULL;
    config.authority = t->c.authority;
    reopen(t, 0, &config);
    config = config_of(t, 1);
    config.identity = NULL;
    reopen(t, 1, &config);
    *address = nxt_loopback(nx_tcp_port(t->at[0]));
    *target = (nx_tcp_target){.addresses = address, .n = 1};
    nx_authority_pin(t->c.authority, &target->pin);
}

static void test_a_joiner_reaches_a_seed_and_shares_a_secret_with_it(void **state)
{
    uint8_t here[32], there[32], other[32];
    const nx_bytes hello = {"hello", 5};
    struct sockaddr_storage address;
    nx_tcp_target target;
    nxt_peer p = {0};
    tcp_cluster t;

    (void)state;
    open_cluster(&t, 2);
    t.c.at[0].echo = true;
    make_seed(&t, &target, &address);
    assert_int_equal(nx_tcp_dial(t.at[1], &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    assert_int_equal(nx_tcp_link_export(p.link, "x", here), NEXAR_EINVAL);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_CONTROL, &hello, 1), NEXAR_OK);
    nxt_until(t.c.loop, p.frames == 1);
    assert_int_equal(t.c.at[0].accepted[0].member, 0);
    assert_int_equal(nx_tcp_link_export(p.link, "EXPORTER-nexar", here), NEXAR_OK);
    assert_int_equal(nx_tcp_link_export(t.c.at[0].accepted[0].link, "EXPORTER-nexar", there),
                     NEXAR_OK);
    assert_int_equal(nx_tcp_link_export(p.link, "EXPORTER-other", other), NEXAR_OK);
    assert_memory_equal(here, there, sizeof(here));
    assert_memory_not_equal(here, other, sizeof(here));
    close_cluster(&t);
}

static void test_a_seed_with_another_key_is_sent_nothing(void **state)
{
    struct sockaddr_storage address;
    nx_tcp_target target;
    nxt_peer p = {0};
    tcp_cluster t;

    (void)state;
    open_cluster(&t, 2);
    make_seed(&t, &target, &address);
    target.pin.bytes[31] ^= 1;
    assert_int_equal(nx_tcp_dial(t.at[1], &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(t.c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_non_null(strstr(p.why, "pinned"));
    assert_int_equal(t.c.at[0].naccepted, 0);
    close_cluster(&t);
}

static void test_a_member_rejects_unauthenticated_peers(void **state)
{
    struct sockaddr_storage address;
    nx_tcp_target target = {.addresses = &address, .n = 1};
    nx_tcp_config config;
    nx_der csr, cert;
    nxt_peer p = {0};
    tcp_cluster t;

    (void)state;
    open_cluster(&t, 2);
    assert_int_equal(nx_identity_request(t.c.at[0].identity, &csr), NEXAR_OK);
    assert_int_equal(nx_authority_sign(t.c.authority, &csr, 1, &cert), NEXAR_OK);
    assert_int_equal(nx_cert_pin(&cert, &target.pin), NEXAR_OK);
    address = nxt_loopback(nx_tcp_port(t.at[0]));
    config = config_of(&t, 1);
    config.identity = NULL;
    reopen(&t, 1, &config);
    assert_int_equal(nx_tcp_dial(t.at[1], &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(t.c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_false(p.up);
    assert_int_equal(t.c.at[0].naccepted, 0);
    close_cluster(&t);
}

static void test_members_that_dial_each_other_get_one_link(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        tcp_cluster t;
        nxt_peer p, q;

        open_cluster(&t, 2);
        dial(&t, 0, 1, &p);
        dial(&t, 1, 0, &q);
        nxt_until(t.c.loop, p.up && q.up);
        assert_int_equal(t.c.at[0].naccepted + t.c.at[1].naccepted, 0);
        nxt_until(t.c.loop, (t.at[0]->ending == 0) && (t.at[1]->ending == 0));
        assert_false(p.down || q.down);
        close_cluster(&t);
    }
}

/* ---- noise --------------------------------------------------------------------------- */

static int stranger(const tcp_cluster *t)
{
    const struct sockaddr_storage a = nxt_loopback(nx_tcp_port(t->at[1]));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Whether the endpoint has closed the connection; reads and ignores its data. */
static bool is_closed(int fd)
{
    uint8_t buf[512];
    ssize_t n;

    do {
        n = read(fd, buf, sizeof(buf));
    } while (n > 0);
    return (n == 0) || (errno != EAGAIN);
}

static void expect_that_members_get_in(tcp_cluster *t)
{
    nxt_peer p;

    dial(t, 0, 1, &p);
    nxt_until(t->c.loop, p.up && (t->c.at[1].naccepted == 1));
}

static void test_what_is_not_tls_is_closed(void **state)
{
    static const char *const said[] = {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\xff\xff\x01\xff",
                                       "\x05\x00\x00\x00\x05hello"};
    tcp_cluster t;

    (void)state;
    open_cluster(&t, 2);
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        int fd = stranger(&t);
        const size_t len = (i == 2) ? 10 : strlen(said[i]);

        assert_int_equal(write(fd, said[i], len), (ssize_t)len);
        if (i == 1) { /* a truncated record */
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
        }
        nxt_until(t.c.loop, is_closed(fd));
        (void)close(fd);
    }
    assert_int_equal(t.c.at[1].naccepted, 0);
    expect_that_members_get_in(&t);
    close_cluster(&t);
}

/* No downgrade: a peer that offers only an older version of TLS is refused. */
static void test_an_older_tls_is_refused(void **state)
{
    gnutls_certificate_credentials_t credentials;
    const gnutls_datum_t alpn = {(unsigned char *)NX_ALPN, sizeof(NX_ALPN) - 1};
    gnutls_session_t session;
    tcp_cluster t;
    int fd, rc = GNUTLS_E_AGAIN;

    (void)state;
    open_cluster(&t, 2);
    fd = stranger(&t);
    assert_int_equal(gnutls_certificate_allocate_credentials(&credentials), 0);
    assert_int_equal(gnutls_init(&session, GNUTLS_CLIENT | GNUTLS_NONBLOCK), 0);
    assert_int_equal(gnutls_priority_set_direct(session, "NORMAL:-VERS-ALL:+VERS-TLS1.2", NULL), 0);
    assert_int_equal(gnutls_alpn_set_protocols(session, &alpn, 1, 0), 0);
    assert_int_equal(gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials), 0);
    gnutls_transport_set_int(session, fd);
    nxt_until(t.c.loop, (rc = gnutls_handshake(session)) != GNUTLS_E_AGAIN);
    assert_int_equal(rc, GNUTLS_E_FATAL_ALERT_RECEIVED);
    gnutls_deinit(session);
    gnutls_certificate_free_credentials(credentials);
    (void)close(fd);
    assert_int_equal(t.c.at[1].naccepted, 0);
    close_cluster(&t);
}

static void test_a_silent_unauthenticated_peer_is_closed(void **state)
{
    nx_tcp_config config;
    tcp_cluster t;
    int fd;

    (void)state;
    open_cluster(&t, 2);
    config = config_of(&t, 1);
    config.handshake_timeout_ns = UINT64_C(200000000);
    reopen(&t, 1, &config);
    fd = stranger(&t);
    nxt_until(t.c.loop, is_closed(fd));
    (void)close(fd);
    nxt_until(t.c.loop, nx_list_empty(&t.at[1]->conns));
    assert_int_equal(t.at[1]->half_open, 0);
    close_cluster(&t);
}

/* A byte now and then does not buy time: the handshake as a whole has a limit. */
static void test_a_slow_unauthenticated_peer_is_closed(void **state)
{
    nx_tcp_config config;
    tcp_cluster t;
    int fd;

    (void)state;
    open_cluster(&t, 2);
    config = config_of(&t, 1);
    config.handshake_timeout_ns = UINT64_C(300000000);
    reopen(&t, 1, &config);
    fd = stranger(&t);
    assert_int_equal(write(fd, "\x16\x03\x01\x02\x00", 5), 5);
    nxt_until(t.c.loop, (write(fd, "\x01", 1) < 0) || is_closed(fd));
    (void)close(fd);
    close_cluster(&t);
}

static void test_many_unauthenticated_peers_do_not_keep_members_out(void **state)
{
    enum { STRANGERS = 400, MOST = 256 };
    int fds[STRANGERS];
    tcp_cluster t;

    (void)state;
    open_cluster(&t, 2);
    for (size_t i = 0; i < STRANGERS; i++) {
        fds[i] = stranger(&t);
    }
    nxt_until(t.c.loop, t.at[1]->half_open == MOST);
    expect_that_members_get_in(&t);
    assert_true(t.at[1]->half_open <= MOST);
    for (size_t i = 0; i < STRANGERS; i++) {
        (void)close(fds[i]);
    }
    close_cluster(&t);
}

/* ---- a network between --------------------------------------------------------------- */

/* Forwards the dialler's data, and the answers, up to a point. */
typedef struct relay {
    int door, front, back;
    struct sockaddr_storage to;
    size_t passed;   /* bytes of the dialler */
    size_t alter_at; /* alters the byte at this offset; SIZE_MAX: none */
    bool cut, saw_plain;
} relay;

static const char SECRET[] = "the quick brown fox jumps over the lazy dog";

static void pump(relay *r, int from, int to, bool forth)
{
    uint8_t buf[4096];
    ssize_t n;

    while ((n = read(from, buf, sizeof(buf))) > 0) {
        r->saw_plain = r->saw_plain || (memmem(buf, (size_t)n, "quick brown", 11) != NULL);
        if (forth && (r->alter_at >= r->passed) && (r->alter_at - r->passed < (size_t)n)) {
            buf[r->alter_at - r->passed] ^= 1;
        }
        r->passed += forth ? (size_t)n : 0;
        for (ssize_t at = 0; at < n;) {
            const ssize_t sent = write(to, buf + at, (size_t)(n - at));

            at += (sent > 0) ? sent : 0;
            assert_true((sent > 0) || (errno == EAGAIN));
        }
    }
}

/* For nxt_until: relays, and returns false. */
static bool relayed(relay *r)
{
    if (r->front < 0) {
        r->front = accept4(r->door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (r->front >= 0) {
            r->back = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            assert_int_equal(
                connect(r->back, (const struct sockaddr *)&r->to, sizeof(struct sockaddr_in)), 0);
            assert_int_equal(fcntl(r->back, F_SETFL, O_NONBLOCK), 0);
        }
    } else if (!r->cut) {
        pump(r, r->front, r->back, true);
        pump(r, r->back, r->front, false);
    }
    return true;
}

static uint16_t open_relay(relay *r, uint16_t to)
{
    struct sockaddr_storage a = nxt_loopback(0);
    socklen_t len = sizeof(a);

    *r = (relay){.front = -1, .back = -1, .to = nxt_loopback(to), .alter_at = SIZE_MAX};
    r->door = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(r->door, (struct sockaddr *)&a, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listen(r->door, 1), 0);
    assert_int_equal(getsockname(r->door, (struct sockaddr *)&a, &len), 0);
    return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
}

static void close_relay(relay *r)
{
    (void)close(r->door);
    (void)close(r->front);
    (void)close(r->back);
}

/* A link through a relay that has carried a frame. */
static void open_through(tcp_cluster *t, relay *r, nxt_peer *p)
{
    const nx_bytes secret = {SECRET, sizeof(SECRET)};

    open_cluster(t, 2);
    dial_port(t, 0, 1, open_relay(r, nx_tcp_port(t->at[1])), p);
    nxt_until(t->c.loop, relayed(r) && p->up);
    assert_int_equal(nx_link_send_frame(p->link, NX_LANE_MESSAGE, &secret, 1), NEXAR_OK);
    nxt_until(t->c.loop, relayed(r) && (t->c.at[1].accepted[0].frames == 1));
    assert_memory_equal(t->c.at[1].accepted[0].last, SECRET, sizeof(SECRET));
}

static void test_the_network_sees_nothing_in_the_clear(void **state)
{
    tcp_cluster t;
    nxt_peer p;
    relay r;

    (void)state;
    open_through(&t, &r, &p);
    assert_false(r.saw_plain);
    close_relay(&r);
    close_cluster(&t);
}

static void test_an_altered_byte_ends_the_link_and_delivers_nothing(void **state)
{
    const nx_bytes secret = {SECRET, sizeof(SECRET)};
    tcp_cluster t;
    nxt_peer p, *far;
    relay r;

    (void)state;
    open_through(&t, &r, &p);
    far = &t.c.at[1].accepted[0];
    r.alter_at = r.passed + 20;
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &secret, 1), NEXAR_OK);
    nxt_until(t.c.loop, relayed(&r) && far->down && p.down);
    assert_int_equal(far->err, NEXAR_EPROTO);
    assert_int_equal(far->frames, 1);
    close_relay(&r);
    close_cluster(&t);
}

/* An end that TLS does not confirm does not count: incomplete data is not delivered. */
static void test_a_truncated_stream_ends_the_link_and_delivers_nothing(void **state)
{
    static uint8_t large[60000];
    const nx_bytes frame = {large, sizeof(large)};
    tcp_cluster t;
    nxt_peer p, *far;
    size_t before;
    relay r;

    (void)state;
    open_through(&t, &r, &p);
    far = &t.c.at[1].accepted[0];
    before = r.passed;
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &frame, 1), NEXAR_OK);
    r.cut = true;
    nxt_until(t.c.loop, nx_list_entry(p.link, nx_tcp_link, base)->used->bytes_sent > before);
    {
        uint8_t part[20000];
        const ssize_t n = read(r.front, part, sizeof(part));

        assert_true((n > 0) && (write(r.back, part, (size_t)n) == n));
        assert_int_equal(shutdown(r.back, SHUT_WR), 0);
    }
    nxt_until(t.c.loop, far->down);
    assert_int_equal(far->err, NEXAR_EPEER);
    assert_non_null(strstr(far->why, "cut"));
    assert_int_equal(far->frames, 1);
    close_relay(&r);
    close_cluster(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_of_another_authority_is_refused),
        cmocka_unit_test(test_a_member_of_another_job_is_refused),
        cmocka_unit_test(test_a_member_that_is_not_the_one_wanted_is_refused),
        cmocka_unit_test(test_another_version_is_refused_and_named),
        cmocka_unit_test(test_a_joiner_reaches_a_seed_and_shares_a_secret_with_it),
        cmocka_unit_test(test_a_seed_with_another_key_is_sent_nothing),
        cmocka_unit_test(test_a_member_rejects_unauthenticated_peers),
        cmocka_unit_test(test_members_that_dial_each_other_get_one_link),
        cmocka_unit_test(test_what_is_not_tls_is_closed),
        cmocka_unit_test(test_an_older_tls_is_refused),
        cmocka_unit_test(test_a_silent_unauthenticated_peer_is_closed),
        cmocka_unit_test(test_a_slow_unauthenticated_peer_is_closed),
        cmocka_unit_test(test_many_unauthenticated_peers_do_not_keep_members_out),
        cmocka_unit_test(test_the_network_sees_nothing_in_the_clear),
        cmocka_unit_test(test_an_altered_byte_ends_the_link_and_delivers_nothing),
        cmocka_unit_test(test_a_truncated_stream_ends_the_link_and_delivers_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
