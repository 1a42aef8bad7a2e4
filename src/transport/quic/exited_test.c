/*
 * exited_test.c - a peer's process has exited, as the owner of a link has learnt: its earlier data
 * is delivered, and then the link is down.
 */
#include "quic_time.h"

enum { FRAMES = 20, BYTES = 100000, MANY = 12 << 20 /* more than a window */ };

static uint8_t data[BYTES], many[MANY];

/* at[0] has a link |p| to at[1], whose end of it is |*other|; at[0] receives nothing from now
 * on. */
static void open_deaf(nxt_timed *t, nxt_peer *p, nxt_peer **other)
{
    nxt_timed_open(t, 2);
    nxt_timed_link(t, p);
    *other = &t->c.at[1].accepted[0];
    nxt_timed_pass(t, NXT_SECOND_NS / 10); /* nothing is left to acknowledge */
    nxt_timed_deafen(t, 0);
}

/* The process of |p|, at[1], has exited: it sends nothing more, nor receives. */
static void end_process(nxt_timed *t, nxt_peer *p)
{
    nxt_timed_deafen(t, 1);
    nx_quic_link_exited(p->link);
    nxt_timed_until(t, p->down, NXT_SECOND_NS);
    assert_int_equal(p->err, NEXAR_EPEER);
}

static void close_deaf(nxt_timed *t)
{
    nxt_timed_undeafen(t, 0);
    nxt_timed_undeafen(t, 1);
    nxt_cluster_close(&t->c);
}

