/*
 * sched_sim.c - the run: one event at a time, chosen at random from bags of possible events.
 *
 * A step goes READY -> started -> complete. A started send (in a rendezvous, one whose message
 * has arrived) is in SENDS until its buffer is released. A message is in FLIGHTS, under the
 * number of its receive, from the start of both ends until its last fragment has arrived. A local
 * step is in LOCALS until it is computed.
 */
#include "sched_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rand.h"
#include "sched_plan.h"

nxt_sim_stats nxt_stats;

enum { READY, FLIGHTS, SENDS, LOCALS, BAGS };

typedef struct bag {
    uint32_t *at;
    uint32_t n;
} bag;

/* The character of one run. */
typedef struct policy {
    uint32_t weight[BAGS];
    enum { PICK_ANY, PICK_NEWEST, PICK_FIRST } pick[BAGS];
    uint32_t slow_rank; /* NXT_NOBODY: all ranks are equally fast */
    uint32_t held;      /* a step delayed to the end; NXT_NOBODY: none */
    bool held_at_start; /* before it starts; otherwise before it completes */
    bool rendezvous;    /* a buffer is released only after its message has arrived */
    uint32_t fragments; /* approximate number per message; 0: element by element */
} policy;

typedef struct sim {
    const nxt_plan *p;
    const nxt_run *run;
    nxt_verdict *v;
    nxt_rand rand;
    policy how;
    bag bags[BAGS];
    uint32_t parked, parked_in; /* the held step and its bag, until nothing else can happen */
    uint32_t left;
    uint32_t *waits;      /* per step: number of awaited steps not yet complete */
    bool *started, *done; /* per step */
    size_t *arrived;      /* per receive: elements */
    nxt_cell *cells;
    char *copies; /* copies of the sent blocks, made at the start of the send */
    char *bounce; /* one fragment */
    size_t elem_size;
} sim;

static uint32_t step_id(const sim *s, uint32_t g)
{
    return g - s->p->base[s->p->rank_of[g]];
}

static const nx_binding *binding_of(const sim *s, uint32_t g)
{
    return &s->run->bindings[s->p->rank_of[g]];
}

static void put(sim *s, uint32_t which, uint32_t g)
{
    bag *b = &s->bags[which];

    if ((g == s->how.held) && ((which == READY) == s->how.held_at_start)) {
        s->how.held = NXT_NOBODY;
        s->parked = g;
        s->parked_in = which;
        return;
    }
    b->at[b->n++] = g;
}

/* ---- memory --------------------------------------------------------------- */

/* Between |len| elements at |ref| and contiguous memory. */
static void gather(const sim *s, uint32_t g, nx_ref ref, size_t len, char *out)
{
    nx_cursor c = nx_cursor_start(binding_of(s, g), ref, len);
    nx_piece piece;

    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        memcpy(out, piece.ptr, piece.len * s->elem_size);
        out += piece.len * s->elem_size;
    }
}

static void scatter(const sim *s, uint32_t g, nx_ref ref, size_t len, const char *in)
{
    nx_cursor c = nx_cursor_start(binding_of(s, g), ref, len);
    nx_piece piece;

    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        memcpy(piece.ptr, in, piece.len * s->elem_size);
        in += piece.len * s->elem_size;
    }
}

/* ---- events --------------------------------------------------------------- */

static void complete(sim *s, uint32_t g)
{
    const nxt_plan *p = s->p;

    nxt_cells_release(s->p, s->cells, g);
    s->done[g] = true;
    s->left--;
    for (uint32_t k = p->next_at[g]; k < p->next_at[g + 1]; k++) {
        if (--s->waits[p->next[k]] == 0) {
            put(s, READY, p->next[k]);
        }
    }
}

static bool start(sim *s, uint32_t g)
{
    const nx_step *st = s->p->steps[g];

    if (!nxt_cells_hold(s->p, s->cells, g, s->v)) {
        return false;
    }
    s->started[g] = true;
    if (!nxt_is_message(st)) {
        put(s, LOCALS, g);
        return true;
    }
    if (st->kind == NX_STEP_SEND) {
        gather(s, g, st->a, st->len, s->copies + (s->p->copy_at[g] * s->elem_size));
        nxt_stats.messages++;
        if (!s->how.rendezvous) {
            put(s, SENDS, g);
        }
    }
    if (s->started[s->p->partner[g]]) {
        put(s, FLIGHTS, (st->kind == NX_STEP_SEND) ? s->p->partner[g] : g);
    }
    return true;
}

static size_t fragment_len(sim *s, const nx_step *st, size_t left)
{
    size_t most = left;

    if ((s->how.fragments == 0) || (left == 0)) {
        return (left > 0) ? 1 : 0;
    }
    if (s->how.fragments == 1) {
        return left;
    }
    most = (2 * st->len / s->how.fragments) + 1;
    most = 1 + nxt_below(&s->rand, most);
    return (most < left) ? most : left;
}

