/*
 * inner.h - the tcp endpoint from inside.
 *
 *   endpoint.c       the listening socket, and life
 *   conn.c           one connection: socket, handshake, end
 *   conn_in.c        what it reads
 *   conn_out.c       what it writes
 *   settle.c         which connection a link uses
 *   dial.c           racing addresses
 *   link.c           the operations of a link, and its end
 *   send_queue.c     what a link has to send
 *   stream_parser.c  what has come
 *
 * A link has one connection that it uses, once that is settled, and before that any number
 * that might become it.
 *
 * Calls up come from nx_tcp_conn_read, from a connection's task and from a link's task.
 * Operations only queue and defer.  A link is freed by its task, and a connection by its task
 * or timer, never on the way.
 */
#ifndef NX_TCP_INNER_H
#define NX_TCP_INNER_H

#include "base/containers/map.h"
#include "base/log_limit.h"
#include "send_queue.h"
#include "stream_parser.h"
#include "tcp.h"
#include "tls_record.h"
#include "transport/quic/conn/conn.h" /* nx_close_code */
#include "transport/quic/crypto/tls.h"
#include "transport/quic/quic.h" /* NX_ALPN */

enum {
    NX_TCP_RECORD = 16384,     /* bytes of plaintext in a record, at most (RFC 8446) */
    NX_TCP_IN = 256 << 10,     /* bytes that are read at once */
    NX_TCP_FILL = 128 << 10,   /* sealed bytes that one call of the socket is given */
    NX_TCP_OUT = 256 << 10,    /* the same, with room for the last words */
    NX_TCP_UNSENT = 256 << 10, /* bytes that the kernel keeps without having sent them */
    NX_TCP_TURN = 1 << 20,     /* bytes that a connection reads or writes per turn */
    NX_TCP_WHY = 512
};

typedef struct nx_tcp_conn nx_tcp_conn;
typedef struct nx_tcp_link nx_tcp_link;

struct nx_tcp {
    nx_tcp_config config;
    nx_tls *tls;
    const char *alpn; /* NX_ALPN; tests speak others */
    nx_fd listener;
    int family;
    uint16_t port;
    nx_timer pause; /* no descriptor was left: accepting continues then */

    nx_map by_member; /* nx_tcp_link: those that are neither down nor closed */
    nx_list conns, links;
    size_t half_open; /* accepted connections that are not used yet */
    uint8_t *in;      /* NX_TCP_IN bytes; what is read is consumed before the next read */
    uint8_t *spare;   /* an nx_tcp_conn.out to use next, or NULL */
    nx_log_limit refusals;
    size_t closing; /* links that were closed and still exist */
    size_t ending;  /* connections that have last words to write */
    nx_event *drained;
};

typedef enum nx_tcp_state {
    NX_TCP_CONNECTING,
    NX_TCP_HANDSHAKE,
    NX_TCP_GREETING, /* the handshake is done here: the peer's HELLO is due */
    NX_TCP_UP,       /* both sides have accepted each other */
    NX_TCP_ENDING,   /* has written its last unit; goes when the peer has closed, or in time */
    NX_TCP_DEAD      /* freed by its task */
} nx_tcp_state;

struct nx_tcp_conn {
    nx_tcp *t;
    nx_tcp_link *link;
    nx_list in_all, in_link;
    nx_fd fd;
    nx_timer timer; /* the end of the handshake, of waiting for USE, or of NX_TCP_ENDING */
    nx_task task;
    struct sockaddr_storage remote;
    nx_tls_session tls;
    nx_tls_record *record; /* seals and opens, once the handshake is done; NULL: GnuTLS does */
    uint8_t *part;         /* NX_RECORD_MOST bytes: a record that has come in pieces; or NULL */
    size_t part_len;
    nx_tcp_parser parser;
    nx_tcp_state state;
    bool dialled, half_open, used; /* used: the side that decides has said so */
    bool held, holding;  /* was, and is, waiting for a better transport: may_come_otherwise */
    bool doomed;         /* no memory for what it needs */
    bool writable_asked; /* EPOLLOUT is watched */
    bool counted;        /* in t->ending */
    bool shut;           /* nothing more is written, */
    int write_code;      /* for this errno, if it is not 0 */
    uint64_t since_ns;

    uint8_t *in; /* what was read and GnuTLS has not taken */
    size_t in_len;
    uint8_t *out; /* sealed and not written; NULL: none */
    size_t out_at, out_len;

    uint64_t heard_ns; /* when something last came, be it the answer to the dial */
    uint64_t progress_ns, bytes_sent, bytes_received;

    /* What it died of. */
    nexar_err err;
    char why[NX_TCP_WHY];
    bool refused;     /* nothing listens there, says its host */
    bool gone;        /* the peer has closed, or its host says that it is gone */
    bool peer_closed; /* by CLOSE, with |peer_code| */
    uint8_t peer_code;
};

typedef enum nx_tcp_link_state {
    NX_TCP_LINK_SETTLING,
    NX_TCP_LINK_UP,
    NX_TCP_LINK_DOWN
} nx_tcp_link_state;

