/*
 * mix.c - a random mix of operations, the same on all ranks, held to an oracle.
 *
 *     nexar run -n 5 mix SEED OPERATIONS
 *
 * Communicators are split and freed, several collectives are on their way at once on
 * several of them, waited for in any order, with messages between neighbours beside
 * them.  Prints one line and exits with 0 if all was right.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api_call.h"
#include "local_world.h"
#include "rand.h"

enum { COMMS = 4, FLYING = 6, MESSAGE = 20000 };

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

/* A communicator takes the place of another, on which nothing may be on its way. */
static void split_one(mix *m)
{
    const unsigned at = 1 + nxt_below(&m->rand, COMMS - 1);
    const int colors = 1 + (int)nxt_below(&m->rand, 3);
    nexar_comm *parent = m->world;

    for (unsigned i = 0; i < FLYING; i++) {
        end_one(m, i);
    }
    nexar_comm_free(m->comms[at]);
    m->comms[at] = NULL;
    NXT_OK(m->world, nexar_comm_split(parent, nexar_rank(parent) % colors,
                                      (int)nxt_below(&m->local, 100), &m->comms[at]));
}

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
    nexar_comm *comm = m->comms[nxt_below(&m->rand, COMMS)];

    end_one(m, at);
    m->flying[at] = nxt_api_begin((comm == NULL) ? m->world : comm, kind, seed);
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
