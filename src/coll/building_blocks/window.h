/*
 * window.h - scratch for data that passes through a rank.
 *
 * A rank in the middle of a chain needs memory for data in flight, not for the whole vector. It
 * processes the vector in windows of some segments and alternates between two windows of scratch.
 * Hazards keep a window from being overwritten while it is being sent.
 */
#ifndef NX_WINDOW_H
#define NX_WINDOW_H

#include "coll/cost/forecast.h"
#include "coll/sched.h"

/* Segments per window; two windows are in flight. The model shows no gain beyond 8 at 20 us and 10
 * Gbit/s with segments of 256 KiB, where the latency is a tenth of one segment's time. */
enum { NX_WINDOW_SEGMENTS = 8 };

typedef struct nx_window {
    size_t off, len; /* the current window */
    uint32_t number;
    size_t count, most;
    nx_ref scratch;
} nx_window;

static inline nx_window nx_window_first(nx_sched *s, size_t count, bool with_scratch)
{
    size_t most = (s->segment == 0) ? count : nx_segment_len(count, s->segment);

    if (most < count / NX_WINDOW_SEGMENTS) {
        most *= NX_WINDOW_SEGMENTS;
    } else {
        most = count;
    }
    nx_window w = {.count = count, .most = most, .len = most};

    if (with_scratch) {
        w.scratch = nx_sched_scratch(s, (most < count) ? 2 * most : most);
    }
    return w;
}

/* Advances to the next window; false if there is none. */
static inline bool nx_window_next(nx_window *w)
{
    w->off += w->len;
    if (w->off >= w->count) {
        return false;
    }
    w->len = (w->count - w->off < w->most) ? w->count - w->off : w->most;
    w->number++;
    return true;
}

static inline nx_ref nx_window_scratch(const nx_window *w)
{
    return nx_ref_plus(w->scratch, (w->number % 2) * w->most);
}

/* The cost of processing |count| elements in windows. */
typedef struct nx_window_cost {
    uint64_t windows, segments;
} nx_window_cost;

static inline nx_window_cost nx_window_cost_of(size_t count, size_t segment)
{
    nx_sched s = {.segment = segment};
    nx_window w = nx_window_first(&s, count, false);
    nx_window_cost cost = {0};

    do {
        cost.windows++;
        cost.segments += nx_segments(w.len, segment);
    } while (nx_window_next(&w));
    return cost;
}

#endif /* NX_WINDOW_H */
