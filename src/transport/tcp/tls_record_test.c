/*
 * tls_record_test.c - nexar's record layer against GnuTLS, an unmodified TLS 1.3: GnuTLS performs
 * the handshake, and then one end is nexar's.
 */
#include <errno.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls_record.h"
#include "transport/cert.h"
#include "transport/quic/crypto/aead.h"
#include "unit.h"

enum { PIPE = 1 << 20 };

typedef struct flow {
    uint8_t data[PIPE];
    size_t at, len;
} flow;

/* |own| is nexar's after the handshake, |peer| GnuTLS's. */
typedef struct duo {
    gnutls_session_t own, peer;
    gnutls_certificate_credentials_t credentials;
    nx_authority *authority;
    nx_record_secrets secrets;
    nx_tls_record *record;
    flow to_own, to_peer;
} duo;

typedef struct port {
    flow *in, *out;
    gnutls_session_t session;
} port;

static port ports[2];
static duo *now;

static ssize_t pull(gnutls_transport_ptr_t ptr, void *to, size_t len)
{
    const port *p = ptr;
    const size_t n = (p->in->len - p->in->at < len) ? p->in->len - p->in->at : len;

    if (n == 0) {
        gnutls_transport_set_errno(p->session, EAGAIN);
        return -1;
    }
    memcpy(to, p->in->data + p->in->at, n);
    p->in->at += n;
    return (ssize_t)n;
}

static ssize_t push(gnutls_transport_ptr_t ptr, const void *data, size_t len)
{
    const port *p = ptr;

    assert_true(len <= PIPE - p->out->len);
    memcpy(p->out->data + p->out->len, data, len);
    p->out->len += len;
    return (ssize_t)len;
}

static int on_secret(gnutls_session_t session, gnutls_record_encryption_level_t level,
                     const void *rx, const void *tx, size_t len)
{
    if ((session == now->own) && (level == GNUTLS_ENCRYPTION_LEVEL_APPLICATION)) {
        now->secrets.len = len;
        if (rx != NULL) {
            memcpy(now->secrets.rx, rx, len);
        }
        if (tx != NULL) {
            memcpy(now->secrets.tx, tx, len);
        }
    }
    return 0;
}

static gnutls_session_t make(duo *d, bool client, const char *cipher, port *p, flow *in, flow *out)
{
    char priority[128];
    gnutls_session_t s;

    assert_int_equal(gnutls_init(&s, (client ? GNUTLS_CLIENT : GNUTLS_SERVER) | GNUTLS_NONBLOCK),
                     0);
    (void)snprintf(priority, sizeof(priority), "NORMAL:-VERS-ALL:+VERS-TLS1.3:-CIPHER-ALL:+%s",
                   cipher);
    assert_int_equal(gnutls_priority_set_direct(s, priority, NULL), 0);
    assert_int_equal(gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, d->credentials), 0);
    *p = (port){.in = in, .out = out, .session = s};
    gnutls_transport_set_ptr(s, p);
    gnutls_transport_set_pull_function(s, pull);
    gnutls_transport_set_push_function(s, push);
    gnutls_handshake_set_timeout(s, GNUTLS_INDEFINITE_TIMEOUT);
    return s;
}

static duo *begin(bool own_is_client, const char *cipher, size_t key_len)
{
    static const nx_job_id job = {{1}};
    duo *d = calloc(1, sizeof(*d));
    int a = GNUTLS_E_AGAIN, b = GNUTLS_E_AGAIN;
    gnutls_x509_crt_t crt;

    assert_non_null(d);
    now = d;
    assert_int_equal(nx_authority_create(&d->authority, &job), NEXAR_OK);
    assert_int_equal(gnutls_certificate_allocate_credentials(&d->credentials), 0);
    assert_int_equal(nx_cert_parse(nx_authority_cert(d->authority), &crt), NEXAR_OK);
    assert_int_equal(
        gnutls_certificate_set_x509_key(d->credentials, &crt, 1, nx_authority_key(d->authority)),
        0);
    gnutls_x509_crt_deinit(crt);
    d->own = make(d, own_is_client, cipher, &ports[0], &d->to_own, &d->to_peer);
    d->peer = make(d, !own_is_client, cipher, &ports[1], &d->to_peer, &d->to_own);
    gnutls_handshake_set_secret_function(d->own, on_secret);
    for (int i = 0; (i < 20) && ((a != 0) || (b != 0)); i++) {
        a = (a == 0) ? 0 : gnutls_handshake(d->own);
        b = (b == 0) ? 0 : gnutls_handshake(d->peer);
    }
    assert_int_equal(a, 0);
    assert_int_equal(b, 0);
    d->secrets.key_len = key_len;
    assert_int_equal(nx_tls_record_create(&d->record, &d->secrets), NEXAR_OK);
    return d;
}

