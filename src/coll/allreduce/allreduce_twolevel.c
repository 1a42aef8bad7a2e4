/*
 * allreduce_twolevel.c - allreduce inside the hosts, between them, and inside again.
 *
 * The vector is cut into parts, one for each leader of a host: the smallest number of ranks of a
 * host, or one for short vectors. Inside a host each rank sends each leader its part of the vector,
 * and the leader adds up the parts. Then the leaders of the same part, one on each host, reduce it
 * between the hosts. Finally each leader sends its part to the other ranks of its host. On each
 * host one rank reduces a part, and between the hosts the algorithm gives every rank the same bits:
 * so all ranks end with the same bits.
 *
 * Long vectors go in chunks, each in rounds of its own. While one chunk is on the network, the next
 * is added up inside the hosts, and the previous one is distributed there.
 *
 *     rounds: 2 inside the hosts, and those between them
 *     sent over the network by a host: what one rank would send, were it alone
 *
 * Best where hosts have several ranks, whose vectors would otherwise all cross the same wire.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

/* Chunks of a long vector: the network cannot hide the first and the last step inside the hosts;
 * with CHUNKS chunks they are an eighth of those steps. */
enum { CHUNKS = 8 };
/* A chunk gives each message of a ring between the hosts at least a quarter of a segment, 64 KiB. A
 * network of 10 Gbit/s takes 25 times longer for it than a core takes for a message. */
enum { QUARTER = 4 };

typedef struct job {
    const nx_coll *c;
    nx_levels v;
    uint32_t leaders;
    nx_builder between;
    nx_split parts; /* of the chunk */
    nx_ref in, out; /* it begins there */
    uint32_t round; /* of both levels, for the chunk */
} job;

static nx_span part_of(const job *j, uint32_t leader)
{
    return nx_split_at(&j->parts, leader);
}

/* Each leader receives its part of all vectors, and adds them up. */
static void collect(nx_sched *s, const job *j)
{
    const nx_levels *v = &j->v;

    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t to = nx_levels_up(v, i);

        if (to < j->leaders) {
            const nx_span part = part_of(j, to);

            nx_send(s, nx_levels_rank(v, to), 2 * j->round, nx_ref_plus(j->in, part.off), part.len);
        }
    }
    if (v->place < j->leaders) {
        const nx_span own = part_of(j, v->place);
        const nx_ref sum = nx_ref_plus(j->out, own.off);
        nx_ref now = nx_ref_plus(j->in, own.off);

        for (uint32_t i = 1; i < v->count; i++) {
            nx_recv_reduce(s, nx_levels_rank(v, nx_levels_down(v, i)), 2 * j->round, sum, now,
                           own.len);
            now = sum;
        }
    }
}

static void reduce_between(nx_sched *s, const job *j)
{
    const nx_span own = part_of(j, j->v.place);
    const nx_coll sub = {.kind = NX_ALLREDUCE,
                         .count = own.len,
                         .average = j->c->average,
                         .in_place = j->c->in_place || (j->v.count > 1)};

    nx_levels_among(s, &j->v, j->between, sub,
                    (nx_sched_frame){.round = 2 * j->v.n * j->round,
                                     .send = nx_ref_plus(j->in, own.off),
                                     .recv = nx_ref_plus(j->out, own.off)});
}

/* Each leader sends its part to all ranks of its host. */
static void spread(nx_sched *s, const job *j)
{
    const nx_levels *v = &j->v;

    for (uint32_t i = 1; i < v->count; i++) {
        const uint32_t to = nx_levels_up(v, i), from = nx_levels_down(v, i);

        if (v->place < j->leaders) {
            const nx_span own = part_of(j, v->place);

            nx_send(s, nx_levels_rank(v, to), 2 * j->round + 1, nx_ref_plus(j->out, own.off),
                    own.len);
        }
        if (from < j->leaders) {
            const nx_span part = part_of(j, from);

            nx_recv(s, nx_levels_rank(v, from), 2 * j->round + 1, nx_ref_plus(j->out, part.off),
                    part.len);
        }
    }
}

/* The number of chunks of |count| elements. */
static uint32_t chunks_of(size_t count, size_t segment, uint32_t hosts, uint32_t leaders)
{
    const size_t least = (segment / QUARTER + 1) * hosts * leaders;
    const size_t chunks = (segment == 0) ? 1 : count / least;

    return (chunks <= 1) ? 1 : ((chunks < CHUNKS) ? (uint32_t)chunks : CHUNKS);
}

