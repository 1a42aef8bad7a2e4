/* sched.c - adds steps: splits and counts them, and finds their dependencies. */
#include "coll/sched.h"

#include <assert.h>

#include "base/alloc.h"
#include "coll/hazard.h"
#include "coll/hosts.h"

_Static_assert(NX_MAX_ROUNDS >= 2 * 65536, "a ring of 65 536 ranks has 2 (n - 1) rounds");
_Static_assert(NX_MAX_SEGMENTS >= 1024 * 1024, "a transfer may be cut in 1 Mi segments");
_Static_assert(NX_ROUND_BITS + NX_SEGMENT_BITS <= 40,
               "24 bits of a tag are left for number and part");

/* The references that each kind reads and writes. */
static const struct {
    bool reads_a, reads_b, writes_dst;
} touches[NX_STEP_KINDS] = {
    [NX_STEP_SEND] = {.reads_a = true},
    [NX_STEP_RECV] = {.writes_dst = true},
    [NX_STEP_RECV_REDUCE] = {.reads_a = true, .writes_dst = true},
    [NX_STEP_COPY] = {.reads_a = true, .writes_dst = true},
    [NX_STEP_REDUCE] = {.reads_a = true, .reads_b = true, .writes_dst = true},
    [NX_STEP_FILL] = {.writes_dst = true},
    [NX_STEP_DIVIDE] = {.writes_dst = true},
    [NX_STEP_CALL] = {.writes_dst = true},
};

void nx_sched_init(nx_sched *s, size_t segment)
{
    *s = (nx_sched){.segment = segment, .gate = {NX_NO_STEP, NX_NO_STEP}};
    s->hazards = nx_hazards_create();
    if (s->hazards == NULL) {
        s->err = nx_fail_nomem("a schedule");
    }
}

void nx_sched_init_tally(nx_sched *s, size_t segment)
{
    *s = (nx_sched){.segment = segment, .only_tally = true, .gate = {NX_NO_STEP, NX_NO_STEP}};
}

void nx_sched_fini(nx_sched *s)
{
    nx_hazards_destroy(s->hazards);
    nx_free(s->steps);
    nx_free(s->deps);
    *s = (nx_sched){0};
}

/* ---- one step ------------------------------------------------------------------------ */

/* |step|, cut in |pieces|. */
static void count(nx_tally *t, const nx_step *step, uint64_t pieces)
{
    const uint64_t len = step->len;

    t->steps += pieces;
    switch ((nx_step_kind)step->kind) {
    case NX_STEP_SEND:
        t->messages_sent += pieces;
        t->sent += len;
        break;
    case NX_STEP_RECV_REDUCE:
        t->reduced += len;
        t->messages_received += pieces;
        t->received += len;
        break;
    case NX_STEP_RECV:
        t->messages_received += pieces;
        t->received += len;
        break;
    case NX_STEP_REDUCE:
        t->reduced += len;
        break;
    case NX_STEP_COPY:
        t->copied += len;
        break;
    case NX_STEP_FILL:
    case NX_STEP_DIVIDE:
    case NX_STEP_CALL:
    case NX_STEP_KINDS:
        break;
    }
    if ((step->kind <= NX_STEP_RECV_REDUCE) && (step->round >= t->rounds)) {
        t->rounds = step->round + 1;
    }
}

static bool same(nx_ref a, nx_ref b)
{
    return (a.space == b.space) && (a.off == b.off);
}

static bool receives(const nx_step *step)
{
    return (step->kind == NX_STEP_RECV) || (step->kind == NX_STEP_RECV_REDUCE);
}

/* Leaves the dependencies of |step|, the next one, in the tracker's list. */
static nexar_err find_waits(nx_sched *s, const nx_step *step)
{
    nexar_err err = NEXAR_OK;

    /* An operand that is read and overwritten in place is recorded by the write. */
    if (touches[step->kind].reads_a &&
        !(touches[step->kind].writes_dst && same(step->a, step->dst))) {
        err = nx_hazards_read(s->hazards, step->a, step->len, s->nsteps);
    }
    if ((err == NEXAR_OK) && touches[step->kind].reads_b && !same(step->b, step->dst)) {
        err = nx_hazards_read(s->hazards, step->b, step->len, s->nsteps);
    }
    if ((err == NEXAR_OK) && touches[step->kind].writes_dst) {
        err = nx_hazards_write(s->hazards, step->dst, step->len, s->nsteps);
    }
    for (int i = 0; i < 2; i++) {
        if ((err == NEXAR_OK) && (s->gate[i] != NX_NO_STEP)) {
            err = nx_hazards_add(s->hazards, s->gate[i]);
        }
    }
    for (nx_step_id id = s->gate_from; (err == NEXAR_OK) && (id < s->gate_to); id++) {
        if (!s->gate_received || receives(&s->steps[id])) {
            err = nx_hazards_add(s->hazards, id);
        }
    }
    return err;
}

