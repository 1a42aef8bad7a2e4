/*
 * forecast.h - the cost of an algorithm, in closed form.
 *
 * Each builder has a function that computes the same without building: the longest chain of
 * messages, what the busiest rank sends, and the time. The counts equal those of the built
 * schedules exactly; the time approximates that of their simulation (cost_sim.h). Tests compare
 * both for every size where both exist. For larger sizes the cost model uses the closed form alone.
 */
#ifndef NX_FORECAST_H
#define NX_FORECAST_H

#include "coll/coll.h"
#include "coll/cost/pace.h"

typedef struct nx_forecast {
    const nx_net *net; /* as many ranks as the call has */

    /* Of the busiest rank, each independently. */
    uint64_t rounds;   /* the longest chain of messages that wait for one another */
    uint64_t messages; /* sent */
    uint64_t sent;     /* elements */
    double time_s;
} nx_forecast;

/* |c| is a call out of place; its rank does not matter. The parts of the v forms are those of every
 * rank. Sets all but |f->net|. */
typedef void (*nx_forecaster)(const nx_coll *c, size_t segment, nx_forecast *f);

/* The number of segments of a transfer of |len| elements; at least 1. */
uint64_t nx_segments(size_t len, size_t segment);

/* Such a transfer as a stream (pace.h). */
nx_cost_stream nx_cost_stream_of(size_t len, size_t segment);

/* The same for the blocks |split| together, and the least of one of them. */
typedef struct nx_split_cost {
    uint64_t segments, least_segments;
    uint64_t least; /* elements of the smallest block */
    uint64_t most;  /* ... and of the largest */
} nx_split_cost;
nx_split_cost nx_split_cost_of(const nx_split *split, size_t segment);

/* floor and ceil(log2 n); n >= 1. */
uint32_t nx_log2_floor(uint64_t n);
uint32_t nx_log2_ceil(uint64_t n);

/* The most bits that a number in [from, to) has set; from < to. */
uint32_t nx_most_bits(uint32_t from, uint32_t to);

/* Rounds of a butterfly in which each position has data for every other, including the rounds of
 * the guests before and after it.
 *
 * Guests rarely lengthen a chain by two: a chain must enter at a position with a guest and end at
 * its opposite, which must have a guest, too. */
uint32_t nx_fold_chain(nx_fold f);

#endif /* NX_FORECAST_H */
