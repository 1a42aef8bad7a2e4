/*
 * quic_time.h - a cluster of quic_pair.h on real sockets, in virtual time: the clock stops while
 * there is work to do, then advances to the next due time.
 */
#ifndef NXT_QUIC_TIME_H
#define NXT_QUIC_TIME_H

#include <sys/epoll.h>

#include "quic_pair.h"
#include "transport/quic/endpoint.h"

enum { NXT_STEP_NS = 5000000 }; /* at most, so that packets in flight arrive in time */

static const uint64_t NXT_SECOND_NS = UINT64_C(1000000000);

typedef struct nxt_timed {
    nxt_cluster c;
    nx_clock_manual clock;
    void (*between)(struct nxt_timed *t); /* called in every step, if set: simulates the network */
    void *ctx;
} nxt_timed;

static inline void nxt_timed_open(nxt_timed *t, size_t n)
{
    *t = (nxt_timed){0};
    nx_clock_manual_init(&t->clock, NXT_SECOND_NS);
    nxt_cluster_open_at(&t->c, n, &t->clock.clock);
}

static inline void nxt_timed_step(nxt_timed *t)
{
    uint64_t due;

    for (int i = 0; i < 3; i++) {
        nx_loop_kick(t->c.loop);
        if (t->between != NULL) {
            t->between(t);
        }
    }
    due = nx_loop_next_due(t->c.loop);
    due = (due > t->clock.ns) ? due : t->clock.ns + 1000;
    t->clock.ns = (due < t->clock.ns + NXT_STEP_NS) ? due : t->clock.ns + NXT_STEP_NS;
}

/* Steps until |condition|; fails after |limit_ns| of virtual time. */
#define nxt_timed_until(t, condition, limit_ns)        \
    do {                                               \
        uint64_t nxt_end = (t)->clock.ns + (limit_ns); \
        while (!(condition)) {                         \
            assert_true((t)->clock.ns < nxt_end);      \
            nxt_timed_step(t);                         \
        }                                              \
    } while (0)

static inline void nxt_timed_pass(nxt_timed *t, uint64_t ns)
{
    uint64_t end = t->clock.ns + ns;

    while (t->clock.ns < end) {
        nxt_timed_step(t);
    }
}

/* at[i] stops receiving, or receives everything that has arrived since. */
static inline void nxt_timed_deafen(nxt_timed *t, size_t i)
{
    nx_loop_fd_remove(t->c.loop, &t->c.at[i].quic->fd);
}

static inline void nxt_timed_undeafen(nxt_timed *t, size_t i)
{
    assert_int_equal(nx_loop_fd_add(t->c.loop, &t->c.at[i].quic->fd, EPOLLIN), NEXAR_OK);
}

/* Drops the packets that have arrived for at[i]. */
static inline void nxt_timed_lose(nxt_timed *t, size_t i)
{
    char byte;

    while (recv(nx_udp_fd(t->c.at[i].quic->udp), &byte, 1, MSG_DONTWAIT | MSG_TRUNC) > 0) {
    }
}

/* A link from at[0] to at[1], up at both ends. */
static inline void nxt_timed_link(nxt_timed *t, nxt_peer *p)
{
    nxt_dial(&t->c, 0, 1, p);
    nxt_timed_until(t, p->up && (t->c.at[1].naccepted == 1) && t->c.at[1].accepted[0].up,
                    5 * NXT_SECOND_NS);
}

#endif /* NXT_QUIC_TIME_H */
