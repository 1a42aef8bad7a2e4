/* conn_out.c - the write side of a connection: units, sealed into records, in few calls. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "tcp_inner.h"

enum { RECORD_ROOM = NX_TCP_RECORD + 256 }; /* a record with its head and tag */

/* Memory for sealed records, which connections use one after the other; false: none. */
static bool hold_out(nx_tcp_conn *c)
{
    if (c->out == NULL) {
        c->out = (c->t->spare != NULL) ? c->t->spare : nx_zalloc(NX_TCP_OUT);
        c->t->spare = NULL;
        c->out_at = c->out_len = 0;
    }
    return c->out != NULL;
}

static void release_out(nx_tcp_conn *c)
{
    if (c->t->spare == NULL) {
        c->t->spare = c->out;
    } else {
        nx_free(c->out);
    }
    c->out = NULL;
    c->out_at = c->out_len = 0;
}

ssize_t nx_tcp_conn_push(gnutls_transport_ptr_t ptr, const giovec_t *iov, int n)
{
    nx_tcp_conn *c = ptr;
    size_t len = 0;

    for (int i = 0; i < n; i++) {
        len += iov[i].iov_len;
    }
    if (!hold_out(c) || (len > NX_TCP_OUT - c->out_len)) {
        gnutls_transport_set_errno(c->tls.session, ENOMEM);
        return -1;
    }
    for (int i = 0; i < n; i++) {
        memcpy(c->out + c->out_len, iov[i].iov_base, iov[i].iov_len);
        c->out_len += iov[i].iov_len;
    }
    return (ssize_t)len;
}

void nx_tcp_conn_wake(nx_tcp_conn *c)
{
    nx_loop_defer(c->t->config.loop, &c->task);
}

/* ---- sealing -------------------------------------------------------------------------- */

static bool fail_seal(nx_tcp_conn *c)
{
    nx_tcp_conn_fail(c, NEXAR_EINTERNAL, "a record could not be sealed");
    return false;
}

bool nx_tcp_conn_update_key(nx_tcp_conn *c)
{
    size_t n;

    if ((c->record == NULL) || !nx_tls_record_update_due(c->record)) {
        return true;
    }
    if (!hold_out(c) || (NX_RECORD_UPDATE > NX_TCP_OUT - c->out_len)) {
        return fail_seal(c);
    }
    n = nx_tls_record_update(c->record, false, c->out + c->out_len);
    c->out_len += n;
    return (n > 0) || fail_seal(c);
}

/* Seals |len| bytes at a record's text position at the end of c->out. */
static bool seal_here(nx_tcp_conn *c, nx_record_type type, size_t len)
{
    const size_t n = nx_tls_record_seal(c->record, type, c->out + c->out_len, len);

    c->out_len += n;
    return (n > 0) || fail_seal(c);
}

static bool seal(nx_tcp_conn *c, nx_record_type type, const void *data, size_t len)
{
    if (!hold_out(c) || (len + NX_RECORD_EXTRA + NX_RECORD_UPDATE > NX_TCP_OUT - c->out_len)) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
        return false;
    }
    if (!nx_tcp_conn_update_key(c)) {
        return false;
    }
    memcpy(c->out + c->out_len + NX_RECORD_HEAD, data, len);
    return seal_here(c, type, len);
}

void nx_tcp_conn_alert(nx_tcp_conn *c, uint8_t level, uint8_t what)
{
    const uint8_t alert[] = {level, what};

    if (c->record != NULL) {
        (void)seal(c, NX_RECORD_ALERT, alert, sizeof(alert));
    } else if (what == GNUTLS_A_CLOSE_NOTIFY) {
        (void)gnutls_bye(c->tls.session, GNUTLS_SHUT_WR);
    } else {
        (void)gnutls_alert_send(c->tls.session, (gnutls_alert_level_t)level,
                                (gnutls_alert_description_t)what);
    }
}

bool nx_tcp_conn_put(nx_tcp_conn *c, const void *data, size_t len)
{
    ssize_t n;

    if (c->record != NULL) {
        return seal(c, NX_RECORD_DATA, data, len);
    }
    n = gnutls_record_send(c->tls.session, data, len);

    if (n == (ssize_t)len) {
        return true;
    }
    nx_tcp_conn_fail(c, (n == GNUTLS_E_PUSH_ERROR) ? NEXAR_ENOMEM : NEXAR_EINTERNAL,
                     gnutls_strerror((int)n));
    return false;
}

/* ---- writing --------------------------------------------------------------------------- */

