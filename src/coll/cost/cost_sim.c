/*
 * cost_sim.c - the real schedules of all ranks, run in virtual time.
 *
 * A step acquires a shared resource in the event in which it needs it: first come, first served. A
 * resource used by one rank alone needs no event of its own: its requests are in order.
 */
#include "coll/cost/cost_sim.h"

#include "base/alloc.h"
#include "coll/cost/cost_events.h"
#include "coll/cost/cost_graph.h"

/* The time at which each resource is free again. */
typedef struct port {
    double out, in;
} port;

typedef struct sim {
    const nx_net *net;
    nx_cost_graph graph;
    nx_cost_events events;
    double *cpu;       /* per rank */
    port *locals;      /* per rank, for messages inside its host */
    port *nics;        /* per host */
    uint32_t *host_of; /* per rank */
    double now;
    double end;      /* the last receive or local step so far */
    uint32_t rounds; /* deepest message so far */
    uint64_t over;   /* steps that are complete */
} sim;

/* Occupies |*free_at| for |span|, from |from| at the earliest; returns the start. */
static inline double take(double *free_at, double from, double span)
{
    double start = (*free_at > from) ? *free_at : from;

    *free_at = start + span;
    return start;
}

/* Whether both ends of the message are on one host. */
static inline bool is_local(const sim *m, const nx_cost_step *message)
{
    return m->host_of[message->rank] == m->host_of[m->graph.steps[message->mate].rank];
}

static inline double message_cpu(const sim *m, bool local)
{
    return local ? m->net->local_cpu : m->net->message_cpu;
}

/* The message leaves, and reaches the destination's input after the latency. */
static void leave(sim *m, uint32_t step, bool local, double from)
{
    const nx_cost_step *send = &m->graph.steps[step];
    double start;

    if (local) {
        start =
            take(&m->locals[send->rank].out, from, (double)send->bytes / m->net->local_bandwidth) +
            m->net->local_latency;
    } else {
        start = take(&m->nics[m->host_of[send->rank]].out, from,
                     (double)send->bytes / m->net->bandwidth) +
                m->net->latency;
    }
    nx_cost_events_push(&m->events, start, NX_COST_EVENT_HEAD, step);
}

static void start_send(sim *m, uint32_t step)
{
    nx_cost_step *send = &m->graph.steps[step];
    const bool local = is_local(m, send);
    const double span = message_cpu(m, local);
    const double ready = take(&m->cpu[send->rank], m->now, span) + span;

    send->depth++;
    m->rounds = (send->depth > m->rounds) ? send->depth : m->rounds;
    if (local || (m->net->hosts == m->net->ranks)) {
        leave(m, step, local, ready);
    } else {
        nx_cost_events_push(&m->events, ready, NX_COST_EVENT_OUT, step);
    }
}

static void start(sim *m, uint32_t step)
{
    const nx_cost_step *st = &m->graph.steps[step];
    double span = 0;

    if (st->kind == NX_COST_SEND) {
        start_send(m, step);
        return;
    }
    if (st->kind != NX_COST_LOCAL) {
        span += message_cpu(m, is_local(m, st));
    }
    if (st->kind != NX_COST_RECV) {
        span += (double)st->bytes / m->net->reduce_bandwidth;
    }
    nx_cost_events_push(&m->events, take(&m->cpu[st->rank], m->now, span) + span,
                        NX_COST_EVENT_DONE, step);
}

/* One of the step's dependencies is complete, at depth |depth|. */
static inline void release(sim *m, uint32_t step, uint32_t depth)
{
    nx_cost_step *st = &m->graph.steps[step];

    st->depth = (depth > st->depth) ? depth : st->depth;
    if (--st->pending == 0) {
        start(m, step);
    }
}

static void finish(sim *m, uint32_t step)
{
    const nx_cost_step *st = &m->graph.steps[step];

    m->over++;
    for (uint32_t i = st->first; i < st[1].first; i++) {
        release(m, m->graph.succ[i], st->depth);
    }
}

