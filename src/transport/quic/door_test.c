/* door_test.c - tokens and crowds at the door, in virtual time. */
#include <unistd.h>

#include "base/log.h"
#include "quic_time.h"

enum {
    CROWD = 400,
    BEFORE_TOKENS = 64, /* as in accept.c: handshakes accepted without a token, */
    AT_MOST = 256,      /* and in all */
};

static size_t count(const nx_list *list)
{
    size_t n = 0;

    nx_list_for_each (at, list) {
        n++;
    }
    return n;
}

/* ---- tokens -------------------------------------------------------------------------- */

/* at[0] dials at[1], which asks for a token; returns when that request waits to be read. */
static void be_asked_for_a_token(nxt_timed *t, nxt_peer *p)
{
    nx_quic *door = t->c.at[1].quic;

    t->c.at[0].quic->config.handshake_timeout_ns = 60 * NXT_SECOND_NS;
    door->half_open += 2 * BEFORE_TOKENS;
    nxt_dial(&t->c, 0, 1, p);
    nxt_timed_deafen(t, 0);
    nxt_timed_pass(t, NXT_SECOND_NS / 100);
    assert_int_equal(door->half_open, 2 * BEFORE_TOKENS);
    assert_true(nx_list_empty(&door->conn_ios));
}

/* The dialler is refused, knows the reason, leaves no state at the acceptor, and is accepted when
 * it starts over. */
static void be_refused_and_begin_anew(nxt_timed *t, nxt_peer *p)
{
    nx_quic *door = t->c.at[1].quic;

    nxt_timed_undeafen(t, 0);
    nxt_timed_until(t, p->down, NXT_SECOND_NS);
    assert_int_equal(p->err, NEXAR_ECONNECT);
    assert_false(p->up);
    assert_int_equal(door->half_open, 2 * BEFORE_TOKENS);
    assert_true(nx_list_empty(&door->conn_ios));
    nxt_timed_link(t, p);
    door->half_open -= 2 * BEFORE_TOKENS;
    assert_int_equal(door->half_open, 0);
}

static void test_a_token_in_time_opens(void **state)
{
    nxt_timed t;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    be_asked_for_a_token(&t, &p);
    nxt_timed_pass(&t, 9 * NXT_SECOND_NS);
    nxt_timed_undeafen(&t, 0);
    nxt_timed_until(&t, p.up, NXT_SECOND_NS);
    t.c.at[1].quic->half_open -= 2 * BEFORE_TOKENS;
    nxt_cluster_close(&t.c);
}

static void test_an_expired_token_is_refused(void **state)
{
    nxt_timed t;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    be_asked_for_a_token(&t, &p);
    nxt_timed_pass(&t, 11 * NXT_SECOND_NS);
    be_refused_and_begin_anew(&t, &p);
    nxt_cluster_close(&t.c);
}

/* As after a restart on the same port, or from an earlier seed. */
static void test_a_token_of_another_key_is_refused(void **state)
{
    nxt_timed t;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    be_asked_for_a_token(&t, &p);
    t.c.at[1].quic->secret[0] ^= 1;
    be_refused_and_begin_anew(&t, &p);
    nxt_cluster_close(&t.c);
}

/* ---- crowds -------------------------------------------------------------------------- */

/* A network between at[0] and at[1] that carries everything to at[1], and back only requests for
 * tokens: handshakes that never proceed, from a real address. */
typedef struct relay {
    int front, back; /* sockets: the one at[0] sends to, and the one at[1] sees */
    struct sockaddr_storage to, from;
    bool tokens;
} relay;

static int open_socket(struct sockaddr_storage *bound)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), size = 4 << 20;
    socklen_t len = sizeof(*bound);

    *bound = nxt_loopback(0);
    assert_int_equal(bind(fd, (struct sockaddr *)bound, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)bound, &len), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    return fd;
}

static void pass_on(nxt_timed *t)
{
    relay *r = t->ctx;
    socklen_t len = sizeof(r->from);
    uint8_t packet[65536];
    ssize_t n;

    while ((n = recvfrom(r->front, packet, sizeof(packet), 0, (struct sockaddr *)&r->from, &len)) >
           0) {
        (void)!sendto(r->back, packet, (size_t)n, 0, (struct sockaddr *)&r->to,
                      sizeof(struct sockaddr_in));
    }
    while ((n = recv(r->back, packet, sizeof(packet), 0)) > 0) {
        if (r->tokens && ((packet[0] & 0xf0) == 0xf0)) {
            (void)!sendto(r->front, packet, (size_t)n, 0, (struct sockaddr *)&r->from, len);
        }
    }
}