static void end(duo *d)
{
    nx_tls_record_destroy(d->record);
    gnutls_deinit(d->own);
    gnutls_deinit(d->peer);
    gnutls_certificate_free_credentials(d->credentials);
    nx_authority_destroy(d->authority);
    free(d);
}

static void flow_reset(flow *f)
{
    if (f->at == f->len) {
        f->at = f->len = 0;
    }
}

/* Opens the next record that GnuTLS has sent. */
static nexar_err take(duo *d, nx_record_type *type, nx_bytes *data, char why[NX_RECORD_WHY])
{
    uint8_t *at = d->to_own.data + d->to_own.at;
    const size_t len = nx_tls_record_length(at);

    assert_true((len > 0) && (len <= d->to_own.len - d->to_own.at));
    d->to_own.at += len;
    return nx_tls_record_open(d->record, at, len, type, data, why);
}

static uint8_t byte_at(size_t i, size_t len)
{
    return (uint8_t)(i * 31 + len);
}

/* GnuTLS reads what nexar has sealed. */
static void own_sends(duo *d, size_t len)
{
    uint8_t *buf, got[NX_RECORD_PLAIN + 1];
    ssize_t n;

    flow_reset(&d->to_peer);
    buf = d->to_peer.data + d->to_peer.len;
    for (size_t i = 0; i < len; i++) {
        buf[NX_RECORD_HEAD + i] = byte_at(i, len);
    }
    d->to_peer.len += nx_tls_record_seal(d->record, NX_RECORD_DATA, buf, len);
    if (len == 0) { /* GnuTLS skips it */
        assert_int_equal(gnutls_record_recv(d->peer, got, sizeof(got)), GNUTLS_E_AGAIN);
        return;
    }
    do { /* a KeyUpdate may precede it */
        n = gnutls_record_recv(d->peer, got, sizeof(got));
    } while ((n == GNUTLS_E_AGAIN) && (d->to_peer.at < d->to_peer.len));
    assert_int_equal(n, len);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(got[i], byte_at(i, len));
    }
}

/* The reverse; tickets and KeyUpdates may precede it. */
static void peer_sends(duo *d, size_t len)
{
    uint8_t data[NX_RECORD_PLAIN];
    char why[NX_RECORD_WHY];
    nx_record_type type = NX_RECORD_HANDSHAKE;
    nx_bytes got = {0};

    flow_reset(&d->to_own);
    for (size_t i = 0; i < len; i++) {
        data[i] = byte_at(i, len);
    }
    assert_int_equal(gnutls_record_send(d->peer, data, len), len);
    while (type == NX_RECORD_HANDSHAKE) {
        assert_int_equal(take(d, &type, &got, why), NEXAR_OK);
    }
    assert_int_equal(type, NX_RECORD_DATA);
    assert_int_equal(got.len, len);
    assert_memory_equal(got.ptr, data, len);
}

static bool cannot(void)
{
    if (!nx_aead_usable()) {
        print_message("this CPU has no VAES: nothing to test\n");
    }
    return !nx_aead_usable();
}

static void test_gnutls_reads_and_writes_what_nexar_does(void **state)
{
    static const struct {
        const char *cipher;
        size_t key_len;
    } suites[] = {{"AES-128-GCM", 16}, {"AES-256-GCM", 32}};

    (void)state;
    for (size_t i = 0; !cannot() && (i < 4); i++) {
        duo *d = begin(i % 2 == 0, suites[i / 2].cipher, suites[i / 2].key_len);

        for (size_t len = 0; len < 300; len++) {
            own_sends(d, len);
            peer_sends(d, len + 1);
        }
        for (size_t len = 1000; len <= NX_RECORD_PLAIN; len += 769) {
            own_sends(d, len);
            peer_sends(d, len);
        }
        own_sends(d, NX_RECORD_PLAIN);
        peer_sends(d, NX_RECORD_PLAIN);
        end(d);
    }
}

/* In both directions, with and without an answer; GnuTLS accepts at most 8 in a second. */
static void test_keys_change_when_either_side_says_so(void **state)
{
    duo *d;

    (void)state;
    if (cannot()) {
        return;
    }
    d = begin(true, "AES-128-GCM", 16);
    for (int round = 0; round < 6; round++) {
        uint8_t *buf;

        peer_sends(d, 100);
        assert_int_equal(gnutls_session_key_update(d->peer, (round % 2 == 0) ? GNUTLS_KU_PEER : 0),
                         0);
        peer_sends(d, 1000);
        assert_int_equal(nx_tls_record_update_due(d->record), round % 2 == 0);
        flow_reset(&d->to_peer);
        buf = d->to_peer.data + d->to_peer.len;
        d->to_peer.len += nx_tls_record_update(d->record, round % 3 == 0, buf);
        assert_false(nx_tls_record_update_due(d->record));
        own_sends(d, 2000);
        peer_sends(d, 10);
    }
    end(d);
}