struct nx_tcp_link {
    nx_link base;
    nx_tcp *t;
    nx_list in_all;
    nx_tls_target target;
    nx_tcp_queue queue;
    nx_tcp_link_state state;
    nx_tcp_conn *used; /* in NX_TCP_LINK_UP */
    nx_list conns;     /* attempts, ours and the peer's, while settling */
    uint8_t last[NX_LAST_MAX];
    size_t last_len;

    struct sockaddr_storage *addresses;
    size_t n, next;
    nx_timer timer; /* next address; settled by; drained by */
    nx_task task;

    bool told_up, told_down, closing, drain;
    bool unwanted; /* see nx_tcp_refuse */
    bool said_bye, peer_bye;
    bool exited; /* its process has ended */
    uint64_t give_up_ns;
    nexar_err err;
    char why[NX_TCP_WHY];
};

/* ---- conn.c -------------------------------------------------------------------------- */

/* |target| NULL: |fd| was accepted; else |fd| connects to |remote|.  On success |fd| is the
 * connection's. */
NX_MUST_CHECK nexar_err nx_tcp_conn_create(nx_tcp_conn **out, nx_tcp *t, int fd,
                                           const struct sockaddr_storage *remote,
                                           const nx_tls_target *target);
/* Frees it at once: from its task or timer, or when the endpoint closes. */
void nx_tcp_conn_destroy(nx_tcp_conn *c);
/* Notes what it dies of, unless it is known already. */
void nx_tcp_conn_fail(nx_tcp_conn *c, nexar_err err, const char *why);
/* It has died, of what nx_tcp_conn_fail was told: the link learns of it, and the task frees
 * it. */
void nx_tcp_conn_die(nx_tcp_conn *c);
/* Writes the last unit and waits until the peer has read it; the link is not told. */
void nx_tcp_conn_close(nx_tcp_conn *c, nx_close_code code, const void *data, size_t len);
/* The handshake is done on both sides. */
void nx_tcp_conn_up(nx_tcp_conn *c);
/* Its last unit was written: nobody waits for it any more. */
void nx_tcp_conn_written(nx_tcp_conn *c);
/* It is used: it may stay. */
void nx_tcp_conn_keep(nx_tcp_conn *c);
/* The member behind it; when up. */
uint64_t nx_tcp_conn_member(const nx_tcp_conn *c);

/* ---- conn_in.c ----------------------------------------------------------------------- */

/* Reads what is there and acts on it. */
void nx_tcp_conn_read(nx_tcp_conn *c);
/* Continues the handshake with what was read. */
void nx_tcp_conn_handshake(nx_tcp_conn *c);
/* What a connection's parser calls. */
extern const nx_tcp_parser_up nx_tcp_conn_units;
/* gnutls_pull_func */
ssize_t nx_tcp_conn_pull(gnutls_transport_ptr_t ptr, void *to, size_t len);

/* ---- conn_out.c ---------------------------------------------------------------------- */

/* Something was queued: written at the end of the turn. */
void nx_tcp_conn_wake(nx_tcp_conn *c);
/* Seals |len| bytes of the stream; false: the connection has died of it. */
bool nx_tcp_conn_put(nx_tcp_conn *c, const void *data, size_t len);
/* Seals an alert; failures do not matter. */
void nx_tcp_conn_alert(nx_tcp_conn *c, uint8_t level, uint8_t what);
/* Seals the KeyUpdate that is due, if one is. */
bool nx_tcp_conn_update_key(nx_tcp_conn *c);
/* Seals and writes what the link has queued, as much as the socket takes. */
void nx_tcp_conn_flush(nx_tcp_conn *c);
/* Writes what is sealed; false: the socket takes no more now. */
bool nx_tcp_conn_write(nx_tcp_conn *c);
/* gnutls_vec_push_func */
ssize_t nx_tcp_conn_push(gnutls_transport_ptr_t ptr, const giovec_t *iov, int n);

/* ---- settle.c ------------------------------------------------------------------------ */

void nx_tcp_open_resolve_up(nx_tcp_conn *c);
void nx_tcp_open_resolve_used(nx_tcp_conn *c);
void nx_tcp_open_resolve_failed(nx_tcp_conn *c);

/* ---- dial.c -------------------------------------------------------------------------- */

void nx_tcp_dial_next(nx_tcp_link *link);
void nx_tcp_dial_failed(nx_tcp_link *link, bool tell, nexar_err err, const char *why);

/* ---- link.c -------------------------------------------------------------------------- */

NX_MUST_CHECK nexar_err nx_tcp_link_create(nx_tcp_link **out, nx_tcp *t,
                                           const nx_tls_target *target);
/* Not up any more, or never: on_sent and on_down follow from its task. */
void nx_tcp_link_down(nx_tcp_link *link, nexar_err err, const char *why);
/* on_sent for what is done. */
void nx_tcp_link_deliver(nx_tcp_link *link);
/* Ends it at once: for nx_tcp_close. */
void nx_tcp_link_end(nx_tcp_link *link);
void nx_tcp_link_leave_map(nx_tcp_link *link);
bool nx_tcp_link_wants_data(const nx_tcp_link *link);
/* Sets the event of a caller that waits for the endpoint to drain. */
void nx_tcp_tell_drained(nx_tcp *t);

#endif /* NX_TCP_INNER_H */
