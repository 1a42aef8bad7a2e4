/* leave_test.c - departure, in virtual time: nothing that has arrived counts as lost. */
#include <unistd.h>

#include "quic_time.h"

enum { BYTES = 300000, MANY = 12 << 20 }; /* the latter more than a window */

static uint8_t data[BYTES];

static size_t closing(const nxt_timed *t, size_t i)
{
    return t->c.at[i].quic->closing;
}

static void test_a_leaver_stays_until_the_other_has_its_acknowledgements(void **state)
{
    nx_bytes bytes = {data, BYTES};
    nx_tx tx = {.id = 1, .len = BYTES, .bytes = &bytes, .nbytes = 1};
    nxt_timed t;
    nxt_peer p, *other;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    other = &t.c.at[1].accepted[0];
    assert_int_equal(nx_link_send_part(other->link, &tx), NEXAR_OK);
    nx_loop_kick(t.c.loop);
    nxt_timed_deafen(&t, 1); /* it has sent everything, and does not receive the acknowledgement */
    nxt_timed_until(&t, p.bytes == BYTES, NXT_SECOND_NS);
    nx_link_close(p.link, true);
    nxt_timed_pass(&t, NXT_SECOND_NS);
    assert_int_equal(closing(&t, 0), 1);
    assert_int_equal(other->sent, 0);
    nxt_timed_undeafen(&t, 1);
    nxt_timed_until(&t, other->down && (closing(&t, 0) == 0), NXT_SECOND_NS);
    assert_int_equal(other->sent, 1);
    assert_int_equal(other->sent_failed, 0);
    assert_int_equal(other->err, NEXAR_EPEER);
    assert_non_null(strstr(other->why, "the peer has left"));
    nxt_cluster_close(&t.c);
}

static void test_both_may_leave_at_once(void **state)
{
    nx_bytes text = {"last words", 10};
    nxt_timed t;
    uint64_t begin;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    begin = t.clock.ns;
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_link_close(p.link, true);
    nx_link_close(t.c.at[1].accepted[0].link, true);
    nxt_timed_until(&t, (closing(&t, 0) == 0) && (closing(&t, 1) == 0), 3 * NXT_SECOND_NS);
    assert_true(t.clock.ns - begin < NXT_SECOND_NS); /* no time-out was needed */
    nxt_cluster_close(&t.c);
}

static void test_a_leaver_stops_waiting_for_a_silent_peer(void **state)
{
    nxt_timed t;
    uint64_t begin;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    nxt_timed_deafen(&t, 1);
    begin = t.clock.ns;
    nx_link_close(p.link, true);
    nxt_timed_until(&t, closing(&t, 0) == 0, 7 * NXT_SECOND_NS);
    assert_true(t.clock.ns - begin >= 4 * NXT_SECOND_NS);
    nxt_timed_undeafen(&t, 1);
    nxt_cluster_close(&t.c);
}

/* Sends |tx| from at[1] to at[0], which leaves as soon as the first bytes arrive. */
static void leave_in_the_middle(nxt_timed *t, nxt_peer *p, nx_tx *tx)
{
    static uint8_t many[MANY];
    static nx_bytes bytes = {many, MANY};

    *tx = (nx_tx){.id = 1, .len = MANY, .bytes = &bytes, .nbytes = 1};
    assert_int_equal(nx_link_send_part(t->c.at[1].accepted[0].link, tx), NEXAR_OK);
    nxt_timed_until(t, p->bytes > 0, NXT_SECOND_NS);
    assert_true(p->bytes < MANY);
    nx_link_close(p->link, true);
}

static void test_what_is_under_way_to_a_leaver_is_acknowledged(void **state)
{
    const nxt_peer *other;
    nxt_timed t;
    nxt_peer p;
    nx_tx tx;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    other = &t.c.at[1].accepted[0];
    leave_in_the_middle(&t, &p, &tx);
    nxt_timed_until(&t, other->down && (closing(&t, 0) == 0), 2 * NXT_SECOND_NS);
    assert_int_equal(other->sent, 1);
    assert_int_equal(other->sent_failed, 0);
    nxt_cluster_close(&t.c);
}

/* at[0] receives nothing more as soon as at[1] has closed. */
static void lose_farewell(nxt_timed *t)
{
    const nx_list *conn_ios = &t->c.at[1].quic->conn_ios;

    if (nx_list_entry(conn_ios->next, nx_conn_io, in_all)->conn == NULL) {
        nxt_timed_deafen(t, 0);
        nxt_timed_lose(t, 0);
        t->between = NULL;
    }
}

/* The other side has everything it waits for and has left, and its last packet was lost. This side
 * waits for no acknowledgement either, so the only packets are the frames due every 250 ms: the
 * answer to one of them shows the departure. */
