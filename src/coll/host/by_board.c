/* by_board.c - small operations: inputs are copied to the board and read from there. */
#include "base/memory/copy.h"
#include "base/memory/nontemporal_copy.h"
#include "host_call.h"
#include "reduce/reduce.h"

enum {
    SOME = 4 << 10, /* bytes: they stay in the nearest cache */
    MANY = 16 << 10 /* in the second-level cache */
};

static size_t elem(const nx_host_call *s)
{
    return nexar_dtype_size(s->call->dtype);
}

/* Whether only the root has input. */
static bool from_root(nx_coll_kind kind)
{
    return (kind == NX_BROADCAST) || (kind == NX_SCATTER);
}

/* Whether a rank's input is a block for each rank. */
static bool one_for_each(nx_coll_kind kind)
{
    return (kind == NX_SCATTER) || (kind == NX_ALLTOALL) || (kind == NX_REDUCE_SCATTER);
}

bool nx_by_board_fit(const nx_coll_call *call, uint32_t size, size_t room)
{
    const size_t most = room / nexar_dtype_size(call->dtype);
    const nx_coll *c = &call->coll;

    return c->count <= (one_for_each(c->kind) ? most / size : most);
}

/* Whether the kind can be processed piece by piece. */
static bool comes_in_pieces(const nx_coll *c, uint32_t size)
{
    switch ((int)c->kind) {
    case NX_ALLREDUCE:
        return !c->hook;
    case NX_REDUCE:
    case NX_BROADCAST:
    case NX_SCATTER:
    case NX_GATHER:
    case NX_ALLGATHER:
    case NX_ALLTOALL:
    case NX_REDUCE_SCATTER:
        return true;
    case NX_SCAN:
    case NX_EXSCAN:
        return size <= NX_HOST_CALL_SCANS;
    default:
        return false;
    }
}

size_t nx_by_board_piece(const nx_coll_call *call, bool roomy, uint32_t size)
{
    const size_t room = roomy ? NX_HOST_CALL_PIECE : NX_BOARD_ROOM;
    const size_t most = room / nexar_dtype_size(call->dtype);
    const nx_coll *c = &call->coll;
    const size_t piece = one_for_each(c->kind) ? most / (size - 1) : most;

    if (nx_by_board_fit(call, size, room)) {
        return (c->count == 0) ? 1 : c->count;
    }
    /* Each piece needs two steps. */
    return (comes_in_pieces(c, size) && (c->count / piece < NX_EPISODE_DONE / 2 - 1)) ? piece : 0;
}

/* Whether the result is stored past the caches: they would not keep it, and a plain store first
 * reads the line. The result of a reduce_scatter is only a part of the input, and stays in the
 * cache longer. */
static bool is_past(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t bytes = c->count * elem(s);
    const uint64_t past = nx_machine_costs_past_cache(nx_machine_costs_get());

    switch ((int)c->kind) {
    case NX_ALLGATHER:
    case NX_ALLTOALL:
        return bytes >= past / s->turn.size;
    case NX_REDUCE_SCATTER:
        return bytes / 4 >= past;
    default:
        return bytes >= past;
    }
}

/* |len| bytes of the result, from |from| on the board or in this rank's input. */
static void put(const nx_host_call *s, void *to, const void *from, size_t len)
{
    if (is_past(s)) {
        nx_nontemporal_piece(to, from, len);
    } else {
        nx_memcpy(to, from, len);
    }
}

/* ---- combining ----------------------------------------------------------------------- */

static const uint8_t *brought(const nx_host_call *s, uint32_t rank)
{
    return nx_episode_slot(&s->turn, rank)->data;
}

