/*
 * tcp_conformance_test.c [gnutls|mixed] - the suite of all transports, over real sockets on the
 * loopback: each end has an endpoint of its own, all on one loop. Records are sealed by nexar where
 * possible, by GnuTLS, or by GnuTLS at the dialling end.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/os/sys.h"
#include "conformance.h"
#include "quic_pair.h"
#include "tcp_inner.h"
#include "transport/quic/crypto/aead.h"

typedef struct end {
    nx_identity *identity;
    nx_tcp *tcp;
    const nx_link_up *up; /* of accepted links */
    void *up_ctx;
} end;

typedef struct world {
    nx_loop *loop;
    nx_authority *authority;
    end **ends;
    size_t n, room;
} world;

static const nx_job_id JOB = {{4, 2}};

/* Whether the dialling end, and the other, leaves its records to GnuTLS. */
static bool dial_by_gnutls, accept_by_gnutls;

static void *setup(void *ctx)
{
    static world w;

    (void)ctx;
    w = (world){0};
    assert_int_equal(nx_loop_create(&w.loop, &nx_clock_system), NEXAR_OK);
    assert_int_equal(nx_authority_create(&w.authority, &JOB), NEXAR_OK);
    nx_loop_lock(w.loop);
    return &w;
}

static void destroy_end(end *e)
{
    nx_tcp_close(e->tcp);
    nx_identity_destroy(e->identity);
    nx_free(e);
}

static void teardown(void *arg)
{
    world *w = arg;

    for (size_t i = 0; i < w->n; i++) {
        destroy_end(w->ends[i]);
    }
    nx_free(w->ends);
    nx_loop_unlock(w->loop);
    nx_loop_destroy(w->loop);
    nx_authority_destroy(w->authority);
}

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    end *e = ctx;

    (void)member;
    link->up = e->up;
    link->up_ctx = e->up_ctx;
}

static nexar_err make_end(world *w, uint64_t member, const nx_link_up *up, void *up_ctx)
{
    end **ends = nx_vec_grow(w->ends, &w->room, w->n + 1, sizeof(end *));
    end *e = nx_zalloc(sizeof(*e));
    nx_tcp_config config = {.loop = w->loop,
                            .idle_timeout_ns = UINT64_C(10000000000),
                            .handshake_timeout_ns = UINT64_C(5000000000),
                            .job = JOB,
                            .on_accept = on_accept,
                            .ctx = e};
    nexar_err err = NEXAR_ENOMEM;
    nx_der csr, cert;

    w->ends = (ends != NULL) ? ends : w->ends;
    if ((e == NULL) || (ends == NULL)) {
        nx_free(e);
        return err;
    }
    e->up = up;
    e->up_ctx = up_ctx;
    err = nx_identity_create(&e->identity);
    if (err == NEXAR_OK) {
        assert_int_equal(nx_identity_request(e->identity, &csr), NEXAR_OK);
        assert_int_equal(nx_authority_sign(w->authority, &csr, member, &cert), NEXAR_OK);
        assert_int_equal(nx_identity_adopt(e->identity, &cert, nx_authority_cert(w->authority)),
                         NEXAR_OK);
        config.identity = e->identity;
        err = nx_tcp_open(&e->tcp, &config);
    }
    if (err != NEXAR_OK) {
        destroy_end(e);
        return err;
    }
    w->ends[w->n++] = e;
    return NEXAR_OK;
}

/* The dialler has alternately the lower number, and decides, and the higher one. */
static nexar_err dial(void *arg, const nx_link_up *up, void *const up_ctx[2], nx_link **dialled)
{
    static uint64_t members;
    uint64_t first = (members % 4 == 0) ? 1 : 2;
    world *w = arg;
    struct sockaddr_storage address;
    nx_tcp_target target;
    nexar_err err = make_end(w, members + first, up, up_ctx[0]);

    if (err == NEXAR_OK) {
        err = make_end(w, members + 3 - first, up, up_ctx[1]);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    address = nxt_loopback(nx_tcp_port(w->ends[w->n - 1]->tcp));
    target = (nx_tcp_target){.member = members + 3 - first, .addresses = &address, .n = 1};
    members += 2;
    nx_aead_choose(dial_by_gnutls ? NX_AEAD_GNUTLS : NX_AEAD_AUTO);
    err = nx_tcp_dial(w->ends[w->n - 2]->tcp, &target, up, up_ctx[0], dialled);
    nx_aead_choose(accept_by_gnutls ? NX_AEAD_GNUTLS : NX_AEAD_AUTO);
    return err;
}

static bool progress(void *arg, bool (*done)(void *done_arg), void *done_arg)
{
    world *w = arg;
    uint64_t end_ns = nx_loop_refresh(w->loop) + UINT64_C(60000000000);

    while (!done(done_arg)) {
        nx_event never = {0};
        uint64_t now_ns = nx_loop_refresh(w->loop);

        if (now_ns > end_ns) {
            return false;
        }
        (void)nx_loop_wait(w->loop, &never, now_ns + 1000000);
    }
    return true;
}

static void silence(int fd)
{
    int null_fd = nx_sys_open("/dev/null", O_RDWR, 0);

    assert_true(null_fd >= 0);
    assert_true(nx_sys_dup2(null_fd, fd) >= 0);
    (void)nx_sys_close(null_fd);
}

/* No upcall is made any more, and the kernel closes the sockets, as those of a killed process. */
static void kill_end(void *arg, nx_link *link)
{
    static const nx_link_up silent = {.on_sent = nx_link_sent_ignored};
    nx_tcp *tcp = nx_list_entry(link, nx_tcp_link, base)->t;
    world *w = arg;

    silence(tcp->listener.fd);
    nx_list_for_each (at, &tcp->conns) {
        silence(nx_list_entry(at, nx_tcp_conn, in_all)->fd.fd);
    }
    link->up = &silent;
    for (size_t i = 0; i < w->n; i++) {
        if (w->ends[i]->tcp == tcp) {
            destroy_end(w->ends[i]);
            w->ends[i] = w->ends[--w->n];
            return;
        }
    }
}

static void read_nothing(nx_fd *fd, uint32_t events)
{
    (void)fd;
    (void)events;
}

static void hold(void *arg, nx_link *link, bool held)
{
    static void (*on_ready)(nx_fd * fd, uint32_t events);
    nx_tcp_conn *c = nx_list_entry(link, nx_tcp_link, base)->used;
    const world *w = arg;

    assert_non_null(c);
    if (held) {
        on_ready = c->fd.on_ready;
    }
    c->fd.on_ready = held ? read_nothing : on_ready;
    assert_int_equal(nx_loop_fd_change(w->loop, &c->fd, held ? 0 : EPOLLIN), NEXAR_OK);
}

int main(int argc, char **argv)
{
    const nxt_transport_harness harness = {
        .name = "tcp",
        .setup = setup,
        .teardown = teardown,
        .dial = dial,
        .progress = progress,
        .kill = kill_end,
        .hold = hold,
        .links = 20,
        .huge = true,
        .oom_most = 0,
    };

    dial_by_gnutls = (argc > 1);
    accept_by_gnutls = (argc > 1) && (strcmp(argv[1], "gnutls") == 0);
    return nxt_transport_conformance(&harness);
}
