/* picks.c - one random element of each of k spans. */
#include "coll/compress/picks.h"

/* splitmix64: number |i| of the sequence with seed |seed|. */
static uint64_t random_at(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Scales |x|, a fraction of 2^64, to |limit|: the result is below it. */
static size_t scaled(uint64_t x, size_t limit)
{
    __extension__ typedef unsigned __int128 wide;

    return (size_t)(((wide)x * limit) >> 64);
}

nx_picks nx_picks_of(size_t count, size_t k, uint64_t seed)
{
    /* Consecutive seeds give numbers of one sequence: this separates them. */
    const uint64_t own = random_at(seed, 0);

    return (nx_picks){.count = count,
                      .each = count / k,
                      .longer = count % k,
                      .turn = scaled(random_at(own, 0), count),
                      .seed = own};
}

size_t nx_picks_at(const nx_picks *p, size_t i)
{
    const size_t begin = i * p->each + ((i < p->longer) ? i : p->longer);
    const size_t place = begin + scaled(random_at(p->seed, i + 1), p->each + (i < p->longer));

    /* place + turn, without an overflow. */
    return (place < p->count - p->turn) ? place + p->turn : place - (p->count - p->turn);
}
