/* cost_graph.c - the schedules of all ranks as one graph. */
#include "coll/cost/cost_graph.h"

#include <stdlib.h>

#include "base/alloc.h"

/* The sends and the receives of a rank, each by peer and then by tag. So the n-th message to a peer
 * is the n-th that the peer receives from this rank, and matching needs no search. */
struct nx_cost_mail {
    uint32_t *sends, *recvs; /* step numbers; recvs follows sends in one allocation */
    uint32_t nsends, nrecvs;
    uint32_t taken; /* receives matched so far */
};

nexar_err nx_cost_graph_init(nx_cost_graph *g, uint32_t ranks)
{
    *g = (nx_cost_graph){.ranks = ranks};
    g->mail = nx_calloc(ranks, sizeof(*g->mail));
    g->places = nx_calloc((size_t)ranks + 1, sizeof(*g->places));
    return ((g->mail == NULL) || (g->places == NULL)) ? nx_fail_nomem("the cost model") : NEXAR_OK;
}

static void free_mail(nx_cost_graph *g)
{
    if (g->mail != NULL) {
        for (uint32_t r = 0; r < g->ranks; r++) {
            nx_free(g->mail[r].sends);
        }
    }
    nx_free(g->mail);
    nx_free(g->places);
    nx_free(g->order);
    g->mail = NULL;
    g->places = NULL;
    g->order = NULL;
}

void nx_cost_graph_fini(nx_cost_graph *g)
{
    free_mail(g);
    nx_free(g->steps);
    nx_free(g->succ);
    *g = (nx_cost_graph){0};
}

/* Makes room for |more| elements of |size| after |used| ones. */
static nexar_err reserve(void **array, uint32_t *room, uint32_t used, uint32_t more, size_t size)
{
    uint64_t need = (uint64_t)used + more;
    uint64_t want = (uint64_t)*room + *room / 2;
    void *grown;

    if (need <= *room) {
        return NEXAR_OK;
    }
    want = (want < need) ? need : want;
    want = (want > UINT32_MAX) ? UINT32_MAX : want;
    grown = (need > UINT32_MAX) ? NULL : nx_grow(*array, want, size);
    if (grown == NULL) {
        return nx_fail(NEXAR_ENOMEM, "out of memory for %llu steps or waits in the cost model",
                       (unsigned long long)need);
    }
    *array = grown;
    *room = (uint32_t)want;
    return NEXAR_OK;
}

static bool is_message(const nx_step *st)
{
    return (st->kind == NX_STEP_SEND) || (st->kind == NX_STEP_RECV) ||
           (st->kind == NX_STEP_RECV_REDUCE);
}

static nx_cost_kind kind_of(const nx_step *st)
{
    switch ((nx_step_kind)st->kind) {
    case NX_STEP_SEND:
        return NX_COST_SEND;
    case NX_STEP_RECV:
        return NX_COST_RECV;
    case NX_STEP_RECV_REDUCE:
        return NX_COST_RECV_REDUCE;
    case NX_STEP_COPY:
    case NX_STEP_REDUCE:
    case NX_STEP_FILL:
    case NX_STEP_DIVIDE:
    case NX_STEP_CALL:
    case NX_STEP_KINDS:
        break;
    }
    return NX_COST_LOCAL;
}

static void add_steps(nx_cost_graph *g, uint32_t rank, const nx_sched *s, size_t elem_size)
{
    nx_cost_step *to = g->steps + g->nsteps;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        const nx_step *st = &s->steps[i];
        const nx_cost_kind kind = kind_of(st);
        const bool waits = (kind == NX_COST_RECV) || (kind == NX_COST_RECV_REDUCE);

        to[i] = (nx_cost_step){
            .mate = st->peer, /* until nx_cost_graph_match */
            .pending = st->ndeps + waits,
            .bytes = (st->kind == NX_STEP_CALL) ? 0 : (float)st->len * (float)elem_size,
            .rank = rank & (UINT32_MAX >> 3),
            .kind = (uint32_t)kind & 7,
        };
    }
}

/* Inverts "waits for" into "is waited for by". */
static void add_successors(nx_cost_graph *g, const nx_sched *s)
{
    nx_cost_step *to = g->steps + g->nsteps;
    uint32_t at = g->nsucc;

    for (uint32_t i = 0; i < s->ndeps; i++) {
        to[s->deps[i]].first++;
    }
    /* Starts at the end of each step's section: filling moves the index to the beginning, and
     * iterating from the last step to the first preserves the order of the successors. */
    for (uint32_t i = 0; i < s->nsteps; i++) {
        at += to[i].first;
        to[i].first = at;
    }
    for (uint32_t i = s->nsteps; i-- > 0;) {
        const nx_step *st = &s->steps[i];

        for (uint32_t d = st->ndeps; d-- > 0;) {
            g->succ[--to[s->deps[st->deps + d]].first] = g->nsteps + i;
        }
    }
    g->nsucc = at;
    to[s->nsteps].first = at;
}

static uint64_t tag_of(const nx_sched *s, uint32_t i)
{
    return nx_step_tag(s->steps[i].round, s->steps[i].segment);
}

