/*
 * tcp_inner.h - the internals of the tcp endpoint.
 *
 *   endpoint.c       the listening socket, and life
 *   conn.c           one connection: socket, handshake, end
 *   conn_in.c        what it reads
 *   conn_out.c       what it writes
 *   simultaneous_open.c         which connection a link uses
 *   dial.c           racing addresses
 *   link.c           the operations of a link, and its end
 *   send_queue.c     what a link has to send
 *   stream_parser.c  what has come
 *
 * A link uses one connection once the choice is made; before, any number of candidates exist.
 *
 * Upcalls come from nx_tcp_conn_read, from a connection's task and from a link's task. Operations
 * only queue and defer. A link is freed by its task, and a connection by its task or timer, never
 * inside another call.
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
    NX_TCP_IN = 256 << 10,     /* bytes per read */
    NX_TCP_FILL = 128 << 10,   /* sealed bytes per call of the socket */
    NX_TCP_OUT = 256 << 10,    /* the same, with room for the last units */
    NX_TCP_UNSENT = 256 << 10, /* unsent bytes that the kernel keeps */
    NX_TCP_TURN = 1 << 20,     /* bytes that a connection reads or writes per iteration */
    NX_TCP_WHY = 512
};

typedef struct nx_tcp_conn nx_tcp_conn;
typedef struct nx_tcp_link nx_tcp_link;

struct nx_tcp {
    nx_tcp_config config;
    nx_tls *tls;
    const char *alpn; /* NX_ALPN; tests use others */
    nx_fd listener;
    int family;
    uint16_t port;
    nx_timer pause; /* no descriptor was left: accepting resumes when it expires */

    nx_map by_member; /* nx_tcp_link: links that are neither down nor closed */
    nx_list conns, links;
    size_t half_open; /* accepted connections that no link uses yet */
    uint8_t *in;      /* NX_TCP_IN bytes; each read is consumed before the next */
    uint8_t *spare;   /* a spare nx_tcp_conn.out, or NULL */
    nx_log_limit refusals;
    size_t closing; /* closed links that still exist */
    size_t ending;  /* connections that still write their last units */
    nx_event *drained;
};

typedef enum nx_tcp_state {
    NX_TCP_CONNECTING,
    NX_TCP_HANDSHAKE,
    NX_TCP_GREETING, /* the handshake is done on this side: the peer's HELLO is due */
    NX_TCP_UP,       /* both sides have accepted each other */
    NX_TCP_ENDING,   /* has written its last unit; ends with the peer, or at a time limit */
    NX_TCP_DEAD      /* freed by its task */
} nx_tcp_state;

struct nx_tcp_conn {
    nx_tcp *t;
    nx_tcp_link *link;
    nx_list in_all, in_link;
    nx_fd fd;
    nx_timer timer; /* the time limit of the handshake, of the wait for USE, or of NX_TCP_ENDING */
    nx_task task;
    struct sockaddr_storage remote;
    nx_tls_session tls;
    nx_tls_record *record; /* seals and opens after the handshake; NULL: GnuTLS does */
    uint8_t *part;         /* NX_RECORD_MOST bytes: a record that has arrived in pieces; or NULL */
    size_t part_len;
    nx_tcp_parser parser;
    nx_tcp_state state;
    bool dialled, half_open, used; /* used: the deciding side has announced it */
    bool held,
        holding; /* was waiting, and is waiting, for a better transport: may_come_otherwise */
    bool doomed; /* out of memory: the connection must end */
    bool writable_asked; /* EPOLLOUT is watched */
    bool counted;        /* in t->ending */
    bool shut;           /* no more writes are possible, */
    int write_code;      /* because of this errno, if it is not 0 */
    uint64_t since_ns;

    uint8_t *in; /* bytes read that GnuTLS has not taken */
    size_t in_len;
    uint8_t *out; /* sealed and not written; NULL: none */
    size_t out_at, out_len;

    uint64_t heard_ns; /* time of the last arrival, including the answer to the dial */
    uint64_t progress_ns, bytes_sent, bytes_received;

    /* The reason of the failure. */
    nexar_err err;
    char why[NX_TCP_WHY];
    bool refused;     /* its host reports that nothing listens there */
    bool gone;        /* the peer has closed, or its host reports that it has exited */
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
    nx_list conns;     /* attempts, by this side and the peer, until one is chosen */
    uint8_t last[NX_LAST_MAX];
    size_t last_len;

    struct sockaddr_storage *addresses;
    size_t n, next;
    nx_timer timer; /* next address; time limits of the choice and of the drain */
    nx_task task;

    bool told_up, told_down, closing, drain;
    bool unwanted; /* see nx_tcp_refuse */
    bool said_bye, peer_bye;
    bool exited; /* its process has exited */
    uint64_t give_up_ns;
    nexar_err err;
    char why[NX_TCP_WHY];
};

