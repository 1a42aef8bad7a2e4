/*
 * roam_test.c - links whose addresses stop working, in virtual time: between two endpoints there
 * are two relays, each of them a path with an address at either end.
 */
#include <errno.h>
#include <unistd.h>

#include "quic_time.h"
#include "sanitized.h"
#include "transport/quic/udp/address.h"

enum { PATHS = 2, PARTS = 6, PART = 1 << 20, PACKET = 65536 };

typedef struct relay {
    int front, back;                           /* the side to the dialler, and the other side */
    struct sockaddr_storage front_at, back_at; /* their addresses */
    struct sockaddr_storage dialler;           /* the destination of packets from |back| */
    bool cut_there, cut_back;                  /* swallows it */
} relay;

typedef struct net {
    nxt_timed t;
    relay path[PATHS];
    nxt_peer p, *other; /* the dialler's end, and the other */
    int mocker; /* copies everything to the acceptor before the original arrives; -1: none */
    nx_tx tx[2][PARTS];
    uint64_t bytes, sum; /* received by each side */
    uint8_t last[64];    /* the first bytes of the dialler's last packet */
} net;

static uint8_t data[PART];
static const nx_bytes whole = {data, PART};

static int open_socket(struct sockaddr_storage *bound)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), size = 8 << 20;
    socklen_t len = sizeof(*bound);

    assert_true(fd >= 0);
    *bound = nxt_loopback(0);
    assert_int_equal(bind(fd, (struct sockaddr *)bound, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)bound, &len), 0);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    return fd;
}

static void send_to(int fd, const uint8_t *packet, ssize_t n, const struct sockaddr_storage *to)
{
    (void)!sendto(fd, packet, (size_t)n, 0, (const struct sockaddr *)to,
                  sizeof(struct sockaddr_in));
}

/* Whether a packet was read from |fd|; errors about other packets are ignored. */
static bool take(int fd, uint8_t *packet, ssize_t *n, struct sockaddr_storage *from)
{
    socklen_t len = sizeof(*from);

    do {
        *n = recvfrom(fd, packet, PACKET, 0, (struct sockaddr *)from, &len);
    } while ((*n < 0) && (errno == ECONNREFUSED));
    return *n > 0;
}

static void pass_on(nxt_timed *t)
{
    struct sockaddr_storage to = nxt_loopback(nx_quic_port(t->c.at[1].quic)), from;
    static uint8_t packet[PACKET];
    net *w = t->ctx;
    ssize_t n;

    for (relay *r = w->path; r < w->path + PATHS; r++) {
        while ((r->front >= 0) && take(r->front, packet, &n, &from)) {
            memcpy(w->last, packet, sizeof(w->last));
            if ((w->mocker >= 0) && !r->cut_there) {
                send_to(w->mocker, packet, n, &to);
            }
            if (!r->cut_there) {
                send_to(r->back, packet, n, &to);
            }
        }
        while (take(r->back, packet, &n, &from)) {
            if (!r->cut_back && (r->front >= 0)) {
                send_to(r->front, packet, n, &r->dialler);
            }
        }
    }
}

/* A link over the first path; both ends know both paths. */
static void open_net(net *w)
{
    struct sockaddr_storage addresses[PATHS];
    nx_quic_target target = {.member = 2, .addresses = addresses, .n = PATHS};

    *w = (net){.mocker = -1};
    nxt_timed_open(&w->t, 2);
    w->t.c.at[0].quic->far = w->t.c.at[1].quic->far = true;
    for (relay *r = w->path; r < w->path + PATHS; r++) {
        r->front = open_socket(&r->front_at);
        r->back = open_socket(&r->back_at);
        r->dialler = nxt_loopback(nx_quic_port(w->t.c.at[0].quic));
        addresses[r - w->path] = r->front_at;
    }
    w->t.between = pass_on;
    w->t.ctx = w;
    w->p = (nxt_peer){.member = 2};
    assert_int_equal(nx_quic_dial(w->t.c.at[0].quic, &target, &NXT_UP, &w->p, &w->p.link),
                     NEXAR_OK);
    w->other = &w->t.c.at[1].accepted[0];
    nxt_timed_until(&w->t, w->p.up && w->other->up, 5 * NXT_SECOND_NS);
    for (size_t i = 0; i < PATHS; i++) {
        addresses[i] = w->path[i].back_at;
    }
    assert_int_equal(nx_quic_link_know(w->other->link, addresses, PATHS), NEXAR_OK);
    nxt_timed_pass(&w->t, NXT_SECOND_NS / 2);
}