static void test_what_was_sent_before_the_end_is_heard(void **state)
{
    nx_bytes text = {data, 1000}, bytes = {data, BYTES};
    nx_tx tx = {.id = 1, .len = BYTES, .bytes = &bytes, .nbytes = 1};
    nxt_peer p, *other;
    nxt_timed t;

    (void)state;
    open_deaf(&t, &p, &other);
    for (int i = 0; i < FRAMES; i++) {
        assert_int_equal(nx_link_send_frame(other->link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    }
    assert_int_equal(nx_link_send_part(other->link, &tx), NEXAR_OK);
    nx_loop_kick(t.c.loop);
    assert_int_equal(p.frames, 0);
    end_process(&t, &p);
    assert_int_equal(p.frames, FRAMES);
    assert_int_equal(p.bytes, BYTES);
    assert_int_equal(p.ended, NX_END_GONE);
    assert_non_null(strstr(p.why, "the process of the peer has ended"));
    close_deaf(&t);
}

static void test_a_rank_that_has_said_goodbye_has_left(void **state)
{
    nx_bytes text = {"last words", 10};
    const nx_quic_link *leaver;
    nxt_peer p, *other;
    nxt_timed t;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    other = &t.c.at[1].accepted[0];
    leaver = nx_list_entry(other->link, nx_quic_link, base);
    assert_int_equal(nx_link_send_frame(other->link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nxt_timed_pass(&t, NXT_SECOND_NS / 10);
    assert_true(nx_sendq_empty(&leaver->sendq)); /* everything was acknowledged: the BYE is next */
    nxt_timed_deafen(&t, 0);
    nx_link_close(other->link, true);
    nxt_timed_pass(&t, NXT_SECOND_NS / 10);
    assert_true(leaver->said_bye);
    assert_false(nx_list_entry(p.link, nx_quic_link, base)->peer_bye);
    end_process(&t, &p);
    assert_int_equal(p.frames, 1);
    assert_int_equal(p.ended, NX_END_LEFT);
    close_deaf(&t);
}

static void test_what_was_on_its_way_to_it_is_lost(void **state)
{
    nx_bytes bytes = {many, MANY};
    nx_tx tx = {.id = 1, .len = MANY, .bytes = &bytes, .nbytes = 1};
    nxt_peer p, *other;
    nxt_timed t;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_link(&t, &p);
    other = &t.c.at[1].accepted[0];
    assert_int_equal(nx_link_send_part(p.link, &tx), NEXAR_OK);
    nxt_timed_until(&t, other->bytes > 0, NXT_SECOND_NS);
    nxt_timed_deafen(&t, 0);
    assert_int_equal(p.sent, 0);
    end_process(&t, &p);
    assert_int_equal(p.sent, 1);
    assert_int_equal(p.sent_failed, 1);
    assert_int_equal(p.ended, NX_END_GONE);
    close_deaf(&t);
}

static void test_a_link_that_was_not_up_yet_is_down(void **state)
{
    nx_bytes text = {"hello", 5};
    nxt_timed t;
    nxt_peer p;

    (void)state;
    nxt_timed_open(&t, 2);
    nxt_timed_deafen(&t, 0);
    nxt_dial(&t.c, 0, 1, &p);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    end_process(&t, &p);
    assert_false(p.up);
    assert_int_equal(p.ended, NX_END_GONE);
    close_deaf(&t);
}

/* Its last packet closed the connection: its exit adds nothing. */
static void test_a_close_that_was_not_heard_yet_is(void **state)
{
    nxt_peer p, *other;
    nxt_timed t;

    (void)state;
    open_deaf(&t, &p, &other);
    nx_link_close(other->link, false);
    nx_loop_kick(t.c.loop);
    end_process(&t, &p);
    assert_int_equal(p.ended, NX_END_GONE);
    assert_null(strstr(p.why, "process"));
    close_deaf(&t);
}

static void test_a_closed_link_does_not_wait_for_a_dead_peer(void **state)
{
    nx_bytes text = {"last words", 10};
    nxt_peer p, *other;
    uint64_t begin;
    nxt_timed t;

    (void)state;
    open_deaf(&t, &p, &other);
    nxt_timed_deafen(&t, 1);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_link_close(p.link, true);
    nxt_timed_pass(&t, NXT_SECOND_NS / 10);
    assert_int_equal(t.c.at[0].quic->closing, 1);
    begin = t.clock.ns;
    nx_quic_link_exited(p.link); /* it has not exited yet: so the link exists */
    nxt_timed_until(&t, t.c.at[0].quic->closing == 0, NXT_SECOND_NS);
    assert_true(t.clock.ns - begin < NXT_SECOND_NS / 10);
    close_deaf(&t);
}

static void test_other_connections_are_read_meanwhile_and_continue(void **state)
{
    nx_bytes text = {data, 1000};
    nxt_peer p, third, *other;
    nxt_timed t;

    (void)state;
    nxt_timed_open(&t, 3);
    nxt_timed_link(&t, &p);
    other = &t.c.at[1].accepted[0];
    nxt_dial(&t.c, 2, 0, &third);
    nxt_timed_until(&t, third.up && (t.c.at[0].naccepted == 1), NXT_SECOND_NS);
    nxt_timed_pass(&t, NXT_SECOND_NS / 10);
    nxt_timed_deafen(&t, 0);
    assert_int_equal(nx_link_send_frame(third.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    assert_int_equal(nx_link_send_frame(other->link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nx_loop_kick(t.c.loop);
    end_process(&t, &p);
    assert_int_equal(p.frames, 1);
    assert_int_equal(t.c.at[0].accepted[0].frames, 1);
    nxt_timed_undeafen(&t, 0);
    assert_int_equal(nx_link_send_frame(third.link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
    nxt_timed_until(&t, t.c.at[0].accepted[0].frames == 2, NXT_SECOND_NS);
    nxt_timed_undeafen(&t, 1);
    nxt_cluster_close(&t.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_sent_before_the_end_is_heard),
        cmocka_unit_test(test_a_rank_that_has_said_goodbye_has_left),
        cmocka_unit_test(test_what_was_on_its_way_to_it_is_lost),
        cmocka_unit_test(test_a_link_that_was_not_up_yet_is_down),
        cmocka_unit_test(test_a_close_that_was_not_heard_yet_is),
        cmocka_unit_test(test_a_closed_link_does_not_wait_for_a_dead_peer),
        cmocka_unit_test(test_other_connections_are_read_meanwhile_and_continue),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
