/* endpoint.c - the listening socket: accepts connections. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "tcp_inner.h"
#include "transport/quic/udp/address.h"

enum {
    HALF_OPEN_MOST = 256, /* accepted connections that no link uses yet */
    ACCEPTS_PER_TURN = 32,
    BACKLOG = 1024
};

static const uint64_t IDLE_NS = UINT64_C(30000000000);
static const uint64_t HANDSHAKE_NS = UINT64_C(10000000000);
/* Pause without accepting when the process has no free descriptor. */
static const uint64_t PAUSE_NS = UINT64_C(100000000);

/* ---- accepting ----------------------------------------------------------------------- */

/* With many unauthenticated connections, the oldest is closed: members authenticate within a few
 * round trips. */
static void make_room(nx_tcp *t)
{
    nx_list *at = t->conns.next; /* the oldest first */

    if (t->half_open < HALF_OPEN_MOST) {
        return;
    }
    while ((at != &t->conns) && !nx_list_entry(at, nx_tcp_conn, in_all)->half_open) {
        at = at->next;
    }
    if (at != &t->conns) {
        nx_tcp_conn *c = nx_list_entry(at, nx_tcp_conn, in_all);

        nx_tcp_conn_fail(c, NEXAR_ECONNECT, "the handshake takes too long, and others wait");
        nx_tcp_open_resolve_failed(c);
        nx_tcp_conn_destroy(c);
    }
}

static void let_in(nx_tcp *t, int fd)
{
    struct sockaddr_storage remote = {0}, plain = {0};
    socklen_t len = sizeof(remote);
    nx_tcp_conn *c;

    if (!nx_tls_can_accept(t->tls) || (getpeername(fd, (struct sockaddr *)&remote, &len) != 0)) {
        (void)nx_sys_close(fd);
        return;
    }
    nx_address_plain(&remote, &plain);
    make_room(t);
    if (nx_tcp_conn_create(&c, t, fd, &plain, NULL) != NEXAR_OK) {
        nx_log_limited(&t->refusals, nx_loop_now(t->config.loop), NX_LOG_WARN,
                       "tcp: a connection was not accepted: %s", nexar_last_error());
        (void)nx_sys_close(fd);
    }
}

/* No descriptor is left: the queue of the kernel waits. */
static void pause_accepting(nx_tcp *t, int code)
{
    nx_log_limited(&t->refusals, nx_loop_now(t->config.loop), NX_LOG_WARN,
                   "tcp: no connection is accepted for now: %s", strerrordesc_np(code));
    if (nx_loop_timer_set(t->config.loop, &t->pause, nx_loop_now(t->config.loop) + PAUSE_NS) ==
        NEXAR_OK) {
        (void)!nx_loop_fd_change(t->config.loop, &t->listener, 0);
    }
}

static void on_pause_over(nx_timer *self, uint64_t now_ns)
{
    nx_tcp *t = nx_list_entry(self, nx_tcp, pause);

    (void)now_ns;
    (void)!nx_loop_fd_change(t->config.loop, &t->listener, EPOLLIN);
}

static void on_ready(nx_fd *self, uint32_t events)
{
    nx_tcp *t = nx_list_entry(self, nx_tcp, listener);

    (void)events;
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        const int fd = nx_sys_accept(t->listener.fd);

        if (fd >= 0) {
            let_in(t, fd);
        } else {
            if (errno != EAGAIN) {
                pause_accepting(t, errno);
            }
            return;
        }
    }
}

/* Unknown peers do not justify a system call in each poll: the loop asks the kernel often
 * enough. */
static bool on_spin(nx_fd *self)
{
    (void)self;
    return false;
}

/* ---- life ---------------------------------------------------------------------------- */

static nexar_err make_tls(nx_tcp *t, const nx_identity *identity, const nx_job_id *job)
{
    const nx_tls_config c = {
        .authority = t->config.authority, .identity = identity, .job = *job, .alpn = t->alpn};
    nx_tls *tls;
    nexar_err err = nx_tls_create(&tls, &c);

    if (err == NEXAR_OK) {
        nx_tls_release(t->tls);
        t->tls = tls;
    }
    return err;
}

nexar_err nx_tcp_set_identity(nx_tcp *t, const nx_identity *identity, const nx_job_id *job)
{
    t->config.identity = identity;
    t->config.job = *job;
    return make_tls(t, identity, job);
}

