/* inet_test.c - the choice between QUIC and TCP, on real sockets of the loopback. */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "quic_pair.h"
#include "transport/inet/pending_link.h"
#include "transport/quic/udp/address.h"

enum { PART = 300000, FRAMES = 20 };

static const nx_job_id JOB = {{7}};

typedef struct node {
    nx_inet *net;
    nx_identity *identity;
    nx_link *link;
    int ups, downs, moves, extra;
    int frames; /* arrived, in order */
    uint64_t bytes;
    size_t sents, cancelled;
    nexar_err err;
    nx_end ended;
    char why[NX_INET_WHY];
    nx_tx tx;
    nx_bytes stretch;
} node;

typedef struct pair {
    nx_loop *loop;
    nx_authority *authority;
    node at[2]; /* members 1 and 2 */
} pair;

static uint8_t part[PART];

/* ---- upcalls ------------------------------------------------------------------------- */

static void on_up(void *ctx, nx_link *link)
{
    node *n = ctx;

    assert_ptr_equal(n->link, link);
    n->ups++;
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    node *n = ctx;
    int number;

    assert_ptr_equal(n->link, link);
    assert_int_equal(lane, NX_LANE_MESSAGE);
    assert_int_equal(len, sizeof(number));
    memcpy(&number, data, len);
    assert_int_equal(number, n->frames);
    n->frames++;
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    node *n = ctx;

    assert_ptr_equal(n->link, link);
    assert_int_equal(id, 5);
    assert_int_equal(off, n->bytes);
    assert_memory_equal(data, part + off, len);
    n->bytes += len;
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    node *n = ctx;

    (void)link;
    assert_ptr_equal(tx, &n->tx);
    n->sents++;
    n->cancelled += (err != NEXAR_OK);
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    node *n = ctx;

    assert_ptr_equal(n->link, link);
    n->downs++;
    n->err = err;
    n->ended = link->ended;
    (void)snprintf(n->why, sizeof(n->why), "%s", why);
    nx_link_close(link, false);
    n->link = NULL;
}

static void on_moved(void *ctx, nx_link *link, nx_link *to)
{
    node *n = ctx;

    assert_ptr_equal(n->link, link);
    n->link = to;
    n->moves++;
}

static const nx_link_up up = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down,
                              .on_moved = on_moved};

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    node *n = ctx;

    (void)member;
    if (n->link != NULL) {
        n->extra++;
        nx_link_close(link, false);
        return;
    }
    n->link = link;
    link->up = &up;
    link->up_ctx = n;
}

/* ---- two endpoints --------------------------------------------------------------------- */

static void node_open(pair *p, int i, unsigned int allowed)
{
    node *n = &p->at[i];
    nx_inet_config config = {.quic = {.loop = p->loop,
                                      .random = &nx_random_system,
                                      .job = JOB,
                                      .on_accept = on_accept,
                                      .ctx = n},
                             .allowed = allowed};
    nx_der csr, cert;

    *n = (node){0};
    assert_int_equal(nx_identity_create(&n->identity), NEXAR_OK);
    assert_int_equal(nx_identity_request(n->identity, &csr), NEXAR_OK);
    assert_int_equal(nx_authority_sign(p->authority, &csr, (uint64_t)i + 1, &cert), NEXAR_OK);
    assert_int_equal(nx_identity_adopt(n->identity, &cert, nx_authority_cert(p->authority)),
                     NEXAR_OK);
    config.quic.identity = n->identity;
    assert_int_equal(nx_inet_open(&n->net, &config), NEXAR_OK);
}

static void pair_open(pair *p, unsigned int allowed_0, unsigned int allowed_1)
{
    for (size_t i = 0; i < PART; i++) {
        part[i] = (uint8_t)(i * 7 + i / 251);
    }
    assert_int_equal(nx_loop_create(&p->loop, &nx_clock_system), NEXAR_OK);
    assert_int_equal(nx_authority_create(&p->authority, &JOB), NEXAR_OK);
    nx_loop_lock(p->loop);
    node_open(p, 0, allowed_0);
    node_open(p, 1, allowed_1);
}

