/*
 * reads.c - large operations, in the memory of the other ranks.
 *
 * allreduce, reduce   each rank owns a part of the vector: it reads that part of all,
 *                     reduces it and writes it to all, or to the root.
 *                     With a hook: the whole part first, then the hook.  Of a bucket:
 *                     bucket.c.
 * reduce_scatter      the part is its own block, and nobody else's.
 * allgather, alltoall each reads its blocks from all, beginning behind itself.
 * broadcast, scatter, gather
 *                     between the root and each other rank a stretch is copied, of which
 *                     the root does one n-th and the other rank the rest: with two
 *                     ranks both cores copy.
 * scan, exscan        each rank owns a part: it goes through that part of all inputs in
 *                     the order of ranks, and writes to each what it has got so far.
 * scan of three and more
 *                     each reads the result of the rank before it, stretch by stretch as
 *                     that is done, and adds its input: half as many bytes are copied.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/copy.h"
#include "base/stream.h"
#include "coll/direct/share.h"
#include "reduce/reduce.h"

static size_t elem(const nx_share *s)
{
    return nexar_dtype_size(s->call->dtype);
}

/* ---- reducing ---------------------------------------------------------------------------- */

/* |to| = all inputs from element |off| of each, combined in the order of ranks that
 * begins with this one.  |len| elements are a block at most. */
static bool reduce_block(nx_share *s, void *to, size_t off, size_t len)
{
    const uint32_t size = s->turn.size, rank = s->turn.rank;
    const uint8_t *own = (const uint8_t *)nx_share_input(s) + off * elem(s);

    for (uint32_t i = 1; i < size; i++) {
        const uint32_t other = (rank + i) % size;
        const void *its =
            nx_share_see(s, other, nx_share_lent(s, other).in + off * elem(s), len * elem(s));

        if (its == NULL) {
            return false;
        }
        nx_reduce(to, (i == 1) ? own : to, its, len, s->call->dtype, s->call->op);
    }
    if (s->call->coll.average) {
        nx_reduce_divide(to, len, s->call->dtype, size);
    }
    return true;
}

/* Gives |len| elements from |off| on, which stand at |from|, to all or to the root. */
static bool give(nx_share *s, const void *from, size_t off, size_t len)
{
    const nx_coll *c = &s->call->coll;

    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (s->turn.rank + i) % s->turn.size;

        if (((c->kind == NX_ALLREDUCE) || (other == c->root)) &&
            !nx_share_push(s, other, nx_share_lent(s, other).out + off * elem(s), from,
                           len * elem(s))) {
            return false;
        }
    }
    return true;
}

static bool reduce_part(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t block = NX_SHARE_BLOCK / elem(s);
    const nx_part p = nx_share_part(s, c->count, s->turn.rank);
    const bool keeps = (c->kind == NX_ALLREDUCE) || (c->root == s->turn.rank);
    uint8_t *sum = keeps ? NULL : nx_alloc_aligned(NX_BOARD_LINE, NX_SHARE_BLOCK);
    bool ok = true;

    if (!keeps && (sum == NULL)) {
        s->nomem = true;
        return false;
    }
    for (size_t at = 0; ok && (at < p.len); at += block) {
        const size_t len = (p.len - at < block) ? p.len - at : block;
        const size_t off = p.off + at;
        void *to = keeps ? (uint8_t *)s->call->recv + off * elem(s) : sum;

        ok = reduce_block(s, to, off, len) && (c->hook || give(s, to, off, len));
    }
    nx_free(sum);
    if (ok && c->hook) {
        ok = nx_share_hook(s) &&
             give(s, (const uint8_t *)s->call->recv + p.off * elem(s), p.off, p.len);
    }
    return ok;
}

/* In place the result is made where its input is, and moved when nobody reads. */
static uint8_t *scattered(const nx_share *s)
{
    const nx_coll *c = &s->call->coll;

    return (uint8_t *)s->call->recv + (c->in_place ? s->turn.rank * c->count * elem(s) : 0);
}

static bool reduce_own_block(nx_share *s)
{
    const size_t block = NX_SHARE_BLOCK / elem(s), count = s->call->coll.count;
    uint8_t *to = scattered(s);
    bool ok = true;

    for (size_t at = 0; ok && (at < count); at += block) {
        const size_t len = (count - at < block) ? count - at : block;

        ok = reduce_block(s, to + at * elem(s), s->turn.rank * count + at, len);
    }
    return ok;
}

/* ---- copying blocks ------------------------------------------------------------------------ */