/* at[0] becomes a joiner with CROWD links to the seed at[1] through |r|. */
static void crowd(nxt_timed *t, relay *r, nxt_peer *peers, bool tokens)
{
    struct sockaddr_storage front, back;
    nx_quic_target target = {.addresses = &front, .n = 1};
    nx_quic_config config = nxt_config(&t->c, &t->c.at[1]);

    config.identity = NULL;
    config.authority = t->c.authority;
    nx_quic_close(t->c.at[1].quic);
    assert_int_equal(nx_quic_open(&t->c.at[1].quic, &config), NEXAR_OK);
    config = nxt_config(&t->c, &t->c.at[0]);
    config.identity = NULL;
    config.handshake_timeout_ns = 60 * NXT_SECOND_NS;
    nx_quic_close(t->c.at[0].quic);
    assert_int_equal(nx_quic_open(&t->c.at[0].quic, &config), NEXAR_OK);
    assert_int_equal(nx_cert_pin(nx_authority_cert(t->c.authority), &target.pin), NEXAR_OK);
    *r = (relay){.front = open_socket(&front), .back = open_socket(&back), .tokens = tokens};
    r->to = nxt_loopback(nx_quic_port(t->c.at[1].quic));
    t->between = pass_on;
    t->ctx = r;
    for (size_t i = 0; i < CROWD; i++) {
        peers[i] = (nxt_peer){0};
        assert_int_equal(nx_quic_dial(t->c.at[0].quic, &target, &NXT_UP, &peers[i], &peers[i].link),
                         NEXAR_OK);
        nxt_timed_step(t);
    }
}

/* An honest joiner, at[2], dials the seed. */
static void come(nxt_timed *t, nxt_peer *p)
{
    struct sockaddr_storage address = nxt_loopback(nx_quic_port(t->c.at[1].quic));
    nx_quic_target target = {.addresses = &address, .n = 1};
    nx_quic_config config = nxt_config(&t->c, &t->c.at[2]);

    config.identity = NULL;
    nx_quic_close(t->c.at[2].quic);
    assert_int_equal(nx_quic_open(&t->c.at[2].quic, &config), NEXAR_OK);
    assert_int_equal(nx_cert_pin(nx_authority_cert(t->c.authority), &target.pin), NEXAR_OK);
    *p = (nxt_peer){0};
    assert_int_equal(nx_quic_dial(t->c.at[2].quic, &target, &NXT_UP, p, &p->link), NEXAR_OK);
}

static void end_crowd(nxt_timed *t, const relay *r)
{
    t->between = NULL;
    nxt_cluster_close(&t->c);
    (void)close(r->front);
    (void)close(r->back);
}

/* A peer that does not answer (as if the address were forged) costs 64 handshakes, no more. */
static void test_a_crowd_that_does_not_answer_is_asked_for_tokens(void **state)
{
    static nxt_peer peers[CROWD];
    nxt_timed t;
    nxt_peer p;
    relay r;

    (void)state;
    nxt_timed_open(&t, 3);
    crowd(&t, &r, peers, false);
    nxt_timed_pass(&t, NXT_SECOND_NS);
    assert_int_equal(t.c.at[1].quic->half_open, BEFORE_TOKENS);
    assert_int_equal(count(&t.c.at[1].quic->conn_ios), BEFORE_TOKENS);
    come(&t, &p);
    nxt_timed_until(&t, p.up, NXT_SECOND_NS);
    end_crowd(&t, &r);
}

/* Peers that answer and then stall occupy all places, but not for long. */
static void test_a_crowd_that_stands_still_is_got_past(void **state)
{
    static nxt_peer peers[CROWD];
    nxt_timed t;
    nxt_peer p;
    relay r;

    (void)state;
    nx_log_set_level(NX_LOG_ERROR);
    nxt_timed_open(&t, 3);
    crowd(&t, &r, peers, true);
    nxt_timed_until(&t, t.c.at[1].quic->half_open == AT_MOST, NXT_SECOND_NS);
    come(&t, &p);
    nxt_timed_until(&t, p.up, 8 * NXT_SECOND_NS);
    assert_true(t.c.at[1].quic->half_open <= AT_MOST);
    assert_true(count(&t.c.at[1].quic->conn_ios) < 3 * AT_MOST); /* including closed ones */
    end_crowd(&t, &r);
    nx_log_set_level(NX_LOG_WARN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_token_in_time_opens),
        cmocka_unit_test(test_an_expired_token_is_refused),
        cmocka_unit_test(test_a_token_of_another_key_is_refused),
        cmocka_unit_test(test_a_crowd_that_does_not_answer_is_asked_for_tokens),
        cmocka_unit_test(test_a_crowd_that_stands_still_is_got_past),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