static nexar_err build(nx_sched *s, const nx_coll *c, uint32_t leaders, nx_builder between)
{
    job j = {.c = c, .v = nx_levels_make(c), .leaders = leaders, .between = between};
    const uint32_t n = chunks_of(c->count, s->segment, j.v.n, leaders);
    const nx_split chunks = nx_split_even(c->count, n);

    for (j.round = 0; j.round < n; j.round++) {
        const nx_span chunk = nx_split_at(&chunks, j.round);

        j.parts = nx_split_even(chunk.len, leaders);
        j.in = nx_ref_plus(nx_coll_input(c), chunk.off);
        j.out = nx_at(NX_SPACE_RECV, chunk.off);
        collect(s, &j);
        if (j.v.place < leaders) {
            reduce_between(s, &j);
        }
        spread(s, &j);
    }
    return nx_sched_seal(s);
}

nexar_err nx_allreduce_twolevel(nx_sched *s, const nx_coll *c)
{
    return build(s, c, 1, nx_allreduce_recdbl);
}

nexar_err nx_allreduce_twolevel_halving(nx_sched *s, const nx_coll *c)
{
    return build(s, c, nx_hosts_least(c->hosts), nx_allreduce_halving_doubling);
}

nexar_err nx_allreduce_twolevel_ring(nx_sched *s, const nx_coll *c)
{
    return build(s, c, nx_hosts_least(c->hosts), nx_allreduce_ring);
}

/* ---- cost ---------------------------------------------------------------------------- */

typedef struct guess {
    uint32_t leaders, others; /* of a host */
    double inside;            /* of one of the two levels inside */
    uint32_t chunks;
} guess;

/* The chunks are sequential; the time is that of one chunk. */
static void add_chunks(const nx_coll *c, size_t segment, nx_forecast *f, nx_forecaster between,
                       const guess *g)
{
    const nx_net across = nx_net_across(f->net, g->leaders);
    const nx_split chunks = nx_split_even(c->count, g->chunks);

    f->rounds = f->messages = f->sent = 0;
    for (uint32_t i = 0; i < g->chunks; i++) {
        const size_t len = nx_split_at(&chunks, i).len;
        const nx_split parts = nx_split_even(len, g->leaders);
        const nx_span own = nx_split_at(&parts, 0);
        const uint64_t cut = nx_segments(own.len, segment);
        nx_forecast part = {.net = &across};
        nx_coll sub = *c;

        sub.size = f->net->hosts;
        sub.count = own.len;
        between(&sub, segment, &part);
        f->rounds = part.rounds + ((g->others > 0) ? 2 : 0);
        f->messages += part.messages + g->others * cut;
        f->sent += part.sent + g->others * (uint64_t)own.len;
        if (g->leaders > 1) { /* the first rank sends the other leaders their parts */
            f->messages += nx_split_cost_of(&parts, segment).segments - cut;
            f->sent += len - own.len;
        }
        f->time_s = (i == 0) ? part.time_s : f->time_s;
    }
}

static void forecast(const nx_coll *c, size_t segment, nx_forecast *f, nx_forecaster between,
                     uint32_t leaders)
{
    const uint32_t per_host = nx_net_per_host(f->net);
    guess g = {.leaders = leaders, .others = per_host - 1};
    double inside;

    g.chunks = chunks_of(c->count, segment, f->net->hosts, leaders);
    add_chunks(c, segment, f, between, &g);
    if ((c->count == 0) && (f->rounds > 0)) {
        f->rounds = 1;
    }
    inside = nx_net_collect(f->net, c->count / leaders / g.chunks, true) +
             nx_net_collect(f->net, c->count / leaders / g.chunks, false);
    /* The slower level all the time, plus the other level for one chunk. */
    f->time_s =
        (f->time_s > inside) ? f->time_s * g.chunks + inside : inside * g.chunks + f->time_s;
}

static uint32_t most_leaders(const nx_net *net)
{
    return net->ranks / net->hosts;
}

void nx_allreduce_twolevel_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    forecast(c, segment, f, nx_allreduce_recdbl_forecast, 1);
}

void nx_allreduce_twolevel_halving_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    forecast(c, segment, f, nx_allreduce_halving_doubling_forecast, most_leaders(f->net));
}

void nx_allreduce_twolevel_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    forecast(c, segment, f, nx_allreduce_ring_forecast, most_leaders(f->net));
}
