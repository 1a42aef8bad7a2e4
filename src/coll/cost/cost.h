/*
 * cost.h - the cost of a collective on a network: counted, simulated, or in closed form.
 */
#ifndef NX_COST_H
#define NX_COST_H

#include "coll/algorithms.h"
#include "coll/cost/cost_sim.h"

enum { NX_COST_MAX_RANKS = 4096 };

typedef struct nx_cost {
    nx_forecast is;
    bool counted;   /* messages and sent are exact; otherwise by closed form */
    bool simulated; /* time and rounds are of a run; otherwise by closed form */
} nx_cost;

typedef struct nx_cost_limits {
    uint64_t steps; /* of all ranks together, that may be simulated */
    bool count;     /* counts are wanted even where nothing is simulated */
} nx_cost_limits;

/*
 * The cost of |c| by |a|, cut in |segment| elements, on |net|. |c->rank| and its map of hosts are
 * ignored (the map is that of |net|); the parts of |c| are those of every rank. |out| is untouched
 * on error:
 *
 * NEXAR_ENOMEM
 *     Out of memory.
 * NEXAR_EINVAL, NEXAR_EINTERNAL
 *     The builder failed, or is wrong (cost_sim.h).
 */
NX_MUST_CHECK nexar_err nx_cost_of(const nx_algorithm *a, const nx_coll *c, size_t segment,
                                   const nx_net *net, nx_cost_limits limits, nx_cost *out);

/*
 * Counts without keeping steps: |f| gets the largest number of messages and elements that one rank
 * sends, |*steps| the number of steps of all ranks together. Stops when there are more than |limit|
 * of them. Errors as above.
 */
NX_MUST_CHECK nexar_err nx_cost_count(const nx_algorithm *a, const nx_coll *c, size_t segment,
                                      uint64_t limit, nx_forecast *f, uint64_t *steps);

#endif /* NX_COST_H */