static void pair_close(pair *p)
{
    for (int i = 0; i < 2; i++) {
        nx_inet_close(p->at[i].net);
        nx_identity_destroy(p->at[i].identity);
    }
    nx_loop_unlock(p->loop);
    nx_loop_destroy(p->loop);
    nx_authority_destroy(p->authority);
}

static nexar_err dial(pair *p, int from)
{
    node *n = &p->at[from];
    const struct sockaddr_storage address = nxt_loopback(nx_inet_port(p->at[1 - from].net));
    const nx_quic_target target = {
        .member = (uint64_t)(1 - from) + 1, .addresses = &address, .n = 1};

    return nx_inet_dial(n->net, &target, &up, n, &n->link);
}

/* Frames and one part, before the link is up. */
static void queue(node *n)
{
    for (int i = 0; i < FRAMES; i++) {
        const nx_bytes bytes = {.ptr = &i, .len = sizeof(i)};

        assert_int_equal(nx_link_send_frame(n->link, NX_LANE_MESSAGE, &bytes, 1), NEXAR_OK);
    }
    n->stretch = (nx_bytes){.ptr = part, .len = PART};
    n->tx = (nx_tx){.id = 5, .len = PART, .bytes = &n->stretch, .nbytes = 1};
    assert_int_equal(nx_link_send_part(n->link, &n->tx), NEXAR_OK);
}

static bool has_all(const node *n)
{
    return (n->frames == FRAMES) && (n->bytes == PART);
}

static const char *name_of(const node *n)
{
    return (n->link == NULL) ? "none" : n->link->ops->name;
}

/* ---- tests -------------------------------------------------------------------------------- */

/* Member |from| dials, and its queued data arrives once over |transport|. */
static void one_dials(unsigned int allowed_0, unsigned int allowed_1, int from,
                      const char *transport)
{
    pair p;
    node *a = &p.at[from], *b = &p.at[1 - from];

    pair_open(&p, allowed_0, allowed_1);
    assert_int_equal(dial(&p, from), NEXAR_OK);
    queue(a);
    assert_string_equal(name_of(a), "network");
    nxt_until(p.loop, has_all(b) && (a->sents == 1));
    assert_string_equal(name_of(a), transport);
    assert_string_equal(name_of(b), transport);
    assert_int_equal(a->moves, 1);
    assert_int_equal(a->ups, 1);
    assert_int_equal(b->ups, 1);
    assert_int_equal(a->cancelled + (size_t)b->extra, 0);
    assert_int_equal(dial(&p, from), NEXAR_EINVAL);
    pair_close(&p);
}

static void test_udp_is_used_where_it_works(void **state)
{
    (void)state;
    one_dials(NX_INET_BOTH, NX_INET_BOTH, 0, "quic");
    one_dials(NX_INET_BOTH, NX_INET_BOTH, 1, "quic");
    one_dials(NX_INET_QUIC, NX_INET_BOTH, 0, "quic");
}

static void test_tcp_is_used_where_udp_does_not_work(void **state)
{
    (void)state;
    one_dials(NX_INET_BOTH, NX_INET_TCP, 0, "tcp");
    one_dials(NX_INET_BOTH, NX_INET_TCP, 1, "tcp");
    one_dials(NX_INET_TCP, NX_INET_BOTH, 0, "tcp");
    one_dials(NX_INET_TCP, NX_INET_TCP, 1, "tcp");
}