static void close_net(net *w)
{
    w->t.between = NULL;
    nxt_cluster_close(&w->t.c);
    for (relay *r = w->path; r < w->path + PATHS; r++) {
        (void)close(r->front);
        (void)close(r->back);
    }
    if (w->mocker >= 0) {
        (void)close(w->mocker);
    }
}

static void cut(net *w, size_t i, bool there, bool back)
{
    w->path[i].cut_there = there;
    w->path[i].cut_back = back;
}

/* |n| parts from the dialler (0) or to it (1). */
static void send_parts(net *w, int from, size_t n)
{
    nx_link *link = (from == 0) ? w->p.link : w->other->link;

    for (size_t i = 0; i < n; i++) {
        w->tx[from][i] = (nx_tx){.id = i, .len = PART, .bytes = &whole, .nbytes = 1};
        assert_int_equal(nx_link_send_part(link, &w->tx[from][i]), NEXAR_OK);
        w->bytes += (from == 0) ? PART : 0;
        w->sum += (from == 0) ? (i + 1) * nxt_sum(0, data, PART) : 0;
    }
}

static void say(nx_link *link)
{
    nx_bytes text = {"hello", 5};

    assert_int_equal(nx_link_send_frame(link, NX_LANE_MESSAGE, &text, 1), NEXAR_OK);
}

static bool is_at(const nx_link *link, const struct sockaddr_storage *address)
{
    struct sockaddr_storage at;
    nx_link_info info;
    char text[NX_ADDRESS_TEXT];

    nx_quic_link_address(link, &at);
    link->ops->info(link, &info);
    assert_string_equal(info.remote, nx_address_text(&at, text));
    return nx_address_equal(&at, address);
}

static bool is_by(const net *w, size_t i)
{
    return is_at(w->p.link, &w->path[i].front_at) && is_at(w->other->link, &w->path[i].back_at);
}

static void test_a_link_migrates_to_another_path(void **state)
{
    net w;

    (void)state;
    open_net(&w);
    assert_true(is_by(&w, 0));
    for (size_t turn = 0; turn < 6; turn++) {
        const size_t gone = turn % PATHS;
        uint64_t begin;

        w.p = (nxt_peer){.link = w.p.link, .up = true};
        *w.other = (nxt_peer){.link = w.other->link, .up = true};
        w.bytes = w.sum = 0;
        send_parts(&w, 0, PARTS);
        send_parts(&w, 1, PARTS);
        nxt_timed_until(&w.t, (w.other->bytes > PART) && (w.p.bytes > PART), 5 * NXT_SECOND_NS);
        cut(&w, gone, true, true); /* permanently, as far as it can tell */
        begin = w.t.clock.ns;
        nxt_timed_until(&w.t, is_by(&w, 1 - gone), 2 * NXT_SECOND_NS);
        print_message("the other path is in use after %.0f ms\n",
                      (double)(w.t.clock.ns - begin) / 1e6);
        nxt_timed_until(&w.t, (w.p.sent == PARTS) && (w.other->sent == PARTS), 20 * NXT_SECOND_NS);
        assert_int_equal(w.p.sent_failed + w.other->sent_failed, 0);
        assert_true((w.p.bytes == w.bytes) && (w.other->bytes == w.bytes));
        assert_true((w.p.sum == w.sum) && (w.other->sum == w.sum));
        cut(&w, gone, false, false);
        nxt_timed_pass(&w.t, NXT_SECOND_NS);
        assert_true(is_by(&w, 1 - gone));
    }
    close_net(&w);
}

/* The acceptor has data to send, and the other side does not even know that the path has failed. */
static void test_an_acceptor_finds_the_dialler_too(void **state)
{
    net w;

    (void)state;
    for (int way = 0; way < 3; way++) {
        open_net(&w);
        cut(&w, 0, way != 1, way != 2);
        say(w.other->link);
        nxt_timed_until(&w.t, w.p.frames == 1, NXT_SECOND_NS);
        say(w.p.link);
        nxt_timed_until(&w.t, w.other->frames == 1, NXT_SECOND_NS);
        assert_false(w.p.down || w.other->down);
        close_net(&w);
    }
}

