/*
 * allgather_twolevel_ring.c - allgather for long blocks: each block travels once around a ring of
 * hosts, and inside each host directly to all ranks.
 *
 * The number of leaders of a host is the smallest number of ranks of any host. Leader k forwards
 * the blocks of the ranks at position k of their host, modulo the leaders. So there is one ring per
 * leader, all concurrent, and one rank of each host forwards a block: to the next host, and to the
 * other ranks of its own.
 *
 *     rounds: hosts - 1 between them, and 1 inside
 *     sent over the network by a host: all blocks but those of the next
 *
 * Best when bandwidth counts more than latency: no block reaches a host twice, whatever the
 * numbering of the ranks; no scratch.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

typedef struct job {
    const nx_coll *c;
    nx_levels v;
    uint32_t leaders;
} job;

/* The block of number |place| on |host|, and its round, on both levels. */
static nx_ref block_at(const job *j, uint32_t host, uint32_t place)
{
    return nx_at(NX_SPACE_RECV, nx_hosts_rank(j->c->hosts, host, place) * j->c->count);
}

static uint32_t round_of(const job *j, uint32_t host, uint32_t place)
{
    return nx_hosts_before(j->c->hosts, host) + place;
}

/* Exchanges the own block with all ranks of this rank's host. */
static void own_host(nx_sched *s, const job *j, nx_ref in)
{
    const nx_levels *v = &j->v;

    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t to = nx_levels_up(v, i), from = nx_levels_down(v, i);

        nx_send(s, nx_levels_rank(v, to), round_of(j, v->host, v->place), in, j->c->count);
        nx_recv(s, nx_levels_rank(v, from), round_of(j, v->host, from), block_at(j, v->host, from),
                j->c->count);
    }
}

/* Sends a block of another host that this leader has to all ranks of its host. */
static void hand_out(nx_sched *s, const job *j, uint32_t host, uint32_t place)
{
    for (uint32_t i = 1; i < j->v.count; i++) {
        nx_send(s, nx_levels_rank(&j->v, nx_levels_up(&j->v, i)), round_of(j, host, place),
                block_at(j, host, place), j->c->count);
    }
}

/* Receives the blocks of host |host| that arrive through other leaders of this rank's host. */
static void take_in(nx_sched *s, const job *j, uint32_t host)
{
    for (uint32_t place = 0; place < nx_hosts_count(j->c->hosts, host); place++) {
        const uint32_t leader = place % j->leaders;

        if (leader != j->v.place) {
            nx_recv(s, nx_levels_rank(&j->v, leader), round_of(j, host, place),
                    block_at(j, host, place), j->c->count);
        }
    }
}

/* This leader's part of the blocks of host |going| leaves for the next host; its part of host
 * |coming| arrives. */
static void turn(nx_sched *s, const job *j, uint32_t going, uint32_t coming, nx_ref in)
{
    const nx_levels *v = &j->v;
    const uint32_t next = nx_hosts_rank(v->hosts, (v->host + 1) % v->n, v->place);
    const uint32_t prev = nx_hosts_rank(v->hosts, (v->host + v->n - 1) % v->n, v->place);

    for (uint32_t p = v->place; p < nx_hosts_count(v->hosts, going); p += j->leaders) {
        const bool own = (going == v->host) && (p == v->place);

        nx_send(s, next, round_of(j, going, p), own ? in : block_at(j, going, p), j->c->count);
    }
    for (uint32_t p = v->place; p < nx_hosts_count(v->hosts, coming); p += j->leaders) {
        nx_recv(s, prev, round_of(j, coming, p), block_at(j, coming, p), j->c->count);
        hand_out(s, j, coming, p);
    }
}

nexar_err nx_allgather_twolevel_ring(nx_sched *s, const nx_coll *c)
{
    const job j = {.c = c, .v = nx_levels_make(c), .leaders = nx_hosts_least(c->hosts)};
    const nx_ref home = nx_at(NX_SPACE_RECV, c->rank * c->count);
    const nx_ref in = c->in_place ? home : nx_at(NX_SPACE_SEND, 0);

    own_host(s, &j, in);
    for (uint32_t k = 0; k + 1 < j.v.n; k++) {
        const uint32_t going = (j.v.host + j.v.n - k) % j.v.n;
        const uint32_t coming = (going + j.v.n - 1) % j.v.n;

        if (j.v.place < j.leaders) {
            turn(s, &j, going, coming, in);
        }
        take_in(s, &j, coming);
    }
    nx_copy(s, home, in, c->count);
    return nx_sched_seal(s);
}

void nx_allgather_twolevel_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t per_host = nx_net_per_host(f->net), leaders = c->size / f->net->hosts;
    const uint32_t hops = f->net->hosts - 1, others = per_host - 1;
    const nx_net across = nx_net_across(f->net, leaders);
    const nx_cost_stream stream = nx_cost_stream_of(c->count, segment);
    const uint64_t blocks = hops + (uint64_t)others * (1 + hops); /* that a leader sends */
    double between = nx_net_ring(&across, stream, hops), inside;

    f->messages = blocks * stream.segments;
    f->sent = blocks * c->count;
    f->rounds = (c->count > 0) ? hops + (others > 0) : (c->size > 1);
    inside = nx_net_collect(f->net, c->count, false);
    /* The slower level all the time, plus the other level for one block. */
    f->time_s = (between > inside * (hops + 1))
                    ? between + inside
                    : inside * (hops + 1) + ((hops > 0) ? between / hops : 0);
}