/* Both dial at the same time, over UDP and TCP: they agree on one connection. */
static void test_both_ends_use_the_same_connection(void **state)
{
    (void)state;
    for (int round = 0; round < 40; round++) {
        pair p;

        pair_open(&p, NX_INET_BOTH, NX_INET_BOTH);
        for (int i = 0; i < 2; i++) {
            p.at[i].net->udp_blocked = ((round >> i) % 2 == 0);
        }
        assert_int_equal(dial(&p, round / 4 % 2), NEXAR_OK);
        for (int turn = 0; turn < round / 8; turn++) {
            nx_event never = {0};

            (void)nx_loop_wait(p.loop, &never, nx_loop_refresh(p.loop) + 300000);
        }
        if (p.at[1 - round / 4 % 2].link == NULL) {
            assert_int_equal(dial(&p, 1 - round / 4 % 2), NEXAR_OK);
        }
        queue(&p.at[0]);
        queue(&p.at[1]);
        nxt_until(p.loop, has_all(&p.at[0]) && has_all(&p.at[1]) && (p.at[0].sents == 1) &&
                              (p.at[1].sents == 1));
        assert_string_equal(name_of(&p.at[0]), name_of(&p.at[1]));
        for (int i = 0; i < 2; i++) {
            assert_int_equal(p.at[i].ups, 1);
            assert_int_equal(p.at[i].downs + p.at[i].extra, 0);
        }
        pair_close(&p);
    }
}

static void test_a_link_that_is_closed_with_drain_sends_what_it_has(void **state)
{
    (void)state;
    for (unsigned int allowed = NX_INET_QUIC; allowed <= NX_INET_TCP; allowed++) {
        nx_event drained = {0};
        pair p;
        node *a = &p.at[0];

        pair_open(&p, NX_INET_BOTH, allowed);
        assert_int_equal(dial(&p, 0), NEXAR_OK);
        queue(a);
        nx_link_close(a->link, true);
        a->link = NULL;
        nx_inet_drain(a->net, 0, &drained);
        nxt_until(p.loop, has_all(&p.at[1]) && (a->sents == 1));
        assert_true(nx_loop_wait(p.loop, &drained, nx_loop_now(p.loop) + 10000000000U));
        assert_int_equal(a->moves + a->ups, 0);
        pair_close(&p);
    }
}

static void test_a_link_that_is_closed_gives_back_its_part(void **state)
{
    pair p;
    node *a = &p.at[0];

    (void)state;
    pair_open(&p, NX_INET_BOTH, NX_INET_BOTH);
    assert_int_equal(dial(&p, 0), NEXAR_OK);
    queue(a);
    nx_link_close(a->link, false);
    a->link = NULL;
    nxt_until(p.loop, a->sents == 1);
    assert_int_equal(a->cancelled, 1);
    assert_int_equal(dial(&p, 0), NEXAR_OK); /* there is room for another */
    nx_link_cancel_part(a->link, (queue(a), &a->tx));
    nxt_until(p.loop, (a->sents == 2) && (p.at[1].frames == FRAMES));
    assert_int_equal(p.at[1].bytes, 0);
    pair_close(&p);
}

/* The process has exited: neither port exists, and both hosts' kernels report it. */
static void test_a_peer_that_has_exited_is_detected(void **state)
{
    pair p;
    node *a = &p.at[0];
    struct sockaddr_storage address;
    nx_quic_target target = {.member = 2, .addresses = &address, .n = 1};

    (void)state;
    pair_open(&p, NX_INET_BOTH, NX_INET_BOTH);
    address = nxt_loopback(nx_inet_port(p.at[1].net));
    nx_inet_close(p.at[1].net);
    p.at[1].net = NULL;
    assert_int_equal(nx_inet_dial(a->net, &target, &up, a, &a->link), NEXAR_OK);
    nxt_until(p.loop, a->downs == 1);
    assert_int_equal(a->err, NEXAR_ECONNECT);
    assert_int_equal(a->ended, NX_END_GONE);
    assert_non_null(strstr(a->why, "no process listens there"));
    pair_close(&p);
}