static void test_a_key_update_is_due_before_a_key_has_sealed_too_much(void **state)
{
    uint8_t buf[NX_RECORD_MOST];
    duo *d;

    (void)state;
    if (cannot()) {
        return;
    }
    d = begin(false, "AES-128-GCM", 16);
    nx_tls_record_set_sealed(d->record, NX_RECORD_KEY_MOST - 1);
    assert_false(nx_tls_record_update_due(d->record));
    assert_true(nx_tls_record_seal(d->record, NX_RECORD_DATA, buf, 1) > 0);
    assert_true(nx_tls_record_update_due(d->record));
    assert_int_equal(nx_tls_record_update(d->record, false, buf), NX_RECORD_UPDATE);
    assert_false(nx_tls_record_update_due(d->record));
    nx_tls_record_set_sealed(d->record, NX_RECORD_KEY_MOST + 1);
    assert_int_equal(nx_tls_record_seal(d->record, NX_RECORD_DATA, buf, 1), 0);
    end(d);
}

static void test_an_alert_arrives_on_either_side(void **state)
{
    uint8_t *buf, got[16];
    char why[NX_RECORD_WHY];
    nx_record_type type = NX_RECORD_HANDSHAKE;
    nx_bytes data = {0};
    duo *d;

    (void)state;
    if (cannot()) {
        return;
    }
    d = begin(true, "AES-128-GCM", 16);
    peer_sends(d, 1);
    flow_reset(&d->to_own);
    assert_int_equal(gnutls_bye(d->peer, GNUTLS_SHUT_WR), 0);
    assert_int_equal(take(d, &type, &data, why), NEXAR_OK);
    assert_int_equal(type, NX_RECORD_ALERT);
    assert_int_equal(((const uint8_t *)data.ptr)[1], GNUTLS_A_CLOSE_NOTIFY);
    buf = d->to_peer.data + d->to_peer.len;
    buf[NX_RECORD_HEAD] = GNUTLS_AL_WARNING;
    buf[NX_RECORD_HEAD + 1] = GNUTLS_A_CLOSE_NOTIFY;
    d->to_peer.len += nx_tls_record_seal(d->record, NX_RECORD_ALERT, buf, 2);
    assert_int_equal(gnutls_record_recv(d->peer, got, sizeof(got)), 0);
    end(d);
}

/* Every bit of a record, and records in another order or twice. */
static void test_what_the_peer_has_not_sealed_is_refused(void **state)
{
    uint8_t data[20] = {1}, copy[200];
    char why[NX_RECORD_WHY];
    nx_record_type type;
    nx_bytes got;
    duo *d;

    (void)state;
    if (cannot()) {
        return;
    }
    d = begin(true, "AES-128-GCM", 16);
    peer_sends(d, 1);
    flow_reset(&d->to_own);
    assert_int_equal(gnutls_record_send(d->peer, data, sizeof(data)), sizeof(data));
    for (size_t bit = 0; bit < 8 * d->to_own.len; bit++) {
        memcpy(copy, d->to_own.data, d->to_own.len);
        copy[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        assert_int_equal(nx_tls_record_open(d->record, copy, d->to_own.len, &type, &got, why),
                         NEXAR_EPROTO);
        assert_non_null(strstr(why, "not what the peer has sealed"));
    }
    memcpy(copy, d->to_own.data, d->to_own.len);
    assert_int_equal(nx_tls_record_open(d->record, copy, d->to_own.len, &type, &got, why),
                     NEXAR_OK);
    memcpy(copy, d->to_own.data, d->to_own.len);
    assert_int_equal(nx_tls_record_open(d->record, copy, d->to_own.len, &type, &got, why),
                     NEXAR_EPROTO);
    end(d);
}

static void test_malformed_heads_are_rejected(void **state)
{
    static const struct {
        uint8_t head[NX_RECORD_HEAD];
        size_t len;
    } cases[] = {{{23, 3, 3, 0, 17}, 22},  {{23, 3, 3, 0, 16}, 0}, {{22, 3, 3, 0, 40}, 0},
                 {{23, 3, 1, 0, 40}, 0},   {{23, 2, 3, 0, 40}, 0}, {{23, 3, 3, 0x41, 0}, 16645},
                 {{23, 3, 3, 0x41, 1}, 0}, {{20, 3, 3, 0, 1}, 0},  {{23, 3, 3, 0xff, 0xff}, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(nx_tls_record_length(cases[i].head), cases[i].len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gnutls_reads_and_writes_what_nexar_does),
        cmocka_unit_test(test_keys_change_when_either_side_says_so),
        cmocka_unit_test(test_a_key_update_is_due_before_a_key_has_sealed_too_much),
        cmocka_unit_test(test_an_alert_arrives_on_either_side),
        cmocka_unit_test(test_what_the_peer_has_not_sealed_is_refused),
        cmocka_unit_test(test_malformed_heads_are_rejected),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
