/* halving.c - recursive halving and doubling among a power of two of places. */
#include "halving.h"

uint32_t nx_halving_rank(const nx_halving *h, uint32_t place)
{
    return (nx_fold_rank(h->fold, place) + h->first) % h->size;
}

static uint32_t first_block(const nx_halving *h, uint32_t place)
{
    return h->by_rank ? nx_fold_rank(h->fold, place) : place;
}

nx_span nx_halving_span(const nx_halving *h, uint32_t lo, uint32_t hi)
{
    return nx_split_range(&h->blocks, first_block(h, lo), first_block(h, hi));
}

/* The places that share |mask| or less with |place|: its group in the round that leaves |mask|
 * places to each. */
static nx_span part(const nx_halving *h, uint32_t place, uint32_t mask)
{
    uint32_t lo = place & ~(mask - 1);

    return nx_halving_span(h, lo, lo + mask);
}

nx_span nx_halving_kept(const nx_halving *h)
{
    return part(h, h->place, (h->fold.even > 1) ? h->fold.even / 2 : 1);
}

void nx_halving_reduce_scatter(nx_sched *s, const nx_halving *h, uint32_t round, nx_vec in,
                               nx_vec work, nx_ref last)
{
    nx_vec now = in;

    if (h->fold.even == 1) {
        nx_span own = part(h, 0, 1);

        nx_copy(s, last, nx_vec_at(in, own.off), own.len);
        return;
    }
    for (uint32_t mask = h->fold.even / 2; mask >= 1; mask /= 2, round++) {
        const uint32_t peer = h->place ^ mask;
        const nx_span give = part(h, peer, mask);
        const nx_span keep = part(h, h->place, mask);
        const nx_ref to = (mask == 1) ? last : nx_vec_at(work, keep.off);

        nx_send(s, nx_halving_rank(h, peer), round, nx_vec_at(now, give.off), give.len);
        nx_recv_reduce(s, nx_halving_rank(h, peer), round, to, nx_vec_at(now, keep.off), keep.len);
        now = work;
    }
}

void nx_halving_allgather(nx_sched *s, const nx_halving *h, uint32_t round, nx_ref vec)
{
    for (uint32_t mask = 1; mask < h->fold.even; mask *= 2, round++) {
        const uint32_t peer = h->place ^ mask;
        const nx_span have = part(h, h->place, mask);
        const nx_span want = part(h, peer, mask);

        nx_send(s, nx_halving_rank(h, peer), round, nx_ref_plus(vec, have.off), have.len);
        nx_recv(s, nx_halving_rank(h, peer), round, nx_ref_plus(vec, want.off), want.len);
    }
}
