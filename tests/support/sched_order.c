/*
 * sched_order.c - proofs about all orders of events at once.
 *
 * nxt_plan_ordered: the ancestors of a step are the steps that a chain of waits reaches. A cell
 * records its last writer and the readers since then. The next step that accesses the cell must
 * have them among its ancestors.
 */
#include <stdlib.h>
#include <string.h>

#include "sched_plan.h"

enum { WORD = 64 };

typedef struct reader {
    uint32_t step, next; /* next: in |readers|, + 1 */
} reader;

/* One rank. */
typedef struct proof {
    const nxt_plan *p;
    uint32_t rank, first, n, words;
    uint64_t *ancestors; /* n rows of |words| */
    uint32_t cell_first;
    uint32_t *writer;  /* per cell, step + 1 */
    uint32_t *read_by; /* per cell, the newest of its readers, + 1 */
    reader *readers;
    uint32_t nreaders;
} proof;

static bool has_ancestor(const proof *pr, uint32_t step, uint32_t other)
{
    return (pr->ancestors[((size_t)step * pr->words) + (other / WORD)] >> (other % WORD)) & 1;
}

static void collect_ancestors(proof *pr, uint32_t i)
{
    const nx_sched *s = pr->p->members[pr->rank].sched;
    uint64_t *mine = &pr->ancestors[(size_t)i * pr->words];

    for (uint32_t d = 0; d < s->steps[i].ndeps; d++) {
        uint32_t dep = s->deps[s->steps[i].deps + d];
        const uint64_t *its = &pr->ancestors[(size_t)dep * pr->words];

        for (uint32_t w = 0; w <= dep / WORD; w++) {
            mine[w] |= its[w];
        }
        mine[dep / WORD] |= UINT64_C(1) << (dep % WORD);
    }
}

static bool must_follow(const proof *pr, uint32_t step, uint32_t other, const char *why,
                        nxt_verdict *v)
{
    const nx_sched *s = pr->p->members[pr->rank].sched;

    if ((step == other) || has_ancestor(pr, step, other)) {
        return true;
    }
    return nxt_find(v, NXT_UNORDERED, pr->rank, step,
                    "rank %u step %u (%s) %s step %u (%s) and does not wait for it", pr->rank, step,
                    nxt_step_kind_name(s->steps[step].kind), why, other,
                    nxt_step_kind_name(s->steps[other].kind));
}

static bool prove_read(proof *pr, uint32_t i, nxt_range range, nxt_verdict *v)
{
    for (uint32_t c = range.lo - pr->cell_first; c < range.hi - pr->cell_first; c++) {
        if ((pr->writer[c] != 0) &&
            !must_follow(pr, i, pr->writer[c] - 1, "reads what is written by", v)) {
            return false;
        }
        pr->readers[pr->nreaders] = (reader){.step = i, .next = pr->read_by[c]};
        pr->read_by[c] = ++pr->nreaders;
    }
    return true;
}

static bool prove_write(proof *pr, uint32_t i, nxt_range range, nxt_verdict *v)
{
    for (uint32_t c = range.lo - pr->cell_first; c < range.hi - pr->cell_first; c++) {
        if ((pr->writer[c] != 0) &&
            !must_follow(pr, i, pr->writer[c] - 1, "writes what is written by", v)) {
            return false;
        }
        for (uint32_t at = pr->read_by[c]; at != 0; at = pr->readers[at - 1].next) {
            if (!must_follow(pr, i, pr->readers[at - 1].step, "writes what is read by", v)) {
                return false;
            }
        }
        pr->read_by[c] = 0;
        pr->writer[c] = i + 1;
    }
    return true;
}

static bool prove_steps(proof *pr, nxt_verdict *v)
{
    for (uint32_t i = 0; i < pr->n; i++) {
        const nxt_touch *t = &pr->p->touches[pr->first + i];

        collect_ancestors(pr, i);
        if (((t->reads[0].lo < t->reads[0].hi) && !prove_read(pr, i, t->reads[0], v)) ||
            ((t->reads[1].lo < t->reads[1].hi) && !prove_read(pr, i, t->reads[1], v)) ||
            ((t->write.lo < t->write.hi) && !prove_write(pr, i, t->write, v))) {
            return false;
        }
    }
    return true;
}

/* How many cells |t| reads. */
static size_t cells_read(const nxt_touch *t)
{
    return ((size_t)t->reads[0].hi - t->reads[0].lo) + ((size_t)t->reads[1].hi - t->reads[1].lo);
}

/* The cells that the rank's steps touch lie in [*lo, *hi). */
static void widen(nxt_range range, uint32_t *lo, uint32_t *hi)
{
    if (range.lo < range.hi) {
        *lo = (range.lo < *lo) ? range.lo : *lo;
        *hi = (range.hi > *hi) ? range.hi : *hi;
    }
}

