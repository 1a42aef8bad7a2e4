/*
 * reduce_rs_gather.c - reduce for long vectors on many ranks: recursive halving leaves one block of
 * the result at each place, a binomial tree gathers the blocks.
 *
 *     rounds: 2 log2 size      sent by each rank: about count, at most 1.5 count
 *
 * If the size is no power of two, the guests first send their vectors to their hosts. Rabenseifner,
 * "Optimization of collective reduction operations", 2004.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/halving.h"

/* Sends this rank's blocks towards place 0, after the blocks that it receives. */
static void gather(nx_sched *s, const nx_halving *h, uint32_t round, nx_vec work)
{
    for (uint32_t mask = 1; mask < h->fold.even; mask *= 2, round++) {
        if ((h->place & mask) != 0) {
            const nx_span all = nx_halving_span(h, h->place, h->place + mask);

            nx_send(s, nx_halving_rank(h, h->place - mask), round, nx_vec_at(work, all.off),
                    all.len);
            return;
        }
        const uint32_t child = h->place + mask;
        const nx_span part = nx_halving_span(h, child, child + mask);

        nx_recv(s, nx_halving_rank(h, child), round, nx_vec_at(work, part.off), part.len);
    }
}

nexar_err nx_reduce_rs_gather(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const uint32_t place = (c->rank + c->size - c->root) % c->size; /* counted from the root */
    const nx_ref in = nx_coll_input(c);
    const uint32_t rounds = nx_fold_rounds(fold);

    if (nx_fold_is_guest(fold, place)) {
        nx_send(s, (c->rank + c->size - 1) % c->size, 0, in, c->count);
        return nx_sched_seal(s);
    }

    const nx_halving h = {.fold = fold,
                          .place = nx_fold_place(fold, place),
                          .size = c->size,
                          .first = c->root,
                          .blocks = nx_split_even(c->count, fold.even)};
    const bool host = nx_fold_is_host(fold, place);
    const nx_span kept = host ? (nx_span){.off = 0, .len = c->count} : nx_halving_kept(&h);
    nx_vec now = {.base = in}, work = {.base = nx_at(NX_SPACE_RECV, 0)};

    if (place != 0) {
        work = (nx_vec){.base = nx_sched_scratch(s, kept.len), .from = kept.off};
    }
    if (host) {
        nx_recv_reduce(s, (c->rank + 1) % c->size, 0, nx_vec_at(work, 0), in, c->count);
        now = work;
    }

    const nx_span own = nx_halving_span(&h, h.place, h.place + 1);
    const nx_ref result = nx_vec_at(work, own.off);

    nx_halving_reduce_scatter(s, &h, 1, now, work, result);
    if (c->average) {
        nx_divide(s, result, own.len);
    }
    gather(s, &h, 1 + rounds, work);
    return nx_sched_seal(s);
}

/* The longest chain: guest to host, halving to block b, and b's path to place 0, a hop for each bit
 * of b. A guest lengthens it only where the place opposite to b has one. */
static uint64_t longest_chain(nx_fold fold, size_t count)
{
    const uint32_t filled = (count < fold.even) ? (uint32_t)count : fold.even;
    const uint32_t opposite = fold.even - fold.rest; /* of the last place with a guest */
    uint32_t longest = nx_most_bits(0, filled);

    if (filled > opposite) {
        const uint32_t with_guest = 1 + nx_most_bits(opposite, filled);

        longest = (with_guest > longest) ? with_guest : longest;
    }
    return nx_fold_rounds(fold) + longest;
}

void nx_reduce_rs_gather_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_fold fold = nx_fold_make(c->size);
    const nx_split blocks = nx_split_even(c->count, fold.even);
    nx_path path = {.net = f->net};

    (void)segment;
    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (c->size == 1) {
        return;
    }
    f->messages = nx_fold_rounds(fold) + 1;
    f->rounds = (c->count > 0) ? longest_chain(fold, c->count) : 1;
    if (f->rounds > nx_fold_rounds(fold) + nx_most_bits(0, fold.even)) {
        nx_path_add(&path, nx_load_guests(f->net, fold, c->root), c->count, c->count);
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        /* Place |mask| sends all blocks except its own, then the |mask| blocks from its own on. */
        const uint64_t sent =
            c->count - nx_split_at(&blocks, mask).len + nx_split_range(&blocks, mask, 2 * mask).len;
        const uint64_t len = (uint64_t)c->count * mask / fold.even;

        f->sent = (sent > f->sent) ? sent : f->sent;
        nx_path_add(&path, nx_load_exchange(f->net, fold, c->root, mask), len, len);
        if (mask < c->count) {
            nx_path_add(&path, nx_load_tree(f->net, c->root, nx_fold_rank(fold, mask)), len, 0);
        }
    }
    f->time_s = nx_path_time(&path);
}