/* Makes room for |more| elements after the |used| ones. */
static nexar_err reserve(void **array, uint32_t used, uint32_t more, uint32_t *room, size_t size)
{
    uint64_t need = (uint64_t)used + more;
    uint64_t grown = (*room == 0) ? 16 : 2 * (uint64_t)*room;

    if (need <= *room) {
        return NEXAR_OK;
    }
    grown = (grown < need) ? need : grown;
    grown = (grown > NX_NO_STEP) ? NX_NO_STEP : grown;
    if (need > grown) {
        return nx_fail(NEXAR_ENOMEM, "a schedule has more than 2^32 - 1 steps or waits");
    }
    void *p = nx_grow(*array, grown, size);
    if (p == NULL) {
        return nx_fail_nomem("the steps of a schedule");
    }
    *array = p;
    *room = (uint32_t)grown;
    return NEXAR_OK;
}

static nexar_err append(nx_sched *s, nx_step step)
{
    nexar_err err = find_waits(s, &step);

    if (err != NEXAR_OK) {
        return err;
    }

    uint32_t n;
    const nx_step_id *waits = nx_hazards_take(s->hazards, &n);

    err = reserve((void **)&s->deps, s->ndeps, n, &s->deps_room, sizeof(*s->deps));
    if (err == NEXAR_OK) {
        err = reserve((void **)&s->steps, s->nsteps, 1, &s->steps_room, sizeof(*s->steps));
    }
    if (err != NEXAR_OK) {
        return err;
    }
    step.deps = s->ndeps;
    step.ndeps = n;
    for (uint32_t i = 0; i < n; i++) {
        s->deps[s->ndeps++] = waits[i];
    }
    s->steps[s->nsteps++] = step;
    return NEXAR_OK;
}

/* Counts |step|, split into |pieces|; false: the step must not be added. */
static bool enter(nx_sched *s, const nx_step *step, uint64_t pieces)
{
    if (s->err != NEXAR_OK) {
        return false;
    }
    if ((step->kind <= NX_STEP_RECV_REDUCE) && (step->round >= NX_MAX_ROUNDS)) {
        s->err = nx_fail(NEXAR_EINVAL, "round %u of a schedule; a tag has room for %u", step->round,
                         NX_MAX_ROUNDS);
        return false;
    }
    count(&s->tally, step, pieces);
    return !s->only_tally;
}

/* ---- frames -------------------------------------------------------------------------- */

void nx_sched_enter(nx_sched *s, const nx_sched_frame *frame)
{
    assert(s->frame == NULL);
    s->frame = frame;
}

void nx_sched_leave(nx_sched *s)
{
    s->frame = NULL;
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
}

static nx_ref framed_ref(const nx_sched_frame *frame, nx_ref ref)
{
    switch ((nx_space)ref.space) {
    case NX_SPACE_SEND:
        return nx_ref_plus(frame->send, ref.off);
    case NX_SPACE_RECV:
        return nx_ref_plus(frame->recv, ref.off);
    case NX_SPACE_SCRATCH:
    case NX_SPACES:
        break;
    }
    return ref;
}

/* Converts |step| of a team into a step of all ranks. */
static nx_step framed(const nx_sched *s, nx_step step)
{
    const nx_sched_frame *frame = s->frame;

    if (frame != NULL) {
        step.dst = framed_ref(frame, step.dst);
        step.a = framed_ref(frame, step.a);
        step.b = framed_ref(frame, step.b);
        if (step.kind <= NX_STEP_RECV_REDUCE) {
            step.peer = nx_team_rank(frame->team, step.peer);
            step.round += frame->round;
        }
    }
    return step;
}

/* ---- whole transfers ----------------------------------------------------------------- */

