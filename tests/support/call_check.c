/* call_check.c - draws a collective call. */
#include "call_check.h"

#include <stdlib.h>

#include "rand.h"
#include "sched_plan.h"

/* The counts of a rank whose counts must not be read. */
#define NONSENSE (SIZE_MAX / 8)

bool nxt_is_v(nx_coll_kind kind)
{
    return (kind == NX_ALLGATHERV) || (kind == NX_GATHERV) || (kind == NX_SCATTERV) ||
           (kind == NX_REDUCE_SCATTERV) || (kind == NX_ALLTOALLV);
}

bool nxt_may_be_in_place(nx_coll_kind kind, bool is_root)
{
    switch (kind) {
    case NX_ALLREDUCE:
    case NX_SCAN:
    case NX_EXSCAN:
    case NX_ALLGATHER:
    case NX_ALLGATHERV:
    case NX_REDUCE_SCATTER:
    case NX_REDUCE_SCATTERV:
    case NX_ALLTOALL:
    case NX_ALLTOALLV:
        return true;
    case NX_REDUCE:
    case NX_GATHER:
    case NX_GATHERV:
        return is_root;
    case NX_BARRIER:
    case NX_BROADCAST:
    case NX_SCATTER:
    case NX_SCATTERV:
    case NX_COLL_KINDS:
        break;
    }
    return false;
}

nx_span nxt_call_block(const nxt_call *call, uint32_t rank, uint32_t b)
{
    if (call->counts == NULL) {
        return (nx_span){.off = b * call->count, .len = call->count};
    }
    size_t at = ((size_t)rank * call->size) + b;

    return (nx_span){.off = call->displs[at], .len = call->counts[at]};
}

nx_span nxt_call_send_block(const nxt_call *call, uint32_t rank, uint32_t b)
{
    if ((call->send_counts == NULL) || call->in_place[rank]) {
        return nxt_call_block(call, rank, b);
    }
    size_t at = ((size_t)rank * call->size) + b;

    return (nx_span){.off = call->send_displs[at], .len = call->send_counts[at]};
}

/* ---- blocks --------------------------------------------------------------- */

static size_t draw_count(nxt_rand *r, size_t mean)
{
    return nxt_one_in(r, 4) ? 0 : nxt_below(r, (2 * mean) + 2);
}

/* Places a row of blocks in a buffer in random order, with gaps; returns the buffer's length. */
static size_t lay_blocks(nxt_rand *r, const size_t *counts, size_t *displs, uint32_t n)
{
    uint32_t *order = nxt_calloc(n, sizeof(*order));
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = nxt_below(r, i + 1);

        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        at += nxt_one_in(r, 2) ? 0 : nxt_below(r, 4);
        displs[order[i]] = at;
        at += counts[order[i]];
    }
    free(order);
    return at + nxt_below(r, 3);
}

static size_t lay_in_line(const size_t *counts, size_t *displs, uint32_t n)
{
    size_t at = 0;

    for (uint32_t i = 0; i < n; i++) {
        displs[i] = at;
        at += counts[i];
    }
    return at;
}

/* Draws one row of counts for all ranks. */
static void draw_same_counts(nxt_call *c, nxt_rand *r)
{
    for (uint32_t b = 0; b < c->size; b++) {
        size_t count = draw_count(r, c->count);

        for (uint32_t rank = 0; rank < c->size; rank++) {
            c->counts[((size_t)rank * c->size) + b] = count;
        }
    }
}

/* Draws the counts between each pair of ranks. If any rank is in place, the matrix is symmetric,
 * since received blocks then replace sent blocks. */
static void draw_matrix(nxt_call *c, nxt_rand *r, bool symmetric)
{
    for (uint32_t from = 0; from < c->size; from++) {
        for (uint32_t to = symmetric ? from : 0; to < c->size; to++) {
            size_t count = draw_count(r, c->count);

            c->send_counts[((size_t)from * c->size) + to] = count;
            c->counts[((size_t)to * c->size) + from] = count;
            if (symmetric) {
                c->send_counts[((size_t)to * c->size) + from] = count;
                c->counts[((size_t)from * c->size) + to] = count;
            }
        }
    }
}

static size_t *row(size_t *rows, const nxt_call *c, uint32_t rank)
{
    return rows + ((size_t)rank * c->size);
}

static void forget_row(nxt_call *c, uint32_t rank)
{
    for (uint32_t b = 0; b < c->size; b++) {
        row(c->counts, c, rank)[b] = NONSENSE;
        row(c->displs, c, rank)[b] = NONSENSE;
    }
}

/* Sets the lengths of |rank|'s buffers; in place there is no send buffer. */
static void set_len(nxt_call *c, uint32_t rank, size_t send, size_t recv)
{
    c->send_len[rank] = c->in_place[rank] ? 0 : send;
    c->recv_len[rank] = recv;
}