/* The next fragment of the message that receive |g| waits for. It is read from the sender's
 * memory now, or from the copy once the buffer was released. */
static bool deliver(sim *s, uint32_t g)
{
    const nx_step *st = s->p->steps[g];
    uint32_t send = s->p->partner[g];
    size_t off = s->arrived[g];
    size_t len = fragment_len(s, st, st->len - off);
    char *data = s->bounce + nxt_below(&s->rand, 8); /* wire data is not aligned */

    if (s->done[send]) {
        memcpy(data, s->copies + ((s->p->copy_at[send] + off) * s->elem_size), len * s->elem_size);
    } else {
        gather(s, send, nx_ref_plus(s->p->steps[send]->a, off), len, data);
    }
    if (len > 0) {
        nx_step_deliver(st, binding_of(s, g), s->run->dtype, s->run->op, off, data, len);
    }
    nxt_stats.fragments++;
    s->arrived[g] = off + len;
    if (s->arrived[g] == st->len) {
        complete(s, g);
        if (s->how.rendezvous) {
            put(s, SENDS, send);
        }
    } else {
        put(s, FLIGHTS, g);
    }
    return true;
}

/* The transport releases the buffer. Until now it might have retransmitted it. */
static bool finish_send(sim *s, uint32_t g)
{
    const nx_step *st = s->p->steps[g];
    const char *copy = s->copies + (s->p->copy_at[g] * s->elem_size);
    nx_cursor c = nx_cursor_start(binding_of(s, g), st->a, st->len);
    nx_piece piece;

    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        if (memcmp(copy, piece.ptr, piece.len * s->elem_size) != 0) {
            return nxt_find(s->v, NXT_CHANGED, s->p->rank_of[g], step_id(s, g),
                            "rank %u step %u: the block sent to %u in round %u changed before its "
                            "send was complete",
                            s->p->rank_of[g], step_id(s, g), st->peer, st->round);
        }
        copy += piece.len * s->elem_size;
    }
    complete(s, g);
    return true;
}

static bool run_local(sim *s, uint32_t g)
{
    const nx_step *st = s->p->steps[g];
    uint32_t rank = s->p->rank_of[g];

    if (st->kind != NX_STEP_CALL) {
        nx_step_run_local(st, binding_of(s, g), s->run->dtype, s->run->op, s->p->size);
    } else if (s->run->on_call == NULL) {
        return nxt_find(s->v, NXT_BAD_CALL, rank, step_id(s, g),
                        "rank %u step %u is a call, which nobody asked for", rank, step_id(s, g));
    } else {
        gather(s, g, st->dst, st->len, s->bounce);
        s->run->on_call(s->run->ctx, rank, st->dst, st->len, s->bounce);
        scatter(s, g, st->dst, st->len, s->bounce);
    }
    complete(s, g);
    return true;
}

/* ---- the order ------------------------------------------------------------ */

static policy choose_policy(sim *s)
{
    static const uint32_t weights[] = {1, 1, 4, 16, 64, 1000};
    static const uint32_t fragments[] = {1, 1, 2, 3, 5, 0};
    const nxt_plan *p = s->p;
    policy how = {.slow_rank = NXT_NOBODY, .held = NXT_NOBODY};

    for (uint32_t b = 0; b < BAGS; b++) {
        how.weight[b] = weights[nxt_below(&s->rand, 6)];
        how.pick[b] = nxt_one_in(&s->rand, 2) ? PICK_ANY : nxt_below(&s->rand, 3);
    }
    if (nxt_one_in(&s->rand, 3)) {
        how.slow_rank = nxt_below(&s->rand, p->size);
    }
    how.fragments = fragments[nxt_below(&s->rand, (p->copies > 100000) ? 5 : 6)];
    how.rendezvous = nxt_one_in(&s->rand, 2);
    how.held_at_start = nxt_one_in(&s->rand, 2);
    if (s->run->hold) {
        how.held = p->base[s->run->hold_rank] + s->run->hold_step;
    } else if (nxt_one_in(&s->rand, 2) && (p->total > 0)) {
        how.held = nxt_below(&s->rand, p->total);
    }
    return how;
}

/* A bag that is not empty, by weight; BAGS if all are. */
static uint32_t choose_bag(sim *s)
{
    uint64_t sum = 0;

    for (uint32_t b = 0; b < BAGS; b++) {
        sum += (s->bags[b].n > 0) ? s->how.weight[b] : 0;
    }
    if (sum == 0) {
        return BAGS;
    }
    uint32_t at = nxt_below(&s->rand, sum);

    for (uint32_t b = 0; b < BAGS; b++) {
        uint32_t weight = (s->bags[b].n > 0) ? s->how.weight[b] : 0;

        if (at < weight) {
            return b;
        }
        at -= weight;
    }
    return BAGS;
}

