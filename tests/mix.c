/*
 * mix.c - a random mix of operations, the same on all ranks, held to an oracle.
 *
 *     nexar run -n 5 mix SEED OPERATIONS
 *
 * Communicators are split, also such that were split before, doubled and freed; several
 * collectives are on their way at once on several of them, waited for in any order, with
 * allreduces of buckets, with shards and compressed among them, and messages between
 * neighbours beside them.  Prints one line and exits with 0 if all was right.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api_call.h"
#include "local_world.h"
#include "rand.h"

enum { COMMS = 4, FLYING = 6, MESSAGE = 20000, MOST = 30000, TENSORS = 50 };

typedef struct mix {
    nexar_comm *world, *comms[COMMS];
    nxt_rand rand;  /* the same on all ranks */
    nxt_rand local; /* of this rank alone */
    nxt_api_op *flying[FLYING];
    unsigned long done;
} mix;

static void end_one(mix *m, unsigned at)
{
    if (m->flying[at] != NULL) {
        const char *wrong = nxt_api_end(m->flying[at]);

        m->flying[at] = NULL;
        m->done++;
        nxt_rank_check(m->world, wrong == NULL, (wrong == NULL) ? "" : wrong, __FILE__, __LINE__);
    }
}

/* One of the communicators that this rank has. */
static nexar_comm *any_comm(mix *m)
{
    nexar_comm *comm = m->comms[nxt_below(&m->rand, COMMS)];

    return (comm == NULL) ? m->world : comm;
}

/* A part of a communicator, or its double, takes the place of another, on which nothing may
 * be on its way; also of the one it was made from. */
static void split_one(mix *m)
{
    const unsigned at = 1 + nxt_below(&m->rand, COMMS - 1);
    const int colors = 1 + (int)nxt_below(&m->rand, 3);
    const bool doubles = nxt_one_in(&m->rand, 4);
    nexar_comm *parent = any_comm(m), *made = NULL;

    for (unsigned i = 0; i < FLYING; i++) {
        end_one(m, i);
    }
    NXT_OK(m->world, doubles ? nexar_comm_dup(parent, &made)
                             : nexar_comm_split(parent, nexar_rank(parent) % colors,
                                                (int)nxt_below(&m->local, 100), &made));
    nexar_comm_free(m->comms[at]);
    m->comms[at] = made;
}

/* ---- allreduces in other guises ------------------------------------------------------- */

/* Sums of these are exact. */
static double element(int rank, uint64_t seed, size_t i)
{
    return (double)((i * 7 + (size_t)rank * 31 + seed) % 256);
}

static nexar_err halve(void *shard, size_t offset, size_t count, void *arg)
{
    double *at = shard;

    (void)offset;
    (void)arg;
    for (size_t i = 0; i < count; i++) {
        at[i] /= 2;
    }
    return NEXAR_OK;
}

/* |data|, cut at random into tensors, as a bucket. */
// NOLINTNEXTLINE(readability-non-const-parameter): the result is written there
static nexar_err bucketed(mix *m, nexar_comm *comm, double *data, size_t count)
{
    nexar_tensor tensors[TENSORS];
    size_t at = 0;

    for (size_t k = 0; k < TENSORS; k++) {
        const size_t left = count - at;
        const size_t len = (k + 1 == TENSORS) ? left : nxt_below(&m->rand, (uint32_t)left / 4 + 1);

        tensors[k] = (nexar_tensor){.ptr = data + at, .count = len};
        at += len;
    }
    return nexar_allreduce_bucketed(comm, tensors, TENSORS, NEXAR_F64, NEXAR_SUM);
}

static void reduce_in_guise(mix *m)
{
    static _Thread_local double data[MOST];
    const size_t count = 1 + nxt_below(&m->rand, nxt_one_in(&m->rand, 3) ? MOST : 100);
    const uint32_t guise = nxt_below(&m->rand, 3);
    const uint64_t seed = nxt_below(&m->rand, 1000);
    nexar_comm *comm = any_comm(m);
    const int n = nexar_size(comm);
    nexar_err err;

    for (size_t i = 0; i < count; i++) {
        data[i] = element(nexar_rank(comm), seed, i);
    }
    if (guise == 0) {
        err = bucketed(m, comm, data, count);
    } else if (guise == 1) {
        err = nexar_allreduce_rs_ag(comm, data, count, NEXAR_F64, NEXAR_SUM, halve, NULL);
    } else {
        err = nexar_allreduce_compressed(comm, data, count, NEXAR_F64, NEXAR_SUM,
                                         NEXAR_COMPRESS_NONE, 0, NULL);
    }
    NXT_OK(m->world, err);
    for (size_t i = 0; i < count; i++) {
        double sum = 0;

        for (int rank = 0; rank < n; rank++) {
            sum += element(rank, seed, i);
        }
        NXT_IS(m->world, data[i] == ((guise == 1) ? sum / 2 : sum));
    }
    m->done++;
}

/* ---- the mix --------------------------------------------------------------------------- */

static void exchange(mix *m)
{
    static _Thread_local uint8_t out[MESSAGE], in[MESSAGE];
    const int n = nexar_size(m->world), me = nexar_rank(m->world);
    const size_t bytes = nxt_below(&m->rand, MESSAGE);
    const uint64_t tag = nxt_below(&m->rand, 5), seed = nxt_next(&m->rand);

    nxt_fill(out, bytes, seed + (uint64_t)me);
    NXT_OK(m->world, nexar_sendrecv(m->world, out, bytes, (me + 1) % n, tag, in, bytes,
                                    (me + n - 1) % n, tag, NULL));
    NXT_IS(m->world, nxt_filled(in, bytes, seed + (uint64_t)((me + n - 1) % n)));
}

static void operate(mix *m)
{
    const unsigned at = nxt_below(&m->rand, FLYING);
    const nx_coll_kind kind = (nx_coll_kind)nxt_below(&m->rand, NX_COLL_KINDS);
    const uint64_t seed = nxt_next(&m->rand);
    nexar_comm *comm = any_comm(m);

    end_one(m, at);
    m->flying[at] = nxt_api_begin(comm, kind, seed);
    if (nxt_one_in(&m->local, 3)) {
        end_one(m, nxt_below(&m->local, FLYING)); /* each rank in its own order */
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = (argc > 1) ? strtoull(argv[1], NULL, 10) : 1;
    const unsigned long ops = (argc > 2) ? strtoul(argv[2], NULL, 10) : 100;
    mix m = {.rand = {nxt_mix(seed)}};

    if (nexar_init(NULL, &m.world) != NEXAR_OK) {
        (void)fprintf(stderr, "mix: %s\n", nexar_last_error());
        return 1;
    }
    m.comms[0] = m.world;
    m.local.state = nxt_mix(seed + 1000 + (uint64_t)nexar_rank(m.world));
    for (unsigned long i = 0; i < ops; i++) {
        if (nxt_one_in(&m.rand, 12)) {
            split_one(&m);
        } else if (nxt_one_in(&m.rand, 5)) {
            exchange(&m);
        } else if (nxt_one_in(&m.rand, 6)) {
            reduce_in_guise(&m);
        } else {
            operate(&m);
        }
    }
    for (unsigned i = 0; i < FLYING; i++) {
        end_one(&m, i);
    }
    if (nexar_rank(m.world) == 0) {
        (void)printf("mix: %lu collectives on %d ranks, seed %llu\n", m.done, nexar_size(m.world),
                     (unsigned long long)seed);
    }
    return (nexar_finalize(m.world) == NEXAR_OK) ? 0 : 1;
}
