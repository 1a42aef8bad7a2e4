/*
 * conn.h - one QUIC connection, without socket and clock: datagrams and the time are arguments, so
 * it also runs in simulation.
 *
 * Streams, all unidirectional, in each direction: number 0 is the control lane, 1 the message lane,
 * the others are parts (sendq.h, lane_parser.h).
 *
 * A connection ignores addresses: ngtcp2 knows the first path only, and the owner may send the
 * output by any path. So both ends may move. (With ngtcp2's own migration only the dialler could,
 * and only as often as it has ids of the peer.) The owner decides which new address to trust
 * (roam.c).
 *
 * Time never goes backwards from call to call. Upcalls are made from inside nx_conn_read only, with
 * ngtcp2 on the stack: they may fill the send queue and must not call any function here but
 * nx_conn_attach.
 */
#ifndef NX_CONN_H
#define NX_CONN_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "base/random.h"
#include "lane_parser.h"
#include "sendq.h"
#include "transport/quic/crypto/tls.h"
#include "transport/quic/ngtcp2_compat.h"

enum {
    NX_CID_SIZE = 8,        /* size of own connection ids: a map's key */
    NX_CONN_WHY = 224,      /* size of the reason as text */
    NX_SECRET_SIZE = 32,    /* source of stateless reset tokens */
    NX_DATAGRAM_MIN = 1200, /* QUIC needs a path that carries this */
    NX_CALL_NS = 100000000, /* interval of probes to a peer that does not answer */
    /* Flow-control window to another host; ngtcp2 doubles it while the peer fills it within two
     * round trips. Initial value, and maximum (10 Gbit/s at 50 ms). */
    NX_CONN_WINDOW_FIRST = 1 << 20,
    NX_CONN_WINDOW_MOST = 64 << 20
};

/* Application error codes in CONNECTION_CLOSE; the reason follows as text. */
typedef enum nx_close_code {
    NX_CLOSE_DONE = 0,    /* the owner has closed the link */
    NX_CLOSE_OTHER = 1,   /* another connection to the same member is used */
    NX_CLOSE_REFUSED = 2, /* the certificate */
    NX_CLOSE_PROTO = 3,   /* malformed bytes */
    NX_CLOSE_FAILED = 4,  /* out of memory and the like */
    NX_CLOSE_LAST = 5     /* as DONE; the reason is a frame of the control lane */
} nx_close_code;

typedef struct nx_conn nx_conn;

typedef struct nx_conn_up {
    nx_lane_parser_up inbox;
    /* The peer has sent stream data: the deciding side has chosen this connection. Once, before the
     * data is passed on. */
    void (*on_used)(void *ctx);
    /* Packets for the id |cid| are for this connection; false: out of memory. */
    bool (*on_cid)(void *ctx, uint64_t cid);
    void (*on_cid_gone)(void *ctx, uint64_t cid);
} nx_conn_up;

typedef struct nx_conn_config {
    uint64_t now_ns;
    const nx_random *random;
    nx_tls *tls;
    const uint8_t *secret; /* NX_SECRET_SIZE bytes */
    struct sockaddr_storage local, remote;
    uint64_t window; /* bytes that the peer may have in flight */
    bool bbr;        /* congestion control: BBR, otherwise CUBIC */
    uint64_t idle_ns, handshake_ns;
    size_t datagram; /* the largest that the interface carries */
    bool same_host;  /* same host: no search for the limits of the network */
    int qlog_fd;     /* owned from success on; -1: none */
    const nx_conn_up *up;
    void *ctx;

    const nx_tls_target *target; /* of a dialler; NULL: accept */
    const ngtcp2_pkt_hd *hd;     /* acceptor: the first packet's header */
    const ngtcp2_cid *retried;   /* acceptor: original id, when hd->token is from this endpoint */
} nx_conn_config;

typedef enum nx_conn_state {
    NX_CONN_HANDSHAKE,
    NX_CONN_UP,  /* both sides have accepted each other */
    NX_CONN_DEAD /* see err, why; close it to notify the peer */
} nx_conn_state;

/* NEXAR_ENOMEM, NEXAR_EINTERNAL, NEXAR_EPROTO (the first packet). */
NX_MUST_CHECK nexar_err nx_conn_create(nx_conn **out, const nx_conn_config *config);
void nx_conn_destroy(nx_conn *c);

/* From now on transmits the content of |q| and acknowledges into it; NULL: nothing more, and ngtcp2
 * must not be asked to write either. */
