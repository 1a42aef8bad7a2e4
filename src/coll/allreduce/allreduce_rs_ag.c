/*
 * allreduce_rs_ag.c - allreduce by shards in few rounds: recursive halving to the shard of each
 * rank, the caller's hook on it, recursive doubling.
 *
 * Unlike in halving_doubling, every rank, including guests, holds its own shard between the phases:
 * shard r of nx_split_even is at rank r, as nexar_shard() specifies.
 *
 *     rounds: 2 log2 size (four more when the size is no power of two)
 *     sent by each rank: 2 count (size - 1) / size for a power of two;
 *                        up to 3 count by a host, which also serves its guest
 *
 * With fewer elements than ranks and a hook, log2 size more: some shards are empty, and otherwise
 * no rank would wait for the hooks of the ranks that have a shard.
 *
 * Best for a sharded optimizer on many ranks; the ring does the same with fewer bytes in more
 * rounds.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/halving.h"

typedef struct run {
    nx_ref in, out;
    nx_split shards;
    uint32_t rounds; /* of one phase */
} run;

/* Both return the step of the hook; NX_NO_STEP: there is none. */
static nx_step_id guest(nx_sched *s, const nx_coll *c, const run *r)
{
    const nx_span own = nx_split_at(&r->shards, c->rank);
    const nx_ref shard = nx_ref_plus(r->out, own.off);
    const uint32_t host = c->rank - 1;
    nx_step_id call = NX_NO_STEP;

    nx_send(s, host, 0, r->in, c->count);
    nx_recv(s, host, 1 + r->rounds, shard, own.len);
    if (c->hook) {
        nx_call(s, shard, own.len);
        call = nx_sched_last(s);
    }
    nx_send(s, host, 2 + r->rounds, shard, own.len);
    nx_recv(s, host, 3 + 2 * r->rounds, r->out, c->count);
    return call;
}

static nx_step_id place(nx_sched *s, const nx_coll *c, const run *r, const nx_halving *h)
{
    const bool host = nx_fold_is_host(h->fold, c->rank);
    const nx_span both = nx_halving_span(h, h->place, h->place + 1);
    const nx_span own = nx_split_at(&r->shards, c->rank);
    const nx_ref result = nx_ref_plus(r->out, both.off);
    const nx_ref others = nx_ref_plus(result, own.len); /* the guest's shard */
    nx_step_id call = NX_NO_STEP;

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
        call = nx_sched_last(s);
    }
    if (host) {
        nx_recv(s, c->rank + 1, 2 + r->rounds, others, both.len - own.len);
    }
    nx_halving_allgather(s, h, 3 + r->rounds, r->out);
    if (host) {
        nx_send(s, c->rank + 1, 3 + 2 * r->rounds, r->out, c->count);
    }
    return call;
}

nexar_err nx_allreduce_rs_ag(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const run r = {.in = nx_coll_input(c),
                   .out = nx_at(NX_SPACE_RECV, 0),
                   .shards = nx_split_even(c->count, c->size),
                   .rounds = nx_fold_rounds(fold)};
    nx_step_id call;

    if (nx_fold_is_guest(fold, c->rank)) {
        call = guest(s, c, &r);
    } else {
        const nx_halving h = {.fold = fold,
                              .place = nx_fold_place(fold, c->rank),
                              .size = c->size,
                              .blocks = r.shards,
                              .by_rank = true};

        call = place(s, c, &r, &h);
    }
    nx_await_hooks(s, c, call, 4 + 2 * r.rounds);
    return nx_sched_seal(s);
}

/* Guest to host, halving to block b, out to b's guest and back, doubling, and to a guest again. The
 * first and the last of these lengthen the chain only where the opposite place of b has a guest,
 * the middle one only where b's guest has a shard. */
static uint64_t longest_chain(nx_fold fold, size_t count)
{
    const uint64_t halves = count / 2;
    const uint64_t served = (halves < fold.rest) ? halves : fold.rest;
    const uint32_t opposite = fold.even - fold.rest;
    const uint64_t rounds = 2 * (uint64_t)nx_fold_rounds(fold);

    if (fold.rest == 0) {
        return rounds;
    }
    if (served > opposite) {
        return rounds + 4;
    }
    return rounds + (((served > 0) || (count > nx_fold_rank(fold, opposite))) ? 2 : 0);
}

void nx_allreduce_rs_ag_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_fold fold = nx_fold_make(c->size);
    const nx_split shards = nx_split_even(c->count, c->size);
    nx_path path = {.net = f->net};

    (void)segment;
    f->rounds = f->messages = f->sent = 0;
    f->time_s = 0;
    if (c->size == 1) {
        return;
    }
    f->messages = 2 * nx_fold_rounds(fold);
    f->rounds = (c->count > 0) ? longest_chain(fold, c->count) : 1;
    f->sent = c->count; /* place 0, as in halving and doubling */
    if (fold.rest > 0) {
        const nx_load load = nx_load_guests(f->net, fold, 0);
        const uint64_t shard = nx_split_at(&shards, 1).len;

        f->messages += 2;
        f->sent += c->count + shard;
        nx_path_add(&path, load, c->count, c->count);
        nx_path_add(&path, load, c->count, 0);
        if (f->rounds > f->messages) {
            nx_path_add(&path, load, shard, 0);
            nx_path_add(&path, load, shard, 0);
        }
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        const nx_load load = nx_load_exchange(f->net, fold, 0, mask);
        const uint64_t len = nx_split_range(&shards, 0, nx_fold_rank(fold, mask)).len;

        f->sent += (mask > 1) ? len : 0;
        nx_path_add(&path, load, len, len);
        nx_path_add(&path, load, len, 0);
    }
    f->time_s = nx_path_time(&path);
}
