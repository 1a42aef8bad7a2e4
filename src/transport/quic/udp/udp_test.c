/* udp_test.c - the socket: datagrams arrive, by whatever calls the kernel has
 * (tests/udp_limits_test.sh also runs this where the kernel refuses some); the meaning of
 * errors. */
#include "udp.h"

#include <string.h>

#include "address.h"
#include "quic_pair.h"

enum { SEGMENT = 1000, SEGMENTS = 60, LAST = 7 };

static size_t came;
static bool numbered; /* each begins with its number, and the last of SEGMENTS is short */

static void on_datagram(void *ctx, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    (void)ctx;
    (void)path;
    if (numbered) {
        assert_int_equal(data[0], came % SEGMENTS);
        assert_int_equal(len, (came % SEGMENTS == SEGMENTS - 1) ? LAST : SEGMENT);
    } else {
        assert_int_equal(len, SEGMENT);
    }
    came++;
}

static void on_unreachable(void *ctx, const nx_udp_refusal *r)
{
    (void)ctx;
    (void)r;
}

static const nx_udp_up UP = {.on_datagram = on_datagram, .on_unreachable = on_unreachable};

static nx_udp *open_at(const struct sockaddr_storage *listen, nx_udp_path *path)
{
    nx_udp *u = NULL;

    if (nx_udp_open(&u, listen, 0, 0, &UP, NULL) != NEXAR_OK) {
        skip(); /* a host without IPv6 */
    }
    *path = (nx_udp_path){.remote = *listen};
    nx_address_set_port(&path->remote, nx_udp_port(u));
    return u;
}

static bool has_gso(const nx_udp *u)
{
    nx_udp_features f;

    nx_udp_get_features(u, &f);
    return f.gso;
}

static void receive(nx_udp *u, size_t n)
{
    came = 0;
    while (came < n) { /* on the loopback they have arrived */
        assert_true(nx_udp_receive(u));
    }
}

static void test_datagrams_of_one_send_arrive_apart(void **state)
{
    static const uint8_t data[10000];
    struct sockaddr_storage listen = nxt_loopback(0);
    nx_udp_path path;
    nx_udp *u = open_at(&listen, &path);

    (void)state;
    assert_int_equal(nx_udp_send(u, &path, data, sizeof(data), 1000), 0);
    receive(u, 10);
    nx_udp_close(u);
}

/* In large sends and small ones, which arrive in large reads and small ones. */
static void test_datagrams_arrive_whole_and_in_order(void **state)
{
    static uint8_t data[(SEGMENTS - 1) * SEGMENT + LAST];
    struct sockaddr_storage listen = nxt_loopback(0);
    nx_udp_path path;
    nx_udp *u = open_at(&listen, &path);

    (void)state;
    numbered = true;
    for (size_t i = 0; i < SEGMENTS; i++) {
        data[i * SEGMENT] = (uint8_t)i;
    }
    for (size_t sends = 1; sends <= 20; sends++) {
        for (size_t i = 0; i < sends; i++) {
            size_t cut = (i % 3) * (SEGMENTS / 3) * SEGMENT;

            if (cut > 0) {
                assert_int_equal(nx_udp_send(u, &path, data, cut, SEGMENT), 0);
            }
            assert_int_equal(nx_udp_send(u, &path, data + cut, sizeof(data) - cut, SEGMENT), 0);
        }
        receive(u, sends * SEGMENTS);
        assert_int_equal(came, sends * SEGMENTS);
        assert_false(nx_udp_receive(u));
    }
    numbered = false;
    nx_udp_close(u);
}

/* An interface that disappears takes its address with it: no reason to send single datagrams
 * instead of large batches permanently. */
static void test_a_source_that_is_gone_leaves_batches_on(void **state)
{
    static const uint8_t data[10000];
    static const uint8_t gone[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 7};
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_storage listen = {0};
    nx_udp_path path;
    nx_udp *u;
    bool had;

    (void)state;
    memcpy(&listen, &loopback, sizeof(loopback));
    u = open_at(&listen, &path);
    had = has_gso(u);
    path.has_source = true;
    memcpy(&path.source, gone, sizeof(gone));
    assert_int_not_equal(nx_udp_send(u, &path, data, sizeof(data), 1000), 0);
    assert_int_equal(has_gso(u), had);
    path.has_source = false;
    assert_int_equal(nx_udp_send(u, &path, data, sizeof(data), 1000), 0);
    receive(u, 10);
    nx_udp_close(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_datagrams_of_one_send_arrive_apart),
        cmocka_unit_test(test_datagrams_arrive_whole_and_in_order),
        cmocka_unit_test(test_a_source_that_is_gone_leaves_batches_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