/* |to| = the combined inputs of ranks [0, n), from |skip| bytes on. */
static void combine(const nx_host_call *s, void *to, uint32_t n, size_t skip, size_t count)
{
    const nexar_dtype dtype = s->call->dtype;

    if (count == 0) {
        return;
    }
    if (n == 1) {
        nx_memcpy(to, brought(s, 0) + skip, count * elem(s));
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

/* The same for the whole piece, as the result of this rank. */
static void combine_result(const nx_host_call *s, uint8_t *to, uint32_t n)
{
    _Alignas(64) uint8_t many[MANY];
    const size_t most = is_past(s) ? sizeof(many) / elem(s) : s->len;

    if (most >= s->len) {
        combine(s, to, n, 0, s->len);
        return;
    }
    for (size_t off = 0; off < s->len; off += most) {
        const size_t len = (s->len - off < most) ? s->len - off : most;

        combine(s, many, n, off * elem(s), len);
        put(s, to + off * elem(s), many, len * elem(s));
    }
}

/* Combines all inputs a stretch at a time, then distributes the result over the tensors: combining
 * tensor by tensor costs more where tensors are short. */
static void take_tensors(const nx_host_call *s)
{
    _Alignas(64) uint8_t some[SOME];
    const size_t most = sizeof(some) / elem(s);

    for (size_t off = 0; off < s->len; off += most) {
        const size_t len = (s->len - off < most) ? s->len - off : most;

        combine(s, some, s->turn.size, off * elem(s), len);
        nx_bucket_put(s, s->off + off, len, some);
    }
}

/* ---- all kinds ----------------------------------------------------------------------- */

bool nx_by_board_parts(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    const size_t from = s->roomy ? NX_HOST_CALL_PARTS : NX_HOST_CALL_DEAR;

    return c->hook ||
           (((c->kind == NX_ALLREDUCE) || (c->kind == NX_REDUCE)) && (c->count > from / elem(s)));
}

/* With a hook the result is built where the hook expects it. The own input of a bucket is on the
 * board too, in one piece. */
bool nx_by_board_reduce_part(nx_host_call *s)
{
    const nx_part p = nx_host_call_part(s, s->len, s->turn.rank);
    const size_t skip = p.off * elem(s);
    uint8_t *place = nx_episode_slot(&s->turn, s->turn.rank)->data + skip;
    uint8_t *to = s->call->coll.hook ? (uint8_t *)s->call->recv + skip : place;
    const uint8_t *own = (s->call->tensors != NULL)
                             ? place
                             : (const uint8_t *)nx_host_call_input(s) + s->off * elem(s) + skip;

    for (uint32_t i = 1; (p.len != 0) && (i < s->turn.size); i++) {
        const uint32_t rank = (s->turn.rank + i) % s->turn.size;
        const uint8_t *its = brought(s, rank) + skip;

        nx_reduce(to, (i == 1) ? own : to, its, p.len, s->call->dtype, s->call->op);
    }
    if (s->call->coll.average && (p.len != 0)) {
        nx_reduce_divide(to, p.len, s->call->dtype, s->turn.size);
    }
    if (!s->call->coll.hook) {
        return true;
    }
    if (!nx_host_call_hook(s)) {
        return false;
    }
    if (p.len != 0) {
        nx_memcpy(place, to, p.len * elem(s));
    }
    return true;
}

void nx_by_board_take_parts(const nx_host_call *s)
{
    if ((s->call->coll.kind == NX_REDUCE) && (s->turn.rank != s->call->coll.root)) {
        return;
    }
    for (uint32_t i = 0; i < s->turn.size; i++) {
        const uint32_t rank = (s->turn.rank + i) % s->turn.size;
        const nx_part p = nx_host_call_part(s, s->len, rank);
        const uint8_t *from = brought(s, rank) + p.off * elem(s);

        if (p.len == 0) {
            continue;
        }
        if (s->call->tensors != NULL) {
            nx_bucket_put(s, s->off + p.off, p.len, from);
        } else {
            put(s, (uint8_t *)s->call->recv + (s->off + p.off) * elem(s), from, p.len * elem(s));
        }
    }
}

/* Copies all parts except the part that this rank combines itself. */
static void bring_parts(const nx_host_call *s, uint8_t *to)
{
    const nx_part p = nx_host_call_part(s, s->len, s->turn.rank);
    const size_t front = p.off * elem(s), behind = (p.off + p.len) * elem(s);
    const uint8_t *from = (const uint8_t *)nx_host_call_input(s) + s->off * elem(s);

    nx_memcpy(to, from, front);
    nx_memcpy(to + behind, from + behind, s->len * elem(s) - behind);
}

/* The offset of the block for |rank| in the slot of |owner|, which holds no block for itself. */
static size_t place(const nx_host_call *s, uint32_t owner, uint32_t rank)
{
    return (rank - (rank > owner)) * s->len * elem(s);
}

/* Copies a block for each rank except this one, whose block is taken from the input. */
static void bring_blocks(const nx_host_call *s, uint8_t *to)
{
    const size_t stride = s->call->coll.count * elem(s), len = s->len * elem(s);
    const uint8_t *from = (const uint8_t *)nx_host_call_input(s) + s->off * elem(s);

    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        if (rank != s->turn.rank) {
            nx_memcpy(to + place(s, s->turn.rank, rank), from + rank * stride, len);
        }
    }
}

void nx_by_board_bring(const nx_host_call *s, void *to)
{
    const nx_coll *c = &s->call->coll;

    if ((c->kind == NX_BARRIER) || (s->len == 0) ||
        (from_root(c->kind) && (c->root != s->turn.rank))) {
        return;
    }
    if (s->call->tensors != NULL) {
        nx_bucket_get(s, s->off, s->len, to);
    } else if (nx_by_board_parts(s)) {
        bring_parts(s, to);
    } else if (one_for_each(c->kind)) {
        bring_blocks(s, to);
    } else {
        nx_memcpy(to, (const uint8_t *)nx_host_call_input(s) + s->off * elem(s), s->len * elem(s));
    }
}

/* Copies the piece from each other rank, for all or for this one, to its block. */
static void collect(const nx_host_call *s, bool for_all)
{
    const size_t stride = s->call->coll.count * elem(s), len = s->len * elem(s);
    uint8_t *to = (uint8_t *)s->call->recv + s->off * elem(s);

    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        if (rank != s->turn.rank) {
            const size_t skip = for_all ? 0 : place(s, rank, s->turn.rank);

            put(s, to + rank * stride, brought(s, rank) + skip, len);
        }
    }
}

