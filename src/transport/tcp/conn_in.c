/* conn_in.c - the read side of a connection: handshake, records, units. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "tcp_inner.h"

ssize_t nx_tcp_conn_pull(gnutls_transport_ptr_t ptr, void *to, size_t len)
{
    nx_tcp_conn *c = ptr;
    const size_t n = (c->in_len < len) ? c->in_len : len;

    if (n == 0) {
        gnutls_transport_set_errno(c->tls.session, EAGAIN);
        return -1;
    }
    memcpy(to, c->in, n);
    c->in += n;
    c->in_len -= n;
    return (ssize_t)n;
}

/* ---- units --------------------------------------------------------------------------- */

/* The link that uses |c|, if that link still receives. */
static nx_tcp_link *receiver(const nx_tcp_conn *c)
{
    nx_tcp_link *link = c->link;

    return ((link != NULL) && (link->used == c) && nx_tcp_link_wants_data(link)) ? link : NULL;
}

static void fail_unit(nx_tcp_conn *c, const char *why)
{
    nx_tcp_conn_fail(c, NEXAR_EPROTO, why);
}

static void on_hello(void *ctx)
{
    nx_tcp_conn *c = ctx;

    if (c->state == NX_TCP_GREETING) {
        nx_tcp_conn_up(c);
    } else {
        fail_unit(c, "a second HELLO");
    }
}

static void on_use(void *ctx)
{
    nx_tcp_conn *c = ctx;

    if ((c->state != NX_TCP_UP) || c->used) {
        fail_unit(c, "USE out of place");
        return;
    }
    c->used = true;
    nx_tcp_open_resolve_used(c);
}

static void on_frame(void *ctx, nx_lane lane, const void *data, size_t len)
{
    nx_tcp_link *link = receiver(ctx);

    if (link != NULL) {
        link->base.up->on_frame(link->base.up_ctx, &link->base, lane, data, len);
    }
}

static void on_data(void *ctx, uint64_t id, uint64_t off, const void *data, size_t len)
{
    nx_tcp_link *link = receiver(ctx);

    if (link != NULL) {
        link->base.up->on_data(link->base.up_ctx, &link->base, id, off, data, len);
    }
}

static void on_bye(void *ctx)
{
    nx_tcp_conn *c = ctx;

    if ((c->link != NULL) && (c->link->used == c)) {
        c->link->peer_bye = true;
        nx_loop_defer(c->t->config.loop, &c->link->task);
    }
}

/* Delivers the last frame of the peer, if it is for a link. */
static void hand_last(nx_tcp_conn *c, const void *data, size_t len)
{
    nx_tcp_link *link = c->link;

    if ((link == NULL) || link->closing || (link->state == NX_TCP_LINK_DOWN)) {
        return;
    }
    if (!link->told_up) { /* the peer has accepted this side, and refused it later */
        link->told_up = true;
        link->base.up->on_up(link->base.up_ctx, &link->base);
    }
    link->base.up->on_frame(link->base.up_ctx, &link->base, NX_LANE_CONTROL, data, len);
}

static void on_close(void *ctx, uint8_t code, const void *data, size_t len)
{
    nx_tcp_conn *c = ctx;
    const nexar_err err = (code == NX_CLOSE_REFUSED) ? NEXAR_EAUTH
                          : (code == NX_CLOSE_PROTO) ? NEXAR_EPROTO
                                                     : NEXAR_EPEER;
    char why[NX_TCP_WHY];

    c->peer_closed = c->gone = true;
    c->peer_code = code;
    if (code == NX_CLOSE_LAST) {
        hand_last(c, data, len);
        len = 0;
    }
    (void)nx_sentence(why, sizeof(why), "%s%s%.*s",
                      (err == NEXAR_EAUTH) ? "refused by the peer" : "closed by the peer",
                      (len > 0) ? ": " : "", (int)len, (const char *)data);
    nx_tcp_conn_fail(c, err, why);
}

