/*
 * quic_sim.h - two connections of conn.h on a network in memory, in virtual time. The same seed
 * makes the same losses.
 */
#ifndef NXT_QUIC_SIM_H
#define NXT_QUIC_SIM_H

#include "base/containers/heap.h"
#include "transport/quic/conn/conn.h"

/* The behaviour of the network, per direction. */
typedef struct nxt_quic_net {
    uint64_t delay_ns, jitter_ns; /* jitter puts them out of order */
    uint32_t loss_ppm, dup_ppm;
    uint32_t flip_ppm; /* also arrive once earlier, with a bit flipped */
    size_t mtu;        /* longer datagrams are lost; 0: no limit */
    uint64_t rate;     /* bytes per second; 0: no limit */
    bool cut;          /* all datagrams are lost */
    bool mute[2];      /* datagrams of this side are lost */
    size_t interface;  /* bytes of a datagram, as the ends assume */
    bool same_host;
    uint64_t window; /* 0: 1 MiB */
} nxt_quic_net;

typedef struct nxt_sim nxt_sim;

/* Target memory, offered by on_want, for parts with ids 0 .. n - 1 and offset 0. */
typedef struct nxt_places {
    uint8_t *memory;
    size_t stride, n;    /* bytes of a part at most, parts */
    uint64_t *got;       /* bytes of each */
    uint64_t straight;   /* bytes that arrived in place */
    unsigned int fickle; /* not 0: every |fickle|-th request is refused */
    unsigned int asked;
} nxt_places;

typedef struct nxt_side {
    nxt_sim *sim;
    nx_conn *conn;
    nx_sendq q;
    bool used;
    size_t frames[NX_LANES], disordered;
    uint64_t bytes, sum;
    nxt_places *places;  /* NULL: there are none */
    size_t sent, failed; /* parts returned by on_sent */
    size_t datagrams, longest, calls;
    uint64_t busy_until_ns; /* of the outgoing direction */
} nxt_side;

struct nxt_sim {
    nxt_quic_net net;
    nx_random_seeded random;
    uint64_t now_ns;
    nx_heap wire; /* packets by the time of their arrival */
    nxt_side side[2];
    nx_tls *tls[2];
    uint8_t secret[NX_SECRET_SIZE];
    uint64_t drops;
};

void nxt_sim_open(nxt_sim *s, const nxt_quic_net *net, uint64_t seed);
void nxt_sim_close(nxt_sim *s);

/* Runs until |done| or for |limit_ns| of virtual time. True: |done|. */
bool nxt_sim_run(nxt_sim *s, bool (*done)(const nxt_sim *s), uint64_t limit_ns);
/* Connects both ends and attaches their queues. */
void nxt_sim_connect(nxt_sim *s);

/* Sends frame number n of a lane: n as eight bytes, and n % 2000 more. */
void nxt_sim_frame(nxt_side *side, nx_lane lane, uint64_t n);
/* The contribution of a complete part to |sum|. */
uint64_t nxt_sim_part_sum(const nx_tx *tx);

#endif /* NXT_QUIC_SIM_H */
