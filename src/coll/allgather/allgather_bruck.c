/*
 * allgather_bruck.c - allgather and allgatherv for short blocks, in the fewest
 * rounds for any size.
 *
 * Each rank collects the blocks in scratch in the order own, next, next but one, and so on. In
 * round k it sends the first 2^k blocks to the rank 2^k before it, and receives as many from the
 * rank 2^k after it. At the end they are copied to their places.
 *
 *     rounds: ceil(log2 size)      sent by each rank: all blocks but one
 *
 * Bruck et al., "Efficient algorithms for all-to-all communications in
 * multiport message-passing systems", 1997.
 */
#include "coll/algorithms.h"

/* The elements of |n| consecutive blocks, from the block of |rank| on. */
static size_t blocks_from(const nx_split *blocks, uint32_t rank, uint32_t n)
{
    size_t sum = 0;

    if (blocks->how == NX_SPLIT_EACH) {
        return n * blocks->each;
    }
    for (uint32_t i = 0; i < n; i++) {
        sum += nx_split_at(blocks, (rank + i) % blocks->n).len;
    }
    return sum;
}

/* Copies the blocks from the order in scratch, of which the first |have| are in
 * their places already, to their places. */
static void place(nx_sched *s, const nx_coll *c, const nx_split *blocks, nx_ref scratch,
                  uint32_t have)
{
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);

    if (blocks->how == NX_SPLIT_EACH) {
        const size_t each = blocks->each, upper = (c->size - c->rank) * each;

        nx_copy(s, nx_ref_plus(out, (c->rank + have) * each), nx_ref_plus(scratch, have * each),
                upper - have * each);
        nx_copy(s, out, nx_ref_plus(scratch, upper), c->rank * each);
        return;
    }
    for (uint32_t i = 0; i < c->size; i++) {
        const nx_span to = nx_split_at(blocks, (c->rank + i) % c->size);

        if (i >= have) {
            nx_copy(s, nx_ref_plus(out, to.off), scratch, to.len);
        }
        scratch = nx_ref_plus(scratch, to.len);
    }
}

nexar_err nx_allgather_bruck(nx_sched *s, const nx_coll *c)
{
    const nx_split blocks = nx_coll_blocks(c);
    const nx_span own = nx_split_at(&blocks, c->rank);
    const nx_ref in = c->in_place ? nx_at(NX_SPACE_RECV, own.off) : nx_at(NX_SPACE_SEND, 0);
    const nx_ref scratch = nx_sched_scratch(s, nx_split_sum(&blocks));
    uint32_t round = 0;

    nx_copy(s, scratch, in, own.len);
    for (uint64_t have = 1; have < c->size; have *= 2, round++) {
        const uint32_t n = (uint32_t)((have < c->size - have) ? have : c->size - have);
        const uint32_t to = (uint32_t)((c->rank + c->size - have) % c->size);
        const uint32_t from = (uint32_t)((c->rank + have) % c->size);
        const size_t mine = blocks_from(&blocks, c->rank, (uint32_t)have);

        nx_send(s, to, round, scratch, blocks_from(&blocks, c->rank, n));
        nx_recv(s, from, round, nx_ref_plus(scratch, mine), blocks_from(&blocks, from, n));
    }
    place(s, c, &blocks, scratch, c->in_place ? 1 : 0);
    return nx_sched_seal(s);
}

/* The most bytes that one rank sends; ranks differ in a v form. */
static uint64_t most_sent(const nx_split *blocks)
{
    uint64_t most = 0;

    if (blocks->how == NX_SPLIT_EACH) {
        return (uint64_t)(blocks->n - 1) * blocks->each;
    }
    for (uint32_t rank = 0; rank < blocks->n; rank++) {
        uint64_t sent = 0;

        for (uint64_t have = 1; have < blocks->n; have *= 2) {
            sent += blocks_from(blocks, rank,
                                (uint32_t)((have < blocks->n - have) ? have : blocks->n - have));
        }
        most = (sent > most) ? sent : most;
    }
    return most;
}

void nx_allgather_bruck_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_split blocks = nx_coll_blocks(c);
    const uint64_t all = nx_split_sum(&blocks);
    const uint32_t full = nx_log2_floor(c->size); /* rounds that double the collected blocks */
    const uint32_t left = c->size - (UINT32_C(1) << full);
    nx_path path = {.net = f->net};

    (void)segment;
    f->messages = nx_log2_ceil(c->size);
    f->sent = most_sent(&blocks);
    /* The last round transfers only the remaining blocks. */
    f->rounds = full;
    if ((left > 0) && (1 + nx_log2_ceil(left) > full)) {
        f->rounds = 1 + nx_log2_ceil(left);
    }
    f->rounds = (all > 0) ? f->rounds : (c->size > 1);
    for (uint64_t have = 1; have < c->size; have *= 2) {
        const uint64_t n = (have < c->size - have) ? have : c->size - have;

        if ((have == 1) && (f->rounds < f->messages)) {
            nx_path_alternative(&path, all / c->size, 0);
        } else {
            nx_path_shift(&path, (uint32_t)have, n * all / c->size, 0);
        }
    }
    f->time_s = nx_path_time(&path) + nx_net_reduce(f->net, all + all / c->size);
}