size_t nx_segment_len(size_t len, size_t segment)
{
    size_t least = len / NX_MAX_SEGMENTS + (len % NX_MAX_SEGMENTS != 0);

    if ((segment == 0) || (segment >= len)) {
        return len;
    }
    return (segment < least) ? least : segment;
}

static void add_cut(nx_sched *s, const nx_step *asked)
{
    const nx_step whole = framed(s, *asked);
    const size_t most = nx_segment_len(whole.len, s->segment);
    const uint64_t pieces = (whole.len <= most) ? 1 : (whole.len - 1) / most + 1;
    nx_step step = whole;
    size_t off = 0;

    if (((whole.kind == NX_STEP_COPY) && same(whole.dst, whole.a)) || !enter(s, &whole, pieces)) {
        return;
    }
    do {
        step.dst = nx_ref_plus(whole.dst, off);
        step.a = nx_ref_plus(whole.a, off);
        step.b = nx_ref_plus(whole.b, off);
        step.len = (whole.len - off < most) ? whole.len - off : most;
        s->err = append(s, step);
        step.segment++;
        off += step.len;
    } while ((off < whole.len) && (s->err == NEXAR_OK));
}

nx_ref nx_sched_scratch(nx_sched *s, size_t len)
{
    nx_ref at = nx_at(NX_SPACE_SCRATCH, s->scratch);

    s->scratch += len;
    return at;
}

void nx_send(nx_sched *s, uint32_t peer, uint32_t round, nx_ref a, size_t len)
{
    add_cut(s, &(nx_step){.kind = NX_STEP_SEND, .peer = peer, .round = round, .a = a, .len = len});
}

void nx_recv(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, size_t len)
{
    add_cut(s,
            &(nx_step){.kind = NX_STEP_RECV, .peer = peer, .round = round, .dst = dst, .len = len});
}

void nx_recv_reduce(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, nx_ref a, size_t len)
{
    add_cut(s, &(nx_step){.kind = NX_STEP_RECV_REDUCE,
                          .peer = peer,
                          .round = round,
                          .dst = dst,
                          .a = a,
                          .len = len});
}

void nx_copy(nx_sched *s, nx_ref dst, nx_ref a, size_t len)
{
    if (len != 0) {
        add_cut(s, &(nx_step){.kind = NX_STEP_COPY, .dst = dst, .a = a, .len = len});
    }
}

void nx_reduce_local(nx_sched *s, nx_ref dst, nx_ref a, nx_ref b, size_t len)
{
    if (len != 0) {
        add_cut(s, &(nx_step){.kind = NX_STEP_REDUCE, .dst = dst, .a = a, .b = b, .len = len});
    }
}

void nx_fill(nx_sched *s, nx_ref dst, size_t len)
{
    if (len != 0) {
        add_cut(s, &(nx_step){.kind = NX_STEP_FILL, .dst = dst, .len = len});
    }
}

void nx_divide(nx_sched *s, nx_ref dst, size_t len)
{
    if (len != 0) {
        add_cut(s, &(nx_step){.kind = NX_STEP_DIVIDE, .dst = dst, .len = len});
    }
}

void nx_call(nx_sched *s, nx_ref dst, size_t len)
{
    const nx_step step = framed(s, (nx_step){.kind = NX_STEP_CALL, .dst = dst, .len = len});

    if (enter(s, &step, 1)) {
        s->err = append(s, step);
    }
}

nx_step_id nx_sched_last(const nx_sched *s)
{
    return (s->nsteps == 0) ? NX_NO_STEP : s->nsteps - 1;
}

void nx_sched_gate(nx_sched *s, nx_step_id first, nx_step_id second)
{
    s->gate[0] = first;
    s->gate[1] = second;
    s->gate_from = s->gate_to = 0;
    s->gate_received = false;
}

void nx_sched_gate_since(nx_sched *s, nx_step_id first)
{
    nx_sched_gate(s, NX_NO_STEP, NX_NO_STEP);
    s->gate_from = first;
    s->gate_to = s->nsteps;
}

void nx_sched_gate_received(nx_sched *s, nx_step_id first)
{
    nx_sched_gate_since(s, first);
    s->gate_received = true;
}

nexar_err nx_sched_seal(nx_sched *s)
{
    if (s->frame != NULL) {
        return s->err;
    }
    nx_hazards_destroy(s->hazards);
    s->hazards = NULL;
    return s->err;
}
