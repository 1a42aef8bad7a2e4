/*
 * mtu_test.c - interfaces of every MTU, in a network namespace of the test's own, by its loopback.
 * Skipped where namespaces are not permitted.
 */
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/alloc.h"
#include "quic_pair.h"
#include "transport/quic/ngtcp2_compat.h"

enum { BYTES = 16 << 20 };

static uint8_t *memory;

/* Whether the loopback of this namespace is up with |mtu| now. */
static bool set_mtu(int mtu)
{
    struct ifreq req = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok = false;

    if (fd >= 0) {
        req.ifr_mtu = mtu;
        ok = (ioctl(fd, SIOCSIFMTU, &req) == 0);
        req.ifr_flags = IFF_UP | IFF_RUNNING;
        ok = ok && (ioctl(fd, SIOCSIFFLAGS, &req) == 0);
        (void)close(fd);
    }
    return ok;
}

static void send_all(nxt_peer *p, nx_tx *tx, nx_bytes *b)
{
    *b = (nx_bytes){memory, BYTES};
    *tx = (nx_tx){.id = 1, .len = BYTES, .bytes = b, .nbytes = 1};
    assert_int_equal(nx_link_send_part(p->link, tx), NEXAR_OK);
}

static void test_datagrams_are_as_long_as_the_interface_allows(void **state)
{
    static const struct {
        int mtu;
        size_t datagram, by_0_12;
    } cases[] = {{1280, 1252, 1232},
                 {1499, 1471, 1444},
                 {1500, 1472, 1444},
                 {9000, 8972, 1444},
                 {65536, 61440, 61440}};

    if (*state == NULL) {
        skip();
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        nx_link_info info;
        nxt_cluster c;
        nxt_peer p;
        nx_bytes b;
        nx_tx tx;

        assert_true(set_mtu(cases[i].mtu));
        nxt_cluster_open(&c, 2);
        nxt_dial(&c, 0, 1, &p);
        nxt_until(c.loop, p.up && (c.at[1].naccepted == 1));
        send_all(&p, &tx, &b);
        nxt_until(c.loop, (p.sent == 1) && (c.at[1].accepted[0].bytes == BYTES));
        assert_true(c.at[1].accepted[0].sum == 2 * nxt_sum(0, memory, BYTES));
        p.link->ops->info(p.link, &info);
        assert_int_equal(info.mtu, NX_NG_IS_0_12 ? cases[i].by_0_12 : cases[i].datagram);
        nxt_cluster_close(&c);
    }
}

static void test_a_path_that_grows_narrow_is_followed(void **state)
{
    static const int wide[] = {9000, 65536};

    if (*state == NULL) {
        skip();
    }
    for (size_t i = 0; i < 2; i++) {
        nx_link_info info;
        nxt_cluster c;
        nxt_peer p;
        nx_bytes b;
        nx_tx tx;

        assert_true(set_mtu(wide[i]));
        nxt_cluster_open(&c, 2);
        nxt_dial(&c, 0, 1, &p);
        nxt_until(c.loop, p.up && (c.at[1].naccepted == 1));
        send_all(&p, &tx, &b);
        nxt_until(c.loop, c.at[1].accepted[0].bytes > BYTES / 4);
        assert_true(set_mtu(1400));
        nxt_until(c.loop, (p.sent == 1) && (c.at[1].accepted[0].bytes == BYTES));
        assert_int_equal(p.sent_failed, 0);
        p.link->ops->info(p.link, &info);
        assert_int_equal(info.mtu, 1372);
        nxt_cluster_close(&c);
    }
}

int main(void)
{
    static int allowed;
    void *state = ((unshare(CLONE_NEWNET) == 0) && set_mtu(1500)) ? &allowed : NULL;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_datagrams_are_as_long_as_the_interface_allows, state),
        cmocka_unit_test_prestate(test_a_path_that_grows_narrow_is_followed, state),
    };
    nx_random_seeded r;
    int failed;

    memory = nx_zalloc(BYTES);
    nx_random_seeded_init(&r, 1);
    nx_random_fill(&r.random, memory, BYTES);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    nx_free(memory);
    return failed;
}
