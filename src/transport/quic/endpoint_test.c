/* endpoint_test.c - links between endpoints over real sockets on the loopback. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "oom.h"
#include "quic_pair.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

static void send_text(nx_link *link, const char *text)
{
    nx_bytes b = {text, strlen(text)};

    assert_int_equal(nx_link_send_frame(link, NX_LANE_MESSAGE, &b, 1), NEXAR_OK);
}

static void test_a_frame_comes_back(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    for (size_t from = 0; from < 2; from++) { /* the lower member dials, and the higher */
        nxt_cluster_open(&c, 2);
        c.at[1 - from].echo = true;
        nxt_dial(&c, from, 1 - from, &p);
        send_text(p.link, "hello");
        nxt_until(c.loop, p.frames == 1);
        assert_true(p.up);
        assert_int_equal(p.last_len, 5);
        assert_memory_equal(p.last, "hello", 5);
        assert_int_equal(c.at[1 - from].accepted[0].member, from + 1);
        nxt_cluster_close(&c);
    }
}

static void test_both_may_dial_at_once_and_share_one_link(void **state)
{
    nxt_cluster c;
    nxt_peer p[2];

    (void)state;
    nxt_cluster_open(&c, 2);
    for (int round = 0; round < 50; round++) {
        nx_event drained[2] = {{0}, {0}};

        for (size_t i = 0; i < 2; i++) {
            size_t who = (size_t)(round + (int)i) % 2;

            nxt_dial(&c, who, 1 - who, &p[who]);
            send_text(p[who].link, "x");
            if (round % 3 == 2) { /* the other side while this side's HELLO is in flight */
                nx_loop_kick(c.loop);
            }
        }
        nxt_until(c.loop, (p[0].frames == 1) && (p[1].frames == 1));
        assert_int_equal(c.at[0].naccepted + c.at[1].naccepted, 0);
        for (size_t i = 0; i < 2; i++) {
            nx_link_close(p[i].link, false);
            nx_quic_drain(c.at[i].quic, &drained[i]);
        }
        nxt_until(c.loop, drained[0].set && drained[1].set);
        nx_quic_drain(c.at[0].quic, NULL);
        nx_quic_drain(c.at[1].quic, NULL);
    }
    nxt_cluster_close(&c);
}

static void test_there_is_one_link_to_a_member(void **state)
{
    struct sockaddr_storage a = nxt_loopback(1);
    nx_quic_target target = {.member = 2, .addresses = &a, .n = 1};
    nxt_cluster c;
    nx_link *link;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    nxt_dial(&c, 0, 1, &p);
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &link), NEXAR_EINVAL);
    target.member = 1; /* itself */
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &link), NEXAR_EINVAL);
    target.n = 0;
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &link), NEXAR_EINVAL);
    nxt_cluster_close(&c);
}

/* Unreachable addresses before the right one cost little, and the right one is used: a port where
 * nothing listens, a socket that never answers, another family. */
static void test_addresses_are_raced(void **state)
{
    struct sockaddr_storage a[4], mute_address = nxt_loopback(0);
    nx_quic_target target = {.member = 2, .addresses = a, .n = 4};
    int mute = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = sizeof(mute_address);
    struct sockaddr_storage used;
    nxt_peer p = {0};
    nxt_cluster c;
    uint64_t begin;

    (void)state;
    nxt_cluster_open(&c, 2);
    assert_int_equal(bind(mute, (struct sockaddr *)&mute_address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(mute, (struct sockaddr *)&mute_address, &len), 0);
    a[0] = nxt_loopback(1);
    a[1] = mute_address;
    a[2] = (struct sockaddr_storage){.ss_family = AF_UNIX};
    a[3] = nxt_loopback(nx_quic_port(c.at[1].quic));
    begin = nx_loop_refresh(c.loop);
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.up);
    assert_true(nx_loop_refresh(c.loop) - begin < UINT64_C(5000000000));
    nx_quic_link_address(p.link, &used);
    assert_memory_equal(&used, &a[3], sizeof(struct sockaddr_in));
    nxt_cluster_close(&c);
    (void)close(mute);
}

