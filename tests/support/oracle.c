/* oracle.c - the definition of each collective, as loops. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "scalar_values.h"
#include "sched_plan.h"

nx_span nxt_shard(size_t count, uint32_t size, uint32_t rank)
{
    nx_span s = {0};

    for (uint32_t r = 0; r <= rank; r++) {
        s.off += s.len;
        s.len = (count / size) + ((r < count % size) ? 1 : 0);
    }
    return s;
}

static size_t elem(const nxt_data *d)
{
    return nexar_dtype_size(d->dtype);
}

/* Element |i| of the buffer that holds |rank|'s input. */
static const char *input(const nxt_data *d, uint32_t rank, size_t i)
{
    const char *buf = d->call->in_place[rank] ? d->recv[rank] : d->send[rank];

    return buf + (i * elem(d));
}

static void put(const nxt_data *d, char *want, size_t to, const char *from, size_t len)
{
    memcpy(want + (to * elem(d)), from, len * elem(d));
}

/* acc[i] = op(acc[i], input of rank [i]) */
static void add_rank(const nxt_data *d, uint32_t rank, size_t len, char *acc)
{
    for (size_t i = 0; i < len; i++) {
        nxt_combine(d->dtype, d->op, acc + (i * elem(d)), input(d, rank, i));
    }
}

/* The reduction of all ranks' |len| elements, averaged if requested. The caller frees it. */
static char *reduce_all(const nxt_data *d, size_t len)
{
    char *acc = nxt_calloc(len, elem(d));

    memcpy(acc, input(d, 0, 0), len * elem(d));
    for (uint32_t rank = 1; rank < d->call->size; rank++) {
        add_rank(d, rank, len, acc);
    }
    if (d->op == NEXAR_AVG) {
        for (size_t i = 0; i < len; i++) {
            nxt_divide(d->dtype, acc + (i * elem(d)), d->call->size);
        }
    }
    return acc;
}

static void broadcast(const nxt_data *d, char *const *want)
{
    for (uint32_t r = 0; r < d->call->size; r++) {
        put(d, want[r], 0, d->recv[d->call->root], d->call->count);
    }
}

/* reduce and allreduce */
static void reduce(const nxt_data *d, char *const *want)
{
    char *all = reduce_all(d, d->call->count);

    for (uint32_t r = 0; r < d->call->size; r++) {
        if ((d->call->kind == NX_ALLREDUCE) || (r == d->call->root)) {
            put(d, want[r], 0, all, d->call->count);
        }
    }
    free(all);
}

/* reduce_scatter(v) */
static void reduce_scatter(const nxt_data *d, char *const *want, bool *const *loose)
{
    const nxt_call *c = d->call;
    nx_span last = nxt_call_block(c, 0, c->size - 1);
    char *all = reduce_all(d, last.off + last.len);

    for (uint32_t r = 0; r < c->size; r++) {
        nx_span own = nxt_call_block(c, r, r);

        put(d, want[r], 0, all + (own.off * elem(d)), own.len);
        for (size_t i = own.len; i < c->recv_len[r]; i++) {
            loose[r][i] = true;
        }
    }
    free(all);
}

/* gather(v) and allgather(v): |to| gets the blocks of all ranks. */
static void gather_to(const nxt_data *d, uint32_t to, char *want)
{
    const nxt_call *c = d->call;

    for (uint32_t r = 0; r < c->size; r++) {
        nx_span at = nxt_call_block(c, to, r);
        /* In place, a rank's part is at its final position in its own buffer. */
        size_t from = c->in_place[r] ? nxt_call_block(c, r, r).off : 0;

        put(d, want, at.off, input(d, r, from), at.len);
    }
}

static void gather(const nxt_data *d, char *const *want)
{
    bool all = (d->call->kind == NX_ALLGATHER) || (d->call->kind == NX_ALLGATHERV);

    for (uint32_t r = 0; r < d->call->size; r++) {
        if (all || (r == d->call->root)) {
            gather_to(d, r, want[r]);
        }
    }
}

static void scatter(const nxt_data *d, char *const *want)
{
    const nxt_call *c = d->call;

    for (uint32_t r = 0; r < c->size; r++) {
        nx_span at = nxt_call_block(c, c->root, r);

        put(d, want[r], 0, input(d, c->root, at.off), at.len);
    }
}

static void alltoall(const nxt_data *d, char *const *want)
{
    const nxt_call *c = d->call;

    for (uint32_t to = 0; to < c->size; to++) {
        for (uint32_t from = 0; from < c->size; from++) {
            put(d, want[to], nxt_call_block(c, to, from).off,
                input(d, from, nxt_call_send_block(c, from, to).off),
                nxt_call_block(c, to, from).len);
        }
    }
}

static void scan(const nxt_data *d, char *const *want)
{
    const nxt_call *c = d->call;
    char *acc = nxt_calloc(c->count, elem(d));

    memcpy(acc, input(d, 0, 0), c->count * elem(d));
    for (uint32_t r = 0; r < c->size; r++) {
        if (r > 0) {
            add_rank(d, r, c->count, acc);
        }
        put(d, want[r], 0, acc, c->count);
    }
    free(acc);
}

/* Rank 0 gets the identity; rank r the combination of ranks 0 .. r - 1. */
static void exscan(const nxt_data *d, char *const *want)
{
    const nxt_call *c = d->call;
    char *acc = nxt_calloc(c->count, elem(d));

    memcpy(acc, input(d, 0, 0), c->count * elem(d));
    for (size_t i = 0; i < c->count; i++) {
        nxt_identity(d->dtype, d->op, want[0] + (i * elem(d)));
    }
    for (uint32_t r = 1; r < c->size; r++) {
        put(d, want[r], 0, acc, c->count);
        add_rank(d, r, c->count, acc);
    }
    free(acc);
}

void nxt_oracle(const nxt_data *d, char *const *want, bool *const *loose)
{
    const nxt_call *c = d->call;

    for (uint32_t r = 0; r < c->size; r++) { /* elements that no rule defines are unchanged */
        memcpy(want[r], d->recv[r], c->recv_len[r] * elem(d));
        memset(loose[r], 0, c->recv_len[r] * sizeof(bool));
    }
    switch (c->kind) {
    case NX_BROADCAST:
        broadcast(d, want);
        break;
    case NX_REDUCE:
    case NX_ALLREDUCE:
        reduce(d, want);
        break;
    case NX_ALLGATHER:
    case NX_ALLGATHERV:
    case NX_GATHER:
    case NX_GATHERV:
        gather(d, want);
        break;
    case NX_SCATTER:
    case NX_SCATTERV:
        scatter(d, want);
        break;
    case NX_REDUCE_SCATTER:
    case NX_REDUCE_SCATTERV:
        reduce_scatter(d, want, loose);
        break;
    case NX_ALLTOALL:
    case NX_ALLTOALLV:
        alltoall(d, want);
        break;
    case NX_SCAN:
        scan(d, want);
        break;
    case NX_EXSCAN:
        exscan(d, want);
        break;
    case NX_BARRIER:
    case NX_COLL_KINDS:
        break;
    }
}
