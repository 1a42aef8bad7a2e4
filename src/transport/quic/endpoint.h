/*
 * endpoint.h - the endpoint from inside.
 *
 *   endpoint.c  the socket on the loop; which connection a packet belongs to
 *   accept.c    packets that belong to no connection
 *   conn_io.c  a connection with its timer and ids; conn_io_out.c: its output
 *   roam.c      which addresses a connection uses
 *   simultaneous_open.c  which connection a link uses
 *   dial.c      racing addresses
 *   link.c      the operations of a link, and its end
 *
 * An nx_conn_io is one connection at its endpoint. A link uses one of them, once that is decided,
 * and has any number of candidates before.
 *
 * Upcalls come from nx_conn_read (data, with ngtcp2 on the stack of *that* connection), from the
 * connection's work after it, and from a link's task. Operations called from there only queue and
 * defer. Only its task frees a link, and only its timer frees an nx_conn_io.
 */
#ifndef NX_QUIC_ENDPOINT_H
#define NX_QUIC_ENDPOINT_H

#include "base/containers/map.h"
#include "base/log_limit.h"
#include "transport/quic/conn/conn.h"
#include "transport/quic/quic.h"
#include "transport/quic/udp/udp.h"

enum {
    NX_QUIC_SAME_HOST = 61440, /* datagram size to the same host (measured on loopback) */
    NX_QUIC_FAR = 1472,        /* datagram size with |far| */
    NX_QUIC_TURN = 1 << 20,    /* bytes that a connection writes per iteration */
    NX_QUIC_OUT = 2 * 65536,   /* a batch, and the packet that ends it */
    NX_QUIC_WHY = 512,
    NX_QUIC_WINDOW_MOST = 4 << 20,    /* larger ones gain nothing (measured on loopback) */
    NX_QUIC_WINDOW_LEAST = 128 << 10, /* two datagrams to the same host */
    /* The pacer's timer, and other work due this soon, is delayed by this to be combined with a
     * send: about 5 us of 25 in a ping-pong (bench/quic_bench.c). */
    NX_QUIC_RIDE_NS = 20000,
    /* A short message is usually answered by another soon, so its acknowledgement is delayed by
     * this to be piggybacked. At 20 us every second packet of an 8-byte allreduce on 4 ranks and 2
     * cores was an acknowledgement alone, and each woke a sleeping rank: 3.5 sends per rank and
     * call, now 2. */
    NX_QUIC_ACK_NS = 1000000,
    /* Inside a host no ACK is needed to clock the network. Data in frames is copied, so no sender
     * waits for its ACK; messages up to this size use frames. 4 ranks on 2 cores, 64 KiB, us before
     * and after: allreduce 393 and 272, allgather 235 and 167, alltoall 234 and 190. */
    NX_QUIC_FRAME_BEST = 32768,
};

typedef struct nx_conn_io nx_conn_io;
typedef struct nx_quic_link nx_quic_link;

/* A batch of datagrams that the socket has not accepted yet. */
typedef struct nx_quic_out {
    uint8_t buf[NX_QUIC_OUT];
    size_t len, segment; /* of datagrams of |segment| bytes, the last may be shorter */
    nx_udp_path path;
} nx_quic_out;

struct nx_quic {
    nx_quic_config config;
    nx_tls *tls;
    const char *alpn; /* NX_ALPN; tests speak others */
    bool far;         /* tests: treat processes of this host like those of others */
    nx_udp *udp;
    nx_fd fd;
    struct sockaddr_storage local; /* local address given to ngtcp2: the wildcard of the family */
    uint64_t window;               /* the flow-control window of the next connection, unless it is
                                      to a seed */
    uint8_t secret[NX_SECRET_SIZE];

    nx_map by_cid;    /* nx_conn_io: own connection ids, and hashes of those chosen by diallers
                         (endpoint.c) */
    nx_map by_member; /* nx_quic_link that are neither down nor closed */
    nx_list conn_ios, links;
    size_t half_open; /* accepted conn_ios in their handshake */
    nx_conn_io *last; /* receiver of the last datagram, usually also of the next */
    uint64_t last_cid;

