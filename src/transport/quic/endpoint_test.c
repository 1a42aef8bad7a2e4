/* endpoint_test.c - links between endpoints over real sockets on the loopback. */
#include "quic_pair.h"

static void test_a_frame_comes_back(void **state)
{
    nxt_cluster c;
    nxt_peer p;
    nx_bytes hello = {"hello", 5};

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[1].echo = true;
    nxt_dial(&c, 0, 1, &p);
    assert_int_equal(nx_link_send_frame(p.link, NX_LANE_MESSAGE, &hello, 1), NEXAR_OK);
    nxt_until(c.loop, p.frames == 1);
    assert_true(p.up);
    assert_int_equal(p.last_len, 5);
    assert_memory_equal(p.last, "hello", 5);
    assert_int_equal(c.at[1].accepted[0].member, 1);
    nxt_cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_comes_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
