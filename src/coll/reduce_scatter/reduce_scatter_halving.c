/*
 * reduce_scatter_halving.c - reduce-scatter and reduce-scatterv for short
 * vectors: recursive halving.
 *
 * Guests pass their vectors to their hosts first and receive their block at the end.
 *
 *     rounds: log2 size (two more when the size is no power of two)
 *     sent by each rank: half the vector, a quarter, ...; by a guest all of it
 *
 * Best when latency counts more than bandwidth, or for a power of two.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/halving.h"

/* Reduces the blocks of this place, its own first, and gives the guest its block. */
static void place(nx_sched *s, const nx_coll *c, const nx_halving *h)
{
    const bool host = nx_fold_is_host(h->fold, c->rank);
    const nx_span all = {.off = 0, .len = nx_split_sum(&h->blocks)};
    const nx_span used = host ? all : nx_halving_kept(h);
    const nx_span both = nx_halving_span(h, h->place, h->place + 1);
    const size_t own = nx_split_at(&h->blocks, c->rank).len;
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    nx_vec in = {.base = nx_coll_input(c)}, work = in;

    if (!c->in_place) {
        work = (nx_vec){.base = nx_sched_scratch(s, (h->fold.even > 1) || host ? used.len : 0),
                        .from = used.off};
    }
    if (host) {
        nx_recv_reduce(s, c->rank + 1, 0, work.base, in.base, all.len);
        in = work;
    }

    /* Out of place and without a guest the last round can write the result. */
    const bool straight = !c->in_place && !host;
    const nx_ref result = straight ? out : nx_vec_at(work, both.off);

    nx_halving_reduce_scatter(s, h, 1, in, work, result);
    if (host) {
        nx_send(s, c->rank + 1, 1 + nx_fold_rounds(h->fold), nx_ref_plus(result, own),
                both.len - own);
    }
    nx_copy(s, out, result, own);
}

nexar_err nx_reduce_scatter_halving(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const nx_split blocks = nx_coll_blocks(c);
    const nx_ref out = nx_at(NX_SPACE_RECV, 0);
    const size_t own = nx_split_at(&blocks, c->rank).len;

    if (nx_fold_is_guest(fold, c->rank)) {
        nx_send(s, c->rank - 1, 0, nx_coll_input(c), nx_split_sum(&blocks));
        nx_recv(s, c->rank - 1, 1 + nx_fold_rounds(fold), out, own);
    } else {
        const nx_halving h = {.fold = fold,
                              .place = nx_fold_place(fold, c->rank),
                              .size = c->size,
                              .blocks = blocks,
                              .by_rank = true};

        place(s, c, &h);
    }
    if (c->average) {
        nx_divide(s, out, own);
    }
    return nx_sched_seal(s);
}

void nx_reduce_scatter_halving_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_fold fold = nx_fold_make(c->size);
    const nx_split blocks = nx_coll_blocks(c);
    const nx_split_cost cost = nx_split_cost_of(&blocks, segment);
    const uint64_t all = nx_split_sum(&blocks);
    nx_path path = {.net = f->net};

    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (c->size == 1) {
        return;
    }
    f->messages = nx_fold_rounds(fold) + (fold.rest > 0);
    f->sent = (fold.rest > 0) ? all : all - cost.least; /* a guest sends everything */
    f->rounds = (all > 0) ? nx_fold_chain(fold) : 1;
    if (fold.rest > 0) {
        const nx_load load = nx_load_guests(f->net, fold, 0);

        nx_path_add(&path, load, all, all);
        if (f->rounds > f->messages) {
            nx_path_add(&path, load, cost.most, 0);
        }
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        const uint64_t len = all * nx_fold_rank(fold, mask) / c->size;

        nx_path_add(&path, nx_load_exchange(f->net, fold, 0, mask), len, len);
    }
    f->time_s = nx_path_time(&path);
}
