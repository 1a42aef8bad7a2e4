/* endpoint_auth_test.c - which peers are accepted and which are not; unknown peers and their
 * noise. */
#include <gnutls/gnutls.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "quic_pair.h"
#include "transport/quic/endpoint.h"

/* A cluster of two whose second endpoint is reopened with |config|. */
static void reopen(nxt_cluster *c, size_t i, const nx_quic_config *config)
{
    nx_quic_close(c->at[i].quic);
    assert_int_equal(nx_quic_open(&c->at[i].quic, config), NEXAR_OK);
}

/* at[from] dials at[1 - from] and both refuse: no link is reported. */
static void expect_refusal(nxt_cluster *c, size_t from, nexar_err err, const char *words)
{
    nxt_peer p;

    nxt_dial(c, from, 1 - from, &p);
    nxt_until(c->loop, p.down);
    assert_false(p.up);
    assert_int_equal(p.err, err);
    if (strstr(p.why, words) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", words, p.why);
    }
    assert_int_equal(c->at[1 - from].naccepted, 0);
}

static void test_a_member_of_another_authority_is_refused(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nx_authority *foreign = NULL;
        nx_quic_config config;
        nxt_cluster c;

        nxt_cluster_open(&c, 2);
        assert_int_equal(nx_authority_create(&foreign, &c.job), NEXAR_OK);
        nx_identity_destroy(c.at[1].identity);
        c.at[1].identity = nxt_identity(foreign, 2);
        config = nxt_config(&c, &c.at[1]);
        reopen(&c, 1, &config);
        expect_refusal(&c, from, NEXAR_EAUTH, "authority");
        nxt_cluster_close(&c);
        nx_authority_destroy(foreign);
    }
}

static void test_a_member_of_another_job_is_refused(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nx_quic_config config;
        nxt_cluster c;

        nxt_cluster_open(&c, 2);
        config = nxt_config(&c, &c.at[1]);
        config.job = (nx_job_id){{1, 2, 3}};
        reopen(&c, 1, &config);
        expect_refusal(&c, from, NEXAR_EAUTH, "another job");
        nxt_cluster_close(&c);
    }
}

static void test_a_member_that_is_not_the_one_wanted_is_refused(void **state)
{
    struct sockaddr_storage a;
    nx_quic_target target = {.member = 3, .addresses = &a, .n = 1};
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    a = nxt_loopback(nx_quic_port(c.at[1].quic));
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_non_null(strstr(p.why, "member 2, wanted was 3"));
    assert_int_equal(c.at[1].naccepted, 0);
    nxt_cluster_close(&c);
}

static time_t in_fifty_years(time_t *t)
{
    const time_t then = time(NULL) + (time_t)50 * 365 * 24 * 3600;

    if (t != NULL) {
        *t = then;
    }
    return then;
}

static void test_members_do_not_grow_old(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    gnutls_global_set_time_function(in_fifty_years);
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up || p.down);
    gnutls_global_set_time_function(time);
    assert_true(p.up);
    nxt_cluster_close(&c);
}

static void test_another_version_is_refused_and_both_are_named(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nxt_cluster c;

        nxt_cluster_open(&c, 2);
        c.at[1].quic->alpn = "nexar/2";
        assert_int_equal(nx_quic_set_identity(c.at[1].quic, c.at[1].identity, &c.job), NEXAR_OK);
        expect_refusal(&c, from, NEXAR_EPROTO, "nexar/1");
        expect_refusal(&c, from, NEXAR_EPROTO, "nexar/2");
        nxt_cluster_close(&c);
    }
}

static bool conn_io_in(nx_link *link, nx_conn_state state)
{
    nx_quic_link *self = nx_list_entry(link, nx_quic_link, base);
    nx_conn_io *k = nx_list_entry(self->conn_ios.next, nx_conn_io, in_link);

    return !nx_list_empty(&self->conn_ios) && (nx_conn_get_state(k->conn) == state);
}

/* ---- seeds and joiners --------------------------------------------------------------- */

/* at[0] becomes a seed, at[1] a joiner without an identity. */
static void make_seed(nxt_cluster *c, nx_quic_target *target, struct sockaddr_storage *address)
{
    nx_quic_config config = nxt_config(c, &c->at[0]);

    config.identity = NULL;
    config.authority = c->authority;
    reopen(c, 0, &config);
    config = nxt_config(c, &c->at[1]);
    config.identity = NULL;
    reopen(c, 1, &config);
    *address = nxt_loopback(nx_quic_port(c->at[0].quic));
    *target = (nx_quic_target){.addresses = address, .n = 1};
    nx_authority_pin(c->authority, &target->pin);
}