    nx_quic_out out;
    bool blocked;    /* |out| waits for the socket */
    nx_list stalled; /* nx_conn_io.in_stalled */

    size_t strays; /* replies to packets without connection, since ... */
    uint64_t strays_ns;
    size_t noise; /* invalid first packets, since ... */
    uint64_t noise_ns;
    nx_log_limit refusals; /* of unauthenticated peers */
    uint64_t drops_ns;     /* when the kernel was last asked for dropped datagrams ... */
    bool drops_told;       /* ... and whether the log has them */
    size_t closing;        /* closed links that still exist */
    nx_event *drained;
};

struct nx_conn_io {
    nx_quic *q;
    nx_conn *conn; /* NULL: closed; the rest answers late packets */
    nx_quic_link *link;
    nx_list in_all, in_link, in_stalled;
    nx_timer timer;
    nx_task task;
    nx_udp_path path;
    bool dialled, up, half_open, doomed;
    bool unwanted;         /* to be closed: the peer is connected otherwise */
    bool same_host;        /* the peer is on the same host */
    size_t unanswered;     /* bytes read since it last wrote */
    uint64_t since_ns;     /* creation of an accepted connection */
    uint64_t used_by_ns;   /* Calls on_sent for what is done. */
    uint64_t heard_ns;     /* last arrival on |path| */
    nx_udp_path elsewhere; /* address from which the peer has been heard since, */
    uint64_t elsewhere_ns; /* for the first time then */
    uint64_t *cids;
    size_t ncids, cids_room;

    bool refused;             /* ICMP: nothing listens there */
    unsigned int unreachable; /* consecutive ICMP errors "unreachable" */
    uint64_t unreachable_ns;  /* the first of them */
    uint64_t silent_ns;       /* an answer is due since then; 0: nothing was sent */

    uint8_t *last_word; /* the packet that closed it; NULL: the peer closed */
    size_t last_word_len;
    unsigned int heard; /* packets since */
    bool outlasts;      /* |last_word| is kept for as long as the peer may retransmit */
};

typedef enum nx_quic_link_state { NX_LINK_SETTLING, NX_LINK_UP, NX_LINK_DOWN } nx_quic_link_state;

struct nx_quic_link {
    nx_link base;
    nx_quic *q;
    nx_list in_all;
    nx_tls_target target;
    nx_sendq sendq;
    nx_quic_link_state state;
    nx_conn_io *used;          /* in NX_LINK_UP */
    nx_conn_io *rival;         /* came up while |used| seemed alive, */
    uint64_t rival_ns;         /* then */
    uint64_t asked_ns;         /* when both were last probed */
    bool asked_again;          /* and only the rival answered the probe before */
    nx_list conn_ios;          /* attempts of both sides, before the decision */
    uint8_t last[NX_LAST_MAX]; /* last frame of its connections, when it is closed */
    size_t last_len;

    struct sockaddr_storage *addresses; /* of the peer: to dial, and to probe */
    size_t n, next;
    nx_timer timer; /* timer: next address; decision; rival; drain */
    nx_task task;

    bool told_up, told_down, closing, drain;
    bool unwanted;           /* see nx_quic_refuse */
    bool said_bye, peer_bye; /* see link.c */
    bool exited;             /* its process has exited; its data is read, and then the link goes
                                down */
    uint64_t word_ns;        /* when the next empty frame is due, after the goodbye */
    uint64_t give_up_ns;     /* limit of a drain */
    nexar_err err;
    char why[NX_QUIC_WHY];
};

/* ---- endpoint.c ---------------------------------------------------------------------- */

bool nx_quic_add_cid(nx_conn_io *k, uint64_t cid);
void nx_quic_remove_cid(nx_conn_io *k, uint64_t cid);
/* The key of an id chosen by an unauthenticated peer. */
uint64_t nx_quic_hash_cid(const nx_quic *q, const uint8_t *cid, size_t len);
/* Reads everything that is in the socket now. From a task. */
void nx_quic_read_all(nx_quic *q);