/* Copies this rank's own block, |from| bytes into its input, to |to| bytes into its result. */
static void keep(const nx_host_call *s, size_t from, size_t to)
{
    const size_t at = s->off * elem(s);

    if (!s->call->coll.in_place) {
        put(s, (uint8_t *)s->call->recv + to + at, (const uint8_t *)s->call->send + from + at,
            s->len * elem(s));
    }
}

/* Reduces this rank's block over all ranks, in the order that begins with this rank: no other rank
 * computes it. */
static void reduce_own(const nx_host_call *s)
{
    const size_t stride = s->call->coll.count * elem(s);
    const uint8_t *own =
        (const uint8_t *)nx_host_call_input(s) + s->turn.rank * stride + s->off * elem(s);
    uint8_t *to = (uint8_t *)s->call->recv + s->off * elem(s);
    _Alignas(64) uint8_t many[MANY];
    const size_t most = is_past(s) ? sizeof(many) / elem(s) : s->len;

    for (size_t off = 0; off < s->len; off += most) {
        const size_t len = (s->len - off < most) ? s->len - off : most, skip = off * elem(s);
        uint8_t *at = is_past(s) ? many : to + skip;

        for (uint32_t i = 1; i < s->turn.size; i++) {
            const uint32_t rank = (s->turn.rank + i) % s->turn.size;

            nx_reduce(at, (i == 1) ? own + skip : at,
                      brought(s, rank) + place(s, rank, s->turn.rank) + skip, len, s->call->dtype,
                      s->call->op);
        }
        if (s->call->coll.average) {
            nx_reduce_divide(at, len, s->call->dtype, s->turn.size);
        }
        if (at == many) {
            put(s, to + skip, many, len * elem(s));
        }
    }
}

static void take_blocks(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const uint32_t rank = s->turn.rank;
    const size_t block = rank * c->count * elem(s);

    switch ((int)c->kind) {
    case NX_SCATTER:
        if (rank == c->root) {
            keep(s, block, 0);
        } else {
            put(s, (uint8_t *)s->call->recv + s->off * elem(s),
                brought(s, c->root) + place(s, c->root, rank), s->len * elem(s));
        }
        break;
    case NX_REDUCE_SCATTER:
        reduce_own(s);
        break;
    case NX_ALLTOALL:
        keep(s, block, block);
        collect(s, false);
        break;
    default: /* allgather, gather */
        if ((c->kind == NX_ALLGATHER) || (rank == c->root)) {
            keep(s, 0, block);
            collect(s, true);
        }
        break;
    }
}

void nx_by_board_take(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const uint32_t rank = s->turn.rank;
    uint8_t *to = s->call->recv; /* may be NULL where there is nothing to copy */

    if ((c->kind == NX_BARRIER) || (s->len == 0)) {
        return;
    }
    if (s->off != 0) {
        to += s->off * elem(s);
    }
    switch ((int)c->kind) {
    case NX_BROADCAST:
        if (rank != c->root) {
            put(s, to, brought(s, c->root), s->len * elem(s));
        }
        break;
    case NX_ALLREDUCE:
    case NX_REDUCE:
        if (s->call->tensors != NULL) {
            take_tensors(s);
        } else if ((c->kind == NX_ALLREDUCE) || (rank == c->root)) {
            combine(s, to, s->turn.size, 0, s->len);
        }
        break;
    case NX_SCAN:
        combine_result(s, to, rank + 1);
        break;
    case NX_EXSCAN:
        if (rank == 0) {
            nx_reduce_identity(to, s->len, s->call->dtype, s->call->op);
        } else {
            combine_result(s, to, rank);
        }
        break;
    default:
        take_blocks(s);
        break;
    }
}