static void test_a_joiner_reaches_a_seed_and_shares_a_secret_with_it(void **state)
{
    uint8_t here[32], there[32], other[32];
    struct sockaddr_storage address;
    nx_quic_target target;
    nx_bytes hello = {"hello", 5};
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[0].echo = true;
    make_seed(&c, &target, &address);
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    assert_int_equal(nx_quic_link_export(p.link, "x", here), NEXAR_EINVAL);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_CONTROL, &hello, 1), NEXAR_OK);
    nxt_until(c.loop, p.frames == 1);
    assert_int_equal(c.at[0].naccepted, 1);
    assert_int_equal(c.at[0].accepted[0].member, 0);
    assert_int_equal(nx_quic_link_export(p.link, "EXPORTER-nexar", here), NEXAR_OK);
    assert_int_equal(nx_quic_link_export(c.at[0].accepted[0].link, "EXPORTER-nexar", there),
                     NEXAR_OK);
    assert_int_equal(nx_quic_link_export(p.link, "EXPORTER-other", other), NEXAR_OK);
    assert_memory_equal(here, there, sizeof(here));
    assert_memory_not_equal(here, other, sizeof(here));
    nxt_cluster_close(&c);
}

static void test_a_joiner_becomes_a_member_on_the_same_endpoint(void **state)
{
    struct sockaddr_storage address;
    nx_quic_target target;
    nxt_peer p = {0}, q;
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 3);
    make_seed(&c, &target, &address);
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.up);
    assert_int_equal(nx_quic_set_identity(c.at[1].quic, c.at[1].identity, &c.job), NEXAR_OK);
    nxt_dial(&c, 2, 1, &q);
    nxt_until(c.loop, q.up && (c.at[1].naccepted == 1));
    assert_int_equal(c.at[1].accepted[0].member, 3);
    assert_false(p.down);
    /* Known to the seed now, should it return. */
    nx_link_close(p.link, false);
    p = (nxt_peer){0};
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, c.at[0].naccepted == 2);
    assert_int_equal(c.at[0].accepted[1].member, 2);
    nxt_cluster_close(&c);
}

/* Comes up and stays silent, as no nexar dialler does: never used. */
static void test_a_silent_unauthenticated_peer_is_closed(void **state)
{
    struct sockaddr_storage address;
    nx_quic_target target;
    nx_quic_config config;
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    make_seed(&c, &target, &address);
    config = nxt_config(&c, &c.at[0]);
    config.identity = NULL;
    config.authority = c.authority;
    config.handshake_timeout_ns = UINT64_C(300000000);
    reopen(&c, 0, &config);
    address = nxt_loopback(nx_quic_port(c.at[0].quic));
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    /* Removes the first data that the link would send. */
    nxt_until(c.loop, conn_io_in(p.link, NX_CONN_HANDSHAKE));
    nx_list_entry(p.link, nx_quic_link, base)->sendq.lanes[NX_LANE_CONTROL].blocked = true;
    nxt_until(c.loop, p.down);
    assert_true(p.up);
    assert_int_equal(c.at[0].naccepted, 0);
    nxt_cluster_close(&c);
}

static void test_a_seed_with_another_key_is_sent_nothing(void **state)
{
    struct sockaddr_storage address;
    nx_quic_target target;
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    make_seed(&c, &target, &address);
    target.pin.bytes[31] ^= 1;
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_non_null(strstr(p.why, "pinned"));
    assert_int_equal(c.at[0].naccepted, 0);
    nxt_cluster_close(&c);
}

static void test_a_member_rejects_unauthenticated_peers(void **state)
{
    struct sockaddr_storage address;
    nx_quic_target target = {.addresses = &address, .n = 1};
    nx_quic_config config;
    nx_der csr, cert;
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    /* The joiner trusts the member's key by its pin; the member requires a certificate. */
    assert_int_equal(nx_identity_request(c.at[0].identity, &csr), NEXAR_OK);
    assert_int_equal(nx_authority_sign(c.authority, &csr, 1, &cert), NEXAR_OK);
    assert_int_equal(nx_cert_pin(&cert, &target.pin), NEXAR_OK);
    address = nxt_loopback(nx_quic_port(c.at[0].quic));
    config = nxt_config(&c, &c.at[1]);
    config.identity = NULL;
    reopen(&c, 1, &config);
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EAUTH);
    assert_false(p.up);
    assert_int_equal(c.at[0].naccepted, 0);
    target.member = 1; /* and it cannot dial members */
    assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p, &p.link), NEXAR_EINVAL);
    nxt_cluster_close(&c);
}

/* ---- noise --------------------------------------------------------------------------- */

static int stranger(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    return fd;
}

static void test_many_half_open_handshakes_make_it_ask_for_tokens(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[1].quic->half_open += 100;
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up && (c.at[1].naccepted == 1));
    c.at[1].quic->half_open -= 100;
    assert_int_equal(c.at[1].quic->half_open, 0);
    nxt_cluster_close(&c);
}

/* Whether it was accepted. On a busy machine the acceptor may find that the handshake takes too
 * long, or the dialler may: then it dials again, as a joiner does. */
static bool has_come(nxt_cluster *c, const nx_quic_target *target, nxt_peer *p)
{
    if (p->down && !p->up) {
        *p = (nxt_peer){0};
        assert_int_equal(nx_quic_dial(c->at[1].quic, target, &NXT_UP, p, &p->link), NEXAR_OK);
    }
    return p->up;
}

