/* compiled_schedule.c - schedules with their followers, and the cache of them. */
#include "compiled_schedule.h"

#include "base/alloc.h"

/* Rounds of the dissemination, above those of any schedule. */
enum { VERIFY_ROUND = NX_MAX_ROUNDS - 64 };

/* Longer schedules are built anew each time: they take longer to run than to build. */
enum { KEEP_STEPS = 4096 };

/* Whether a rank may complete before it has heard from all ranks. */
static bool one_sided(nx_coll_kind kind)
{
    switch (kind) {
    case NX_BROADCAST:
    case NX_REDUCE:
    case NX_GATHER:
    case NX_GATHERV:
    case NX_SCATTER:
    case NX_SCATTERV:
    case NX_SCAN:
    case NX_EXSCAN:
        return true;
    case NX_BARRIER:
    case NX_ALLREDUCE:
    case NX_ALLGATHER:
    case NX_ALLGATHERV:
    case NX_REDUCE_SCATTER:
    case NX_REDUCE_SCATTERV:
    case NX_ALLTOALL:
    case NX_ALLTOALLV:
    case NX_COLL_KINDS:
        break;
    }
    return false;
}

/* Computes the followers of each step from its waits. */
static nexar_err find_followers(nx_compiled *p)
{
    const nx_sched *s = &p->sched;
    uint32_t *at;

    p->first = nx_calloc((size_t)s->nsteps + 2, sizeof(*p->first));
    p->follow = nx_calloc((size_t)s->ndeps + 1, sizeof(*p->follow));
    if ((p->first == NULL) || (p->follow == NULL)) {
        return nx_fail_nomem("a schedule");
    }
    at = p->first + 1; /* the index is one further, so each begins where the previous one ends */
    for (uint32_t i = 0; i < s->ndeps; i++) {
        at[s->deps[i] + 1]++;
    }
    for (uint32_t i = 0; i < s->nsteps; i++) {
        at[i + 1] += at[i];
    }
    for (uint32_t i = 0; i < s->nsteps; i++) {
        for (uint32_t d = 0; d < s->steps[i].ndeps; d++) {
            p->follow[at[s->deps[s->steps[i].deps + d]]++] = i;
        }
    }
    return NEXAR_OK;
}

nexar_err nx_compiled_build(nx_compiled **out, const nx_coll *c, const nx_choice *choice,
                            bool verify)
{
    nx_compiled *p = nx_zalloc(sizeof(*p));
    nx_coll coll = *c;
    nexar_err err;

    if (p == NULL) {
        return nx_fail_nomem("a schedule");
    }
    p->holds = 1;
    nx_sched_init(&p->sched, choice->segment);
    coll.heard = verify && choice->hears;
    if (verify && one_sided(c->kind) && !coll.heard) {
        nx_disseminate(&p->sched, c, VERIFY_ROUND);
        nx_sched_gate(&p->sched, NX_NO_STEP, NX_NO_STEP);
    }
    err = choice->algorithm->build(&p->sched, &coll);
    if (err == NEXAR_OK) {
        err = find_followers(p);
    }
    if (err != NEXAR_OK) {
        nx_compiled_release(p);
        return err;
    }
    *out = p;
    return NEXAR_OK;
}

void nx_compiled_release(nx_compiled *p)
{
    if (--p->holds == 0) {
        nx_sched_fini(&p->sched);
        nx_free(p->first);
        nx_free(p->follow);
        nx_free(p);
    }
}

/* ---- the cache ----------------------------------------------------------------------- */

/* Data that belongs to one call only. */
static bool has_counts(const nx_coll *c)
{
    return (c->distribution != NULL) || (c->parts.how == NX_SPLIT_COUNTS) ||
           (c->send_parts.how == NX_SPLIT_COUNTS);
}

static bool same(const nx_coll *a, const nx_coll *b)
{
    return (a->kind == b->kind) && (a->root == b->root) && (a->count == b->count) &&
           (a->in_place == b->in_place) && (a->average == b->average) && (a->hook == b->hook);
}

nexar_err nx_compiled_cache_get(nx_compiled_cache *ps, const nx_coll *c, const nx_choice *choice,
                                bool verify, nx_compiled **out)
{
    size_t oldest = 0;
    nexar_err err;

    for (size_t i = 0; (i < NX_COMPILED_CACHE_KEPT) && !has_counts(c); i++) {
        nx_compiled *p = ps->kept[i].program;

        if ((p != NULL) && same(&ps->kept[i].coll, c) && (ps->kept[i].verify == verify) &&
            (ps->kept[i].choice.algorithm == choice->algorithm) &&
            (ps->kept[i].choice.segment == choice->segment) &&
            (ps->kept[i].choice.hears == choice->hears)) {
            ps->kept[i].used = ++ps->uses;
            p->holds++;
            *out = p;
            return NEXAR_OK;
        }
        oldest = (ps->kept[i].used < ps->kept[oldest].used) ? i : oldest;
    }
    err = nx_compiled_build(out, c, choice, verify);
    if ((err == NEXAR_OK) && !has_counts(c) && ((*out)->sched.nsteps <= KEEP_STEPS)) {
        if (ps->kept[oldest].program != NULL) {
            nx_compiled_release(ps->kept[oldest].program);
        }
        ps->kept[oldest].program = *out;
        ps->kept[oldest].coll = *c;
        ps->kept[oldest].choice = *choice;
        ps->kept[oldest].verify = verify;
        ps->kept[oldest].used = ++ps->uses;
        (*out)->holds++;
    }
    return err;
}

void nx_compiled_cache_fini(nx_compiled_cache *ps)
{
    for (size_t i = 0; i < NX_COMPILED_CACHE_KEPT; i++) {
        if (ps->kept[i].program != NULL) {
            nx_compiled_release(ps->kept[i].program);
            ps->kept[i].program = NULL;
        }
    }
}