/* Like a router that forgets a port mapping. */
static void test_a_peer_whose_address_has_changed_is_followed(void **state)
{
    relay *r;
    net w;

    (void)state;
    open_net(&w);
    r = &w.path[0];
    (void)close(r->back);
    r->back = open_socket(&r->back_at);
    nxt_timed_pass(&w.t, NXT_SECOND_NS);
    say(w.p.link);
    nxt_timed_until(&w.t, w.other->frames == 1, NXT_SECOND_NS);
    nxt_timed_until(&w.t, is_at(w.other->link, &r->back_at), NXT_SECOND_NS);
    say(w.other->link);
    nxt_timed_until(&w.t, w.p.frames == 1, NXT_SECOND_NS);
    close_net(&w);
}

/* Its host reports that nothing listens at the old address, and the peer lives at the other. */
static void test_a_refusal_does_not_end_a_peer_that_answers_elsewhere(void **state)
{
    net w;

    (void)state;
    open_net(&w);
    (void)close(w.path[0].front);
    w.path[0].front = -1;
    say(w.p.link);
    nxt_timed_until(&w.t, (w.other->frames == 1) && is_by(&w, 1), 2 * NXT_SECOND_NS);
    nxt_timed_pass(&w.t, NXT_SECOND_NS);
    assert_false(w.p.down || w.other->down);
    close_net(&w);
}

static void test_replayed_packets_migrate_no_connection(void **state)
{
    struct sockaddr_storage at;
    net w;

    (void)state;
    open_net(&w);
    w.mocker = open_socket(&at);
    send_parts(&w, 0, PARTS);
    for (int i = 0; i < 50; i++) {
        say(w.p.link);
        nxt_timed_pass(&w.t, NXT_SECOND_NS / 100);
        assert_true(is_by(&w, 0));
    }
    nxt_timed_until(&w.t, w.p.sent == PARTS, 20 * NXT_SECOND_NS);
    assert_true((w.other->bytes == w.bytes) && (w.other->sum == w.sum));
    close_net(&w);
}

/* A refusal counts only if it quotes a packet that was sent. */
static void test_a_forged_refusal_ends_nothing(void **state)
{
    nx_udp_refusal forged = {.code = ECONNREFUSED, .sent = data, .len = 64};
    nx_conn_io *k;
    net w;

    (void)state;
    open_net(&w);
    k = nx_list_entry(w.p.link, nx_quic_link, base)->used;
    for (int i = 0; i < 50; i++) {
        nx_conn_io_unreachable(k, &forged);
        nx_conn_io_unreachable(k, &(nx_udp_refusal){.code = EHOSTUNREACH});
        nx_conn_io_unreachable(k, &(nx_udp_refusal){.code = EACCES});
        nxt_timed_pass(&w.t, NXT_SECOND_NS / 50);
    }
    assert_false(w.p.down);
    say(w.p.link);
    nxt_timed_until(&w.t, w.other->frames == 1, NXT_SECOND_NS);
    close_net(&w);
}

/* The dialler's host receives one ICMP error: the last packet found no process. */
static void refuse_once(net *w)
{
    nx_conn_io *k = nx_list_entry(w->p.link, nx_quic_link, base)->used;

    nx_conn_io_unreachable(
        k, &(nx_udp_refusal){.code = ECONNREFUSED, .sent = w->last, .len = sizeof(w->last)});
}

/* A host that has sent many refusals sends no more for a second. */
static void test_one_refusal_and_then_silence_end_a_peer(void **state)
{
    uint64_t begin;
    net w;

    (void)state;
    open_net(&w);
    cut(&w, 0, true, true);
    cut(&w, 1, true, true);
    say(w.p.link);
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 100);
    refuse_once(&w);
    begin = w.t.clock.ns;
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 5);
    assert_false(w.p.down);
    nxt_timed_until(&w.t, w.p.down, NXT_SECOND_NS);
    assert_true(w.t.clock.ns - begin < NXT_SECOND_NS / 2);
    assert_int_equal(w.p.err, NEXAR_EPEER);
    close_net(&w);
}