void nx_conn_attach(nx_conn *c, nx_sendq *q);

/* Reads a datagram from |from|, modifying it in place. During the handshake, datagrams from other
 * addresses than the first are dropped. */
void nx_conn_read(nx_conn *c, const struct sockaddr_storage *from, const uint8_t *data, size_t len,
                  uint64_t now_ns);
/* Whether the last datagram was authentic, new or not. */
bool nx_conn_opened(const nx_conn *c);

/*
 * Writes one datagram into |buf| of |room| bytes (at least 1200).  Returns its length; 0:
 * nothing to send now.  After a batch of them nx_conn_wrote.
 */
size_t nx_conn_write(nx_conn *c, uint8_t *buf, size_t room, uint64_t now_ns);
void nx_conn_wrote(nx_conn *c, uint64_t now_ns);
/* How many bytes may be written before nx_conn_wrote, so that bursts fit into the queues on the
 * path. */
size_t nx_conn_burst(nx_conn *c);
/* Whether another nx_conn_write would return 0. */
bool nx_conn_is_dry(const nx_conn *c);

/* The kernel reports that the path carries no datagram longer than |most|. */
void nx_conn_limit(nx_conn *c, size_t most);

/* Whether there is data to write besides acknowledgements and the like; true during the
 * handshake. */
bool nx_conn_has_data(const nx_conn *c);

/* When nx_conn_expire, then nx_conn_write, are due; UINT64_MAX: never. */
uint64_t nx_conn_expiry(nx_conn *c);
void nx_conn_expire(nx_conn *c, uint64_t now_ns);

/*
 * A probe: a datagram to send again by all paths to a peer that does not answer. Returns its
 * length; 0: not due (nx_conn_expiry). |*data| is valid until the next call of any function here.
 */
size_t nx_conn_call(nx_conn *c, uint64_t now_ns, const uint8_t **data);
/* Whether the peer has acknowledged nothing for nx_conn_patience, with data in flight. */
bool nx_conn_is_stuck(const nx_conn *c, uint64_t now_ns);
uint64_t nx_conn_patience(const nx_conn *c);
/* The network reports that packets are not delivered: probe the peer immediately. */
void nx_conn_urge(nx_conn *c);
/* Whether this connection sent the datagram that begins with |data|: it bears the peer's connection
 * id, which is unknown to an off-path attacker. */
bool nx_conn_sent(nx_conn *c, const uint8_t *data, size_t len);

/*
 * Makes the last datagram: the error that ended the connection or, if it lives, |code| and |why|.
 * Returns its length; 0: nothing to send (the peer has closed, or does not know the connection).
 * The connection is dead afterwards.
 */
size_t nx_conn_close(nx_conn *c, nx_close_code code, const char *why, uint8_t *buf, size_t room,
                     uint64_t now_ns);
/* Sets what nx_conn_close will send if the connection lives then: |frame|, of at most NX_LAST_MAX
 * bytes. */
void nx_conn_keep_last(nx_conn *c, const void *frame, size_t len);
/* For a dead connection: the frame with which the peer has closed it; NULL: none. */
const void *nx_conn_last(const nx_conn *c, size_t *len);
/* Declares it dead by knowledge of the kernel or the owner; |silent|: the peer cannot be
 * notified. */
void nx_conn_kill(nx_conn *c, nexar_err err, const char *why, bool silent);

nx_conn_state nx_conn_get_state(const nx_conn *c);
nexar_err nx_conn_error(const nx_conn *c, const char **why); /* for a dead connection */
bool nx_conn_closed_by_peer(const nx_conn *c, nx_close_code *code);
/* For a dead connection: whether the peer has closed it, or does not know it any more. */
bool nx_conn_gone(const nx_conn *c);
uint64_t nx_conn_member(const nx_conn *c);   /* from the certificate; when up */
uint64_t nx_conn_last_ack(const nx_conn *c); /* when the peer last acknowledged something */
uint64_t nx_conn_pto(nx_conn *c);
/* Requests an acknowledgement when nothing else was sent for |ns|. */
void nx_conn_keep_alive(nx_conn *c, uint64_t ns);
void nx_conn_info(nx_conn *c, nx_link_info *info); /* all but the addresses */
NX_MUST_CHECK nexar_err nx_conn_export(const nx_conn *c, const char *label,
                                       uint8_t out[NX_TLS_SECRET]);

#endif /* NX_CONN_H */
