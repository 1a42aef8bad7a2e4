/*
 * endpoint.h - the endpoint from inside.
 *
 *   endpoint.c  the socket on the loop; whose packet is this?
 *   accept.c    packets that belong to no connection
 *   connection.c   a connection with its timer and its ids; conn_io_out.c its way out
 *   roam.c      which addresses a connection uses
 *   settle.c    which connection a link uses
 *   dial.c      racing addresses
 *   link.c      the operations of a link, and its end
 *
 * A connection is one connection at its endpoint.  A link has one that it uses, once
 * that is settled, and before that any number that might become it.
 *
 * What may happen when: up-calls come from nx_conn_read (data, with ngtcp2 on the
 * stack of *that* connection), from the connection's work after it, and from a link's
 * task.  Whatever the callee does, operations only queue and defer; links are
 * freed by their task and conn_ios by their timer, never on the way.
 */
#ifndef NX_QUIC_ENDPOINT_H
#define NX_QUIC_ENDPOINT_H

#include "base/containers/map.h"
#include "base/log_limit.h"
#include "transport/quic/conn/conn.h"
#include "transport/quic/quic.h"
#include "transport/quic/udp/udp.h"

enum {
    NX_QUIC_SAME_HOST = 61440, /* bytes of a datagram to the same host (measured on loopback) */
    NX_QUIC_FAR = 1472,        /* bytes of one, if |far| */
    NX_QUIC_TURN = 1 << 20,    /* bytes that a connection writes per turn */
    NX_QUIC_OUT = 2 * 65536,   /* a batch, and the packet that ends it */
    NX_QUIC_WHY = 512,
    NX_QUIC_WINDOW_MOST = 4 << 20,    /* larger ones gain nothing (measured on loopback) */
    NX_QUIC_WINDOW_LEAST = 128 << 10, /* two datagrams of the same host */
    /* The pacer's timer, and what else is due so soon, waits this long for something to
     * send: some 5 us of 25 in a ping-pong (bench/quic_bench.c). */
    NX_QUIC_RIDE_NS = 20000,
    /* A short message is mostly answered by another when the application has seen it:
     * its acknowledgement waits this long for a ride.  At 20 us every second packet of
     * an 8-byte allreduce on 4 ranks and 2 cores was a lone acknowledgement, and each
     * woke a rank that slept: 3.5 sends for each rank and call, now 2. */
    NX_QUIC_ACK_NS = 1000000,
    /* Inside a host, where no ACK is needed to clock the network: what goes in frames is
     * copied anyway, so that nobody waits for its ACK.  Messages up to this go so.  4 ranks
     * on 2 cores, 64 KiB in us, before and with it: allreduce 393 and 272, allgather 235 and
     * 167, alltoall 234 and 190. */
    NX_QUIC_FRAME_BEST = 32768,
};

typedef struct nx_conn_io nx_conn_io;
typedef struct nx_quic_link nx_quic_link;

/* A batch of datagrams that the socket has not taken yet. */
typedef struct nx_quic_out {
    uint8_t buf[NX_QUIC_OUT];
    size_t len, segment; /* of datagrams of |segment| bytes, the last may be shorter */
    nx_udp_path path;
} nx_quic_out;

struct nx_quic {
    nx_quic_config config;
    nx_tls *tls;
    const char *alpn; /* NX_ALPN; tests speak others */
    bool far;         /* tests: processes of this host are treated like those of others */
    nx_udp *udp;
    nx_fd fd;
    struct sockaddr_storage local; /* what connections are told: the family's any */
    uint64_t window;               /* that the next connection grants, unless it is to a seed */
    uint8_t secret[NX_SECRET_SIZE];

    nx_map by_cid;    /* nx_conn_io: connection ids that we made, and the hashes of
                         those that diallers made (endpoint.c) */
    nx_map by_member; /* nx_quic_link: those that are neither down nor closed */
    nx_list conn_ios, links;
    size_t half_open; /* accepted conn_ios in their handshake */
    nx_conn_io *last; /* whom the last datagram was for: the next one too, mostly */
    uint64_t last_cid;

    nx_quic_out out;
    bool blocked;    /* |out| waits for the socket */
    nx_list stalled; /* nx_conn_io.in_stalled */

    size_t strays; /* answers to packets of no connection, since ... */
    uint64_t strays_ns;
    size_t noise; /* first packets that were none, since ... */
    uint64_t noise_ns;
    nx_log_limit refusals; /* of strangers */
    uint64_t drops_ns;     /* when the kernel was last asked for dropped datagrams ... */
    bool drops_told;       /* ... and whether the log has them */
    size_t closing;        /* links that were closed and still exist */
    nx_event *drained;
};

struct nx_conn_io {
    nx_quic *q;
    nx_conn *conn; /* NULL: closed; what is left answers late packets */
    nx_quic_link *link;
    nx_list in_all, in_link, in_stalled;
    nx_timer timer;
    nx_task task;
    nx_udp_path path;
    bool dialled, up, half_open, doomed;
    bool unwanted;         /* to be closed: the peer is connected otherwise */
    bool same_host;        /* no network between */
    size_t unanswered;     /* bytes read since it last wrote */
    uint64_t since_ns;     /* that an accepted one is there */
    uint64_t used_by_ns;   /* or it is closed: an accepted one that is up */
    uint64_t heard_ns;     /* when something last came by |path| */
    nx_udp_path elsewhere; /* where the peer was heard since, */
    uint64_t elsewhere_ns; /* for the first time then */
    uint64_t *cids;
    size_t ncids, cids_room;

    bool refused;             /* nothing listens there, says its host */
    unsigned int unreachable; /* times in a row that the network said so */
    uint64_t unreachable_ns;  /* the first of them */
    uint64_t silent_ns;       /* since then an answer is due; 0: nothing was said */

