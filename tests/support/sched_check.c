/* sched_check.c - the static checks of one schedule. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched_plan.h"

static const char *const kind_names[NX_STEP_KINDS] = {
    [NX_STEP_SEND] = "send",     [NX_STEP_RECV] = "recv",     [NX_STEP_RECV_REDUCE] = "recv_reduce",
    [NX_STEP_COPY] = "copy",     [NX_STEP_REDUCE] = "reduce", [NX_STEP_FILL] = "fill",
    [NX_STEP_DIVIDE] = "divide", [NX_STEP_CALL] = "call",
};
static const char *const space_names[4] = {"send", "recv", "scratch", "nowhere"};

const char *nxt_step_kind_name(uint8_t kind)
{
    return (kind < NX_STEP_KINDS) ? kind_names[kind] : "nothing";
}

bool nxt_find(nxt_verdict *v, nxt_finding finding, uint32_t rank, uint32_t step, const char *format,
              ...)
{
    va_list args;

    v->finding = finding;
    v->rank = rank;
    v->step = step;
    va_start(args, format);
    vsnprintf(v->text, sizeof(v->text), format, args);
    va_end(args);
    return false;
}

void *nxt_calloc(size_t count, size_t size)
{
    void *p = calloc((count == 0) ? 1 : count, (size == 0) ? 1 : size);

    if (p == NULL) {
        perror("nxt_calloc");
        abort();
    }
    return p;
}

nxt_refs nxt_step_refs(const nx_step *step)
{
    nxt_refs r = {.writes = step->kind != NX_STEP_SEND, .write = step->dst};

    switch ((nx_step_kind)step->kind) {
    case NX_STEP_SEND:
    case NX_STEP_RECV_REDUCE:
    case NX_STEP_COPY:
        r.read[r.reads++] = step->a;
        break;
    case NX_STEP_REDUCE:
        r.read[r.reads++] = step->a;
        r.read[r.reads++] = step->b;
        break;
    case NX_STEP_DIVIDE:
    case NX_STEP_CALL:
        r.read[r.reads++] = step->dst;
        break;
    case NX_STEP_RECV:
    case NX_STEP_FILL:
    case NX_STEP_KINDS:
        break;
    }
    return r;
}

static bool check_waits(const nx_sched *s, uint32_t rank, uint32_t i, nxt_verdict *v)
{
    const nx_step *st = &s->steps[i];

    if ((st->deps > s->ndeps) || (st->ndeps > s->ndeps - st->deps)) {
        return nxt_find(v, NXT_BAD_WAIT, rank, i,
                        "rank %u step %u: its waits [%u, +%u) are not "
                        "among the %u of the schedule",
                        rank, i, st->deps, st->ndeps, s->ndeps);
    }
    for (uint32_t d = 0; d < st->ndeps; d++) {
        nx_step_id id = s->deps[st->deps + d];

        if (id >= i) {
            return nxt_find(v, NXT_BAD_WAIT, rank, i,
                            "rank %u step %u waits for step %u, which "
                            "is not before it",
                            rank, i, id);
        }
        if ((d > 0) && (id <= s->deps[st->deps + d - 1])) {
            return nxt_find(v, NXT_BAD_WAIT, rank, i,
                            "rank %u step %u: waits %u, %u do not "
                            "ascend",
                            rank, i, s->deps[st->deps + d - 1], id);
        }
    }
    return true;
}

static bool check_ref(const nxt_member *m, uint32_t rank, uint32_t i, nx_ref ref, nxt_verdict *v)
{
    size_t len = m->sched->steps[i].len;

    if ((ref.space >= NX_SPACES) ||
        ((len > 0) && ((ref.off >= m->room[ref.space]) || (len > m->room[ref.space] - ref.off)))) {
        return nxt_find(v, NXT_BAD_REF, rank, i,
                        "rank %u step %u (%s): %zu elements at %s[%llu], "
                        "which has %zu",
                        rank, i, nxt_step_kind_name(m->sched->steps[i].kind), len,
                        space_names[ref.space], (unsigned long long)ref.off,
                        (ref.space < NX_SPACES) ? m->room[ref.space] : 0);
    }
    return true;
}

/* A step may work in place; kernels do not support a target that partly overlaps its source.
 * Only a copy may move a block downwards. */
