/*
 * allreduce_recdbl.c - allreduce for short vectors: recursive doubling.
 *
 * In round k each rank exchanges its partial result with the rank whose place differs in bit k, and
 * both add the two. Both add the same two numbers, and addition is commutative to the bit, so all
 * ranks end with the same bits.
 *
 *     rounds: log2 size (two more when the size is no power of two)
 *     sent by each rank: count log2 size
 *
 * Best when latency counts more than bandwidth.
 */
#include "coll/algorithms.h"
#include "coll/building_blocks/accumulate.h"
#include "coll/building_blocks/fold.h"

nexar_err nx_allreduce_recdbl(nx_sched *s, const nx_coll *c)
{
    const nx_fold fold = nx_fold_make(c->size);
    const uint32_t rounds = nx_fold_rounds(fold);
    const nx_ref in = nx_coll_input(c), out = nx_at(NX_SPACE_RECV, 0);

    if (nx_fold_is_guest(fold, c->rank)) {
        nx_send(s, c->rank - 1, 0, in, c->count);
        nx_recv(s, c->rank - 1, 1 + rounds, out, c->count);
        return nx_sched_seal(s);
    }

    const bool host = nx_fold_is_host(fold, c->rank);
    const uint32_t place = nx_fold_place(fold, c->rank);
    nx_acc sum;

    nx_acc_init(&sum, s, in, out, c->count, rounds + host);
    if (host) {
        nx_acc_recv(&sum, s, c->rank + 1, 0);
    }
    for (uint32_t k = 0; k < rounds; k++) {
        const uint32_t peer = nx_fold_rank(fold, place ^ (UINT32_C(1) << k));

        nx_send(s, peer, 1 + k, sum.now, c->count);
        nx_acc_recv(&sum, s, peer, 1 + k);
    }
    if (c->average) {
        nx_divide(s, out, c->count);
    }
    if (host) {
        nx_send(s, c->rank + 1, 1 + rounds, out, c->count);
    }
    return nx_sched_seal(s);
}

void nx_allreduce_recdbl_forecast(const nx_coll *c, size_t segment, nx_forecast *f)
{
    const nx_fold fold = nx_fold_make(c->size);
    nx_path path = {.net = f->net};

    (void)segment;
    f->messages = nx_fold_rounds(fold) + (fold.rest > 0);
    f->sent = f->messages * c->count;
    f->rounds = (c->count > 0) ? nx_fold_chain(fold) : (c->size > 1);
    for (uint32_t i = nx_fold_rounds(fold); i < nx_fold_chain(fold); i++) {
        nx_path_add(&path, nx_load_guests(f->net, fold, 0), c->count, c->count);
    }
    for (uint32_t mask = 1; mask < fold.even; mask *= 2) {
        nx_path_add(&path, nx_load_exchange(f->net, fold, 0, mask), c->count, c->count);
    }
    f->time_s = nx_path_time(&path);
}
