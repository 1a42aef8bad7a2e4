/*
 * plan.h - what `nexar plan` works out, and the ways to show it.
 *
 * plan.c reads the options, plan_run.c asks the cost model, and one file each
 * prints the tables, the JSON and the picture.
 */
#ifndef NX_PLAN_H
#define NX_PLAN_H

#include <stdio.h>

#include "cmd/print/progress_line.h"
#include "coll/cost/cost.h"
#include "coll/select.h"
#include "figures.h"

enum {
    NX_PLAN_ROWS = 10,  /* algorithms of a collective, at most */
    NX_PLAN_POINTS = 32 /* sizes of a sweep, at most */
};

/* The question. */
typedef struct nx_plan {
    nx_net net;
    nexar_dtype dtype;
    uint32_t root;
    uint64_t segment_bytes;
    const nx_rules *rules; /* of the setting `algorithms`; borrowed */
    bool exact;            /* simulate whatever it takes */
    nx_progress *progress; /* called for every algorithm; may be NULL */
} nx_plan;

/* One collective at one size: the cost of each of its algorithms. */
typedef struct nx_plan_point {
    nx_coll_kind kind;
    uint64_t bytes; /* by which algorithms are selected; whole elements */
    nx_coll coll;
    size_t n;
    struct {
        const nx_algorithm *algorithm;
        size_t segment; /* elements */
        nx_cost cost;
    } rows[NX_PLAN_ROWS];
    size_t selected, fastest; /* rows */
} nx_plan_point;

/* One collective over many sizes, smallest first. */
typedef struct nx_plan_sweep {
    nx_coll_kind kind;
    size_t n;
    nx_plan_point points[NX_PLAN_POINTS];
} nx_plan_sweep;

/* Works out one collective at |bytes|, rounded up to whole elements: of each
 * rank's block where there are blocks.  Fails as nx_cost_of does. */
NX_MUST_CHECK nexar_err nx_plan_at(const nx_plan *plan, nx_coll_kind kind, uint64_t bytes,
                                   nx_plan_point *out);

/* The same for the powers of 4 times |from| up to |to|, and |to| itself.  Sizes
 * of less than an element, or an element per block, are left out. */
NX_MUST_CHECK nexar_err nx_plan_over(const nx_plan *plan, nx_coll_kind kind, uint64_t from,
                                     uint64_t to, nx_plan_sweep *out);

/* To stdout.  The head says on which network; once before all tables. */
void nx_plan_print_head(const nx_plan *plan);
void nx_plan_print_point(const nx_plan *plan, const nx_plan_point *point);
void nx_plan_print_sweep(const nx_plan_sweep *sweep);
/* What the marks mean; once behind all tables. */
void nx_plan_print_legend(bool sweep);

/* One JSON object, to stdout: the network, then what was asked for.  Either
 * points or sweeps are given, the other is NULL. */
void nx_plan_print_json(const nx_plan *plan, const nx_plan_point *points,
                        const nx_plan_sweep *sweeps, size_t n);

/* One panel per sweep, as SVG. */
void nx_plan_plot(FILE *out, const nx_plan *plan, const nx_plan_sweep *sweeps, size_t n);

#endif /* NX_PLAN_H */