/* Sockets that are bound and do not answer: the kernel completes TCP to a listening socket. */
static void test_silence_over_both_is_reported_within_seconds(void **state)
{
    int udp = nx_sys_socket(AF_INET, SOCK_DGRAM, 0), tcp = nx_sys_socket(AF_INET, SOCK_STREAM, 0);
    int filler[2] = {-1, -1};
    struct sockaddr_storage address = nxt_loopback(0);
    socklen_t len = sizeof(address);
    pair p;
    node *a = &p.at[0];
    nx_quic_target target = {.member = 2, .addresses = &address, .n = 1};

    (void)state;
    assert_int_equal(bind(udp, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(getsockname(udp, (struct sockaddr *)&address, &len), 0);
    assert_int_equal(bind(tcp, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listen(tcp, 0), 0);
    for (int i = 0; i < 2; i++) { /* its backlog is full: the kernel ignores later callers */
        filler[i] = nx_sys_socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(filler[i], (struct sockaddr *)&address, sizeof(struct sockaddr_in));
    }
    pair_open(&p, NX_INET_BOTH, NX_INET_BOTH);
    assert_int_equal(nx_inet_dial(a->net, &target, &up, a, &a->link), NEXAR_OK);
    nxt_until(p.loop, a->downs == 1);
    assert_int_equal(a->err, NEXAR_ECONNECT);
    assert_int_equal(a->ended, NX_END_LOST);
    assert_non_null(strstr(a->why, "no answer over UDP or TCP"));
    assert_non_null(strstr(a->why, "firewall"));
    pair_close(&p);
    for (int i = 0; i < 2; i++) {
        (void)nx_sys_close(filler[i]);
    }
    (void)nx_sys_close(tcp);
    (void)nx_sys_close(udp);
}

static void test_a_port_that_tcp_cannot_have_is_used_for_udp_alone(void **state)
{
    const int tcp = nx_sys_socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_storage address = nxt_loopback(0);
    socklen_t len = sizeof(address);
    nx_inet_config config = {.quic = {.random = &nx_random_system}};
    nx_inet *net;
    pair p;

    (void)state;
    assert_int_equal(bind(tcp, (struct sockaddr *)&address, sizeof(struct sockaddr_in)), 0);
    assert_int_equal(listen(tcp, 1), 0);
    assert_int_equal(getsockname(tcp, (struct sockaddr *)&address, &len), 0);
    pair_open(&p, NX_INET_BOTH, NX_INET_BOTH);
    config.quic.loop = p.loop;
    config.quic.port_first = nx_address_port(&address);
    assert_int_equal(nx_inet_open(&net, &config), NEXAR_OK);
    assert_int_equal(nx_inet_port(net), nx_address_port(&address));
    assert_null(net->tcp);
    nx_inet_close(net);
    pair_close(&p);
    (void)nx_sys_close(tcp);
}

/* Dials while allocation |n| fails; returns whether one did. */
static bool dial_without_memory(long n)
{
    pair p;
    node *a = &p.at[0];
    nexar_err err;
    bool failed;

    pair_open(&p, NX_INET_BOTH, NX_INET_TCP);
    nx_alloc_fail_after(n);
    err = dial(&p, 0);
    if (err == NEXAR_OK) {
        nxt_until(p.loop, (a->ups == 1) || (a->downs == 1));
    } else {
        assert_int_equal(err, NEXAR_ENOMEM);
    }
    failed = nx_alloc_failed();
    nx_alloc_fail_after(-1);
    pair_close(&p);
    return failed;
}

static void test_dialling_survives_any_allocation_that_fails(void **state)
{
    long n = 0;

    (void)state;
    while (dial_without_memory(n)) {
        n++;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_udp_is_used_where_it_works),
        cmocka_unit_test(test_tcp_is_used_where_udp_does_not_work),
        cmocka_unit_test(test_both_ends_use_the_same_connection),
        cmocka_unit_test(test_a_link_that_is_closed_with_drain_sends_what_it_has),
        cmocka_unit_test(test_a_link_that_is_closed_gives_back_its_part),
        cmocka_unit_test(test_a_peer_that_has_exited_is_detected),
        cmocka_unit_test(test_silence_over_both_is_reported_within_seconds),
        cmocka_unit_test(test_a_port_that_tcp_cannot_have_is_used_for_udp_alone),
        cmocka_unit_test(test_dialling_survives_any_allocation_that_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
