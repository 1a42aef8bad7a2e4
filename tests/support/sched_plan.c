/* sched_plan.c - all ranks' schedules, checked, matched and indexed. */
#include "sched_plan.h"

#include <stdlib.h>
#include <string.h>

#include "rand.h"

/* ---- matching of messages ----------------------------------------------- */

/* The sends by (source, destination, tag), open addressing. */
typedef struct mail_index {
    uint32_t *slots; /* step + 1; 0: free */
    uint32_t mask;
} mail_index;

static uint64_t mail_key(uint32_t src, uint32_t dst, const nx_step *st)
{
    return nxt_hash(nx_step_tag(st->round, st->segment), src, dst);
}

static bool same_mail(const nxt_plan *p, uint32_t send, uint32_t src, uint32_t dst,
                      const nx_step *st)
{
    const nx_step *s = p->steps[send];

    return (p->rank_of[send] == src) && (s->peer == dst) && (s->round == st->round) &&
           (s->segment == st->segment);
}

/* The slot of that send, or the free slot for it. */
static uint32_t *mail_slot(const nxt_plan *p, mail_index *index, uint32_t src, uint32_t dst,
                           const nx_step *st)
{
    uint32_t at = (uint32_t)mail_key(src, dst, st) & index->mask;

    while ((index->slots[at] != 0) && !same_mail(p, index->slots[at] - 1, src, dst, st)) {
        at = (at + 1) & index->mask;
    }
    return &index->slots[at];
}

static bool index_sends(const nxt_plan *p, mail_index *index, nxt_verdict *v)
{
    for (uint32_t g = 0; g < p->total; g++) {
        const nx_step *st = p->steps[g];
        uint32_t r = p->rank_of[g];

        if (st->kind != NX_STEP_SEND) {
            continue;
        }
        uint32_t *slot = mail_slot(p, index, r, st->peer, st);

        if (*slot != 0) {
            return nxt_find(v, NXT_BAD_MESSAGE, r, g - p->base[r],
                            "rank %u step %u sends to %u in round %u, segment %u, as step %u does",
                            r, g - p->base[r], st->peer, st->round, st->segment,
                            *slot - 1 - p->base[r]);
        }
        *slot = g + 1;
    }
    return true;
}

static bool match_receive(nxt_plan *p, mail_index *index, uint32_t g, nxt_verdict *v)
{
    const nx_step *st = p->steps[g];
    uint32_t r = p->rank_of[g];
    uint32_t i = g - p->base[r];
    uint32_t send = *mail_slot(p, index, st->peer, r, st);

    if (send-- == 0) {
        return nxt_find(v, NXT_BAD_MESSAGE, r, i,
                        "rank %u step %u receives from %u in round %u, segment %u, but nothing is "
                        "sent",
                        r, i, st->peer, st->round, st->segment);
    }
    if (p->partner[send] != NXT_NOBODY) {
        return nxt_find(v, NXT_BAD_MESSAGE, r, i,
                        "rank %u steps %u and %u both receive from %u in round %u, segment %u", r,
                        p->partner[send] - p->base[r], i, st->peer, st->round, st->segment);
    }
    if (p->steps[send]->len != st->len) {
        return nxt_find(v, NXT_BAD_MESSAGE, r, i,
                        "rank %u step %u receives %zu elements from %u, whose step %u sends %zu "
                        "(round %u, segment %u)",
                        r, i, st->len, st->peer, send - p->base[st->peer], p->steps[send]->len,
                        st->round, st->segment);
    }
    p->partner[send] = g;
    p->partner[g] = send;
    return true;
}

static bool match_all(nxt_plan *p, mail_index *index, nxt_verdict *v)
{
    if (!index_sends(p, index, v)) {
        return false;
    }
    for (uint32_t g = 0; g < p->total; g++) {
        if (nxt_is_message(p->steps[g]) && (p->steps[g]->kind != NX_STEP_SEND) &&
            !match_receive(p, index, g, v)) {
            return false;
        }
    }
    for (uint32_t g = 0; g < p->total; g++) {
        const nx_step *st = p->steps[g];
        uint32_t r = p->rank_of[g];

        if ((st->kind == NX_STEP_SEND) && (p->partner[g] == NXT_NOBODY)) {
            return nxt_find(v, NXT_BAD_MESSAGE, r, g - p->base[r],
                            "rank %u step %u sends to %u in round %u, segment %u, and nobody "
                            "receives it",
                            r, g - p->base[r], st->peer, st->round, st->segment);
        }
    }
    return true;
}

