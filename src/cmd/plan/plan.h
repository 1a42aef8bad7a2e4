/*
 * plan.h - the results of `nexar plan` and their output.
 *
 * plan.c reads the options, plan_run.c queries the cost model, and one file each prints the
 * tables, the JSON and the plot.
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

/* The request. */
typedef struct nx_plan {
    nx_net net;
    nexar_dtype dtype;
    uint32_t root;
    uint64_t segment_bytes;
    const nx_rules *rules; /* of the setting `algorithms`; borrowed */
    bool exact;            /* simulate regardless of the duration */
    nx_progress *progress; /* called for every algorithm; may be NULL */
} nx_plan;

/* One collective at one size: the cost of each of its algorithms. */
typedef struct nx_plan_point {
    nx_coll_kind kind;
    uint64_t bytes; /* determines the selection of algorithms; whole elements */
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

/* Computes the costs of one collective at |bytes|, rounded up to whole elements; for kinds with
 * blocks, of each rank's block. Returns the errors of nx_cost_of. */
NX_MUST_CHECK nexar_err nx_plan_at(const nx_plan *plan, nx_coll_kind kind, uint64_t bytes,
                                   nx_plan_point *out);

/* The same for |from| times powers of 4 up to |to|, and for |to| itself. Sizes below one
 * element, or one element per block, are omitted. */
NX_MUST_CHECK nexar_err nx_plan_over(const nx_plan *plan, nx_coll_kind kind, uint64_t from,
                                     uint64_t to, nx_plan_sweep *out);

/* Prints to stdout. The head names the network; call it once before all tables. */
void nx_plan_print_head(const nx_plan *plan);
void nx_plan_print_point(const nx_plan *plan, const nx_plan_point *point);
void nx_plan_print_sweep(const nx_plan_sweep *sweep);
/* Explains the marks; call it once after all tables. */
void nx_plan_print_legend(bool sweep);

/* Prints one JSON object to stdout: the network, then the points or the sweeps. The other of the
 * two is NULL. */
void nx_plan_print_json(const nx_plan *plan, const nx_plan_point *points,
                        const nx_plan_sweep *sweeps, size_t n);

/* One panel per sweep, as SVG. */
void nx_plan_plot(FILE *out, const nx_plan *plan, const nx_plan_sweep *sweeps, size_t n);

#endif /* NX_PLAN_H */