static void test_a_dial_that_fails_names_every_address(void **state)
{
    struct sockaddr_storage a[2] = {nxt_loopback(1), nxt_loopback(2)};
    nx_quic_target target = {.member = 2, .addresses = a, .n = 2};
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nxt_cluster_open(&c, 1);
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_ECONNECT);
    assert_non_null(strstr(p.why, "127.0.0.1:1: "));
    assert_non_null(strstr(p.why, "127.0.0.1:2: "));
    assert_false(p.up);
    nxt_cluster_close(&c);
}

static void test_ipv6_works_where_there_is_any(void **state)
{
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_storage a = {0};
    nx_quic_target target = {.member = 2, .addresses = &a, .n = 1};
    nx_quic_features f;
    nx_link_info info;
    nxt_peer p = {0};
    nxt_cluster c;

    (void)state;
    nx_quic_features_probe(&f);
    assert_true(f.rcvbuf > 0);
    if (!f.ipv6 || (access("/proc/net/if_inet6", F_OK) != 0)) {
        skip();
    }
    nxt_cluster_open(&c, 2);
    six.sin6_port = htons(nx_quic_port(c.at[1].quic));
    memcpy(&a, &six, sizeof(six));
    assert_int_equal(nx_quic_dial(c.at[0].quic, &target, &NXT_UP, &p, &p.link), NEXAR_OK);
    nxt_until(c.loop, p.up);
    p.link->ops->info(p.link, &info);
    assert_non_null(strstr(info.remote, "[::1]:"));
    assert_non_null(strstr(info.local, "[::1]:"));
    assert_int_equal(info.mtu, NX_QUIC_SAME_HOST);
    nxt_cluster_close(&c);
}

static nx_conn_io *conn_io_of(nx_link *link)
{
    return nx_list_entry(link, nx_quic_link, base)->used;
}

/* Loses the connection of |p| silently, like a process that is restarted. */
static void forget(nxt_peer *p)
{
    nx_quic_link *link = nx_list_entry(p->link, nx_quic_link, base);
    nx_conn_io *k = link->used;

    nx_conn_kill(k->conn, NEXAR_EPEER, "lost by the test", true);
    nx_conn_io_close(k, NX_CLOSE_FAILED, "");
    nx_quic_link_down(link, NEXAR_EPEER, "lost by the test");
    nx_conn_io_destroy(k);
}

static void test_a_peer_that_has_forgotten_the_connection_resets_it(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    nxt_dial(&c, 0, 1, &p);
    send_text(p.link, "hello");
    nxt_until(c.loop, (c.at[1].naccepted == 1) && (c.at[1].accepted[0].frames == 1));
    forget(&c.at[1].accepted[0]);
    send_text(p.link, "a text that is long enough to be answered by a reset");
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EPEER);
    assert_non_null(strstr(p.why, "does not know"));
    nxt_cluster_close(&c);
}

/* A connection of |from|, to |to|, besides the connection in use: a late attempt. */
static void dial_beside(nxt_endpoint *from, nxt_endpoint *to, uint64_t member)
{
    const struct sockaddr_storage a = nxt_loopback(nx_quic_port(to->quic));
    const nx_tls_target target = {.member = member};
    nx_udp_path path = {0};
    nx_conn_io *k;

    assert_true(nx_address_for(&a, nx_udp_family(from->quic->udp), &path.remote));
    assert_int_equal(nx_conn_io_create(&k, from->quic, &path, &target, NULL, NULL), NEXAR_OK);
}

/* Whether the rival's time has passed at least once. */
static bool was_asked_again(const nx_quic_link *link)
{
    return link->asked_ns > link->rival_ns;
}

