/*
 * pending_link.h - the internals of the network transport.
 *
 *   inet.c          the endpoint: two sockets of one port, and incoming links
 *   pending_link.c  a link that has not come up: its queue, its operations, its end
 *   choose.c        its two legs: when each is dialled, which one is used, why there is none
 */
#ifndef NX_PENDING_LINK_H
#define NX_PENDING_LINK_H

#include "base/containers/map.h"
#include "transport/inet/inet.h"
#include "transport/tcp/tcp.h"

enum { NX_LEG_QUIC, NX_LEG_TCP, NX_INET_LEGS };
enum { NX_INET_WHY = 1024 };

struct nx_inet {
    nx_inet_config config;
    nx_quic *quic;    /* NULL: not allowed */
    nx_tcp *tcp;      /* NULL: not allowed, or the port is taken */
    nx_map by_member; /* nx_inet_link: those that are neither down nor closed without drain */
    nx_list links;
    size_t closing; /* closed links that still exist */
    nx_event *drained;
    bool udp_blocked; /* the last link that came up did so over TCP, and UDP was silent */
    bool told;        /* the log has reported it */
};

/* One transport's attempt. */
typedef struct nx_inet_leg {
    nx_link *link; /* NULL: not dialled, or down */
    bool tried, refused;
    nexar_err err;
    char why[NX_INET_WHY / 2]; /* it went down for this reason */
} nx_inet_leg;

typedef struct nx_inet_frame {
    nx_list link;
    size_t len;
    uint8_t data[];
} nx_inet_frame;

typedef struct nx_inet_link {
    nx_link base;
    nx_inet *net;
    nx_list in_all;
    uint64_t member;
    nx_pin pin;
    struct sockaddr_storage *addresses;
    size_t n;
    nx_inet_leg legs[NX_INET_LEGS];

    nx_list frames[NX_LANES]; /* nx_inet_frame */
    nx_list parts, cancelled; /* nx_tx.link */
    nexar_err parts_err;      /* for on_sent of |cancelled| */

    nx_timer timer;
    nx_task task;
    uint64_t begun_ns, tcp_at_ns, give_up_ns;
    bool closing, drain, exited;
    bool down, told_down;
    bool moved;     /* another link has taken its place: freed by its task */
    bool unreached; /* it went down, and no packet was heard */
    nexar_err err;
    char why[NX_INET_WHY];
} nx_inet_link;

/* ---- pending_link.c -------------------------------------------------------------- */

NX_MUST_CHECK nexar_err nx_inet_link_create(nx_inet_link **out, nx_inet *net,
                                            const nx_quic_target *target);
bool nx_inet_link_is(const nx_link *link);
/* The link goes down: on_sent and on_down follow from its task. */
void nx_inet_link_down(nx_inet_link *p, nexar_err err, const char *why);
/* |leg| replaces it, with all queued data. */
void nx_inet_link_move(nx_inet_link *p, nx_link *leg);
void nx_inet_link_leave_map(nx_inet_link *p);
/* Ends it immediately, with on_sent for held parts. */
void nx_inet_link_end(nx_inet_link *p);

/* ---- choose.c -------------------------------------------------------------------- */

/* Dials the due legs and sets the timer; may take the link down. */
void nx_inet_choose(nx_inet_link *p);
/* A connection of |member| that the peer has made is attempt |leg| of |p|. */
void nx_inet_adopt(nx_inet_link *p, int leg, nx_link *link);
void nx_inet_close_legs(nx_inet_link *p);

#endif /* NX_PENDING_LINK_H */
