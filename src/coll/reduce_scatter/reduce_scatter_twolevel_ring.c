/*
 * reduce_scatter_twolevel_ring.c - reduce-scatter for long vectors: the blocks of a host start at
 * the next host, are reduced at each host, and end at their own host.
 *
 * The number of leaders is the smallest number of ranks of a host. Leader k handles the blocks of
 * the ranks at position k of their host, modulo the number of leaders. So there is one ring per
 * leader, all concurrent. Other ranks of a host send each leader its blocks, in the order in which
 * the leader needs them.
 *
 *     rounds: 1 inside the hosts, hosts - 1 between them, and 1 to ranks that do not lead
 *     sent over the network by a host: all blocks but its own, once
 *
 * Best when bandwidth counts more than latency, however the ranks are numbered.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/levels.h"

typedef struct job {
    const nx_coll *c;
    nx_levels v;
    uint32_t leaders;
    nx_ref in;
} job;

static nx_ref block_at(const job *j, uint32_t host, uint32_t place)
{
    return nx_ref_plus(j->in, nx_hosts_rank(j->c->hosts, host, place) * j->c->count);
}

static uint32_t round_of(const job *j, uint32_t host, uint32_t place)
{
    return nx_hosts_before(j->c->hosts, host) + place;
}

/* The number of blocks of |host| that a leader with this rank's number handles. */
static uint32_t in_charge(const job *j, uint32_t host)
{
    const uint32_t count = nx_hosts_count(j->c->hosts, host);

    return (j->v.place < j->leaders) ? (count - j->v.place + j->leaders - 1) / j->leaders : 0;
}

/* Sends the other leaders of this rank's host their contributions to |host|. */
static void give(nx_sched *s, const job *j, uint32_t host)
{
    for (uint32_t place = 0; place < nx_hosts_count(j->c->hosts, host); place++) {
        const uint32_t leader = place % j->leaders;

        if (leader != j->v.place) {
            nx_send(s, nx_levels_rank(&j->v, leader), round_of(j, host, place),
                    block_at(j, host, place), j->c->count);
        }
    }
}

/* Adds up this host's contribution to the block of |place| on |host|, and the partial sum that
 * arrived from the previous host, if any, at |sum|. Returns the result's location. */
static nx_ref add_up(nx_sched *s, const job *j, uint32_t host, uint32_t place, nx_ref sum,
                     bool came)
{
    const nx_levels *v = &j->v;
    nx_ref now = block_at(j, host, place);

    for (uint32_t i = 1; i < v->count; i++) {
        nx_recv_reduce(s, nx_levels_rank(v, nx_levels_down(v, i)), round_of(j, host, place), sum,
                       now, j->c->count);
        now = sum;
    }
    if (came) {
        const uint32_t prev = nx_hosts_rank(v->hosts, (v->host + v->n - 1) % v->n, v->place);

        nx_recv_reduce(s, prev, round_of(j, host, place), sum, now, j->c->count);
        now = sum;
    }
    return now;
}

/* Forwards the partial sums of the blocks of |host| that this leader handles. */
static void pass_on(nx_sched *s, const job *j, uint32_t host, bool came)
{
    const nx_levels *v = &j->v;
    const uint32_t next = nx_hosts_rank(v->hosts, (v->host + 1) % v->n, v->place);
    const size_t room = ((v->count > 1) || came) ? j->c->count : 0;

    for (uint32_t i = 0; i < in_charge(j, host); i++) {
        const uint32_t place = v->place + i * j->leaders;
        const nx_ref sum = nx_sched_scratch(s, room);
        const nx_ref now = add_up(s, j, host, place, sum, came);

        nx_send(s, next, round_of(j, host, place), now, j->c->count);
    }
}

/* The blocks of this rank's host end here: the own block in the output, the others at their
 * ranks. */
static void finish(nx_sched *s, const job *j)
{
    const nx_levels *v = &j->v;
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    nx_ref own = out;

    for (uint32_t i = 0; i < in_charge(j, v->host); i++) {
        const uint32_t place = v->place + i * j->leaders;
        const bool straight = (i == 0) && !j->c->in_place;
        const nx_ref sum = straight ? out : nx_sched_scratch(s, j->c->count);
        const nx_ref now = add_up(s, j, v->host, place, sum, v->n > 1);

        if (i == 0) {
            own = now;
        } else {
            nx_send(s, nx_levels_rank(v, place), 0, now, j->c->count);
        }
    }
    if (v->place >= j->leaders) {
        nx_recv(s, nx_levels_rank(v, v->place % j->leaders), 0, out, j->c->count);
    } else {
        nx_copy(s, out, own, j->c->count); /* after everything that reads this input */
    }
}

nexar_err nx_reduce_scatter_twolevel_ring(nx_sched *s, const nx_coll *c)
{
    const job j = {.c = c,
                   .v = nx_levels_make(c),
                   .leaders = nx_hosts_least(c->hosts),
                   .in = nx_coll_input(c)};

    for (uint32_t k = 1; k < j.v.n; k++) {
        const uint32_t host = (j.v.host + j.v.n - k) % j.v.n;

        give(s, &j, host);
        pass_on(s, &j, host, k > 1);
    }
    give(s, &j, j.v.host);
    finish(s, &j);
    if (c->average) {
        nx_divide(s, nx_at(NX_SPACE_RECV, 0), c->count);
    }
    return nx_sched_seal(s);
}

void nx_reduce_scatter_twolevel_ring_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const uint32_t per_host = nx_net_per_host(f->net), leaders = c->size / f->net->hosts;
    const uint32_t hops = f->net->hosts - 1, others = per_host - 1;
    const nx_net across = nx_net_across(f->net, leaders);
    const uint64_t blocks = c->size - 1; /* to the other ranks of its host, and to the next host */
    nx_cost_stream stream = nx_cost_stream_of(c->count, segment);
    double between, inside;

    f->messages = (c->size > 1) ? blocks * stream.segments : 0;
    f->sent = (c->size > 1) ? blocks * c->count : 0;
    f->rounds = (c->count > 0) ? hops + (others > 0) : (c->size > 1);
    stream.work = 1;
    between = nx_net_ring(&across, stream, hops);
    inside = nx_net_collect(f->net, c->count, true);
    f->time_s = (between > inside * (hops + 1))
                    ? between + inside
                    : inside * (hops + 1) + ((hops > 0) ? between / hops : 0);
}
