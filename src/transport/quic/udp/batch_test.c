/* batch_test.c - batches that the socket refuses now, or always: here the test decides. */
#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "quic_pair.h"
#include "transport/quic/conn/conn_impl.h"
#include "transport/quic/endpoint.h"

/* Sends by |fd| to |port| (0: any) fail with |code|, if |cut| only sends of several datagrams;
 * sends to |counted| are counted. */
static struct {
    int fd, code;
    bool cut;
    uint16_t port, counted;
    size_t count;
} net;

static bool is_cut(const struct msghdr *message)
{
    struct msghdr copy = *message; /* CMSG_NXTHDR requires a pointer that is not const */

    for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c != NULL; c = CMSG_NXTHDR(&copy, c)) {
        if ((c->cmsg_level == IPPROTO_UDP) && (c->cmsg_type == UDP_SEGMENT)) {
            return true;
        }
    }
    return false;
}

/* Instead of the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    const struct sockaddr_storage *to = message->msg_name;
    const uint16_t port = (to != NULL) ? nx_address_port(to) : 0;

    if ((net.code != 0) && (fd == net.fd) && ((net.port == 0) || (net.port == port)) &&
        (!net.cut || is_cut(message))) {
        errno = net.code;
        return -1;
    }
    net.count += (fd == net.fd) && (port == net.counted);
    return syscall(SYS_sendmsg, fd, message, flags);
}

static int teardown(void **state)
{
    (void)state;
    memset(&net, 0, sizeof(net));
    return 0;
}

static void send_bytes(nx_link *link, size_t len)
{
    static const uint8_t bytes[8000];
    const nx_bytes b = {bytes, len};

    assert_int_equal(nx_link_send_frame(link, NX_LANE_MESSAGE, &b, 1), NEXAR_OK);
}

static nx_conn *conn_of(nx_link *link)
{
    return nx_list_entry(link, nx_quic_link, base)->used->conn;
}

/* at[0] has links to the others, and has heard from each. */
static void open_links(nxt_cluster *c, nxt_peer *p, size_t n)
{
    nxt_cluster_open(c, n + 1);
    for (size_t i = 0; i < n; i++) {
        c->at[i + 1].echo = true;
        nxt_dial(c, 0, i + 1, &p[i]);
        send_bytes(p[i].link, 8);
    }
    for (size_t i = 0; i < n; i++) {
        nxt_until(c->loop, p[i].frames == 1);
    }
    net.fd = nx_udp_fd(c->at[0].quic->udp);
}

/* A short packet, whose send fails, and a longer one after it, which begins the next batch; then
 * another connection writes. */
static void test_the_remains_of_a_failed_episode_mislead_no_rank(void **state)
{
    nxt_cluster c;
    nxt_peer p[2];
    nx_conn *conn;

    (void)state;
    open_links(&c, p, 2);
    conn = conn_of(p[0].link);
    memset(conn->spare, 0, sizeof(conn->spare));
    conn->spare_len = 50;
    conn->spare_due = true;
    send_bytes(p[0].link, 4000);
    send_bytes(p[1].link, 8);
    net.port = nx_quic_port(c.at[1].quic);
    net.counted = nx_quic_port(c.at[2].quic);
    net.code = EPERM;
    nx_loop_kick(c.loop);
    assert_int_equal(net.count, 1);
    assert_int_equal(c.at[0].quic->out.len, 0);
    nxt_until(c.loop, p[1].frames == 2);
    net.code = 0;
    nxt_until(c.loop, p[0].frames == 2);
    nxt_cluster_close(&c);
}

/* Its owner may spin for long before it sleeps and the kernel reports the socket. */
static void test_a_spinning_thread_retries_a_full_socket(void **state)
{
    nxt_cluster c;
    nxt_peer p;
    nx_quic *q;

    (void)state;
    open_links(&c, &p, 1);
    q = c.at[0].quic;
    net.code = EAGAIN;
    send_bytes(p.link, 8);
    nx_loop_kick(c.loop);
    assert_true(q->blocked);
    (void)q->fd.on_spin(&q->fd);
    assert_true(q->blocked);
    assert_false(nx_list_empty(&q->stalled));
    net.code = 0;
    assert_true(q->fd.on_spin(&q->fd));
    assert_false(q->blocked);
    assert_true(nx_list_empty(&q->stalled));
    assert_int_equal(q->fd.events & EPOLLOUT, 0);
    nxt_until(c.loop, p.frames == 2);
    nxt_cluster_close(&c);
}