static bool from_root(nx_share *s, bool blocks)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);
    const nx_part p = nx_share_stretch(s, len);
    const uint8_t *own = nx_share_input(s);

    if (s->turn.rank != c->root) {
        const uint64_t at = nx_share_lent(s, c->root).in + (blocks ? s->turn.rank * len : 0);

        return nx_share_pull(s, c->root, at + p.off, (uint8_t *)s->call->recv + p.off, p.len);
    }
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (c->root + i) % s->turn.size;

        if (!nx_share_push(s, other, nx_share_lent(s, other).out + p.off,
                           own + (blocks ? other * len : 0) + p.off, p.len)) {
            return false;
        }
    }
    if (blocks) {
        nx_stream_copy(s->call->recv, own + c->root * len, len);
    }
    return true;
}

static bool to_root(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);
    const nx_part p = nx_share_stretch(s, len);
    uint8_t *to = s->call->recv;

    if (s->turn.rank != c->root) {
        return nx_share_push(s, c->root, nx_share_lent(s, c->root).out + s->turn.rank * len + p.off,
                             (const uint8_t *)nx_share_input(s) + p.off, p.len);
    }
    if (!c->in_place) {
        nx_stream_copy(to + c->root * len, s->call->send, len);
    }
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (c->root + i) % s->turn.size;

        if (!nx_share_pull(s, other, nx_share_lent(s, other).in + p.off, to + other * len + p.off,
                           p.len)) {
            return false;
        }
    }
    return true;
}

/* The block of each rank, |skip| bytes into what it has. */
static bool collect(nx_share *s, size_t skip)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);
    uint8_t *to = s->call->recv;

    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (s->turn.rank + i) % s->turn.size;

        if (!nx_share_pull(s, other, nx_share_lent(s, other).in + skip, to + other * len, len)) {
            return false;
        }
    }
    return true;
}

static bool allgather(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);

    if (!c->in_place) {
        nx_stream_copy((uint8_t *)s->call->recv + s->turn.rank * len, s->call->send, len);
    }
    return collect(s, 0);
}

static bool alltoall(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s), mine = s->turn.rank * len;

    if (!c->in_place) {
        nx_stream_copy((uint8_t *)s->call->recv + mine, (const uint8_t *)s->call->send + mine, len);
    }
    return collect(s, mine);
}

/* ---- scan ---------------------------------------------------------------------------------- */

/* |len| elements from |off| on for |rank|, which stand at |from|. */
static bool hand(nx_share *s, uint32_t rank, const void *from, size_t off, size_t len)
{
    uint8_t *to = (uint8_t *)s->call->recv + off * elem(s);

    if (rank != s->turn.rank) {
        return nx_share_push(s, rank, nx_share_lent(s, rank).out + off * elem(s), from,
                             len * elem(s));
    }
    if (to != from) {
        nx_memcpy(to, from, len * elem(s));
    }
    return true;
}

/* The input of |rank|; not where it may be written over. */
static const void *scan_input(nx_share *s, uint32_t rank, size_t off, size_t len)
{
    const bool own = (rank == s->turn.rank);
    const uint64_t at = nx_share_lent(s, rank).in + off * elem(s);
    const void *its = own ? (const uint8_t *)nx_share_input(s) + off * elem(s) : NULL;

    if (s->call->coll.kind == NX_SCAN) {
        return own ? its : nx_share_see(s, rank, at, len * elem(s));
    }
    if (own) {
        return memcpy(s->bounce, its, len * elem(s));
    }
    return nx_share_pull(s, rank, at, s->bounce, len * elem(s)) ? s->bounce : NULL;
}

/* A block, in the order of ranks; |sum| is for what those before have. */
static bool scan_block(nx_share *s, void *sum, size_t off, size_t len)
{
    const bool before = (s->call->coll.kind == NX_EXSCAN);
    const void *have = NULL;
    bool ok = true;

    for (uint32_t rank = 0; ok && (rank < s->turn.size); rank++) {
        const void *its = scan_input(s, rank, off, len);

        if (its == NULL) {
            return false;
        }
        if (before) {
            if (rank == 0) {
                nx_reduce_identity(sum, len, s->call->dtype, s->call->op);
            }
            ok = hand(s, rank, sum, off, len);
        }
        if (have != NULL) {
            nx_reduce(sum, have, its, len, s->call->dtype, s->call->op);
            have = sum;
        } else {
            have = (its == s->bounce) ? memcpy(sum, its, len * elem(s)) : its;
        }
        ok = ok && (before || hand(s, rank, have, off, len));
    }
    return ok;
}

