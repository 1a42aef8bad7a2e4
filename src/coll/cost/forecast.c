/* forecast.c - the common terms of several closed forms. */
#include "coll/cost/forecast.h"

uint64_t nx_segments(size_t len, size_t segment)
{
    const size_t each = nx_segment_len(len, segment);

    return (len == 0) ? 1 : len / each + (len % each != 0);
}

nx_cost_stream nx_cost_stream_of(size_t len, size_t segment)
{
    return (nx_cost_stream){
        .len = len, .segments = nx_segments(len, segment), .each = nx_segment_len(len, segment)};
}

/* |times| blocks of |len| elements. */
static void add_blocks(nx_split_cost *cost, uint64_t len, uint64_t times, size_t segment)
{
    const uint64_t segments = nx_segments((size_t)len, segment);

    cost->segments += times * segments;
    cost->least_segments = (segments < cost->least_segments) ? segments : cost->least_segments;
    cost->least = (len < cost->least) ? len : cost->least;
    cost->most = (len > cost->most) ? len : cost->most;
}

nx_split_cost nx_split_cost_of(const nx_split *split, size_t segment)
{
    nx_split_cost cost = {.least_segments = UINT64_MAX, .least = UINT64_MAX};
    const uint32_t n = split->n;
    const uint32_t large = (split->how == NX_SPLIT_EVEN) ? (uint32_t)(split->total % n) : 0;

    if ((split->how == NX_SPLIT_COUNTS) || (split->how == NX_SPLIT_GROUPS)) {
        for (uint32_t b = 0; b < n; b++) {
            add_blocks(&cost, nx_split_at(split, b).len, 1, segment);
        }
        return cost;
    }
    if (large > 0) {
        add_blocks(&cost, nx_split_at(split, 0).len, large, segment);
    }
    add_blocks(&cost, nx_split_at(split, n - 1).len, n - large, segment);
    return cost;
}

uint32_t nx_log2_floor(uint64_t n)
{
    uint32_t bits = 0;

    while (n > 1) {
        n /= 2;
        bits++;
    }
    return bits;
}

uint32_t nx_log2_ceil(uint64_t n)
{
    return (n <= 1) ? 0 : nx_log2_floor(n - 1) + 1;
}

uint32_t nx_most_bits(uint32_t from, uint32_t to)
{
    uint32_t best = from;

    /* The lowest clear bit adds least to the number. */
    while (((best | (best + 1)) < to) && (best != UINT32_MAX)) {
        best |= best + 1;
    }
    return (uint32_t)__builtin_popcount(best);
}

uint32_t nx_fold_chain(nx_fold f)
{
    const uint32_t rounds = nx_fold_rounds(f);

    if (f.rest == 0) {
        return rounds;
    }
    return rounds + ((f.rest > f.even / 2) ? 2 : 1);
}
