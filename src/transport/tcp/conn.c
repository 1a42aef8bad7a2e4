/* conn.c - one connection: its socket, its handshake, its end. */
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "tcp_inner.h"
#include "transport/quic/udp/address.h"
#include "wire/wire.h"

enum { KEEP_PROBES = 3 };

/* Time limit for writing the last unit and for the peer's end. */
static const uint64_t ENDING_NS = UINT64_C(5000000000);

/* ---- the socket ---------------------------------------------------------------------- */

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* A peer that acknowledges nothing for the idle time-out is down, with data in flight
 * (TCP_USER_TIMEOUT) or without (probes). */
static void set_options(const nx_tcp_conn *c)
{
    const int idle_ms = (int)(c->t->config.idle_timeout_ns / 1000000);
    const int third_s = (idle_ms / 3000 > 0) ? idle_ms / 3000 : 1;

    set(c->fd.fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(c->fd.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NX_TCP_UNSENT);
    set(c->fd.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, idle_ms);
    set(c->fd.fd, IPPROTO_TCP, TCP_KEEPIDLE, third_s);
    set(c->fd.fd, IPPROTO_TCP, TCP_KEEPINTVL, third_s);
    set(c->fd.fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES);
    set(c->fd.fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

/* The result of connecting: NEXAR_OK, or the reason of the failure. */
static void connected(nx_tcp_conn *c)
{
    int code = 0;
    socklen_t len = sizeof(code);

    if (getsockopt(c->fd.fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0) {
        code = errno;
    }
    if (code == 0) {
        c->heard_ns = nx_loop_now(c->t->config.loop);
        c->state = NX_TCP_HANDSHAKE;
        nx_tcp_conn_handshake(c);
        return;
    }
    c->refused = (code == ECONNREFUSED);
    nx_tcp_conn_fail(c, NEXAR_ECONNECT,
                     c->refused ? "no process listens there" : strerrordesc_np(code));
    nx_tcp_conn_die(c);
}

static void on_ready(nx_fd *self, uint32_t events)
{
    nx_tcp_conn *c = nx_list_entry(self, nx_tcp_conn, fd);

    if (c->state == NX_TCP_CONNECTING) {
        connected(c);
    } else if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
        nx_tcp_conn_read(c);
    }
    if (((events & EPOLLOUT) != 0) && (c->state != NX_TCP_DEAD)) {
        nx_tcp_conn_wake(c);
    }
}

/* ---- life ---------------------------------------------------------------------------- */

static void not_half_open(nx_tcp_conn *c)
{
    if (c->half_open) {
        c->half_open = false;
        c->t->half_open--;
    }
}

void nx_tcp_conn_written(nx_tcp_conn *c)
{
    if (c->counted) {
        c->counted = false;
        c->t->ending--;
        nx_tcp_tell_drained(c->t);
    }
}

static const char *late_words(const nx_tcp_conn *c)
{
    if (c->state == NX_TCP_CONNECTING) {
        return "no answer";
    }
    return (c->state == NX_TCP_UP) ? "it is not used" : "the handshake takes too long";
}

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_tcp_conn *c = nx_list_entry(self, nx_tcp_conn, timer);

    (void)now_ns;
    if ((c->state == NX_TCP_ENDING) || (c->state == NX_TCP_DEAD)) {
        nx_tcp_conn_destroy(c);
        return;
    }
    if (c->holding) {
        c->holding = false;
        nx_tcp_open_resolve_up(c);
        return;
    }
    nx_tcp_conn_fail(c, NEXAR_ECONNECT, late_words(c));
    nx_tcp_conn_die(c);
}

static void on_task(nx_task *self)
{
    nx_tcp_conn *c = nx_list_entry(self, nx_tcp_conn, task);

    if (c->state == NX_TCP_DEAD) {
        nx_tcp_conn_destroy(c);
    } else if (c->doomed) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
        nx_tcp_conn_die(c);
    } else {
        nx_tcp_conn_flush(c);
    }
}

static nexar_err init_tls(nx_tcp_conn *c, const nx_tls_target *target)
{
    nexar_err err = nx_tls_session_init(&c->tls, c->t->tls, target, NULL, NULL);

    if (err == NEXAR_OK) {
        gnutls_transport_set_ptr(c->tls.session, c);
        gnutls_transport_set_pull_function(c->tls.session, nx_tcp_conn_pull);
        gnutls_transport_set_vec_push_function(c->tls.session, nx_tcp_conn_push);
        gnutls_handshake_set_timeout(c->tls.session, GNUTLS_INDEFINITE_TIMEOUT);
    }
    return err;
}

static nexar_err watch(nx_tcp_conn *c)
{
    nx_loop *loop = c->t->config.loop;
    nexar_err err =
        nx_loop_fd_add(loop, &c->fd, EPOLLIN | ((c->state == NX_TCP_CONNECTING) ? EPOLLOUT : 0));

    c->writable_asked = (c->state == NX_TCP_CONNECTING);
    if (err == NEXAR_OK) {
        err = nx_loop_timer_set(loop, &c->timer, c->since_ns + c->t->config.handshake_timeout_ns);
        if (err != NEXAR_OK) {
            nx_loop_fd_remove(loop, &c->fd);
        }
    }
    return err;
}

nexar_err nx_tcp_conn_create(nx_tcp_conn **out, nx_tcp *t, int fd,
                             const struct sockaddr_storage *remote, const nx_tls_target *target)
{
    nx_tcp_conn *c = nx_zalloc(sizeof(*c));
    nexar_err err;

    if (c == NULL) {
        return nx_fail_nomem("a connection");
    }
    c->t = t;
    c->fd = (nx_fd){.fd = fd, .on_ready = on_ready};
    c->timer.on_expire = on_timer;
    c->remote = *remote;
    c->dialled = (target != NULL);
    c->state = c->dialled ? NX_TCP_CONNECTING : NX_TCP_HANDSHAKE;
    c->since_ns = nx_loop_refresh(t->config.loop);
    nx_task_init(&c->task, on_task);
    c->task.patient = true; /* a record has room for many messages */
    nx_list_init(&c->in_link);
    nx_tcp_parser_init(&c->parser, &nx_tcp_conn_units, c);
    set_options(c);
    err = init_tls(c, target);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = watch(c);
    if (err != NEXAR_OK) {
        goto fail_tls;
    }
    nx_list_push_back(&t->conns, &c->in_all);
    if (!c->dialled) {
        c->half_open = true;
        t->half_open++;
    }
    *out = c;
    return NEXAR_OK;

fail_tls:
    nx_tls_session_fini(&c->tls);
fail_free:
    nx_free(c);
    return err;
}

void nx_tcp_conn_destroy(nx_tcp_conn *c)
{
    nx_loop *loop = c->t->config.loop;

    nx_loop_timer_cancel(loop, &c->timer);
    nx_loop_undefer(&c->task);
    nx_loop_fd_remove(loop, &c->fd);
    nx_list_remove(&c->in_all);
    nx_list_remove(&c->in_link);
    not_half_open(c);
    nx_tcp_conn_written(c);
    nx_tls_session_fini(&c->tls);
    nx_tcp_parser_fini(&c->parser);
    nx_tls_record_destroy(c->record);
    nx_free(c->part);
    nx_free(c->out);
    (void)nx_sys_close(c->fd.fd);
    nx_free(c);
}

void nx_tcp_conn_up(nx_tcp_conn *c)
{
    c->state = NX_TCP_UP;
    c->heard_ns = nx_loop_now(c->t->config.loop);
    if (c->dialled) {
        nx_loop_timer_cancel(c->t->config.loop, &c->timer); /* the link has its own timer: dial.c */
    } else if (nx_loop_timer_set(c->t->config.loop, &c->timer,
                                 c->heard_ns + 2 * c->t->config.handshake_timeout_ns) != NEXAR_OK) {
        c->doomed = true;
        nx_loop_defer(c->t->config.loop, &c->task);
        return;
    }
    nx_tcp_open_resolve_up(c);
}

void nx_tcp_conn_keep(nx_tcp_conn *c)
{
    nx_loop_timer_cancel(c->t->config.loop, &c->timer);
    not_half_open(c);
}

uint64_t nx_tcp_conn_member(const nx_tcp_conn *c)
{
    return c->dialled ? c->tls.target.member : c->tls.member;
}

/* ---- the end ------------------------------------------------------------------------- */

void nx_tcp_conn_fail(nx_tcp_conn *c, nexar_err err, const char *why)
{
    if (c->err == NEXAR_OK) {
        c->err = err;
        (void)nx_sentence(c->why, sizeof(c->why), "%s", why);
    }
}

/* Nothing is sealed any more. The connection writes the sealed bytes and then waits for the peer's
 * end, so that no reset overtakes them. */
static void begin_ending(nx_tcp_conn *c)
{
    nx_tcp *t = c->t;
    uint64_t linger = ENDING_NS;

    if ((c->link != NULL) && (c->link->last_len > 0)) {
        linger = t->config.idle_timeout_ns; /* the peer may read it this late */
    }
    c->link = NULL;
    nx_list_remove(&c->in_link);
    c->state = NX_TCP_ENDING;
    c->counted = true;
    t->ending++;
    set(c->fd.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NX_TCP_OUT + NX_TCP_UNSENT);
    /* Without memory for the timer, the connection stays until the peer closes. */
    (void)!nx_loop_timer_set(t->config.loop, &c->timer, nx_loop_now(t->config.loop) + linger);
    nx_loop_defer(t->config.loop, &c->task);
}

static void drop(nx_tcp_conn *c)
{
    c->link = NULL;
    nx_list_remove(&c->in_link);
    c->state = NX_TCP_DEAD;
    nx_loop_fd_remove(c->t->config.loop, &c->fd);
    nx_loop_defer(c->t->config.loop, &c->task);
}

void nx_tcp_conn_die(nx_tcp_conn *c)
{
    if ((c->state == NX_TCP_ENDING) || (c->state == NX_TCP_DEAD)) {
        return;
    }
    nx_tcp_open_resolve_failed(c);
    if ((c->state == NX_TCP_ENDING) || (c->state == NX_TCP_DEAD)) {
        return;
    }
    if (c->gone || (c->state == NX_TCP_CONNECTING) || (c->err == NEXAR_ENOMEM)) {
        drop(c);
    } else {
        begin_ending(c); /* so that an alert arrives */
    }
}

/* The rest of the current unit, then CLOSE. */
static void put_last(nx_tcp_conn *c, nx_close_code code, const void *data, size_t len)
{
    uint8_t buf[NX_TCP_RECORD];
    nx_tcp_queue *q = ((c->link != NULL) && (c->link->used == c)) ? &c->link->queue : NULL;
    nx_writer w;
    size_t n;

    while ((q != NULL) && ((n = nx_tcp_queue_take_current(q, buf, sizeof(buf))) > 0)) {
        if (!nx_tcp_conn_put(c, buf, n)) {
            return;
        }
    }
    w = nx_writer_make(buf, sizeof(buf));
    nx_write_u8(&w, NX_UNIT_CLOSE);
    nx_write_u8(&w, (uint8_t)code);
    nx_write_u16(&w, (uint16_t)len);
    nx_write_bytes(&w, data, len);
    if (nx_tcp_conn_put(c, buf, w.len)) {
        nx_tcp_conn_alert(c, GNUTLS_AL_WARNING, GNUTLS_A_CLOSE_NOTIFY);
    }
}

void nx_tcp_conn_close(nx_tcp_conn *c, nx_close_code code, const void *data, size_t len)
{
    if ((c->state == NX_TCP_ENDING) || (c->state == NX_TCP_DEAD)) {
        return;
    }
    if (((c->state == NX_TCP_UP) || (c->state == NX_TCP_GREETING)) && !c->gone) {
        if (c->err == NEXAR_OK) {
            put_last(c, code, data, (len < NX_TCP_CLOSE_MOST) ? len : NX_TCP_CLOSE_MOST);
        }
        begin_ending(c);
    } else if ((c->err != NEXAR_OK) && (c->state == NX_TCP_HANDSHAKE) && !c->gone) {
        begin_ending(c); /* so that an alert arrives */
    } else {
        drop(c);
    }
}