static void test_a_peer_that_is_busy_has_not_made_a_new_connection(void **state)
{
    nxt_cluster c;
    nxt_peer p;
    nx_quic_link *link;

    (void)state;
    nxt_cluster_open(&c, 2);
    nxt_dial(&c, 0, 1, &p); /* 0, the lower member, decides */
    send_text(p.link, "hello");
    nxt_until(c.loop, (c.at[1].naccepted == 1) && (c.at[1].accepted[0].frames == 1));
    link = nx_list_entry(p.link, nx_quic_link, base);
    do { /* the peer may have answered before it stops reading */
        const uint64_t before_ns = link->rival_ns;

        dial_beside(&c.at[1], &c.at[0], 1);
        nxt_until(c.loop, link->rival_ns > before_ns);
        nx_loop_fd_remove(c.loop, &c.at[1].quic->fd);
        nxt_until(c.loop, p.down || was_asked_again(link) ||
                              (nx_conn_last_ack(link->used->conn) >= link->rival_ns));
        assert_int_equal(nx_loop_fd_add(c.loop, &c.at[1].quic->fd, EPOLLIN), NEXAR_OK);
    } while (!p.down && !was_asked_again(link));
    assert_false(p.down);
    send_text(p.link, "again");
    nxt_until(c.loop, p.down || (c.at[1].accepted[0].frames == 2));
    assert_false(p.down);
    nxt_cluster_close(&c);
}

/* A side that has lost the connection may dial again immediately, on either side. */
static void test_a_peer_that_dials_again_replaces_its_link(void **state)
{
    (void)state;
    for (size_t from = 0; from < 2; from++) {
        nxt_cluster c;
        nxt_peer p, again;
        nxt_endpoint *other;

        nxt_cluster_open(&c, 2);
        other = &c.at[1 - from];
        nxt_dial(&c, from, 1 - from, &p);
        send_text(p.link, "hello");
        nxt_until(c.loop, (other->naccepted == 1) && (other->accepted[0].frames == 1));
        forget(&p);
        nxt_dial(&c, from, 1 - from, &again);
        send_text(again.link, "again");
        nxt_until(c.loop, (other->naccepted == 2) && (other->accepted[1].frames == 1));
        nxt_until(c.loop, other->accepted[0].down);
        assert_false(other->accepted[1].down);
        assert_false(again.down);
        nxt_cluster_close(&c);
    }
}

static void test_a_refused_link_goes_down_at_the_dialler(void **state)
{
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[1].refuse = true;
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.down);
    assert_int_equal(p.err, NEXAR_EPEER);
    nxt_cluster_close(&c);
}

/* Removes |dir|; returns the number of logs of dialled connections in it. */
static int remove_files(const char *dir)
{
    struct dirent *entry;
    DIR *d = opendir(dir);
    char path[512];
    int files = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        (void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
        files += (strstr(entry->d_name, "dialled.sqlog") != NULL) ? 1 : 0;
        (void)unlink(path);
    }
    (void)closedir(d);
    (void)rmdir(dir);
    return files;
}

static void test_qlog_files_are_written_on_request(void **state)
{
    char dir[] = "/tmp/nexar-qlog-XXXXXX";
    nx_quic_config config;
    nxt_cluster c;
    nxt_peer p;

    (void)state;
    assert_non_null(mkdtemp(dir));
    nxt_cluster_open(&c, 2);
    nx_quic_close(c.at[0].quic);
    config = nxt_config(&c, &c.at[0]);
    config.qlog_dir = dir;
    assert_int_equal(nx_quic_open(&c.at[0].quic, &config), NEXAR_OK);
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up);
    nxt_cluster_close(&c);
    assert_int_equal(remove_files(dir), 1);
}

static size_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    assert_non_null(d);
    while (readdir(d) != NULL) { /* NOLINT(concurrency-mt-unsafe) */
        n++;
    }
    (void)closedir(d);
    return n;
}

