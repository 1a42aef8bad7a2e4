/* ways.c - the faster of two ways. */
#include "base/ways.h"

#include <string.h>

static const double BETTER = 0.9; /* of the other's cost: it is worth a change */
static const double DEARER = 1.5; /* than when it was decided: something has changed */

void nx_ways_init(nx_ways *w, unsigned way)
{
    memset(w, 0, sizeof(*w));
    w->now = (uint8_t)(way & 1);
    w->left = w->pause = NX_WAYS_FIRST;
}

/* The least of the last costs; 0: none is known. */
static double least(const nx_ways *w, unsigned way)
{
    const uint32_t n = (w->costs[way] < NX_WAYS_KEPT) ? w->costs[way] : NX_WAYS_KEPT;
    double found = w->cost[way][0];

    for (uint32_t i = 1; i < n; i++) {
        found = (w->cost[way][i] < found) ? w->cost[way][i] : found;
    }
    return (n > 0) ? found : 0;
}

static void decide(nx_ways *w)
{
    const unsigned other = 1U - w->now;
    const double ours = least(w, w->now), its = least(w, other);

    w->trying = false;
    if ((ours > 0) && (its > 0) && (its < ours * BETTER)) {
        w->now = (uint8_t)other;
        w->pause = NX_WAYS_AGAIN;
    } else {
        w->pause = (w->pause < NX_WAYS_MOST / 2) ? 2 * w->pause : NX_WAYS_MOST;
    }
    w->left = w->pause;
    w->settled = least(w, w->now);
}

unsigned nx_ways_next(nx_ways *w)
{
    if ((w->left == 0) && w->trying) {
        decide(w);
    } else if (w->left == 0) {
        w->trying = true;
        w->left = NX_WAYS_TRY;
        w->costs[1U - w->now] = 0;
    }
    w->left--;
    return w->trying ? 1U - w->now : w->now;
}

void nx_ways_took(nx_ways *w, unsigned way, uint64_t bytes, uint64_t ns)
{
    double cost;

    way &= 1;
    if ((bytes == 0) || (ns == 0)) {
        return; /* a clock that stands */
    }
    w->cost[way][w->costs[way]++ % NX_WAYS_KEPT] = (double)ns / (double)bytes;
    cost = least(w, w->now);
    if ((way == w->now) && !w->trying && (w->costs[way] >= NX_WAYS_KEPT) && (w->settled > 0) &&
        (cost > w->settled * DEARER)) {
        w->settled = cost;
        w->pause = NX_WAYS_AGAIN;
        w->left = (w->left < NX_WAYS_KEPT) ? w->left : NX_WAYS_KEPT;
    }
}