static bool match_messages(nxt_plan *p, nxt_verdict *v)
{
    uint32_t room = 4;

    while (room < 2 * p->total) {
        room *= 2;
    }
    mail_index index = {.slots = nxt_calloc(room, sizeof(uint32_t)), .mask = room - 1};
    bool ok = match_all(p, &index, v);

    free(index.slots);
    return ok;
}

/* ---- cells -------------------------------------------------------------- */

/* The cell boundaries of one space of one rank. */
typedef struct cutter {
    size_t *cuts; /* ascending, unique; NULL: every element is a cell */
    size_t n;
    uint32_t first; /* number of the first cell */
} cutter;

static int by_size(const void *a, const void *b)
{
    size_t x = *(const size_t *)a;
    size_t y = *(const size_t *)b;

    return (x > y) - (x < y);
}

static void add_cuts(cutter *c, nx_ref ref, size_t len, nx_space space)
{
    if (((nx_space)ref.space == space) && (len > 0)) {
        c->cuts[c->n++] = ref.off;
        c->cuts[c->n++] = ref.off + len;
    }
}

/* Finds the cells of |space| and returns their number. */
static uint32_t cut_space(const nxt_member *m, nx_space space, cutter *c)
{
    const nx_sched *s = m->sched;
    size_t n = 0;

    if (m->room[space] <= 4 + (2 * (size_t)s->nsteps)) {
        return (uint32_t)m->room[space];
    }
    c->cuts = nxt_calloc(6 * (size_t)s->nsteps, sizeof(size_t));
    for (uint32_t i = 0; i < s->nsteps; i++) {
        nxt_refs refs = nxt_step_refs(&s->steps[i]);

        for (uint32_t k = 0; k < refs.reads; k++) {
            add_cuts(c, refs.read[k], s->steps[i].len, space);
        }
        if (refs.writes) {
            add_cuts(c, refs.write, s->steps[i].len, space);
        }
    }
    qsort(c->cuts, c->n, sizeof(size_t), by_size);
    for (size_t i = 0; i < c->n; i++) {
        if ((i == 0) || (c->cuts[i] != c->cuts[n - 1])) {
            c->cuts[n++] = c->cuts[i];
        }
    }
    c->n = n;
    return (uint32_t)n;
}