static void draw_rooted_v(nxt_call *c, nxt_rand *r)
{
    size_t len = lay_blocks(r, row(c->counts, c, c->root), row(c->displs, c, c->root), c->size);

    for (uint32_t rank = 0; rank < c->size; rank++) {
        size_t own = row(c->counts, c, c->root)[rank];
        size_t all = (rank == c->root) ? len : 0;

        set_len(c, rank, (c->kind == NX_GATHERV) ? own : all, (c->kind == NX_GATHERV) ? all : own);
        if (rank != c->root) {
            forget_row(c, rank);
        }
    }
}

static void draw_v(nxt_call *c, nxt_rand *r, bool symmetric)
{
    size_t cells = (size_t)c->size * c->size;

    c->counts = nxt_calloc(cells, sizeof(size_t));
    c->displs = nxt_calloc(cells, sizeof(size_t));
    if (c->kind == NX_ALLTOALLV) {
        c->send_counts = nxt_calloc(cells, sizeof(size_t));
        c->send_displs = nxt_calloc(cells, sizeof(size_t));
        draw_matrix(c, r, symmetric);
    } else {
        draw_same_counts(c, r);
    }
    if ((c->kind == NX_GATHERV) || (c->kind == NX_SCATTERV)) {
        draw_rooted_v(c, r);
        return;
    }
    for (uint32_t rank = 0; rank < c->size; rank++) {
        size_t *counts = row(c->counts, c, rank);
        size_t *displs = row(c->displs, c, rank);

        if (c->kind == NX_REDUCE_SCATTERV) {
            size_t all = lay_in_line(counts, displs, c->size);

            set_len(c, rank, all, c->in_place[rank] ? all : counts[rank]);
        } else if (c->kind == NX_ALLGATHERV) {
            set_len(c, rank, counts[rank], lay_blocks(r, counts, displs, c->size));
        } else {
            size_t send =
                lay_blocks(r, row(c->send_counts, c, rank), row(c->send_displs, c, rank), c->size);

            set_len(c, rank, send, lay_blocks(r, counts, displs, c->size));
        }
    }
}

/* ---- the others ------------------------------------------------------------- */

static void set_lens(nxt_call *c, uint32_t rank)
{
    bool root = (rank == c->root);
    size_t one = c->count;
    size_t all = c->count * c->size;

    switch (c->kind) {
    case NX_BROADCAST:
        set_len(c, rank, 0, one);
        break;
    case NX_REDUCE:
        set_len(c, rank, one, root ? one : 0);
        break;
    case NX_ALLREDUCE:
    case NX_SCAN:
    case NX_EXSCAN:
        set_len(c, rank, one, one);
        break;
    case NX_ALLGATHER:
        set_len(c, rank, one, all);
        break;
    case NX_GATHER:
        set_len(c, rank, one, root ? all : 0);
        break;
    case NX_SCATTER:
        set_len(c, rank, root ? all : 0, one);
        break;
    case NX_REDUCE_SCATTER:
        set_len(c, rank, all, c->in_place[rank] ? all : one);
        break;
    case NX_ALLTOALL:
        set_len(c, rank, all, all);
        break;
    case NX_BARRIER:
    case NX_ALLGATHERV:
    case NX_GATHERV:
    case NX_SCATTERV:
    case NX_REDUCE_SCATTERV:
    case NX_ALLTOALLV:
    case NX_COLL_KINDS:
        break;
    }
}

void nxt_call_init(nxt_call *c, nx_coll_kind kind, uint32_t size, uint32_t root, size_t count,
                   nxt_place place, uint64_t seed)
{
    nxt_rand r = {seed};

    *c = (nxt_call){.kind = kind, .size = size, .root = root, .count = count};
    c->in_place = nxt_calloc(size, sizeof(bool));
    c->send_len = nxt_calloc(size, sizeof(size_t));
    c->recv_len = nxt_calloc(size, sizeof(size_t));
    for (uint32_t rank = 0; rank < size; rank++) {
        c->in_place[rank] = nxt_may_be_in_place(kind, rank == root) && (place != NXT_APART) &&
                            ((place == NXT_IN_PLACE) || nxt_one_in(&r, 2));
        set_lens(c, rank);
    }
    if (nxt_is_v(kind)) {
        draw_v(c, &r, place != NXT_APART);
    }
}

void nxt_call_fini(nxt_call *c)
{
    free(c->in_place);
    free(c->send_len);
    free(c->recv_len);
    free(c->counts);
    free(c->displs);
    free(c->send_counts);
    free(c->send_displs);
    *c = (nxt_call){0};
}
