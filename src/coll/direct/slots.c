/* slots.c - small operations: inputs are brought on the board and taken from there. */
#include <string.h>

#include "coll/direct/share.h"
#include "reduce/reduce.h"

static size_t elem(const nx_share *s)
{
    return nexar_dtype_size(s->call->dtype);
}

/* Whether only the root brings something. */
static bool from_root(nx_coll_kind kind)
{
    return (kind == NX_BROADCAST) || (kind == NX_SCATTER);
}

/* Whether a rank brings a block for each. */
static bool one_for_each(nx_coll_kind kind)
{
    return (kind == NX_SCATTER) || (kind == NX_ALLTOALL) || (kind == NX_REDUCE_SCATTER);
}

bool nx_slots_fit(const nx_coll_call *call, uint32_t size, size_t room)
{
    const size_t most = room / nexar_dtype_size(call->dtype);
    const nx_coll *c = &call->coll;

    return c->count <= (one_for_each(c->kind) ? most / size : most);
}

const void *nx_share_input(const nx_share *s)
{
    const nx_coll *c = &s->call->coll;

    if (c->kind == NX_BROADCAST) {
        return s->call->recv;
    }
    if (!c->in_place) {
        return s->call->send;
    }
    return ((c->kind == NX_ALLGATHER) || (c->kind == NX_GATHER))
               ? (const uint8_t *)s->call->recv + s->turn.rank * c->count * elem(s)
               : s->call->recv;
}

/* ---- buckets --------------------------------------------------------------------------- */

static void pack(const nx_share *s, uint8_t *to)
{
    for (size_t i = 0; i < s->call->ntensors; i++) {
        const size_t len = s->call->tensors[i].count * elem(s);

        if (len != 0) {
            memcpy(to, s->call->tensors[i].ptr, len);
            to += len;
        }
    }
}

static const uint8_t *brought(const nx_share *s, uint32_t rank)
{
    return nx_turn_slot(&s->turn, rank)->data;
}

/* |to| = the inputs of ranks [0, n), |skip| bytes into each, combined. */
static void combine(const nx_share *s, void *to, uint32_t n, size_t skip, size_t count)
{
    const nexar_dtype dtype = s->call->dtype;

    if (count == 0) {
        return;
    }
    if (n == 1) {
        memcpy(to, brought(s, 0) + skip, count * elem(s));
        return;
    }
    nx_reduce(to, brought(s, 0) + skip, brought(s, 1) + skip, count, dtype, s->call->op);
    for (uint32_t rank = 2; rank < n; rank++) {
        nx_reduce(to, to, brought(s, rank) + skip, count, dtype, s->call->op);
    }
    if (s->call->coll.average) {
        nx_reduce_divide(to, count, dtype, s->turn.size);
    }
}

static void take_tensors(const nx_share *s)
{
    size_t skip = 0;

    for (size_t i = 0; i < s->call->ntensors; i++) {
        const nexar_tensor *at = &s->call->tensors[i];

        combine(s, at->ptr, s->turn.size, skip, at->count);
        skip += at->count * elem(s);
    }
}

/* ---- all kinds ------------------------------------------------------------------------- */

void nx_slots_bring(const nx_share *s, void *to)
{
    const nx_coll *c = &s->call->coll;
    size_t len = c->count * elem(s);

    if ((c->kind == NX_BARRIER) || (from_root(c->kind) && (c->root != s->turn.rank))) {
        return;
    }
    if (s->call->tensors != NULL) {
        pack(s, to);
        return;
    }
    len = one_for_each(c->kind) ? len * s->turn.size : len;
    if (len != 0) {
        memcpy(to, nx_share_input(s), len);
    }
}

/* Block |own| of each rank's, or all that it brought, one behind the other. */
static void collect(const nx_share *s, size_t skip)
{
    const size_t len = s->call->coll.count * elem(s);
    uint8_t *to = s->call->recv;

    for (uint32_t rank = 0; (len != 0) && (rank < s->turn.size); rank++) {
        memcpy(to + rank * len, brought(s, rank) + skip, len);
    }
}

static void copy_from_root(const nx_share *s, size_t skip)
{
    const nx_coll *c = &s->call->coll;

    if (c->count != 0) {
        memcpy(s->call->recv, brought(s, c->root) + skip, c->count * elem(s));
    }
}

void nx_slots_take(const nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const uint32_t rank = s->turn.rank;
    const size_t mine = rank * c->count * elem(s);

    switch ((int)c->kind) {
    case NX_BROADCAST:
        if (rank != c->root) {
            copy_from_root(s, 0);
        }
        break;
    case NX_SCATTER:
        copy_from_root(s, mine);
        break;
    case NX_ALLREDUCE:
    case NX_REDUCE:
        if (s->call->tensors != NULL) {
            take_tensors(s);
        } else if ((c->kind == NX_ALLREDUCE) || (rank == c->root)) {
            combine(s, s->call->recv, s->turn.size, 0, c->count);
        }
        break;
    case NX_REDUCE_SCATTER:
        combine(s, s->call->recv, s->turn.size, mine, c->count);
        break;
    case NX_SCAN:
        combine(s, s->call->recv, rank + 1, 0, c->count);
        break;
    case NX_EXSCAN:
        if (rank == 0) {
            nx_reduce_identity(s->call->recv, c->count, s->call->dtype, s->call->op);
        } else {
            combine(s, s->call->recv, rank, 0, c->count);
        }
        break;
    case NX_ALLGATHER:
        collect(s, 0);
        break;
    case NX_GATHER:
        if (rank == c->root) {
            collect(s, 0);
        }
        break;
    case NX_ALLTOALL:
        collect(s, mine);
        break;
    default: /* a barrier */
        break;
    }
}