static uint32_t cell_at(const cutter *c, size_t off)
{
    size_t lo = 0;
    size_t hi = c->n;

    if (c->cuts == NULL) {
        return c->first + (uint32_t)off;
    }
    while (lo < hi) {
        size_t mid = lo + ((hi - lo) / 2);

        if (c->cuts[mid] < off) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return c->first + (uint32_t)lo;
}

static nxt_range cells_of(const cutter *cutters, nx_ref ref, size_t len)
{
    const cutter *c = &cutters[ref.space];

    if (len == 0) {
        return (nxt_range){0, 0};
    }
    return (nxt_range){cell_at(c, ref.off), cell_at(c, ref.off + len)};
}

static void touch_cells(nxt_plan *p, uint32_t r, const cutter *cutters)
{
    for (uint32_t g = p->base[r]; g < p->base[r + 1]; g++) {
        const nx_step *st = p->steps[g];
        nxt_refs refs = nxt_step_refs(st);

        for (uint32_t k = 0; k < refs.reads; k++) {
            p->touches[g].reads[k] = cells_of(cutters, refs.read[k], st->len);
        }
        if (refs.writes) {
            p->touches[g].write = cells_of(cutters, refs.write, st->len);
        }
    }
}

static void cut_cells(nxt_plan *p)
{
    for (uint32_t r = 0; r < p->size; r++) {
        cutter cutters[NX_SPACES] = {0};
        uint32_t before = p->cells;

        for (uint32_t s = 0; s < NX_SPACES; s++) {
            cutters[s].first = p->cells;
            p->cells += cut_space(&p->members[r], (nx_space)s, &cutters[s]);
        }
        p->defined = realloc(p->defined, p->cells + 1);
        if (p->defined == NULL) {
            abort();
        }
        for (uint32_t c = before; c < p->cells; c++) {
            p->defined[c] = (c < cutters[NX_SPACE_RECV].first) ||
                            ((c < cutters[NX_SPACE_SCRATCH].first) && p->members[r].recv_is_input);
        }
        touch_cells(p, r, cutters);
        for (uint32_t s = 0; s < NX_SPACES; s++) {
            free(cutters[s].cuts);
        }
    }
}

/* ---- the rest ----------------------------------------------------------- */

static void number_steps(nxt_plan *p)
{
    p->base = nxt_calloc((size_t)p->size + 1, sizeof(*p->base));
    for (uint32_t r = 0; r < p->size; r++) {
        p->base[r + 1] = p->base[r] + p->members[r].sched->nsteps;
    }
    p->total = p->base[p->size];
    p->rank_of = nxt_calloc(p->total, sizeof(*p->rank_of));
    p->steps = nxt_calloc(p->total, sizeof(const nx_step *));
    p->partner = nxt_calloc(p->total, sizeof(*p->partner));
    p->copy_at = nxt_calloc(p->total, sizeof(*p->copy_at));
    p->touches = nxt_calloc(p->total, sizeof(*p->touches));
    for (uint32_t r = 0; r < p->size; r++) {
        for (uint32_t g = p->base[r]; g < p->base[r + 1]; g++) {
            const nx_step *st = &p->members[r].sched->steps[g - p->base[r]];

            p->rank_of[g] = r;
            p->steps[g] = st;
            p->partner[g] = NXT_NOBODY;
            p->longest = (st->len > p->longest) ? st->len : p->longest;
            if (st->kind == NX_STEP_SEND) {
                p->copy_at[g] = p->copies;
                p->copies += st->len;
            }
        }
    }
}

/* Inverts the relation "waits for". */
static void index_waits(nxt_plan *p)
{
    size_t waits = 0;

    p->next_at = nxt_calloc((size_t)p->total + 2, sizeof(*p->next_at));
    for (uint32_t r = 0; r < p->size; r++) {
        const nx_sched *s = p->members[r].sched;

        for (uint32_t i = 0; i < s->nsteps; i++) {
            for (uint32_t d = 0; d < s->steps[i].ndeps; d++) {
                p->next_at[p->base[r] + s->deps[s->steps[i].deps + d] + 2]++;
                waits++;
            }
        }
    }
    for (uint32_t g = 0; g < p->total; g++) {
        p->next_at[g + 2] += p->next_at[g + 1];
    }
    p->next = nxt_calloc(waits, sizeof(*p->next));
    for (uint32_t g = 0; g < p->total; g++) {
        const nx_sched *s = p->members[p->rank_of[g]].sched;
        uint32_t base = p->base[p->rank_of[g]];

        for (uint32_t d = 0; d < p->steps[g]->ndeps; d++) {
            p->next[p->next_at[base + s->deps[p->steps[g]->deps + d] + 1]++] = g;
        }
    }
}

nxt_plan *nxt_plan_create(const nxt_member *members, uint32_t size, nxt_verdict *v)
{
    nxt_plan *p = nxt_calloc(1, sizeof(*p));

    *v = (nxt_verdict){.finding = NXT_FINE};
    p->size = size;
    p->members = nxt_calloc(size, sizeof(*members));
    memcpy(p->members, members, size * sizeof(*members));
    for (uint32_t r = 0; r < size; r++) {
        if (!nxt_member_check(&members[r], r, size, v)) {
            goto fail;
        }
    }
    number_steps(p);
    if (!match_messages(p, v)) {
        goto fail;
    }
    index_waits(p);
    cut_cells(p);
    return p;

fail:
    nxt_plan_destroy(p);
    return NULL;
}

void nxt_plan_destroy(nxt_plan *p)
{
    if (p == NULL) {
        return;
    }
    free(p->members);
    free(p->base);
    free(p->rank_of);
    free(p->steps);
    free(p->partner);
    free(p->next_at);
    free(p->next);
    free(p->touches);
    free(p->defined);
    free(p->copy_at);
    free(p);
}