static bool rank_ordered(const nxt_plan *p, uint32_t rank, nxt_verdict *v)
{
    proof pr = {.p = p, .rank = rank, .first = p->base[rank]};
    uint32_t lo = UINT32_MAX;
    uint32_t hi = 0;
    size_t reads = 0;

    pr.n = p->base[rank + 1] - pr.first;
    pr.words = (pr.n + WORD - 1) / WORD;
    for (uint32_t g = pr.first; g < pr.first + pr.n; g++) {
        widen(p->touches[g].reads[0], &lo, &hi);
        widen(p->touches[g].reads[1], &lo, &hi);
        widen(p->touches[g].write, &lo, &hi);
        reads += cells_read(&p->touches[g]);
    }
    if (lo >= hi) {
        return true;
    }
    pr.cell_first = lo;
    pr.ancestors = nxt_calloc((size_t)pr.n * pr.words, sizeof(uint64_t));
    pr.writer = nxt_calloc(hi - lo, sizeof(uint32_t));
    pr.read_by = nxt_calloc(hi - lo, sizeof(uint32_t));
    pr.readers = nxt_calloc(reads, sizeof(reader));
    bool ok = prove_steps(&pr, v);

    free(pr.ancestors);
    free(pr.writer);
    free(pr.read_by);
    free(pr.readers);
    return ok;
}

bool nxt_plan_ordered(const nxt_plan *plan, nxt_verdict *v)
{
    *v = (nxt_verdict){.finding = NXT_FINE};
    for (uint32_t r = 0; r < plan->size; r++) {
        if (!rank_ordered(plan, r, v)) {
            return false;
        }
    }
    return true;
}

/* ---- the order of events over all ranks ----------------------------------- */

/*
 * Two nodes per step: 2 g is its start, 2 g + 1 its end. A step ends after its start. It starts
 * after the end of the steps that it waits for. A receive ends after the start of its message.
 */
typedef struct search {
    bool *seen;
    uint32_t *stack;
    uint32_t n;
} search;

static void reach(search *s, uint32_t node)
{
    if (!s->seen[node]) {
        s->seen[node] = true;
        s->stack[s->n++] = node;
    }
}

static void expand(const nxt_plan *p, search *s, uint32_t node, uint32_t dep, uint32_t step)
{
    uint32_t g = node / 2;

    if (node % 2 == 0) {
        reach(s, node + 1);
        if (p->steps[g]->kind == NX_STEP_SEND) {
            reach(s, (2 * p->partner[g]) + 1);
        }
        return;
    }
    for (uint32_t k = p->next_at[g]; k < p->next_at[g + 1]; k++) {
        if ((g != dep) || (p->next[k] != step)) {
            reach(s, 2 * p->next[k]);
        }
    }
}

static search search_open(const nxt_plan *p)
{
    return (search){.seen = nxt_calloc(2 * (size_t)p->total, sizeof(bool)),
                    .stack = nxt_calloc(2 * (size_t)p->total, sizeof(uint32_t))};
}

static void search_close(search *s)
{
    free(s->seen);
    free(s->stack);
}

/* A wait for another step is needed unless another path already orders that step's end before
 * this step's start. */
bool nxt_plan_wait_needed(const nxt_plan *p, uint32_t rank, uint32_t step, uint32_t nth)
{
    const nx_sched *sched = p->members[rank].sched;
    uint32_t g = p->base[rank] + step;
    uint32_t dep = p->base[rank] + sched->deps[sched->steps[step].deps + nth];
    search s = search_open(p);

    reach(&s, (2 * dep) + 1);
    while (s.n > 0) {
        expand(p, &s, s.stack[--s.n], dep, g);
    }
    bool needed = !s.seen[2 * (size_t)g];

    search_close(&s);
    return needed;
}

/* Whether some step of |rank| can only end after one of |other| has started. */
static bool waits_for_rank(const nxt_plan *p, uint32_t rank, uint32_t other)
{
    search s = search_open(p);
    bool found = false;

    for (uint32_t g = p->base[other]; g < p->base[other + 1]; g++) {
        reach(&s, 2 * g);
    }
    while (s.n > 0) {
        expand(p, &s, s.stack[--s.n], NXT_NOBODY, NXT_NOBODY);
    }
    for (uint32_t g = p->base[rank]; g < p->base[rank + 1]; g++) {
        found = found || s.seen[(2 * (size_t)g) + 1];
    }
    search_close(&s);
    return found;
}

bool nxt_plan_synchronises(const nxt_plan *plan, nxt_verdict *v)
{
    for (uint32_t r = 0; r < plan->size; r++) {
        for (uint32_t o = 0; o < plan->size; o++) {
            if ((r != o) && !waits_for_rank(plan, r, o)) {
                return nxt_find(v, NXT_NO_BARRIER, r, 0,
                                "rank %u may leave the barrier before rank %u has come", r, o);
            }
        }
    }
    return true;
}