    uint8_t *last_word; /* the packet that closed it; NULL: the peer closed */
    size_t last_word_len;
    unsigned int heard; /* packets since */
    bool outlasts;      /* its last word is kept for as long as the peer may take to ask */
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
    nx_conn_io *rival;         /* came up while |used| was thought to be alive, */
    uint64_t rival_ns;         /* then */
    uint64_t asked_ns;         /* when the peer was last asked on both */
    bool asked_again;          /* and before that it has answered on the rival alone */
    nx_list conn_ios;          /* attempts, ours and the peer's, while settling */
    uint8_t last[NX_LAST_MAX]; /* what its connections say when it is closed */
    size_t last_len;

    struct sockaddr_storage *addresses; /* of the peer: to dial, and to call it at */
    size_t n, next;
    nx_timer timer; /* next address; settled by; rival; drained by */
    nx_task task;

    bool told_up, told_down, closing, drain;
    bool unwanted;           /* see nx_quic_refuse */
    bool said_bye, peer_bye; /* see link.c */
    bool exited;             /* its process has ended; what it sent is read, and then it is down */
    uint64_t word_ns;        /* when the next word is due, once we said good-bye */
    uint64_t give_up_ns;     /* when a drain has lasted long enough */
    nexar_err err;
    char why[NX_QUIC_WHY];
};

/* ---- endpoint.c -------------------------------------------------------------- */

bool nx_quic_add_cid(nx_conn_io *k, uint64_t cid);
void nx_quic_remove_cid(nx_conn_io *k, uint64_t cid);
/* The key for an id that a stranger has chosen. */
uint64_t nx_quic_hash_cid(const nx_quic *q, const uint8_t *cid, size_t len);
/* Reads all that is in the socket when it is called.  From a task. */
void nx_quic_read_all(nx_quic *q);

/* ---- accept.c ---------------------------------------------------------------- */

void nx_quic_on_stray(nx_quic *q, const nx_udp_path *path, const uint8_t *data, size_t len);

/* ---- connection.c --------------------------------------------------------------- */

/* |target| NULL: accept the packet with header |hd|; see nx_conn_config. */
NX_MUST_CHECK nexar_err nx_conn_io_create(nx_conn_io **out, nx_quic *q, const nx_udp_path *path,
                                          const nx_tls_target *target, const ngtcp2_pkt_hd *hd,
                                          const ngtcp2_cid *retried);
void nx_conn_io_destroy(nx_conn_io *k);
void nx_conn_io_read(nx_conn_io *k, const nx_udp_path *path, const uint8_t *data, size_t len,
                     uint64_t now_ns);
/* Something was queued: write at the end of the turn. */
void nx_conn_io_wake(nx_conn_io *k);
/* Says |why| to the peer (or what it died of) and keeps only the last word; the
 * link is not told. */
void nx_conn_io_close(nx_conn_io *k, nx_close_code code, const char *why);
/* The network says that the peer cannot be reached. */
void nx_conn_io_unreachable(nx_conn_io *k, const nx_udp_refusal *r);
/* When that is believed of a peer that answers nothing; UINT64_MAX: it was not said. */
uint64_t nx_conn_io_silent_at(const nx_conn_io *k);
/* Draws the consequences of what ngtcp2 has said; false: |k| is closed. */
bool nx_conn_io_conclude(nx_conn_io *k);

/* ---- conn_io_out.c ------------------------------------------------------------- */

/* The connection's task: writes. */
void nx_conn_io_flush(nx_task *self);
/* Sends the batch that was held back; false: still blocked. */
bool nx_quic_unblock(nx_quic *q);

/* ---- roam.c ------------------------------------------------------------------- */

/* Whether |path| is the one that |k| uses. */
bool nx_roam_is_here(const nx_conn_io *k, const nx_udp_path *path);
/* A datagram has come by another one, and was read; |k| may use that from now on. */
void nx_roam_heard(nx_conn_io *k, const nx_udp_path *path, uint64_t now_ns);
/* Calls the peer at all of its addresses, if it is time. */
void nx_roam_call(nx_conn_io *k, uint64_t now_ns);

/* ---- settle.c ---------------------------------------------------------------- */

void nx_open_resolve_up(nx_conn_io *k);   /* its handshake is done */
void nx_open_resolve_used(nx_conn_io *k); /* the peer has sent on it; inside nx_conn_read */
/* Time is up for the connection that has a rival. */
void nx_open_resolve_rival(nx_quic_link *link);
/* It is dead (and nx_conn_error valid). */
void nx_open_resolve_dead(nx_conn_io *k);

/* ---- dial.c ------------------------------------------------------------------ */

void nx_dial_next(nx_quic_link *link);
void nx_dial_failed(nx_quic_link *link, const struct sockaddr_storage *address, nexar_err err,
                    const char *why);

/* ---- link.c ------------------------------------------------------------------ */

NX_MUST_CHECK nexar_err nx_quic_link_create(nx_quic_link **out, nx_quic *q,
                                            const nx_tls_target *target);
/* Not up any more, or never: on_sent and on_down follow from its task. */
void nx_quic_link_down(nx_quic_link *link, nexar_err err, const char *why);
/* on_sent for what is done. */
void nx_quic_link_deliver(nx_quic_link *link);
/* Ends it at once: for nx_quic_close. */
void nx_quic_link_end(nx_quic_link *link);
/* |link| is not the one of its member any more: another may be made. */
void nx_quic_link_leave_map(nx_quic_link *link);
bool nx_quic_link_wants_data(const nx_quic_link *link);

#endif /* NX_QUIC_ENDPOINT_H */