static bool check_overlap(const nx_step *st, uint32_t rank, uint32_t i, nxt_verdict *v)
{
    nxt_refs refs = nxt_step_refs(st);

    for (uint32_t k = 0; (k < refs.reads) && refs.writes; k++) {
        nx_ref a = refs.read[k];
        nx_ref w = refs.write;
        bool apart =
            (a.space != w.space) || (a.off + st->len <= w.off) || (w.off + st->len <= a.off);

        bool down = (st->kind == NX_STEP_COPY) && (w.off < a.off);

        if (!apart && !down && (a.off != w.off)) {
            return nxt_find(v, NXT_BAD_REF, rank, i,
                            "rank %u step %u (%s): its target %s[%llu] "
                            "overlaps its source [%llu] in part",
                            rank, i, nxt_step_kind_name(st->kind), space_names[w.space],
                            (unsigned long long)w.off, (unsigned long long)a.off);
        }
    }
    return true;
}

static bool check_refs(const nxt_member *m, uint32_t rank, uint32_t i, nxt_verdict *v)
{
    const nx_step *st = &m->sched->steps[i];
    nxt_refs refs = nxt_step_refs(st);

    for (uint32_t k = 0; k < refs.reads; k++) {
        if (!check_ref(m, rank, i, refs.read[k], v)) {
            return false;
        }
    }
    if (refs.writes && !check_ref(m, rank, i, refs.write, v)) {
        return false;
    }
    if (refs.writes && (st->len > 0) && (refs.write.space == NX_SPACE_SEND)) {
        return nxt_find(v, NXT_BAD_REF, rank, i, "rank %u step %u (%s) writes the send buffer",
                        rank, i, nxt_step_kind_name(st->kind));
    }
    return check_overlap(st, rank, i, v);
}

static bool check_message(const nx_step *st, uint32_t rank, uint32_t i, uint32_t size,
                          nxt_verdict *v)
{
    if ((st->peer >= size) || (st->peer == rank)) {
        return nxt_find(v, NXT_BAD_MESSAGE, rank, i, "rank %u step %u (%s): peer %u of %u ranks",
                        rank, i, nxt_step_kind_name(st->kind), st->peer, size);
    }
    if ((st->round >= NX_MAX_ROUNDS) || (st->segment >= NX_MAX_SEGMENTS)) {
        return nxt_find(v, NXT_BAD_MESSAGE, rank, i,
                        "rank %u step %u (%s): round %u, segment %u "
                        "do not fit the tag",
                        rank, i, nxt_step_kind_name(st->kind), st->round, st->segment);
    }
    return true;
}

static void count_step(nx_tally *t, const nx_step *st)
{
    if (st->kind == NX_STEP_SEND) {
        t->messages_sent++;
        t->sent += st->len;
    } else if (nxt_is_message(st)) {
        t->messages_received++;
        t->received += st->len;
    }
    if ((st->kind == NX_STEP_RECV_REDUCE) || (st->kind == NX_STEP_REDUCE)) {
        t->reduced += st->len;
    } else if (st->kind == NX_STEP_COPY) {
        t->copied += st->len;
    }
    if (nxt_is_message(st) && (st->round >= t->rounds)) {
        t->rounds = st->round + 1;
    }
}

bool nxt_tally_equal(const nx_tally *a, const nx_tally *b)
{
    return (a->messages_sent == b->messages_sent) && (a->sent == b->sent) &&
           (a->messages_received == b->messages_received) && (a->received == b->received) &&
           (a->reduced == b->reduced) && (a->copied == b->copied) && (a->rounds == b->rounds);
}

bool nxt_tally_right(const nx_sched *s, uint32_t rank, nxt_verdict *v)
{
    nx_tally t = {0};

    for (uint32_t i = 0; i < s->nsteps; i++) {
        count_step(&t, &s->steps[i]);
    }
    if (!nxt_tally_equal(&t, &s->tally)) {
        return nxt_find(v, NXT_BAD_TALLY, rank, 0,
                        "rank %u: the tally says %llu sent in %llu "
                        "messages, %u rounds; the steps say %llu in %llu, %u (or received, "
                        "reduced, copied differ)",
                        rank, (unsigned long long)s->tally.sent,
                        (unsigned long long)s->tally.messages_sent, s->tally.rounds,
                        (unsigned long long)t.sent, (unsigned long long)t.messages_sent, t.rounds);
    }
    return true;
}

bool nxt_member_check(const nxt_member *m, uint32_t rank, uint32_t size, nxt_verdict *v)
{
    const nx_sched *s = m->sched;

    for (uint32_t i = 0; i < s->nsteps; i++) {
        if (s->steps[i].kind >= NX_STEP_KINDS) {
            return nxt_find(v, NXT_BAD_REF, rank, i, "rank %u step %u is of no kind", rank, i);
        }
        if (!check_waits(s, rank, i, v) || !check_refs(m, rank, i, v) ||
            (nxt_is_message(&s->steps[i]) && !check_message(&s->steps[i], rank, i, size, v))) {
            return false;
        }
    }
    return true;
}
