/* fewer.c - the expected blocks when some ranks fail. */
#include "fewer.h"

#include <stdlib.h>
#include <string.h>

#include "rand.h"
#include "sched_plan.h"

nx_coll_kind nxt_fewer_kind(unsigned i)
{
    static const nx_coll_kind kinds[NXT_FEWER_KINDS] = {
        NX_ALLGATHER, NX_ALLGATHERV, NX_ALLTOALL,       NX_ALLTOALLV,       NX_GATHER,
        NX_GATHERV,   NX_SCATTER,    NX_REDUCE_SCATTER, NX_REDUCE_SCATTERV, NX_SCATTERV,
    };

    return kinds[i];
}

/* Element |at| of the input buffer of |rank|, and of a buffer without input. */
static uint32_t input(const nxt_fewer *f, uint32_t rank, size_t at)
{
    return (uint32_t)nxt_hash(f->seed, rank, at);
}

static uint32_t noise(const nxt_fewer *f, size_t at)
{
    return (uint32_t)nxt_hash(~f->seed, f->me, at);
}

void nxt_fewer_init(nxt_fewer *f, const nxt_fewer_plan *plan, uint32_t me)
{
    nxt_call *c = &f->call;
    size_t sent, received;

    *f = (nxt_fewer){.me = me, .seed = plan->seed};
    nxt_call_init(c, plan->kind, plan->size, plan->root, plan->count, plan->place, plan->seed);
    sent = c->send_len[me];
    received = c->recv_len[me];
    f->send = nxt_calloc(sent + 1, sizeof(*f->send));
    f->sent = nxt_calloc(sent + 1, sizeof(*f->sent));
    f->recv = nxt_calloc(received + 1, sizeof(*f->recv));
    f->before = nxt_calloc(received + 1, sizeof(*f->before));
    for (size_t i = 0; i < sent; i++) {
        f->send[i] = f->sent[i] = input(f, me, i);
    }
    for (size_t i = 0; i < received; i++) {
        f->recv[i] = f->before[i] = c->in_place[me] ? input(f, me, i) : noise(f, i);
    }
}

void nxt_fewer_fini(nxt_fewer *f)
{
    free(f->send);
    free(f->sent);
    free(f->recv);
    free(f->before);
    nxt_call_fini(&f->call);
}

/* The rank whose row of blocks counts for |rank|. */
static uint32_t teller(const nxt_call *c, uint32_t rank)
{
    return nx_coll_rooted(c->kind) ? c->root : rank;
}

nx_coll_args nxt_fewer_args(const nxt_fewer *f, nexar_comm *comm, const void *send, void *recv)
{
    const nxt_call *c = &f->call;
    const size_t row = (size_t)f->me * c->size;
    nx_coll_args a = {.name = nx_coll_name(c->kind),
                      .comm = comm,
                      .kind = c->kind,
                      .send = c->in_place[f->me] ? NEXAR_IN_PLACE : send,
                      .recv = recv,
                      .count = c->count,
                      .dtype = NEXAR_U32,
                      .op = NEXAR_SUM,
                      .root = (int)c->root};

    if (nxt_is_v(c->kind)) {
        a.count = nxt_call_block(c, teller(c, f->me), f->me).len;
        a.counts = c->counts + row;
        a.displs = (c->kind == NX_REDUCE_SCATTERV) ? NULL : c->displs + row;
    }
    if (c->kind == NX_ALLTOALLV) {
        a.count = 0;
        a.send_counts = c->send_counts + row;
        a.send_displs = c->send_displs + row;
    }
    return a;
}

/* ---- the result ------------------------------------------------------------------------------ */

/* Stores the contribution of |from|, at |off| of its input, at |to|. */
static void expect(const nxt_fewer *f, uint32_t *want, nx_span to, uint32_t from, size_t off)
{
    for (size_t i = 0; i < to.len; i++) {
        want[to.off + i] = input(f, from, off + i);
    }
}

/* Block |from| of this rank's receive buffer. */
static void expect_block(const nxt_fewer *f, uint32_t *want, uint32_t from)
{
    const nxt_call *c = &f->call;
    const nx_span to = nxt_call_block(c, f->me, from);

    if ((c->kind == NX_ALLTOALL) || (c->kind == NX_ALLTOALLV)) {
        expect(f, want, to, from, nxt_call_send_block(c, from, f->me).off);
    } else {
        expect(f, want, to, from, c->in_place[from] ? nxt_call_block(c, from, from).off : 0);
    }
}

static void expect_sums(const nxt_fewer *f, uint32_t *want, uint64_t who)
{
    const nx_span own = nxt_call_block(&f->call, f->me, f->me);

    for (size_t i = 0; i < own.len; i++) {
        want[i] = 0;
        for (uint32_t r = 0; r < f->call.size; r++) {
            want[i] += ((who >> r & 1) != 0) ? input(f, r, own.off + i) : 0;
        }
    }
}

bool nxt_fewer_is_right(const nxt_fewer *f, uint64_t who)
{
    const nxt_call *c = &f->call;
    const bool sums = nx_coll_reduces(c->kind);
    const bool scatters = (c->kind == NX_SCATTER) || (c->kind == NX_SCATTERV);
    size_t len = c->recv_len[f->me];
    uint32_t *want = nxt_calloc(len + 1, sizeof(*want));
    bool right;

    memcpy(want, f->before, len * sizeof(*want));
    if (sums) {
        expect_sums(f, want, who);
        len = nxt_call_block(c, f->me, f->me).len; /* in place, the rest is undefined */
    } else if (scatters) {
        const nx_span block = nxt_call_block(c, c->root, f->me);

        expect(f, want, (nx_span){.len = block.len}, c->root, block.off);
    } else if (!nx_coll_rooted(c->kind) || (f->me == c->root)) {
        for (uint32_t r = 0; r < c->size; r++) {
            if ((who >> r & 1) != 0) {
                expect_block(f, want, r);
            }
        }
    }
    right = (memcmp(want, f->recv, len * sizeof(*want)) == 0) &&
            (memcmp(f->sent, f->send, c->send_len[f->me] * sizeof(*f->sent)) == 0);
    free(want);
    return right;
}
