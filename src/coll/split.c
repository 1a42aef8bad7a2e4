/* split.c - the four methods to divide a vector into blocks. */
#include "coll/split.h"

#include <assert.h>

nx_split nx_split_even(size_t total, uint32_t n)
{
    return (nx_split){.how = NX_SPLIT_EVEN, .n = n, .total = total};
}

nx_split nx_split_each(size_t each, uint32_t n)
{
    return (nx_split){.how = NX_SPLIT_EACH, .n = n, .each = each};
}

nx_split nx_split_counts(const size_t *counts, const size_t *displs, uint32_t n)
{
    return (nx_split){.how = NX_SPLIT_COUNTS, .n = n, .counts = counts, .displs = displs};
}

nx_split nx_split_groups(size_t each, const uint32_t *firsts, uint32_t n)
{
    return (nx_split){.how = NX_SPLIT_GROUPS, .n = n, .each = each, .firsts = firsts};
}

nx_span nx_split_at(const nx_split *split, uint32_t b)
{
    assert(b < split->n);
    switch (split->how) {
    case NX_SPLIT_EACH:
        return (nx_span){.off = b * split->each, .len = split->each};
    case NX_SPLIT_COUNTS:
        return (nx_span){.off = split->displs[b], .len = split->counts[b]};
    case NX_SPLIT_GROUPS:
        return (nx_span){.off = split->firsts[b] * split->each,
                         .len = (split->firsts[b + 1] - split->firsts[b]) * split->each};
    case NX_SPLIT_EVEN:
        break;
    }

    size_t base = split->total / split->n, extra = split->total % split->n;

    return (nx_span){.off = b * base + ((b < extra) ? b : extra), .len = base + (b < extra)};
}

nx_span nx_split_range(const nx_split *split, uint32_t first, uint32_t last)
{
    if (first == last) {
        return (nx_span){0};
    }

    nx_span head = nx_split_at(split, first), tail = nx_split_at(split, last - 1);

    return (nx_span){.off = head.off, .len = tail.off + tail.len - head.off};
}

size_t nx_split_sum(const nx_split *split)
{
    size_t sum = 0;

    switch (split->how) {
    case NX_SPLIT_EACH:
        return split->each * split->n;
    case NX_SPLIT_EVEN:
        return split->total;
    case NX_SPLIT_GROUPS:
        return split->firsts[split->n] * split->each;
    case NX_SPLIT_COUNTS:
        break;
    }
    for (uint32_t b = 0; b < split->n; b++) {
        sum += split->counts[b];
    }
    return sum;
}

size_t nx_split_max(const nx_split *split)
{
    size_t max = 0;

    if ((split->how == NX_SPLIT_EVEN) || (split->how == NX_SPLIT_EACH)) {
        return nx_split_at(split, 0).len;
    }
    for (uint32_t b = 0; b < split->n; b++) {
        const size_t len = nx_split_at(split, b).len;

        max = (len > max) ? len : max;
    }
    return max;
}