static uint32_t take(sim *s, uint32_t which)
{
    bag *b = &s->bags[which];
    uint32_t at = 0;

    if (s->how.pick[which] == PICK_NEWEST) {
        at = b->n - 1;
    } else if (s->how.pick[which] == PICK_ANY) {
        at = nxt_below(&s->rand, b->n);
    }
    if ((s->p->rank_of[b->at[at]] == s->how.slow_rank) && !nxt_one_in(&s->rand, 16)) {
        at = nxt_below(&s->rand, b->n);
    }
    uint32_t g = b->at[at];

    b->at[at] = b->at[--b->n];
    return g;
}

static bool step_once(sim *s, uint32_t which)
{
    uint32_t g = take(s, which);

    switch (which) {
    case READY:
        return start(s, g);
    case FLIGHTS:
        return deliver(s, g);
    case SENDS:
        return finish_send(s, g);
    default:
        return run_local(s, g);
    }
}

static bool report_deadlock(sim *s)
{
    char text[NXT_VERDICT_ROOM - 100];
    size_t used = 0;
    uint32_t first = NXT_NOBODY;

    for (uint32_t g = 0; (g < s->p->total) && (used + 80 < sizeof(text)); g++) {
        const nx_step *st = s->p->steps[g];
        uint32_t r = s->p->rank_of[g];

        if (s->done[g]) {
            continue;
        }
        first = (first == NXT_NOBODY) ? g : first;
        if (s->started[g]) {
            used += (size_t)snprintf(
                text + used, sizeof(text) - used, "; rank %u step %u (%s) for rank %u, round %u", r,
                step_id(s, g), nxt_step_kind_name(st->kind), st->peer, st->round);
        } else {
            const nx_sched *sched = s->p->members[r].sched;
            uint32_t d = 0;

            while ((d + 1 < st->ndeps) && s->done[s->p->base[r] + sched->deps[st->deps + d]]) {
                d++;
            }
            used += (size_t)snprintf(text + used, sizeof(text) - used,
                                     "; rank %u step %u (%s) for step %u", r, step_id(s, g),
                                     nxt_step_kind_name(st->kind), sched->deps[st->deps + d]);
        }
    }
    return nxt_find(s->v, NXT_DEADLOCK, s->p->rank_of[first], step_id(s, first),
                    "%u steps never run; they wait%s", s->left, text);
}

static bool run_events(sim *s)
{
    for (uint32_t g = 0; g < s->p->total; g++) {
        s->waits[g] = s->p->steps[g]->ndeps;
    }
    for (uint32_t g = 0; g < s->p->total; g++) {
        if (s->p->steps[g]->ndeps == 0) {
            put(s, READY, g);
        }
    }
    for (;;) {
        uint32_t which = choose_bag(s);

        if ((which == BAGS) && (s->parked != NXT_NOBODY)) {
            put(s, s->parked_in, s->parked);
            s->parked = NXT_NOBODY;
            continue;
        }
        if (which == BAGS) {
            return (s->left == 0) || report_deadlock(s);
        }
        if (!step_once(s, which)) {
            return false;
        }
    }
}

bool nxt_plan_run(const nxt_plan *p, const nxt_run *run, nxt_verdict *v)
{
    sim s = {.p = p, .run = run, .v = v, .left = p->total, .parked = NXT_NOBODY};
    uint32_t *numbers = nxt_calloc(p->total * (size_t)(BAGS + 1), sizeof(uint32_t));

    *v = (nxt_verdict){.finding = NXT_FINE};
    s.elem_size = nexar_dtype_size(run->dtype);
    s.rand.state = run->seed;
    s.how = choose_policy(&s);
    s.waits = numbers;
    for (uint32_t b = 0; b < BAGS; b++) {
        s.bags[b].at = numbers + ((b + 1) * (size_t)p->total);
    }
    s.started = nxt_calloc(2 * (size_t)p->total, sizeof(bool));
    s.done = s.started + p->total;
    s.arrived = nxt_calloc(p->total, sizeof(size_t));
    s.cells = nxt_calloc(p->cells, sizeof(nxt_cell));
    for (uint32_t c = 0; c < p->cells; c++) {
        s.cells[c].defined = p->defined[c];
    }
    s.copies = nxt_calloc(p->copies, s.elem_size);
    s.bounce = nxt_calloc(p->longest + 8, s.elem_size);
    bool ok = run_events(&s);

    nxt_stats.runs++;
    nxt_stats.steps += p->total;
    free(numbers);
    free(s.started);
    free(s.arrived);
    free(s.cells);
    free(s.copies);
    free(s.bounce);
    return ok;
}
