/*
 * allreduce_halving_doubling.c - allreduce for middle sizes and many ranks: recursive halving
 * leaves one block of the result at each place, recursive doubling distributes the blocks.
 *
 *     rounds: 2 log2 size (two more when the size is no power of two)
 *     sent by each rank: 2 count (size - 1) / size for a power of two;
 *                        up to 3 count by a host, which also serves its guest
 *
 * Each block is reduced at one place only, so all ranks end with the same bits.
 * Rabenseifner, "Optimization of collective reduction operations", 2004.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/halving.h"

nexar_err nx_allreduce_halving_doubling(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const uint32_t rounds = nx_fold_rounds(fold);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);

    if (nx_fold_is_guest(fold, c->rank)) {
        nx_send(s, c->rank - 1, 0, in, c->count);
        nx_recv(s, c->rank - 1, 1 + 2 * rounds, out, c->count);
        return nx_sched_seal(s);
    }

    const nx_halving h = {.fold = fold,
                          .place = nx_fold_place(fold, c->rank),
                          .size = c->size,
                          .blocks = nx_split_even(c->count, fold.even)};
    const bool host = nx_fold_is_host(fold, c->rank);
    const nx_span own = nx_halving_span(&h, h.place, h.place + 1);
    const nx_ref result = nx_ref_plus(out, own.off);

    if (host) {
        nx_recv_reduce(s, c->rank + 1, 0, out, in, c->count);
    }
    nx_halving_reduce_scatter(s, &h, 1, (nx_vec){.base = host ? out : in}, (nx_vec){.base = out},
                              result);
    if (c->average) {
        nx_divide(s, result, own.len);
    }
    nx_halving_allgather(s, &h, 1 + rounds, out);
    if (host) {
        nx_send(s, c->rank + 1, 1 + 2 * rounds, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_allreduce_halving_doubling_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
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
    f->messages = 2 * nx_fold_rounds(fold) + (fold.rest > 0);
    f->rounds = (c->count > 0) ? 2 * nx_fold_rounds(fold) : 1;
    /* Place 0: all blocks except its own in halving, its own first in doubling. */
    f->sent = c->count;
    if (fold.rest > 0) {
        /* A guest lengthens the chain where the block opposite to its host's is
         * not empty. */
        f->rounds += (c->count > fold.even - fold.rest) ? 2 : 0;
        f->sent += c->count;
        nx_path_add(&path, nx_load_guests(f->net, fold, 0), c->count, c->count);
        nx_path_add(&path, nx_load_guests(f->net, fold, 0), c->count, 0);
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        const nx_load load = nx_load_exchange(f->net, fold, 0, mask);
        const uint64_t len = nx_split_range(&blocks, 0, mask).len;

        f->sent += (mask > 1) ? len : 0;
        nx_path_add(&path, load, len, len);
        nx_path_add(&path, load, len, 0);
    }
    f->time_s = nx_path_time(&path);
}