const nx_tcp_parser_up nx_tcp_conn_units = {.on_hello = on_hello,
                                            .on_use = on_use,
                                            .on_frame = on_frame,
                                            .on_data = on_data,
                                            .on_bye = on_bye,
                                            .on_close = on_close};

/* ---- the handshake ------------------------------------------------------------------- */

static bool is_alive(const nx_tcp_conn *c)
{
    return (c->err == NEXAR_OK) && (c->state != NX_TCP_ENDING) && (c->state != NX_TCP_DEAD);
}

/* Handles the failure of GnuTLS with |rc|. */
static void fail_tls(nx_tcp_conn *c, int rc)
{
    char words[NX_TLS_WHY], why[NX_TCP_WHY];

    if (rc == GNUTLS_E_FATAL_ALERT_RECEIVED) {
        const nexar_err err =
            nx_tls_alert(&c->tls, (uint8_t)gnutls_alert_get(c->tls.session), words, sizeof(words));

        (void)nx_sentence(why, sizeof(why), "%s: %s",
                          (err == NEXAR_EAUTH) ? "refused by the peer" : "closed by the peer",
                          words);
        c->gone = true;
        nx_tcp_conn_fail(c, err, why);
        return;
    }
    if (rc == GNUTLS_E_MEMORY_ERROR) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
    } else if ((c->state == NX_TCP_HANDSHAKE) || (c->state == NX_TCP_CONNECTING)) {
        int level;

        nx_tls_session_failed(&c->tls, (uint8_t)gnutls_error_to_alert(rc, &level));
        (void)nx_sentence(why, sizeof(why), "the peer was refused: %s", c->tls.why);
        nx_tcp_conn_fail(c, c->tls.err, why);
    } else {
        nx_tcp_conn_fail(c, NEXAR_EPROTO, gnutls_strerror(rc));
    }
    (void)gnutls_alert_send_appropriate(c->tls.session, rc);
    (void)nx_tcp_conn_write(c);
}

/* nexar seals and opens from now on, if permitted; otherwise GnuTLS does. */
static void take_over(nx_tcp_conn *c)
{
    nx_tls_session *s = &c->tls;
    nx_record_secrets secrets = {.len = s->traffic_len, .key_len = nx_tls_own_key_len(s)};

    if (secrets.key_len != 0) {
        memcpy(secrets.rx, s->rx, sizeof(secrets.rx));
        memcpy(secrets.tx, s->tx, sizeof(secrets.tx));
        if (nx_tls_record_create(&c->record, &secrets) != NEXAR_OK) {
            c->record = NULL; /* without memory for the record, GnuTLS continues */
        }
        explicit_bzero(&secrets, sizeof(secrets));
    }
    nx_tls_forget_traffic(s);
}

/* The handshake is complete on this side. */
static void shake_hands(nx_tcp_conn *c)
{
    static const uint8_t hello = NX_UNIT_HELLO;

    if (nx_tls_session_check(&c->tls) != NEXAR_OK) {
        nx_tcp_conn_fail(c, c->tls.err, c->tls.why);
        (void)gnutls_alert_send(c->tls.session, GNUTLS_AL_FATAL, GNUTLS_A_ACCESS_DENIED);
        (void)nx_tcp_conn_write(c);
        return;
    }
    take_over(c);
    if (c->dialled) {
        c->state = NX_TCP_GREETING;
    } else if (nx_tcp_conn_put(c, &hello, 1)) {
        nx_tcp_conn_wake(c);
        nx_tcp_conn_up(c);
    }
}

void nx_tcp_conn_handshake(nx_tcp_conn *c)
{
    int rc;

    do {
        rc = gnutls_handshake(c->tls.session);
    } while ((rc < 0) && (rc != GNUTLS_E_AGAIN) && (gnutls_error_is_fatal(rc) == 0));
    if (rc == GNUTLS_E_SUCCESS) {
        shake_hands(c);
    } else if (rc != GNUTLS_E_AGAIN) {
        fail_tls(c, rc);
    }
    if ((c->err == NEXAR_OK) && (c->out_len > c->out_at)) {
        nx_tcp_conn_wake(c);
    }
}

