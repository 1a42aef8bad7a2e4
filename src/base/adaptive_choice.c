/* adaptive_choice.c - chooses the faster of two methods. */
#include "adaptive_choice.h"

#include <string.h>

static const double BETTER = 0.9; /* times the other method's cost: worth a change */
static const double DEARER = 1.5; /* times its cost at the last decision: costs have changed */

void nx_adaptive_init(nx_adaptive *w, unsigned way)
{
    memset(w, 0, sizeof(*w));
    w->now = (uint8_t)(way & 1);
    w->left = w->pause = NX_ADAPTIVE_FIRST;
}

/* The least of the recorded costs of a method; 0: none is recorded. */
static double least(const nx_adaptive *w, unsigned way)
{
    const uint32_t n = (w->costs[way] < NX_ADAPTIVE_KEPT) ? w->costs[way] : NX_ADAPTIVE_KEPT;
    double found = w->cost[way][0];

    for (uint32_t i = 1; i < n; i++) {
        found = (w->cost[way][i] < found) ? w->cost[way][i] : found;
    }
    return (n > 0) ? found : 0;
}

static void decide(nx_adaptive *w)
{
    const unsigned other = 1U - w->now;
    const double ours = least(w, w->now), its = least(w, other);

    w->trying = false;
    if ((ours > 0) && (its > 0) && (its < ours * BETTER)) {
        w->now = (uint8_t)other;
        w->pause = NX_ADAPTIVE_AGAIN;
    } else {
        w->pause = (w->pause < NX_ADAPTIVE_MOST / 2) ? 2 * w->pause : NX_ADAPTIVE_MOST;
    }
    w->left = w->pause;
    w->settled = least(w, w->now);
}

unsigned nx_adaptive_next(nx_adaptive *w)
{
    if ((w->left == 0) && w->trying) {
        decide(w);
    } else if (w->left == 0) {
        w->trying = true;
        w->left = NX_ADAPTIVE_TRY;
        w->costs[1U - w->now] = 0;
    }
    w->left--;
    return w->trying ? 1U - w->now : w->now;
}

void nx_adaptive_took(nx_adaptive *w, unsigned way, uint64_t bytes, uint64_t ns)
{
    double cost;

    way &= 1;
    if ((bytes == 0) || (ns == 0)) {
        return; /* a clock too coarse to see the use */
    }
    w->cost[way][w->costs[way]++ % NX_ADAPTIVE_KEPT] = (double)ns / (double)bytes;
    cost = least(w, w->now);
    if ((way == w->now) && !w->trying && (w->costs[way] >= NX_ADAPTIVE_KEPT) && (w->settled > 0) &&
        (cost > w->settled * DEARER)) {
        w->settled = cost;
        w->pause = NX_ADAPTIVE_AGAIN;
        w->left = (w->left < NX_ADAPTIVE_KEPT) ? w->left : NX_ADAPTIVE_KEPT;
    }
}
