/* window_test.c - the data that a peer may have in flight: its share of the socket's buffer. */

#include "quic_pair.h"
#include "transport/quic/conn/conn_impl.h"
#include "transport/quic/endpoint.h"

static const nx_conn *conn_of(nx_link *link)
{
    return nx_list_entry(link, nx_quic_link, base)->used->conn;
}

/* The window that the other end of |link| has granted to this one. */
static uint64_t granted(nx_link *link)
{
    return ngtcp2_conn_get_remote_transport_params(conn_of(link)->ng)->initial_max_data;
}

static uint64_t share(const nx_quic *q, size_t peers)
{
    nx_udp_features f;
    uint64_t part;

    nx_udp_get_features(q->udp, &f);
    part = f.rcvbuf / peers;
    part = (part < NX_QUIC_WINDOW_MOST) ? part : NX_QUIC_WINDOW_MOST;
    return (part > NX_QUIC_WINDOW_LEAST) ? part : NX_QUIC_WINDOW_LEAST;
}

static void test_windows_are_equal_shares_of_the_buffer(void **state)
{
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 1);
    for (size_t peers = 0; peers < 300; peers++) {
        nx_quic_set_peers(c.at[0].quic, peers);
        assert_int_equal(c.at[0].quic->window, share(c.at[0].quic, (peers == 0) ? 1 : peers));
    }
    nxt_cluster_close(&c);
}

/* Dialled or accepted; existing links keep their window. */
static void test_a_link_grants_the_share_of_when_it_was_made(void **state)
{
    enum { FEW = 2, MANY = 100 };
    nxt_cluster c;
    nxt_peer few, many, back;

    (void)state;
    nxt_cluster_open(&c, 4);
    nx_quic_set_peers(c.at[0].quic, FEW);
    nxt_dial(&c, 0, 1, &few);
    nxt_until(c.loop, few.up && (c.at[1].naccepted == 1) && c.at[1].accepted[0].up);
    nx_quic_set_peers(c.at[0].quic, MANY);
    nxt_dial(&c, 0, 2, &many);
    nxt_dial(&c, 3, 0, &back);
    nxt_until(c.loop, many.up && (c.at[2].naccepted == 1) && c.at[2].accepted[0].up && back.up);
    assert_int_equal(granted(c.at[1].accepted[0].link), share(c.at[0].quic, FEW));
    assert_int_equal(granted(c.at[2].accepted[0].link), share(c.at[0].quic, MANY));
    assert_int_equal(granted(back.link), share(c.at[0].quic, MANY));
    nxt_cluster_close(&c);
}

/* Between hosts congestion control limits senders, and the window follows their use. */
static void test_the_window_to_another_host_does_not_depend_on_the_buffer(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[0].quic->far = c.at[1].quic->far = true;
    nx_quic_set_peers(c.at[1].quic, 1000);
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up && (c.at[1].naccepted == 1) && c.at[1].accepted[0].up);
    assert_int_equal(granted(p.link), NX_CONN_WINDOW_FIRST);
    assert_int_equal(granted(c.at[1].accepted[0].link), NX_CONN_WINDOW_FIRST);
    assert_true(nx_conn_burst(nx_list_entry(p.link, nx_quic_link, base)->used->conn) <=
                NX_QUIC_TURN);
    nxt_cluster_close(&c);
}

/* It is no member of the world, among which the buffer is divided. */
static void test_a_seed_that_is_dialled_gets_the_least(void **state)
{
    nx_quic_target target = {.n = 1};
    struct sockaddr_storage a;
    nx_quic_config config;
    nxt_peer p = {0};
    nxt_cluster c;
    nx_quic *seed;

    (void)state;
    nxt_cluster_open(&c, 1);
    config = nxt_config(&c, &c.at[1]);
    config.identity = NULL;
    config.authority = c.authority;
    assert_int_equal(nx_quic_open(&seed, &config), NEXAR_OK);
    a = nxt_loopback(nx_quic_port(seed));
    target.addresses = &a;
    nx_authority_pin(c.authority, &target.pin);
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.up && (c.at[1].naccepted == 1) && c.at[1].accepted[0].up);
    assert_int_equal(granted(c.at[1].accepted[0].link), NX_QUIC_WINDOW_LEAST);
    nx_quic_close(seed);
    nxt_cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_equal_shares_of_the_buffer),
        cmocka_unit_test(test_a_link_grants_the_share_of_when_it_was_made),
        cmocka_unit_test(test_the_window_to_another_host_does_not_depend_on_the_buffer),
        cmocka_unit_test(test_a_seed_that_is_dialled_gets_the_least),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