static void count_datagram(void *ctx, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    (void)path;
    (void)data;
    assert_int_equal(len, 1000);
    ++*(size_t *)ctx;
}

static void test_a_device_that_cannot_cut_is_given_single_datagrams(void **state)
{
    static const nx_udp_up up = {.on_datagram = count_datagram};
    static const uint8_t data[10000];
    struct sockaddr_storage listen = nxt_loopback(0);
    nx_udp_path path = {.remote = listen};
    nx_udp_features f;
    size_t came = 0;
    nx_udp *u;

    (void)state;
    assert_int_equal(nx_udp_open(&u, &listen, 0, 0, &up, &came), NEXAR_OK);
    nx_udp_get_features(u, &f);
    if (!f.gso) {
        nx_udp_close(u);
        skip();
    }
    nx_address_set_port(&path.remote, nx_udp_port(u));
    net.fd = nx_udp_fd(u);
    net.code = EIO;
    net.cut = true;
    net.counted = nx_udp_port(u);
    assert_int_equal(nx_udp_send(u, &path, data, sizeof(data), 1000), 0);
    assert_int_equal(net.count, 10);
    nx_udp_get_features(u, &f);
    assert_false(f.gso);
    net.code = 0;
    assert_int_equal(nx_udp_send(u, &path, data, sizeof(data), 1000), 0);
    assert_int_equal(net.count, 20); /* and is not asked again */
    while (came < 20) {
        assert_true(nx_udp_receive(u));
    }
    nx_udp_close(u);
}

/* A time read before the datagrams arrived would make round trips too short. */
typedef struct order {
    size_t batches, datagrams;
} order;

static void begin_batch(void *ctx)
{
    ((order *)ctx)->batches++;
}

static void note_datagram(void *ctx, const nx_udp_path *path, const uint8_t *data, size_t len)
{
    order *o = ctx;

    (void)path;
    (void)data;
    (void)len;
    assert_true(o->batches > 0);
    o->datagrams++;
}

static void test_the_owner_can_read_the_clock_before_a_batch_and_only_then(void **state)
{
    static const nx_udp_up up = {.on_batch = begin_batch, .on_datagram = note_datagram};
    struct sockaddr_storage listen = nxt_loopback(0);
    nx_udp_path path = {.remote = listen};
    order o = {0};
    nx_udp *u;

    (void)state;
    assert_int_equal(nx_udp_open(&u, &listen, 0, 0, &up, &o), NEXAR_OK);
    assert_false(nx_udp_receive(u));
    assert_int_equal(o.batches, 0);
    nx_address_set_port(&path.remote, nx_udp_port(u));
    for (size_t n = 1; n <= 3; n++) {
        assert_int_equal(nx_udp_send(u, &path, (const uint8_t *)"x", 1, 1), 0);
        while (!nx_udp_receive(u)) {
        }
        assert_int_equal(o.batches, n);
        assert_int_equal(o.datagrams, n);
    }
    assert_int_equal(nx_udp_drops(u), 0);
    nx_udp_close(u);
}

static void test_dropped_datagrams_are_counted(void **state)
{
    enum { MANY = 20000 };
    static const uint8_t data[1000];
    static const nx_udp_up up = {.on_datagram = count_datagram};
    struct sockaddr_storage listen = nxt_loopback(0);
    nx_udp_path path = {.remote = listen};
    const int small = 4096;
    size_t came = 0;
    nx_udp *u;

    (void)state;
    assert_int_equal(nx_udp_open(&u, &listen, 0, 0, &up, &came), NEXAR_OK);
    (void)setsockopt(nx_udp_fd(u), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    nx_address_set_port(&path.remote, nx_udp_port(u));
    for (int i = 0; (i < MANY) && (nx_udp_drops(u) == 0); i++) {
        (void)nx_udp_send(u, &path, data, sizeof(data), sizeof(data));
    }
    assert_true(nx_udp_drops(u) > 0);
    nx_udp_close(u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_the_remains_of_a_failed_episode_mislead_no_rank, teardown),
        cmocka_unit_test_teardown(test_a_spinning_thread_retries_a_full_socket, teardown),
        cmocka_unit_test_teardown(test_a_device_that_cannot_cut_is_given_single_datagrams,
                                  teardown),
        cmocka_unit_test(test_the_owner_can_read_the_clock_before_a_batch_and_only_then),
        cmocka_unit_test(test_dropped_datagrams_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