static void test_hundreds_of_joiners_at_once_all_get_in(void **state)
{
    enum { JOINERS = 300 };
    static nxt_peer p[JOINERS];
    struct sockaddr_storage address;
    nx_quic_target target;
    size_t up = 0;
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 2);
    make_seed(&c, &target, &address);
    for (size_t i = 0; i < JOINERS; i++) {
        p[i] = (nxt_peer){0};
        assert_int_equal(nx_quic_dial(c.at[1].quic, &target, &NXT_UP, &p[i], &p[i].link), NEXAR_OK);
    }
    while (up < JOINERS) {
        nxt_until(c.loop, has_come(&c, &target, &p[up]));
        up++;
    }
    nxt_until(c.loop, c.at[0].naccepted >= JOINERS);
    nxt_cluster_close(&c);
}

static void test_another_version_of_quic_is_answered_with_the_supported_one(void **state)
{
    uint8_t packet[1200] = {0xc0, 0xfa, 0xce, 0xb0, 0x0c, 8, 1, 2, 3, 4, 5, 6, 7, 8, 4, 9, 9, 9, 9};
    struct sockaddr_storage to;
    uint8_t answer[256];
    int fd = stranger();
    ssize_t n = -1;
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 1);
    to = nxt_loopback(nx_quic_port(c.at[0].quic));
    assert_int_equal(
        sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(struct sockaddr_in)),
        sizeof(packet));
    nxt_until(c.loop, (n = recv(fd, answer, sizeof(answer), 0)) > 0);
    assert_true((answer[0] & 0x80) != 0);
    assert_memory_equal(answer + 1, "\0\0\0\0", 4);           /* version negotiation */
    assert_memory_equal(answer + n - 4, "\0\0\0\1", 4);       /* version 1 */
    assert_memory_equal(answer + 5, "\4\x09\x09\x09\x09", 5); /* the destination */
    nxt_cluster_close(&c);
    (void)close(fd);
}

/* Noise of all kinds: short and long headers, the right version and wrong ones,
 * Initials with any rest, packets of the running connection with flipped bits. */
static size_t noise(nx_random_seeded *r, uint8_t *packet, size_t room)
{
    size_t len = 1 + nx_random_below(&r->random, room);

    nx_random_fill(&r->random, packet, len);
    switch (nx_random_below(&r->random, 4)) {
    case 0:
        packet[0] &= 0x7f;
        break;
    case 1:
        packet[0] |= 0xc0;
        break;
    default:
        len = 1200 + nx_random_below(&r->random, room - 1200);
        nx_random_fill(&r->random, packet, len);
        packet[0] = 0xc0; /* an Initial of version 1 */
        memcpy(packet + 1, "\0\0\0\1\10", 5);
        packet[14] = 8;
        packet[23] = 0;
        break;
    }
    return len;
}

static void test_noise_disturbs_nobody(void **state)
{
    enum { PACKETS = 20000, ROOM = 3000 };
    static uint8_t packet[ROOM];
    nx_bytes text = {packet, 1000};
    struct sockaddr_storage to;
    nx_random_seeded r;
    int fd = stranger();
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nx_random_seeded_init(&r, 5);
    nx_log_set_level(NX_LOG_ERROR);
    nxt_cluster_open(&c, 2);
    c.at[1].echo = true;
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up);
    to = nxt_loopback(nx_quic_port(c.at[1].quic));
    for (size_t i = 0; i < PACKETS; i++) {
        size_t len = noise(&r, packet, ROOM);

        (void)!sendto(fd, packet, len, 0, (struct sockaddr *)&to, sizeof(struct sockaddr_in));
        if (i % 100 == 0) {
            assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
            nx_loop_kick(c.loop);
        }
    }
    nxt_until(c.loop, p.frames == PACKETS / 100);
    assert_false(p.down);
    nxt_cluster_close(&c);
    (void)close(fd);
    nx_log_set_level(NX_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_member_of_another_authority_is_refused),
        cmocka_unit_test(test_a_member_of_another_job_is_refused),
        cmocka_unit_test(test_a_member_that_is_not_the_one_wanted_is_refused),
        cmocka_unit_test(test_members_do_not_grow_old),
        cmocka_unit_test(test_another_version_is_refused_and_both_are_named),
        cmocka_unit_test(test_a_joiner_reaches_a_seed_and_shares_a_secret_with_it),
        cmocka_unit_test(test_a_joiner_becomes_a_member_on_the_same_endpoint),
        cmocka_unit_test(test_a_silent_unauthenticated_peer_is_closed),
        cmocka_unit_test(test_a_seed_with_another_key_is_sent_nothing),
        cmocka_unit_test(test_a_member_rejects_unauthenticated_peers),
        cmocka_unit_test(test_many_half_open_handshakes_make_it_ask_for_tokens),
        cmocka_unit_test(test_hundreds_of_joiners_at_once_all_get_in),
        cmocka_unit_test(test_another_version_of_quic_is_answered_with_the_supported_one),
        cmocka_unit_test(test_noise_disturbs_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
