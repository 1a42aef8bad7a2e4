/* cost_events.c - a heap of events. */
#include "coll/cost/cost_events.h"

#include <string.h>

#include "base/alloc.h"

enum { FAN = 4 };

static inline bool before(nx_cost_event a, nx_cost_event b)
{
    const bool sooner = a.time_bits < b.time_bits, tie = a.time_bits == b.time_bits;

    return sooner | (tie & (a.what < b.what)); /* no branch: ties are common */
}

static bool grow(nx_cost_events *e)
{
    uint32_t room = (e->room == 0) ? 1024 : 2 * e->room;
    nx_cost_event *heap = nx_grow(e->heap, room, sizeof(*heap));

    if (heap == NULL) {
        e->failed = true;
        return false;
    }
    e->heap = heap;
    e->room = room;
    return true;
}

/* Puts |event| at the free position |at|, or above it. */
static void rise(nx_cost_events *e, uint32_t at, nx_cost_event event)
{
    while (at > 0) {
        uint32_t parent = (at - 1) / FAN;

        if (!before(event, e->heap[parent])) {
            break;
        }
        e->heap[at] = e->heap[parent];
        at = parent;
    }
    e->heap[at] = event;
}

void nx_cost_events_push(nx_cost_events *e, double time, nx_cost_event_kind kind, uint32_t step)
{
    nx_cost_event event = {.what = ((uint64_t)kind << 32) | step};

    if ((e->n == e->room) && !grow(e)) {
        return;
    }
    memcpy(&event.time_bits, &time, sizeof(time));
    e->n++;
    rise(e, e->n - 1, event);
}

/* The earliest of the four events from |at| on: two pairs, then the winners, without a branch to
 * predict. */
static inline uint32_t soonest_of_four(const nx_cost_event *at)
{
    const uint32_t a = before(at[1], at[0]);
    const uint32_t b = 2 + (uint32_t)before(at[3], at[2]);

    return before(at[b], at[a]) ? b : a;
}

/* Fills the root: the earliest children move up, and |event|, which was last and usually belongs
 * near the bottom, takes the vacant position. */
static void fill_root(nx_cost_events *e, nx_cost_event event)
{
    uint32_t at = 0, child = 1;

    while (child + FAN <= e->n) {
        const uint32_t best = child + soonest_of_four(&e->heap[child]);

        e->heap[at] = e->heap[best];
        at = best;
        child = FAN * at + 1;
    }
    if (child < e->n) {
        uint32_t best = child;

        while (++child < e->n) {
            best = before(e->heap[child], e->heap[best]) ? child : best;
        }
        e->heap[at] = e->heap[best];
        at = best;
    }
    rise(e, at, event);
}

bool nx_cost_events_pop(nx_cost_events *e, double *time, nx_cost_event_kind *kind, uint32_t *step)
{
    nx_cost_event first;

    if (e->n == 0) {
        return false;
    }
    first = e->heap[0];
    e->n--;
    if (e->n > 0) {
        fill_root(e, e->heap[e->n]);
    }
    memcpy(time, &first.time_bits, sizeof(*time));
    *kind = (nx_cost_event_kind)(first.what >> 32);
    *step = (uint32_t)first.what;
    return true;
}

void nx_cost_events_fini(nx_cost_events *e)
{
    nx_free(e->heap);
    *e = (nx_cost_events){0};
}