/* ---- records by nexar -------------------------------------------------------------------- */

static void refuse_record(nx_tcp_conn *c, uint8_t alert, const char *why)
{
    nx_tcp_conn_fail(c, NEXAR_EPROTO, why);
    nx_tcp_conn_alert(c, GNUTLS_AL_FATAL, alert);
    (void)nx_tcp_conn_write(c);
}

static void take_alert(nx_tcp_conn *c, const uint8_t *alert)
{
    char words[NX_TLS_WHY], why[NX_TCP_WHY];

    c->gone = true;
    if (alert[1] == GNUTLS_A_CLOSE_NOTIFY) {
        nx_tcp_conn_fail(c, NEXAR_EPEER, "closed by the peer without a word");
    } else {
        const nexar_err err = nx_tls_alert(&c->tls, alert[1], words, sizeof(words));

        (void)nx_sentence(why, sizeof(why), "%s: %s",
                          (err == NEXAR_EAUTH) ? "refused by the peer" : "closed by the peer",
                          words);
        nx_tcp_conn_fail(c, err, why);
    }
}

/* Opens the complete record at |record| and handles its contents. */
static void take_own(nx_tcp_conn *c, uint8_t *record, size_t len)
{
    char why[NX_RECORD_WHY];
    nx_record_type type;
    nx_bytes data;
    const nexar_err err = nx_tls_record_open(c->record, record, len, &type, &data, why);

    if (err != NEXAR_OK) {
        refuse_record(c, GNUTLS_A_BAD_RECORD_MAC,
                      (err == NEXAR_EPROTO) ? why : "a record could not be opened");
    } else if (type == NX_RECORD_ALERT) {
        take_alert(c, data.ptr);
    } else if (type == NX_RECORD_HANDSHAKE) {
        if (nx_tcp_conn_update_key(c)) {
            nx_tcp_conn_wake(c);
        }
    } else if ((data.len > 0) && (nx_tcp_parse(&c->parser, data.ptr, data.len) != NEXAR_OK)) {
        nx_tcp_conn_fail(c, NEXAR_EPROTO, nexar_last_error());
    }
}

/* Moves read bytes to the fragmented record until it has |wanted|. */
static bool gather(nx_tcp_conn *c, size_t wanted)
{
    const size_t n = (c->in_len < wanted - c->part_len) ? c->in_len : wanted - c->part_len;

    memcpy(c->part + c->part_len, c->in, n);
    c->part_len += n;
    c->in += n;
    c->in_len -= n;
    return c->part_len == wanted;
}

/* Continues a record that arrives in pieces, or begins an incomplete one. */
static void take_pieces(nx_tcp_conn *c)
{
    size_t len;

    if (c->part == NULL) {
        c->part = nx_grow(NULL, NX_RECORD_MOST, 1);
    }
    if (c->part == NULL) {
        nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
        return;
    }
    if ((c->part_len < NX_RECORD_HEAD) && !gather(c, NX_RECORD_HEAD)) {
        return;
    }
    len = nx_tls_record_length(c->part);
    if (len == 0) {
        refuse_record(c, GNUTLS_A_UNEXPECTED_MESSAGE, "what came is no record of TLS");
    } else if (gather(c, len)) {
        c->part_len = 0;
        take_own(c, c->part, len);
    }
}

/* Opens the next record of the bytes read; false: there is none. */
static bool open_own(nx_tcp_conn *c)
{
    size_t len;

    if (c->in_len == 0) {
        if (c->part_len == 0) {
            nx_free(c->part);
            c->part = NULL;
        }
        return false;
    }
    if ((c->part_len > 0) || (c->in_len < NX_RECORD_HEAD)) {
        take_pieces(c);
        return true;
    }
    len = nx_tls_record_length(c->in);
    if (len == 0) {
        refuse_record(c, GNUTLS_A_UNEXPECTED_MESSAGE, "what came is no record of TLS");
    } else if (c->in_len < len) {
        take_pieces(c);
    } else {
        uint8_t *record = c->in;

        c->in += len;
        c->in_len -= len;
        take_own(c, record, len);
    }
    return true;
}