/* Unsealed bytes from the peer's address are no answer. */
static void test_garbage_is_no_sign_of_life(void **state)
{
    nx_conn_io *k;
    net w;

    (void)state;
    open_net(&w);
    k = nx_list_entry(w.p.link, nx_quic_link, base)->used;
    cut(&w, 0, true, true);
    cut(&w, 1, true, true);
    say(w.p.link);
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 100);
    refuse_once(&w);
    for (int i = 0; (i < 100) && !w.p.down; i++) {
        nx_conn_io_read(k, &k->path, data, 64, w.t.clock.ns);
        nxt_timed_pass(&w.t, NXT_SECOND_NS / 100);
    }
    assert_true(w.p.down);
    assert_int_equal(w.p.err, NEXAR_EPEER);
    close_net(&w);
}

static void test_one_icmp_error_does_not_end_a_peer_that_answers(void **state)
{
    net w;

    (void)state;
    open_net(&w);
    cut(&w, 0, true, true); /* the path does not work, at first */
    cut(&w, 1, true, true);
    say(w.p.link);
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 100);
    refuse_once(&w);
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 5);
    cut(&w, 1, false, false);
    nxt_timed_until(&w.t, w.other->frames == 1, NXT_SECOND_NS);
    nxt_timed_pass(&w.t, NXT_SECOND_NS);
    refuse_once(&w); /* and there is no packet to refuse; later it delays its refusals */
    nxt_timed_pass(&w.t, NXT_SECOND_NS);
    cut(&w, 1, true, true);
    say(w.p.link);
    nxt_timed_pass(&w.t, NXT_SECOND_NS / 2);
    cut(&w, 1, false, false);
    nxt_timed_until(&w.t, w.other->frames == 2, NXT_SECOND_NS);
    assert_false(w.p.down || w.other->down);
    close_net(&w);
}

/* Either path, or both, cut and restored, in one or both directions, at any time. */
static void test_paths_that_come_and_go_lose_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= (NXT_SANITIZED ? 3u : 10u); seed++) {
        nx_random_seeded random;
        size_t frames = 0;
        net w;

        nx_random_seeded_init(&random, seed);
        open_net(&w);
        send_parts(&w, 0, PARTS);
        send_parts(&w, 1, PARTS);
        for (int i = 0; i < 12; i++) {
            const uint64_t r = nx_random_below(&random.random, 256);

            cut(&w, 0, (r & 1) != 0, (r & 2) != 0);
            cut(&w, 1, (r & 4) != 0, (r & 8) != 0);
            say(w.p.link);
            say(w.other->link);
            frames++;
            nxt_timed_pass(&w.t, (1 + nx_random_below(&random.random, 2000)) * 1000000);
        }
        cut(&w, seed % PATHS, false, false);
        nxt_timed_until(&w.t, (w.p.sent == PARTS) && (w.other->sent == PARTS), 30 * NXT_SECOND_NS);
        nxt_timed_until(&w.t, (w.p.frames == frames) && (w.other->frames == frames),
                        5 * NXT_SECOND_NS);
        assert_true((w.p.bytes == w.bytes) && (w.other->bytes == w.bytes));
        assert_true((w.p.sum == w.sum) && (w.other->sum == w.sum));
        assert_false(w.p.down || w.other->down);
        close_net(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_link_migrates_to_another_path),
        cmocka_unit_test(test_an_acceptor_finds_the_dialler_too),
        cmocka_unit_test(test_a_peer_whose_address_has_changed_is_followed),
        cmocka_unit_test(test_a_refusal_does_not_end_a_peer_that_answers_elsewhere),
        cmocka_unit_test(test_replayed_packets_migrate_no_connection),
        cmocka_unit_test(test_a_forged_refusal_ends_nothing),
        cmocka_unit_test(test_one_refusal_and_then_silence_end_a_peer),
        cmocka_unit_test(test_garbage_is_no_sign_of_life),
        cmocka_unit_test(test_one_icmp_error_does_not_end_a_peer_that_answers),
        cmocka_unit_test(test_paths_that_come_and_go_lose_nothing),
    };
    nx_random_seeded r;

    nx_random_seeded_init(&r, 5);
    nx_random_fill(&r.random, data, sizeof(data));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