/* ---- accept.c ------------------------------------------------------------------------ */

void nx_quic_on_stray(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len);

/* ---- conn_io.c ----------------------------------------------------------------------- */

/* |target| NULL: accept the packet with header |hd|; see nx_conn_config. */
NX_MUST_CHECK nexar_err nx_conn_io_create(nx_conn_io **out, nx_quic *q, const nx_udp_path *path,
                                          const nx_tls_target *target, const ngtcp2_pkt_hd *hd,
                                          const ngtcp2_cid *retried);
void nx_conn_io_destroy(nx_conn_io *k);
void nx_conn_io_read(nx_conn_io *k, const nx_udp_path *path, const uint8_t *data, size_t len,
                     uint64_t now_ns);
/* Something was queued: write at the end of the iteration. */
void nx_conn_io_wake(nx_conn_io *k);
/* Sends |why| (or the error that ended it) to the peer and keeps only that packet; the link is not
 * notified. */
void nx_conn_io_close(nx_conn_io *k, nx_close_code code, const char *why);
/* The network reports that the peer is unreachable. */
void nx_conn_io_unreachable(nx_conn_io *k, const nx_udp_refusal *r);
/* When that is believed of a peer that does not answer; UINT64_MAX: not reported. */
uint64_t nx_conn_io_silent_at(const nx_conn_io *k);
/* Handles the state that ngtcp2 reports; false: |k| is closed. */
bool nx_conn_io_conclude(nx_conn_io *k);

/* when the next empty frame is due, after the goodbye */

/* The connection's task: writes. */
void nx_conn_io_flush(nx_task *self);
/* Sends the delayed batch; false: still blocked. */
bool nx_quic_unblock(nx_quic *q);

/* ---- roam.c -------------------------------------------------------------------------- */

/* Whether |k| uses |path|. */
bool nx_roam_is_here(const nx_conn_io *k, const nx_udp_path *path);
/* A datagram from another path was read; |k| may use that path from now on. */
void nx_roam_heard(nx_conn_io *k, const nx_udp_path *path, uint64_t now_ns);
/* Probes the peer at all of its addresses, if it is time. */
void nx_roam_call(nx_conn_io *k, uint64_t now_ns);

/* ---- simultaneous_open.c ------------------------------------------------------------- */

void nx_open_resolve_up(nx_conn_io *k);   /* its handshake is done */
void nx_open_resolve_used(nx_conn_io *k); /* the peer has sent on it; inside nx_conn_read */
/* The time limit of the connection with a rival has passed. */
void nx_open_resolve_rival(nx_quic_link *link);
/* It has failed (and nx_conn_error is valid). */
void nx_open_resolve_failed(nx_conn_io *k);

/* ---- dial.c -------------------------------------------------------------------------- */

void nx_dial_next(nx_quic_link *link);
void nx_dial_failed(nx_quic_link *link, const struct sockaddr_storage *address, nexar_err err,
                    const char *why);

/* ---- link.c -------------------------------------------------------------------------- */

NX_MUST_CHECK nexar_err nx_quic_link_create(nx_quic_link **out, nx_quic *q,
                                            const nx_tls_target *target);
/* The link is down, or never came up: on_sent and on_down follow from its task. */
void nx_quic_link_down(nx_quic_link *link, nexar_err err, const char *why);
/* Calls on_sent for what is done. */
void nx_quic_link_deliver(nx_quic_link *link);
/* Ends it immediately: for nx_quic_close. */
void nx_quic_link_end(nx_quic_link *link);
/* |link| is no longer the link of its member: another may be made. */
void nx_quic_link_leave_map(nx_quic_link *link);
bool nx_quic_link_wants_data(const nx_quic_link *link);

#endif /* NX_QUIC_ENDPOINT_H */