/* ---- conn.c -------------------------------------------------------------------------- */

/* |target| NULL: |fd| was accepted; otherwise |fd| connects to |remote|. On success the connection
 * owns |fd|. */
NX_MUST_CHECK nexar_err nx_tcp_conn_create(nx_tcp_conn **out, nx_tcp *t, int fd,
                                           const struct sockaddr_storage *remote,
                                           const nx_tls_target *target);
/* Frees it immediately: from its task or timer, or when the endpoint closes. */
void nx_tcp_conn_destroy(nx_tcp_conn *c);
/* Records the reason of the failure, unless there is one already. */
void nx_tcp_conn_fail(nx_tcp_conn *c, nexar_err err, const char *why);
/* The connection has failed, for the reason given to nx_tcp_conn_fail: the link is notified, and
 * the task frees the connection. */
void nx_tcp_conn_die(nx_tcp_conn *c);
/* Writes the last unit and waits until the peer has read it; the link is not notified. */
void nx_tcp_conn_close(nx_tcp_conn *c, nx_close_code code, const void *data, size_t len);
/* The handshake is done on both sides. */
void nx_tcp_conn_up(nx_tcp_conn *c);
/* The last unit was written: the endpoint's drain no longer waits for it. */
void nx_tcp_conn_written(nx_tcp_conn *c);
/* A link uses the connection: it stays. */
void nx_tcp_conn_keep(nx_tcp_conn *c);
/* The member behind it; when up. */
uint64_t nx_tcp_conn_member(const nx_tcp_conn *c);

/* ---- conn_in.c ----------------------------------------------------------------------- */

/* Reads the available bytes and handles them. */
void nx_tcp_conn_read(nx_tcp_conn *c);
/* Continues the handshake with the bytes read. */
void nx_tcp_conn_handshake(nx_tcp_conn *c);
/* The callbacks of a connection's parser. */
extern const nx_tcp_parser_up nx_tcp_conn_units;
/* gnutls_pull_func */
ssize_t nx_tcp_conn_pull(gnutls_transport_ptr_t ptr, void *to, size_t len);

/* ---- conn_out.c ---------------------------------------------------------------------- */

/* Data was queued: written at the end of the iteration. */
void nx_tcp_conn_wake(nx_tcp_conn *c);
/* Seals |len| bytes of the stream; false: the connection has failed. */
bool nx_tcp_conn_put(nx_tcp_conn *c, const void *data, size_t len);
/* Seals an alert; failures are ignored. */
void nx_tcp_conn_alert(nx_tcp_conn *c, uint8_t level, uint8_t what);
/* Seals the KeyUpdate that is due, if one is. */
bool nx_tcp_conn_update_key(nx_tcp_conn *c);
/* Seals and writes the link's queued data, as much as the socket accepts. */
void nx_tcp_conn_flush(nx_tcp_conn *c);
/* Writes the sealed bytes; false: the socket accepts no more now. */
bool nx_tcp_conn_write(nx_tcp_conn *c);
/* gnutls_vec_push_func */
ssize_t nx_tcp_conn_push(gnutls_transport_ptr_t ptr, const giovec_t *iov, int n);

/* ---- simultaneous_open.c ------------------------------------------------------------- */

void nx_tcp_open_resolve_up(nx_tcp_conn *c);
void nx_tcp_open_resolve_used(nx_tcp_conn *c);
void nx_tcp_open_resolve_failed(nx_tcp_conn *c);

/* ---- dial.c -------------------------------------------------------------------------- */

void nx_tcp_dial_next(nx_tcp_link *link);
void nx_tcp_dial_failed(nx_tcp_link *link, bool tell, nexar_err err, const char *why);

/* ---- link.c -------------------------------------------------------------------------- */

NX_MUST_CHECK nexar_err nx_tcp_link_create(nx_tcp_link **out, nx_tcp *t,
                                           const nx_tls_target *target);
/* The link is down, or never came up: on_sent and on_down follow from its task. */
void nx_tcp_link_down(nx_tcp_link *link, nexar_err err, const char *why);
/* Calls on_sent for completed parts. */
void nx_tcp_link_deliver(nx_tcp_link *link);
/* Ends it immediately: for nx_tcp_close. */
void nx_tcp_link_end(nx_tcp_link *link);
void nx_tcp_link_leave_map(nx_tcp_link *link);
bool nx_tcp_link_wants_data(const nx_tcp_link *link);
/* Sets the event of a caller that waits for the endpoint to drain. */
void nx_tcp_tell_drained(nx_tcp *t);

#endif /* NX_TCP_INNER_H */