static int compare_tags(const void *a, const void *b, void *ctx)
{
    uint64_t x = tag_of(ctx, *(const uint32_t *)a);
    uint64_t y = tag_of(ctx, *(const uint32_t *)b);

    return (x > y) - (x < y);
}

/* Sorts one peer's messages; builders add nearly all of them in that order. */
static void sort_group(nx_sched *s, uint32_t *group, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        if (tag_of(s, group[i - 1]) > tag_of(s, group[i])) {
            qsort_r(group, n, sizeof(*group), compare_tags, s);
            return;
        }
    }
}

/* Writes the numbers of the messages of one direction to |out|, by peer and tag. The first |n| of
 * g->order are these messages in schedule order. */
static void sort_mail(nx_cost_graph *g, const nx_sched *s, uint32_t n, uint32_t *out)
{
    uint32_t *places = g->places;
    uint32_t at = 0;
    nx_sched view = *s; /* qsort_r requires a context that is not const */

    for (uint32_t p = 0; p <= g->ranks; p++) {
        places[p] = 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        places[s->steps[g->order[i]].peer]++;
    }
    for (uint32_t p = 0; p <= g->ranks; p++) {
        uint32_t count = places[p];

        places[p] = at;
        at += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        out[places[s->steps[g->order[i]].peer]++] = g->order[i];
    }
    at = 0;
    for (uint32_t p = 0; p < g->ranks; p++) {
        sort_group(&view, out + at, places[p] - at);
        at = places[p];
    }
    for (uint32_t i = 0; i < n; i++) {
        out[i] += g->nsteps;
    }
}

/* Puts the first messages of one direction into g->order; returns their number. */
static uint32_t pick(nx_cost_graph *g, const nx_sched *s, bool sends)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        const nx_step *st = &s->steps[i];

        if (is_message(st) && ((st->kind == NX_STEP_SEND) == sends)) {
            g->order[n++] = i;
        }
    }
    return n;
}

static nexar_err add_mail(nx_cost_graph *g, struct nx_cost_mail *m, const nx_sched *s)
{
    uint32_t messages = 0;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (is_message(&s->steps[i])) {
            messages++;
            if (s->steps[i].peer >= g->ranks) {
                return nx_fail(NEXAR_EINTERNAL, "a message goes to rank %u of %u",
                               (unsigned)s->steps[i].peer, (unsigned)g->ranks);
            }
        }
    }
    m->sends = nx_grow(NULL, messages, sizeof(*m->sends));
    if (m->sends == NULL) {
        return nx_fail_nomem("the messages of the cost model");
    }
    m->nsends = pick(g, s, true);
    sort_mail(g, s, m->nsends, m->sends);
    m->recvs = m->sends + m->nsends;
    m->nrecvs = pick(g, s, false);
    sort_mail(g, s, m->nrecvs, m->recvs);
    return NEXAR_OK;
}

nexar_err nx_cost_graph_add(nx_cost_graph *g, uint32_t rank, const nx_sched *s, size_t elem_size)
{
    nexar_err err;

    err = (s->nsteps == UINT32_MAX) ? nx_fail_nomem("a schedule in the cost model")
                                    : reserve((void **)&g->steps, &g->steps_room, g->nsteps,
                                              s->nsteps + 1, sizeof(*g->steps));
    if (err == NEXAR_OK) {
        err = reserve((void **)&g->succ, &g->succ_room, g->nsucc, s->ndeps, sizeof(*g->succ));
    }
    if (err == NEXAR_OK) {
        err = reserve((void **)&g->order, &g->order_room, 0, s->nsteps, sizeof(*g->order));
    }
    if (err == NEXAR_OK) {
        err = add_mail(g, &g->mail[rank], s);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    add_steps(g, rank, s, elem_size);
    add_successors(g, s);
    g->nsteps += s->nsteps;
    return NEXAR_OK;
}

static nexar_err fail_match(const nx_cost_graph *g, uint32_t send)
{
    return nx_fail(NEXAR_EINTERNAL, "rank %u does not receive what rank %u sends to it",
                   (unsigned)g->steps[send].mate, (unsigned)g->steps[send].rank);
}

nexar_err nx_cost_graph_match(nx_cost_graph *g)
{
    for (uint32_t r = 0; r < g->ranks; r++) {
        for (uint32_t i = 0; i < g->mail[r].nsends; i++) {
            const uint32_t send = g->mail[r].sends[i];
            struct nx_cost_mail *to = &g->mail[g->steps[send].mate];
            uint32_t recv;

            if (to->taken == to->nrecvs) {
                return fail_match(g, send);
            }
            /* Senders come in order, and so do the matching receives of this rank. */
            recv = to->recvs[to->taken++];
            if ((g->steps[recv].mate != r) || (g->steps[recv].bytes != g->steps[send].bytes)) {
                return fail_match(g, send);
            }
            g->steps[send].mate = recv;
            g->steps[recv].mate = send;
        }
    }
    for (uint32_t r = 0; r < g->ranks; r++) {
        if (g->mail[r].taken != g->mail[r].nrecvs) {
            return nx_fail(NEXAR_EINTERNAL, "rank %u receives %u messages that nobody sends",
                           (unsigned)r, (unsigned)(g->mail[r].nrecvs - g->mail[r].taken));
        }
    }
    free_mail(g);
    return NEXAR_OK;
}