/* Watches for room in the socket, or ceases to. */
static void ask_writable(nx_tcp_conn *c, bool ask)
{
    if (c->writable_asked != ask) {
        c->writable_asked = ask;
        if (nx_loop_fd_change(c->t->config.loop, &c->fd, ask ? EPOLLIN | EPOLLOUT : EPOLLIN) !=
            NEXAR_OK) {
            c->doomed = true;
        }
    }
}

/* No more writes are possible. The connection still reads earlier data of the peer, and fails at
 * its end (conn_in.c). */
static void fail_write(nx_tcp_conn *c, int code)
{
    c->shut = true;
    c->write_code = code;
    c->out_at = c->out_len;
}

bool nx_tcp_conn_write(nx_tcp_conn *c)
{
    if (c->shut) {
        c->out_at = c->out_len;
    }
    while (c->out_at < c->out_len) {
        struct iovec iov = {.iov_base = c->out + c->out_at, .iov_len = c->out_len - c->out_at};
        const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        const ssize_t n = nx_sys_sendmsg(c->fd.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);

        if ((n < 0) && (errno == EAGAIN)) {
            return false;
        }
        if (n < 0) {
            fail_write(c, errno);
            break;
        }
        c->out_at += (size_t)n;
        c->bytes_sent += (size_t)n;
        c->progress_ns = nx_loop_now(c->t->config.loop);
    }
    if (c->out != NULL) {
        release_out(c);
    }
    return true;
}

/* Seals the next units of the link's queue in place; false: there are none, or the connection has
 * failed. */
static bool fill_one(nx_tcp_conn *c, nx_tcp_queue *q)
{
    size_t n;

    if (!nx_tcp_conn_update_key(c)) {
        return false;
    }
    if (!hold_out(c)) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
        return false;
    }
    n = nx_tcp_queue_take(q, c->out + c->out_len + NX_RECORD_HEAD, NX_TCP_RECORD);
    return (n > 0) && seal_here(c, NX_RECORD_DATA, n);
}

/* Seals units of the link's queue, up to NX_TCP_FILL bytes; false: there are none. */
static bool fill(nx_tcp_conn *c, nx_tcp_queue *q)
{
    uint8_t record[NX_TCP_RECORD];
    size_t n = 0;

    while ((c->record != NULL) && !c->shut && (c->out_len + RECORD_ROOM <= NX_TCP_FILL) &&
           fill_one(c, q)) {
    }
    while ((c->record == NULL) && !c->shut && (c->out_len + RECORD_ROOM <= NX_TCP_FILL) &&
           ((n = nx_tcp_queue_take(q, record, sizeof(record))) > 0)) {
        if (!nx_tcp_conn_put(c, record, n)) {
            return false;
        }
    }
    if ((c->out != NULL) && (c->out_len == 0)) {
        release_out(c);
    }
    return (c->out_len > c->out_at) && !c->shut && (c->err == NEXAR_OK);
}

/* Writes the rest of a connection that has sealed its last unit. */
static void flush_ending(nx_tcp_conn *c)
{
    if (!nx_tcp_conn_write(c)) {
        ask_writable(c, true);
        return;
    }
    ask_writable(c, false);
    if (!c->shut) {
        c->shut = true;
        (void)shutdown(c->fd.fd, SHUT_WR);
    }
    nx_tcp_conn_written(c);
}

/* Whether |c| has written all that it may in this iteration. */
static bool flush_some(nx_tcp_conn *c, nx_tcp_queue *q)
{
    for (uint64_t end = c->bytes_sent + NX_TCP_TURN; c->bytes_sent < end;) {
        if (!nx_tcp_conn_write(c)) {
            ask_writable(c, true);
            return true;
        }
        if ((q == NULL) || !fill(c, q)) {
            ask_writable(c, false);
            return true;
        }
    }
    return false;
}

void nx_tcp_conn_flush(nx_tcp_conn *c)
{
    nx_tcp_queue *q = ((c->link != NULL) && (c->link->used == c)) ? &c->link->queue : NULL;

    if (c->state == NX_TCP_CONNECTING) {
        return;
    }
    if (c->state == NX_TCP_ENDING) {
        flush_ending(c);
        return;
    }
    if (!flush_some(c, q)) {
        nx_tcp_conn_wake(c);
    }
    if (c->doomed) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
    }
    if (c->err != NEXAR_OK) {
        nx_tcp_conn_die(c);
    } else if (q != NULL) {
        nx_tcp_link_deliver(c->link);
    }
}
