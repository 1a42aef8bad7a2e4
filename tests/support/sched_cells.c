/*
 * sched_cells.c - which step accesses which memory, during a run.
 *
 * Two accesses are wrong. One accesses a cell that a step in flight writes, or writes a cell that
 * a step in flight reads. The other violates program order, because a step starts too early or
 * too late.
 */
#include "sched_plan.h"

/* A step that wants to start. */
typedef struct claim {
    const nxt_plan *p;
    nxt_cell *cells;
    uint32_t rank, step; /* the step by its number in the rank */
    nxt_verdict *v;
} claim;

/* |other|: as cells name steps, + 1. */
static bool race(const claim *c, uint32_t other, const char *what)
{
    const nx_sched *sched = c->p->members[c->rank].sched;

    return nxt_find(c->v, NXT_RACE, c->rank, c->step, "rank %u step %u (%s) %s step %u (%s)",
                    c->rank, c->step, nxt_step_kind_name(sched->steps[c->step].kind), what,
                    other - 1, nxt_step_kind_name(sched->steps[other - 1].kind));
}

static bool may_read(const claim *c, nxt_range range)
{
    for (uint32_t i = range.lo; i < range.hi; i++) {
        const nxt_cell *cell = &c->cells[i];

        if (cell->written) {
            return race(c, cell->last_writer, "reads what is being written by");
        }
        if (cell->last_writer > c->step + 1) {
            return race(c, cell->last_writer, "reads what was overwritten too early by");
        }
        if (!cell->defined) {
            const nx_step *st = c->p->steps[c->p->base[c->rank] + c->step];

            return nxt_find(c->v, NXT_UNDEFINED, c->rank, c->step,
                            "rank %u step %u (%s) reads memory that nobody has written", c->rank,
                            c->step, nxt_step_kind_name(st->kind));
        }
    }
    return true;
}

static bool may_write(const claim *c, nxt_range range)
{
    for (uint32_t i = range.lo; i < range.hi; i++) {
        const nxt_cell *cell = &c->cells[i];

        if (cell->written) {
            return race(c, cell->last_writer, "writes what is being written by");
        }
        if (cell->readers > 0) {
            return race(c, cell->last_reader, "writes what is being read by");
        }
        if (cell->last_writer > c->step + 1) {
            return race(c, cell->last_writer, "writes what was already overwritten by");
        }
        if (cell->last_reader > c->step + 1) {
            return race(c, cell->last_reader, "writes what was read too early by");
        }
    }
    return true;
}

bool nxt_cells_hold(const nxt_plan *p, nxt_cell *cells, uint32_t g, nxt_verdict *v)
{
    const nxt_touch *t = &p->touches[g];
    const uint32_t rank = p->rank_of[g];
    const claim c = {.p = p, .cells = cells, .rank = rank, .step = g - p->base[rank], .v = v};

    if (!may_write(&c, t->write) || !may_read(&c, t->reads[0]) || !may_read(&c, t->reads[1])) {
        return false;
    }
    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = t->reads[k].lo; i < t->reads[k].hi; i++) {
            cells[i].readers++;
            if (cells[i].last_reader < c.step + 1) {
                cells[i].last_reader = c.step + 1;
            }
        }
    }
    for (uint32_t i = t->write.lo; i < t->write.hi; i++) {
        cells[i].written = true;
        cells[i].last_writer = c.step + 1;
    }
    return true;
}

void nxt_cells_release(const nxt_plan *p, nxt_cell *cells, uint32_t g)
{
    const nxt_touch *t = &p->touches[g];

    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t i = t->reads[k].lo; i < t->reads[k].hi; i++) {
            cells[i].readers--;
        }
    }
    for (uint32_t i = t->write.lo; i < t->write.hi; i++) {
        cells[i].written = false;
        cells[i].defined = true;
    }
}