static void test_a_lost_farewell_is_made_up_for(void **state)
{
    nx_bytes text = {"last words", 10}; /* not a part: this side would announce more room */
    const nx_quic_link *leaver;
    const nxt_peer *other;
    uint64_t begin;
    nxt_timed t;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    leaver = nx_list_entry(p.link, nx_quic_link, base);
    other = &t.c.at[1].accepted[0];
    nxt_timed_pass(&t, NXT_SECOND_NS / 10);
    nxt_timed_deafen(&t, 0);
    assert_int_equal(nx_link_send_frame(other->link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_loop_kick(t.c.loop);
    nxt_timed_lose(&t, 0); /* it arrives later, when this side's BYE has been acknowledged */
    nxt_timed_undeafen(&t, 0);
    nx_link_close(p.link, true);
    t.between = lose_farewell;
    nxt_timed_until(&t, other->down, NXT_SECOND_NS);
    assert_null(t.between);
    assert_int_equal(closing(&t, 0), 1);
    assert_true(nx_sendq_empty(&leaver->sendq));
    nxt_timed_pass(&t, NXT_SECOND_NS + NXT_SECOND_NS / 2); /* the connection is forgotten, too */
    nxt_timed_lose(&t, 0);
    nxt_timed_undeafen(&t, 0);
    begin = t.clock.ns;
    assert_int_equal(closing(&t, 0), 1);
    nxt_timed_until(&t, closing(&t, 0) == 0, 5 * NXT_SECOND_NS);
    assert_true(t.clock.ns - begin < NXT_SECOND_NS);
    nxt_cluster_close(&t.c);
}

/* The first address drops everything; the second is tried though the link has no owner any more. */
static void test_what_was_sent_before_a_link_is_up_finds_the_other_address(void **state)
{
    struct sockaddr_storage addresses[2];
    nx_quic_target target = {.member = 2, .addresses = addresses, .n = 2};
    nx_bytes text = {"hello", 5};
    socklen_t len = sizeof(addresses[0]);
    int hole = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    nxt_peer p = {.member = 2};
    nxt_timed t;

    (void)state;
    nxt_timed_open(&t, 2);
    addresses[0] = nxt_loopback(0);
    assert_int_equal(bind(hole, (struct sockaddr *)&addresses[0], sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(hole, (struct sockaddr *)&addresses[0], &len), 0);
    addresses[1] = nxt_loopback(nx_quic_port(t.c.at[1].quic));
    assert_int_equal(nx_quic_dial(t.c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_link_close(p.link, true);
    nxt_timed_until(&t, t.c.at[1].accepted[0].frames == 1, 5 * NXT_SECOND_NS);
    nxt_timed_until(&t, closing(&t, 0) == 0, 2 * NXT_SECOND_NS);
    nxt_cluster_close(&t.c);
    (void)close(hole);
}

/* at[leaver] dials the other, sends it a frame and leaves; the other, which does not know yet that
 * it was dialled, dials as well, |steps| later. Returns whether it could: later there is a link. */
static bool leave_while_dialled(size_t leaver, int steps)
{
    const size_t other = 1 - leaver;
    nx_bytes text = {"last words", 10};
    nxt_peer p, q;
    nxt_timed t;
    bool dials;

    nxt_timed_open(&t, 2);
    nxt_dial(&t.c, leaver, other, &p);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_link_close(p.link, true);
    for (int i = 0; i < steps; i++) {
        nxt_timed_step(&t);
    }
    dials = (t.c.at[other].naccepted == 0);
    if (dials) {
        nxt_dial(&t.c, other, leaver, &q);
        nxt_timed_until(&t, q.down && (closing(&t, leaver) == 0), 7 * NXT_SECOND_NS);
        assert_int_equal(q.frames, 1);
        assert_non_null(strstr(q.why, "the peer has left"));
        assert_int_equal(t.c.at[0].naccepted + t.c.at[1].naccepted, 0);
    }
    nxt_cluster_close(&t.c);
    return dials;
}

static void test_a_leaver_that_is_dialled_loses_nothing_that_it_has_sent(void **state)
{
    (void)state;
    for (size_t leaver = 0; leaver < 2; leaver++) {
        int steps = 0;

        while (leave_while_dialled(leaver, steps)) {
            steps++;
        }
        assert_true(steps > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_leaver_stays_until_the_other_has_its_acknowledgements),
        cmocka_unit_test(test_both_may_leave_at_once),
        cmocka_unit_test(test_a_leaver_stops_waiting_for_a_silent_peer),
        cmocka_unit_test(test_what_is_under_way_to_a_leaver_is_acknowledged),
        cmocka_unit_test(test_a_lost_farewell_is_made_up_for),
        cmocka_unit_test(test_what_was_sent_before_a_link_is_up_finds_the_other_address),
        cmocka_unit_test(test_a_leaver_that_is_dialled_loses_nothing_that_it_has_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