/* No peer exists; or, without memory, the dial fails earlier. */
static void dial_in_vain(nxt_cluster *c)
{
    struct sockaddr_storage a = nxt_loopback(9);
    nx_quic_target target = {.member = 2, .addresses = &a, .n = 1};
    nxt_peer p = {.member = 2};

    if (nx_quic_dial(c->at[0].quic, &target, &NXT_UP, &p, &p.link) == NEXAR_OK) {
        nxt_until(c->loop, p.down);
    }
}

/* A connection that cannot be created leaves no file open. */
static void test_a_connection_without_memory_leaves_no_descriptor(void **state)
{
    char dir[] = "/tmp/nexar-qlog-XXXXXX";
    nx_quic_config config;
    size_t before;
    nxt_cluster c;

    (void)state;
    assert_non_null(mkdtemp(dir));
    nxt_cluster_open(&c, 2);
    nx_quic_close(c.at[0].quic);
    config = nxt_config(&c, &c.at[0]);
    config.qlog_dir = dir;
    assert_int_equal(nx_quic_open(&c.at[0].quic, &config), NEXAR_OK);
    before = descriptors();
    NXT_FOR_EACH_OOM (n) {
        dial_in_vain(&c);
    }
    assert_int_equal(descriptors(), before);
    nxt_cluster_close(&c);
    assert_true(remove_files(dir) > 0);
}

static void test_a_port_that_is_taken_is_named(void **state)
{
    nxt_cluster c;
    nx_quic_config config;
    char port[16];
    nx_quic *q;

    (void)state;
    nxt_cluster_open(&c, 1);
    config = nxt_config(&c, &c.at[0]);
    config.port_first = config.port_last = nx_quic_port(c.at[0].quic);
    assert_int_equal(nx_quic_open(&q, &config), NEXAR_ESYS);
    (void)snprintf(port, sizeof(port), ":%u", config.port_first);
    assert_non_null(strstr(nexar_last_error(), port));
    config.port_last = (uint16_t)(config.port_first + 50); /* one of them is free */
    if (config.port_last > config.port_first) {
        assert_int_equal(nx_quic_open(&q, &config), NEXAR_OK);
        assert_true(nx_quic_port(q) > config.port_first);
        nx_quic_close(q);
    }
    nxt_cluster_close(&c);
}

static void test_a_socket_that_is_full_is_waited_for(void **state)
{
    nxt_cluster c;
    nxt_peer p;
    nx_quic *q;

    (void)state;
    nxt_cluster_open(&c, 2);
    c.at[1].echo = true;
    nxt_dial(&c, 0, 1, &p);
    nxt_until(c.loop, p.up);
    /* As if the last send had returned EAGAIN: a batch of nonsense is held back. */
    q = c.at[0].quic;
    q->out.len = q->out.segment = 100;
    q->out.path = conn_io_of(p.link)->path;
    q->blocked = true;
    assert_int_equal(nx_loop_fd_change(c.loop, &q->fd, EPOLLIN | EPOLLOUT), NEXAR_OK);
    send_text(p.link, "hello");
    nxt_until(c.loop, p.frames == 1);
    assert_false(q->blocked);
    nxt_cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_frame_comes_back),
        cmocka_unit_test(test_both_may_dial_at_once_and_share_one_link),
        cmocka_unit_test(test_there_is_one_link_to_a_member),
        cmocka_unit_test(test_addresses_are_raced),
        cmocka_unit_test(test_a_dial_that_fails_names_every_address),
        cmocka_unit_test(test_ipv6_works_where_there_is_any),
        cmocka_unit_test(test_a_peer_that_has_forgotten_the_connection_resets_it),
        cmocka_unit_test(test_a_peer_that_is_busy_has_not_made_a_new_connection),
        cmocka_unit_test(test_a_peer_that_dials_again_replaces_its_link),
        cmocka_unit_test(test_a_refused_link_goes_down_at_the_dialler),
        cmocka_unit_test(test_qlog_files_are_written_on_request),
        cmocka_unit_test(test_a_connection_without_memory_leaves_no_descriptor),
        cmocka_unit_test(test_a_port_that_is_taken_is_named),
        cmocka_unit_test(test_a_socket_that_is_full_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
