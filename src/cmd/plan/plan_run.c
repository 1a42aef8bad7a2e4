/* plan_run.c - queries the cost model for one collective at one size or many. */
#include <assert.h>

#include "plan.h"

/*
 * The limit of simulated steps without --exact. About two million steps are built and simulated
 * per second, so a table takes seconds. A sweep has about fifteen times as many runs and takes
 * hardly longer.
 */
static const uint64_t table_steps = UINT64_C(16) << 20;
static const uint64_t sweep_steps = UINT64_C(1) << 20;

/* Bytes of the smallest call that is not empty. */
static uint64_t unit(const nx_plan *plan, nx_coll_kind kind)
{
    return (uint64_t)plan->net.elem_size * (nx_coll_in_blocks(kind) ? plan->net.ranks : 1);
}

static nx_coll make_coll(const nx_plan *plan, nx_coll_kind kind, uint64_t bytes)
{
    const uint64_t one = unit(plan, kind);
    nx_coll c = {
        .kind = kind,
        .size = plan->net.ranks,
        .root = plan->root,
        .count = (kind == NX_BARRIER) ? 0 : (size_t)(bytes / one + (bytes % one != 0)),
    };

    /* The v forms use blocks of one size, since the real sizes are unknown. */
    c.parts = nx_split_each(c.count, c.size);
    c.send_parts = c.parts;
    return c;
}

/* The network is the same for all points; the limits are too, except in a sweep. */
static nexar_err fill(const nx_plan *plan, nx_coll_kind kind, uint64_t bytes, bool sweep,
                      nx_plan_point *p)
{
    const nx_cost_limits limits = {
        .steps = plan->exact ? UINT64_MAX
                 : sweep     ? sweep_steps
                             : table_steps,
        .count = !sweep,
    };
    nx_choice choice;
    size_t n;
    const nx_algorithm *a = nx_algorithms(&n);

    *p = (nx_plan_point){.kind = kind, .coll = make_coll(plan, kind, bytes)};
    p->bytes = unit(plan, kind) * p->coll.count;
    choice = nx_select(plan->rules, &p->coll, plan->net.elem_size, plan->net.hosts,
                       (size_t)plan->segment_bytes);
    for (; n > 0; n--, a++) {
        size_t segment = (size_t)plan->segment_bytes / plan->net.elem_size;
        nexar_err err;

        if (a->kind != kind) {
            continue;
        }
        assert(p->n < NX_PLAN_ROWS);
        segment = !a->cut ? 0 : (segment == 0) ? 1 : segment;
        if (a == choice.algorithm) {
            segment = choice.segment;
            p->selected = p->n;
        }
        if (plan->progress != NULL) {
            char text[NX_FIGURE_ROOM];

            nx_progress_step(plan->progress, "%s %s %s", nx_coll_name(kind), a->name,
                             nx_figure_bytes(p->bytes, text));
        }
        err = nx_cost_of(a, &p->coll, segment, &plan->net, limits, &p->rows[p->n].cost);
        if (err != NEXAR_OK) {
            return err;
        }
        p->rows[p->n].algorithm = a;
        p->rows[p->n].segment = segment;
        if (p->rows[p->n].cost.is.time_s < p->rows[p->fastest].cost.is.time_s) {
            p->fastest = p->n;
        }
        p->n++;
    }
    /* Among equally fast algorithms the selected one counts as the fastest. */
    if (p->rows[p->selected].cost.is.time_s <= 1.001 * p->rows[p->fastest].cost.is.time_s) {
        p->fastest = p->selected;
    }
    return NEXAR_OK;
}

nexar_err nx_plan_at(const nx_plan *plan, nx_coll_kind kind, uint64_t bytes, nx_plan_point *out)
{
    return fill(plan, kind, bytes, false, out);
}

nexar_err nx_plan_over(const nx_plan *plan, nx_coll_kind kind, uint64_t from, uint64_t to,
                       nx_plan_sweep *out)
{
    const uint64_t one = unit(plan, kind);
    nexar_err err = NEXAR_OK;

    out->kind = kind;
    out->n = 0;
    for (uint64_t bytes = from;; bytes = (bytes <= to / 4) ? 4 * bytes : to) {
        /* At least one point: a range below the smallest call yields that call. */
        if ((bytes >= one) || (bytes == to)) {
            err = fill(plan, kind, bytes, true, &out->points[out->n]);
            out->n++;
        }
        if ((err != NEXAR_OK) || (bytes == to) || (out->n == NX_PLAN_POINTS)) {
            return err;
        }
    }
}