static nexar_err listen_at(nx_tcp *t, struct sockaddr_storage address, bool both)
{
    const int on = 1, v6only = both ? 0 : 1;
    char text[NX_ADDRESS_TEXT];
    socklen_t len = sizeof(address);
    int fd, code;

    nx_address_set_port(&address, t->config.port);
    fd = nx_sys_socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return nx_fail_sys("socket", "", errno);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address.ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof(v6only));
    }
    if ((bind(fd, (const struct sockaddr *)&address, nx_address_len(&address)) != 0) ||
        (listen(fd, BACKLOG) != 0)) {
        code = errno;
        (void)nx_sys_close(fd);
        return nx_fail_sys("bind (TCP)", nx_address_text(&address, text), code);
    }
    (void)getsockname(fd, (struct sockaddr *)&address, &len);
    t->listener.fd = fd;
    t->port = nx_address_port(&address);
    return NEXAR_OK;
}

static nexar_err open_listener(nx_tcp *t)
{
    struct sockaddr_storage any = {.ss_family = AF_INET6};
    nexar_err err;

    t->listener = (nx_fd){.fd = -1, .on_ready = on_ready, .on_spin = on_spin};
    if (t->config.listen.ss_family != 0) {
        err = listen_at(t, t->config.listen, false);
    } else {
        err = listen_at(t, any, true);
        any.ss_family = AF_INET;
        err = (err == NEXAR_OK) ? err : listen_at(t, any, false); /* a host without IPv6 */
    }
    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_loop_fd_add(t->config.loop, &t->listener, EPOLLIN);
    if (err != NEXAR_OK) {
        (void)nx_sys_close(t->listener.fd);
    }
    return err;
}

nexar_err nx_tcp_open(nx_tcp **out, const nx_tcp_config *config)
{
    nx_tcp *t = nx_zalloc(sizeof(*t));
    nexar_err err;

    if (t == NULL) {
        return nx_fail_nomem("an endpoint");
    }
    t->config = *config;
    t->alpn = NX_ALPN;
    t->config.idle_timeout_ns = (config->idle_timeout_ns != 0) ? config->idle_timeout_ns : IDLE_NS;
    t->config.handshake_timeout_ns =
        (config->handshake_timeout_ns != 0) ? config->handshake_timeout_ns : HANDSHAKE_NS;
    t->pause.on_expire = on_pause_over;
    nx_list_init(&t->conns);
    nx_list_init(&t->links);
    t->in = nx_zalloc(NX_TCP_IN);
    if (t->in == NULL) {
        err = nx_fail_nomem("an endpoint");
        goto fail_free;
    }
    err = make_tls(t, config->identity, &config->job);
    if (err != NEXAR_OK) {
        goto fail_in;
    }
    err = open_listener(t);
    if (err != NEXAR_OK) {
        goto fail_tls;
    }
    *out = t;
    return NEXAR_OK;

fail_tls:
    nx_tls_release(t->tls);
fail_in:
    nx_free(t->in);
fail_free:
    nx_free(t);
    return err;
}

/* Writes the last units, as far as the kernel accepts them now. */
static void end_conn(nx_tcp_conn *c)
{
    static const char why[] = "the process ends";

    nx_tcp_conn_close(c, NX_CLOSE_DONE, why, sizeof(why) - 1);
    if (c->state == NX_TCP_ENDING) {
        nx_tcp_conn_flush(c);
        nx_tcp_conn_read(c); /* unread bytes would make the kernel send a reset */
    }
    nx_tcp_conn_destroy(c);
}

void nx_tcp_close(nx_tcp *t)
{
    if (t == NULL) {
        return;
    }
    while (!nx_list_empty(&t->links)) {
        nx_tcp_link_end(nx_list_entry(t->links.next, nx_tcp_link, in_all));
    }
    while (!nx_list_empty(&t->conns)) {
        end_conn(nx_list_entry(t->conns.next, nx_tcp_conn, in_all));
    }
    nx_log_limit_end(&t->refusals, NX_LOG_WARN);
    nx_loop_timer_cancel(t->config.loop, &t->pause);
    nx_loop_fd_remove(t->config.loop, &t->listener);
    (void)nx_sys_close(t->listener.fd);
    nx_map_fini(&t->by_member);
    nx_tls_release(t->tls);
    nx_free(t->spare);
    nx_free(t->in);
    nx_free(t);
}

uint16_t nx_tcp_port(const nx_tcp *t)
{
    return t->port;
}

void nx_tcp_drain(nx_tcp *t, nx_event *done)
{
    t->drained = done;
    nx_tcp_tell_drained(t);
}
