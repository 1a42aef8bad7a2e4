/*
 * sim_inner.h - shared by the files of the virtual network.
 *
 *   net.c   life, time, steps: the next event
 *   link.c  the operations of a link, and its end
 *   path.c  packets: what is sent next, arrival, acknowledgement
 *
 * Only nx_sim_create, nx_sim_attach, nx_sim_pair, send_frame and send_part allocate. The number of
 * packets for parts per link is fixed, and the heap of events has room for every event.
 */
#ifndef NX_SIM_INNER_H
#define NX_SIM_INNER_H

#include "base/containers/heap.h"
#include "base/containers/list.h"
#include "base/random.h"
#include "sim.h"

enum { NX_SIM_PACKETS = 64 };  /* fragments of parts in flight, per direction */
enum { NX_SIM_OVERHEAD = 40 }; /* header bytes of a packet */

typedef struct nx_sim_link nx_sim_link;

typedef enum nx_sim_kind {
    NX_SIM_UP,    /* the link can be used */
    NX_SIM_FIN,   /* the link goes down: fin_err, fin_why */
    NX_SIM_DRAIN, /* a drain has taken too long */
    NX_SIM_FRAME, /* a frame arrives */
    NX_SIM_PIECE, /* a piece of a part arrives */
    NX_SIM_ACK,   /* the acknowledgement of a packet arrives */
} nx_sim_kind;

/* An event of |link| at the time item.key. */
typedef struct nx_sim_event {
    nx_heap_item item;
    nx_list held; /* in link->held, while that is blocked */
    nx_sim_link *link;
    nx_sim_kind kind;
} nx_sim_event;

/* A part that is held; tx->owner points here. */
typedef struct nx_sim_part {
    nx_list link; /* in nx_sim_link.parts or .ended */
    nx_tx *tx;
    nexar_err err;        /* in .ended: the result that on_sent reports */
    bool begun, all_sent; /* an empty part sends a packet too */
    uint64_t last_ns;     /* when the latest of its packets arrives */
    size_t at;            /* position in tx->bytes of the next fragment to arrive, */
    size_t at_off;        /* and offset in that piece */
} nx_sim_part;

/* A packet: a frame with its bytes, or a fragment of a part. */
typedef struct nx_sim_packet {
    nx_sim_event event;
    nx_list link; /* in frames[], flying or free_packets of |from| */
    nx_sim_link *from;
    nx_lane lane;
    nx_sim_part *part; /* NULL: a frame, or the part was cancelled */
    uint64_t off;
    size_t len;
    uint8_t *data; /* of a frame: behind the packet */
} nx_sim_packet;

struct nx_sim_link {
    nx_link base;
    nx_sim_net *net;
    nx_sim_link *peer; /* NULL: it no longer exists */
    nx_sim_path path;  /* of what this end sends */
    nx_list links;     /* in net->links */
    nx_list work;      /* in net->work, while work is due */
    nx_list held;      /* events that wait for the block to end */
    bool blocked, up, closed, draining, down, down_told;
    nexar_err down_err; /* when |down| */
    nexar_err fin_err;  /* the reason that |fin| will report */
    const char *fin_why;
    uint8_t last[NX_LAST_MAX]; /* the peer's last frame, before it goes down */
    size_t last_len;
    nx_sim_event up_event, fin, drain;

    nx_list frames[NX_LANES]; /* not sent yet */
    nx_list parts, ended;     /* held; released, on_sent due */
    nx_list flying;           /* packets in flight or waiting for their ack */
    nx_list free_packets;
    nx_sim_packet *pool;
    size_t in_flight;
    uint64_t busy_until;          /* when the wire is idle */
    uint64_t lane_last[NX_LANES]; /* when the latest frame arrives */

    uint64_t bytes_sent, bytes_received, packets_lost;
};

struct nx_sim_net {
    nx_clock_manual clock;
    nx_loop *loop;  /* runs on its time; NULL: virtual */
    nx_timer timer; /* there */
    nx_random_seeded random;
    nx_heap events;
    size_t reserved; /* number of events; the heap has room for them */
    nx_list links, work;
    size_t nlinks;
    nx_loop **loops; /* attached */
    size_t nloops, room_loops;
    uint8_t scratch[NX_FRAME_MAX]; /* what is being delivered */
};

/* ---- net.c --------------------------------------------------------------------------- */

uint64_t nx_sim_now(const nx_sim_net *net);
NX_MUST_CHECK nexar_err nx_sim_reserve(nx_sim_net *net, size_t n);
void nx_sim_unreserve(nx_sim_net *net, size_t n);
/* |event| is in no heap: schedules it at |at_ns|. */
void nx_sim_schedule(nx_sim_net *net, nx_sim_event *event, uint64_t at_ns);
/* Cancels it. */
void nx_sim_unschedule(nx_sim_net *net, nx_sim_event *event);
/* nx_sim_link_work is called in the next step. */
void nx_sim_work(nx_sim_link *link);

/* ---- link.c -------------------------------------------------------------------------- */

void nx_sim_link_happen(nx_sim_event *event);
void nx_sim_link_work(nx_sim_link *link);
void nx_sim_link_free(nx_sim_link *link);

/* ---- path.c -------------------------------------------------------------------------- */

/* Sends what may be sent now. */
void nx_sim_pump(nx_sim_link *link);
/* A frame or a fragment has arrived; its acknowledgement has arrived. */
void nx_sim_arrive(nx_sim_packet *packet);
void nx_sim_acknowledge(nx_sim_packet *packet);
/* Forgets a packet, wherever it is. */
void nx_sim_packet_drop(nx_sim_packet *packet);

#endif /* NX_SIM_INNER_H */