static bool scan(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t block = NX_SHARE_BLOCK / elem(s);
    const nx_part p = nx_part_of(c->count, s->turn.size, s->turn.rank);
    uint8_t *sum = nx_alloc_aligned(NX_BOARD_LINE, NX_SHARE_BLOCK);
    bool ok = true;

    if (sum == NULL) {
        s->nomem = true;
        return false;
    }
    for (size_t at = 0; ok && (at < p.len); at += block) {
        const size_t len = (p.len - at < block) ? p.len - at : block;

        ok = scan_block(s, sum, p.off + at, len);
    }
    nx_free(sum);
    return ok;
}

/* ---- scan, one behind the other ------------------------------------------------------------- */

enum { STRETCHES = 16 }; /* of a vector: how often a rank says how far it is */

/* Elements of a stretch: whole blocks. */
static size_t stretch_len(const nx_share *s)
{
    const size_t block = NX_SHARE_BLOCK / elem(s);
    const size_t blocks = (s->call->coll.count + block - 1) / block;

    return (blocks + STRETCHES - 1) / STRETCHES * block;
}

/* |len| elements from |off| on: what the rank before has got, and the own input. */
static bool chain_stretch(nx_share *s, size_t off, size_t len)
{
    const uint32_t before = s->turn.rank - 1;
    const nx_lent lent = nx_share_lent(s, before);
    const uint64_t from = (before == 0) ? lent.in : lent.out; /* the first has its result at once */
    const size_t block = NX_SHARE_BLOCK / elem(s), end = off + len;
    const uint8_t *in = nx_share_input(s);
    uint8_t *out = s->call->recv;

    for (size_t at = off; at < end; at += block) {
        const size_t n = (end - at < block) ? end - at : block, skip = at * elem(s);
        const void *its = nx_share_see(s, before, from + skip, n * elem(s));

        if (its == NULL) {
            return false;
        }
        nx_reduce(out + skip, its, in + skip, n, s->call->dtype, s->call->op);
    }
    return true;
}

/* |*end| is not NX_TURN_ON: the rank before does not come. */
static bool chain(nx_share *s, nx_turn_end *end)
{
    const nx_coll *c = &s->call->coll;
    const size_t each = stretch_len(s);
    uint32_t step = 1;

    if (s->turn.rank == 0) {
        if (!c->in_place) {
            nx_stream_copy(s->call->recv, s->call->send, c->count * elem(s));
        }
        return true;
    }
    for (size_t off = 0; off < c->count; off += each, step++) {
        *end =
            (s->turn.rank == 1) ? NX_TURN_ON : nx_turn_wait_for(&s->turn, s->turn.rank - 1, step);
        if ((*end != NX_TURN_ON) ||
            !chain_stretch(s, off, (c->count - off < each) ? c->count - off : each)) {
            return false;
        }
        nx_turn_say(&s->turn, step);
    }
    return true;
}

/* ---- all kinds ------------------------------------------------------------------------------ */

static bool do_work(nx_share *s)
{
    switch ((int)s->call->coll.kind) {
    case NX_ALLREDUCE:
    case NX_REDUCE:
        return (s->bucket != NULL) ? nx_bucket_part(s) : reduce_part(s);
    case NX_REDUCE_SCATTER:
        return reduce_own_block(s);
    case NX_BROADCAST:
        return from_root(s, false);
    case NX_SCATTER:
        return from_root(s, true);
    case NX_GATHER:
        return to_root(s);
    case NX_SCAN:
    case NX_EXSCAN:
        return scan(s);
    case NX_ALLGATHER:
        return allgather(s);
    default:
        return alltoall(s);
    }
}

nx_turn_end nx_reads_run(nx_share *s)
{
    const nx_coll *c = &s->call->coll;
    const bool in_chain = (c->kind == NX_SCAN) && (s->turn.size > 2);
    nx_turn_end end = NX_TURN_ON;

    nx_share_arenas(s);
    if (in_chain ? !chain(s, &end) : !do_work(s)) {
        return end;
    }
    end = nx_turn_all_at(&s->turn, NX_TURN_DONE);
    if ((end == NX_TURN_ON) && (c->kind == NX_REDUCE_SCATTER) && c->in_place &&
        (s->turn.rank != 0)) {
        memmove(s->call->recv, scattered(s), c->count * elem(s));
    }
    return end;
}