/* The message has reached the receiver's input. */
static void come_in(sim *m, uint32_t step)
{
    const nx_cost_step *send = &m->graph.steps[step];
    const uint32_t to = m->graph.steps[send->mate].rank;
    const bool local = is_local(m, send);
    const double bandwidth = local ? m->net->local_bandwidth : m->net->bandwidth;
    double *way = local ? &m->locals[to].in : &m->nics[m->host_of[to]].in;
    const double span = (double)send->bytes / bandwidth;
    const double arrival = take(way, m->now, span) + span;

    nx_cost_events_push(&m->events, arrival, NX_COST_EVENT_ARRIVE, step);
    if (send->first == send[1].first) {
        m->over++; /* no step waits for the acknowledgement */
    } else {
        nx_cost_events_push(&m->events, arrival + (local ? m->net->local_latency : m->net->latency),
                            NX_COST_EVENT_ACK, step);
    }
}

static void run(sim *m)
{
    nx_cost_event_kind kind;
    uint32_t step;

    for (uint32_t i = 0; i < m->graph.nsteps; i++) {
        if (m->graph.steps[i].pending == 0) {
            start(m, i);
        }
    }
    while (nx_cost_events_pop(&m->events, &m->now, &kind, &step)) {
        switch (kind) {
        case NX_COST_EVENT_DONE:
            m->end = m->now;
            finish(m, step);
            break;
        case NX_COST_EVENT_ACK:
            finish(m, step);
            break;
        case NX_COST_EVENT_ARRIVE:
            release(m, m->graph.steps[step].mate, m->graph.steps[step].depth);
            break;
        case NX_COST_EVENT_HEAD:
            come_in(m, step);
            break;
        case NX_COST_EVENT_OUT:
            leave(m, step, false, m->now);
            break;
        }
    }
}

static nexar_err sim_init(sim *m, const nx_net *net)
{
    nexar_err err = nx_cost_graph_init(&m->graph, net->ranks);

    m->cpu = nx_calloc(net->ranks, sizeof(*m->cpu));
    m->locals = nx_calloc(net->ranks, sizeof(*m->locals));
    m->nics = nx_calloc(net->hosts, sizeof(*m->nics));
    m->host_of = nx_calloc(net->ranks, sizeof(*m->host_of));
    if (err != NEXAR_OK) {
        return err;
    }
    if ((m->cpu == NULL) || (m->locals == NULL) || (m->nics == NULL) || (m->host_of == NULL)) {
        return nx_fail_nomem("the ranks of the cost model");
    }
    for (uint32_t r = 0; r < net->ranks; r++) {
        m->host_of[r] = nx_net_host(net, r);
    }
    return NEXAR_OK;
}

static void sim_fini(sim *m)
{
    nx_cost_graph_fini(&m->graph);
    nx_cost_events_fini(&m->events);
    nx_free(m->cpu);
    nx_free(m->locals);
    nx_free(m->nics);
    nx_free(m->host_of);
}

/* Builds all ranks into the graph; counts into |f|. */
static nexar_err build_all(sim *m, nx_rank_builder build, void *ctx, size_t segment, nx_forecast *f)
{
    nexar_err err = NEXAR_OK;

    for (uint32_t r = 0; (err == NEXAR_OK) && (r < m->net->ranks); r++) {
        nx_sched s;

        nx_sched_init(&s, segment);
        err = build(ctx, r, &s);
        if (err == NEXAR_OK) {
            err = nx_cost_graph_add(&m->graph, r, &s, m->net->elem_size);
        }
        if (s.tally.messages_sent > f->messages) {
            f->messages = s.tally.messages_sent;
        }
        f->sent = (s.tally.sent > f->sent) ? s.tally.sent : f->sent;
        nx_sched_fini(&s);
    }
    return (err == NEXAR_OK) ? nx_cost_graph_match(&m->graph) : err;
}

nexar_err nx_cost_simulate(nx_rank_builder build, void *ctx, size_t segment, nx_forecast *f)
{
    sim m = {.net = f->net};
    nx_forecast got = {.net = f->net};
    nexar_err err = sim_init(&m, f->net);

    if (err == NEXAR_OK) {
        err = build_all(&m, build, ctx, segment, &got);
    }
    if (err == NEXAR_OK) {
        run(&m);
        if (m.events.failed) {
            err = nx_fail_nomem("the events of the cost model");
        } else if (m.over != m.graph.nsteps) {
            err = nx_fail(NEXAR_EINTERNAL, "%llu of %llu steps can never run",
                          (unsigned long long)(m.graph.nsteps - m.over),
                          (unsigned long long)m.graph.nsteps);
        }
    }
    if (err == NEXAR_OK) {
        got.time_s = m.end;
        got.rounds = m.rounds;
        *f = got;
    }
    sim_fini(&m);
    return err;
}
