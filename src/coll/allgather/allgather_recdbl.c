/*
 * allgather_recdbl.c - allgather for short blocks: recursive doubling directly in the receive
 * buffer.
 *
 * In round k each rank exchanges everything it has with the rank whose place differs in bit k.
 * Guests give their block to their host first and receive the complete result at the end.
 *
 *     rounds: log2 size (two more when the size is no power of two)
 *     sent by each rank: (size - 1) blocks; by a host also all of them once
 *
 * Best for a power of two: no scratch, no copy.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/halving.h"

nexar_err nx_allgather_recdbl(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const uint32_t rounds = nx_fold_rounds(fold);
    const nx_split blocks = nx_coll_blocks(c);
    const size_t all = nx_split_sum(&blocks);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const nx_ref home = nx_ref_plus(out, nx_split_at(&blocks, c->rank).off);
    const nx_ref in = c->in_place ? home : nx_at(NX_SPACE_SEND, 0);

    if (nx_fold_is_guest(fold, c->rank)) {
        nx_send(s, c->rank - 1, 0, in, c->count);
        nx_recv(s, c->rank - 1, 1 + rounds, out, all);
        return nx_sched_seal(s);
    }

    const nx_halving h = {.fold = fold,
                          .place = nx_fold_place(fold, c->rank),
                          .size = c->size,
                          .blocks = blocks,
                          .by_rank = true};

    nx_copy(s, home, in, c->count);
    if (nx_fold_is_host(fold, c->rank)) {
        nx_recv(s, c->rank + 1, 0, nx_ref_plus(home, c->count), c->count);
    }
    nx_halving_allgather(s, &h, 1, out);
    if (nx_fold_is_host(fold, c->rank)) {
        nx_send(s, c->rank + 1, 1 + rounds, out, all);
    }
    return nx_sched_seal(s);
}

void nx_allgather_recdbl_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_fold fold = nx_fold_make(c->size);
    nx_path path = {.net = f->net};

    (void)segment;
    f->messages = nx_fold_rounds(fold) + (fold.rest > 0);
    f->rounds = (c->count > 0) ? nx_fold_chain(fold) : (c->size > 1);
    f->sent = 0;
    if (fold.rest > 0) {
        const nx_load load = nx_load_guests(f->net, fold, 0);

        f->sent = (uint64_t)c->size * c->count;
        nx_path_add(&path, load, f->sent, 0);
        if (f->rounds > f->messages) {
            nx_path_add(&path, load, c->count, 0);
        }
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        /* The time of place 0, whose neighbours have guests. */
        const uint64_t len = (uint64_t)nx_fold_rank(fold, mask) * c->count;

        f->sent += len;
        nx_path_add(&path, nx_load_exchange(f->net, fold, 0, mask), len, 0);
    }
    f->time_s = nx_path_time(&path) + nx_net_reduce(f->net, c->count);
}