/* ---- records by GnuTLS ---------------------------------------------------------------- */

static void take_record(nx_tcp_conn *c, gnutls_packet_t packet)
{
    gnutls_datum_t data;

    gnutls_packet_get(packet, &data, NULL);
    if (nx_tcp_parse(&c->parser, data.data, data.size) != NEXAR_OK) {
        nx_tcp_conn_fail(c, NEXAR_EPROTO, nexar_last_error());
    }
    gnutls_packet_deinit(packet);
}

/* Opens the bytes read, record by record; false: GnuTLS needs more. */
static bool open_record(nx_tcp_conn *c)
{
    gnutls_packet_t packet = NULL;
    const ssize_t n = gnutls_record_recv_packet(c->tls.session, &packet);

    if (n > 0) {
        take_record(c, packet);
        return true;
    }
    if (packet != NULL) {
        gnutls_packet_deinit(packet);
    }
    if (n == GNUTLS_E_AGAIN) {
        return c->in_len > 0;
    }
    if (n == 0) {
        c->gone = true;
        nx_tcp_conn_fail(c, NEXAR_EPEER, "closed by the peer without a word");
    } else if (gnutls_error_is_fatal((int)n) != 0) {
        fail_tls(c, (int)n);
    }
    return true;
}

static void consume(nx_tcp_conn *c, size_t len)
{
    c->in = c->t->in;
    c->in_len = len;
    c->bytes_received += len;
    c->heard_ns = nx_loop_now(c->t->config.loop);
    if (c->state == NX_TCP_HANDSHAKE) {
        nx_tcp_conn_handshake(c);
    }
    while (is_alive(c) && ((c->state == NX_TCP_GREETING) || (c->state == NX_TCP_UP)) &&
           ((c->record != NULL) ? open_own(c) : open_record(c))) {
    }
    c->in_len = 0;
}

/* The stream has ended without CLOSE, with |code| (0: end of stream): the process has exited, or a
 * device on the path has cut the connection. */
static void cut(nx_tcp_conn *c, int code)
{
    char why[NX_TCP_WHY];

    code = (code == 0) ? c->write_code : code;
    c->gone = (code != ETIMEDOUT) && (code != EHOSTUNREACH) && (code != ENETUNREACH);
    (void)nx_sentence(why, sizeof(why), "the connection was cut: %s",
                      (code == 0) ? "its end came without a word" : strerrordesc_np(code));
    nx_tcp_conn_fail(c, (c->state == NX_TCP_UP) ? NEXAR_EPEER : NEXAR_ECONNECT, why);
}

/* The peer has nothing more to send to a connection that has ended. */
static void discard_until_end(nx_tcp_conn *c, ssize_t n)
{
    if ((n == 0) || ((n < 0) && (errno != EAGAIN))) {
        c->gone = true;
        nx_loop_fd_remove(c->t->config.loop, &c->fd);
        c->state = NX_TCP_DEAD;
        nx_loop_defer(c->t->config.loop, &c->task);
    }
}

void nx_tcp_conn_read(nx_tcp_conn *c)
{
    for (size_t read = 0; read < NX_TCP_TURN;) {
        const ssize_t n = nx_sys_read(c->fd.fd, c->t->in, NX_TCP_IN);

        if (c->state == NX_TCP_ENDING) {
            discard_until_end(c, n);
        } else if (n > 0) {
            consume(c, (size_t)n);
        } else if ((n == 0) || (errno != EAGAIN)) {
            cut(c, (n == 0) ? 0 : errno);
        }
        if (c->doomed) {
            nx_tcp_conn_fail(c, NEXAR_ENOMEM, "out of memory");
        }
        if (c->err != NEXAR_OK) {
            nx_tcp_conn_die(c);
        }
        if ((n < NX_TCP_IN) || (c->state == NX_TCP_DEAD)) {
            return;
        }
        read += (size_t)n;
    }
}
