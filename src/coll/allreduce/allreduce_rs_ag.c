/*
 * allreduce_rs_ag.c - allreduce by shards in few rounds: recursive halving to
 * the shard of each rank, the caller's hook on it, recursive doubling.
 *
 * Unlike halving_doubling every rank, guests too, holds its own shard between
 * the phases: shard r of nx_split_even is at rank r, as nexar_shard() says.
 *
 *     rounds: 2 log2 size (four more when the size is no power of two)
 *     sent by each rank: 2 count (size - 1) / size for a power of two;
 *                        up to 3 count by a host, who also serves its guest
 *
 * Best for a sharded optimizer on many ranks; the ring does the same with fewer
 * bytes in more rounds.
 */
#include "coll/algorithms.h"
#include "coll/phase/halving.h"

typedef struct run {
    nx_ref in, out;
    nx_split shards;
    uint32_t rounds; /* of one phase */
} run;

static void guest(nx_sched *s, const nx_coll *c, const run *r)
{
    const nx_span own = nx_split_at(&r->shards, c->rank);
    const nx_ref shard = nx_ref_plus(r->out, own.off);
    const uint32_t host = c->rank - 1;

    nx_send(s, host, 0, r->in, c->count);
    nx_recv(s, host, 1 + r->rounds, shard, own.len);
    if (c->hook) {
        nx_call(s, shard, own.len);
    }
    nx_send(s, host, 2 + r->rounds, shard, own.len);
    nx_recv(s, host, 3 + 2 * r->rounds, r->out, c->count);
}

static void place(nx_sched *s, const nx_coll *c, const run *r, const nx_halving *h)
{
    const bool host = nx_fold_is_host(h->fold, c->rank);
    const nx_span both = nx_halving_span(h, h->place, h->place + 1);
    const nx_span own = nx_split_at(&r->shards, c->rank);
    const nx_ref result = nx_ref_plus(r->out, both.off);
    const nx_ref others = nx_ref_plus(result, own.len); /* the guest's shard */

    if (host) {
        nx_recv_reduce(s, c->rank + 1, 0, r->out, r->in, c->count);
    }
    nx_halving_reduce_scatter(s, h, 1, (nx_vec){.base = host ? r->out : r->in},
                              (nx_vec){.base = r->out}, result);
    if (c->average) {
        nx_divide(s, result, both.len);
    }
    if (host) {
        nx_send(s, c->rank + 1, 1 + r->rounds, others, both.len - own.len);
    }
    if (c->hook) {
        nx_call(s, result, own.len);
    }
    if (host) {
        nx_recv(s, c->rank + 1, 2 + r->rounds, others, both.len - own.len);
    }
    nx_halving_allgather(s, h, 3 + r->rounds, r->out);
    if (host) {
        nx_send(s, c->rank + 1, 3 + 2 * r->rounds, r->out, c->count);
    }
}

nexar_err nx_allreduce_rs_ag(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const run r = {.in = nx_coll_input(c),
                   .out = nx_at(NX_SPACE_RECV, 0),
                   .shards = nx_split_even(c->count, c->size),
                   .rounds = nx_fold_rounds(fold)};

    if (nx_fold_is_guest(fold, c->rank)) {
        guest(s, c, &r);
    } else {
        const nx_halving h = {.fold = fold,
                              .place = nx_fold_place(fold, c->rank),
                              .size = c->size,
                              .blocks = r.shards,
                              .by_rank = true};

        place(s, c, &r, &h);
    }
    return nx_sched_seal(s);
}
