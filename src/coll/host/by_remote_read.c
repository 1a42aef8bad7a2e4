/*
 * by_remote_read.c - large operations, in the memory of the other ranks.
 *
 * allreduce, reduce   Each rank owns a part of the vector.  It reads that part from all ranks,
 *                     reduces it, and reports step 1; then all ranks, or the root, read the result.
 *                     Where the owner pushes (host_call.h), it writes each block to the readers
 *                     before step 1, while the block is in the cache.  A rank that has seen step 1
 *                     of all ranks has its result, except the parts that it reads.  The rank then
 *                     waits for the last step of its readers.
 *                     With a hook: the whole part first, then the hook.  For a bucket: bucket.c.
 * reduce_scatter      The part is the rank's own block, and no other rank's.
 * allgather, alltoall Each rank reads its blocks from all ranks, beginning with the rank after it.
 * broadcast, scatter, gather
 *                     The receiver reads.  Where the sender pushes, the root copies one n-th and
 *                     the other rank the rest: with two ranks both cores copy.
 * scan, exscan        Each rank reads the result of the previous rank, one stretch after the other
 *                     as the stretches are done, and adds its own input; in an exscan it adds the
 *                     input of the previous rank.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/memory/copy.h"
#include "base/memory/nontemporal_copy.h"
#include "host_call.h"
#include "reduce/reduce.h"

static size_t elem(const nx_host_call *s)
{
    return nexar_dtype_size(s->call->dtype);
}

/* ---- reducing ------------------------------------------------------------------------ */

/* |to| = all inputs from element |off| on, combined in the order of ranks that begins with this
 * one. |len| elements are a block at most. */
static bool reduce_block(nx_host_call *s, void *to, size_t off, size_t len)
{
    const uint32_t size = s->turn.size, rank = s->turn.rank;
    const uint8_t *own = (const uint8_t *)nx_host_call_input(s) + off * elem(s);

    for (uint32_t i = 1; i < size; i++) {
        const uint32_t other = (rank + i) % size;
        const void *its = nx_host_call_see(s, other, nx_host_call_lent(s, other).in + off * elem(s),
                                           len * elem(s));

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

/* Whether |from| copies its part |p| to |to| itself. */
static bool pushes_part(nx_host_call *s, uint32_t from, uint32_t to, nx_part p)
{
    if (s->bucket != NULL) {
        return nx_bucket_pushes(s, from, to);
    }
    return nx_host_call_pushes(s, from, to, nx_host_call_lent(s, to).out + p.off * elem(s),
                               p.len * elem(s));
}

/* Whether |rank| receives the parts of all ranks. */
static bool gets_parts(const nx_host_call *s, uint32_t rank)
{
    return (s->call->coll.kind == NX_ALLREDUCE) || (rank == s->call->coll.root);
}

/* Pushes |len| elements from |off| on of the part |p|; they are at |from|. */
static bool give(nx_host_call *s, nx_part p, const void *from, size_t off, size_t len)
{
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (s->turn.rank + i) % s->turn.size;

        if (gets_parts(s, other) && pushes_part(s, s->turn.rank, other, p) &&
            !nx_host_call_push(s, other, nx_host_call_lent(s, other).out + off * elem(s), from,
                               len * elem(s))) {
            return false;
        }
    }
    return true;
}

/* Where this rank reduces the elements from |at| on of its part |p|. */
static uint8_t *sum_at(nx_host_call *s, nx_part p, size_t at)
{
    const uint32_t root = s->call->coll.root;

    if (gets_parts(s, s->turn.rank)) {
        return (uint8_t *)s->call->recv + (p.off + at) * elem(s);
    }
    /* A pushed block is not kept: each block reuses the same memory. */
    return (uint8_t *)s->aside + (pushes_part(s, s->turn.rank, root, p) ? 0 : at * elem(s));
}

static bool reduce_part(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t block = NX_HOST_CALL_BLOCK / elem(s);
    const nx_part p = nx_host_call_part(s, c->count, s->turn.rank);
    bool ok = true;

    for (size_t at = 0; ok && (at < p.len); at += block) {
        const size_t len = (p.len - at < block) ? p.len - at : block;
        void *to = sum_at(s, p, at);

        ok = reduce_block(s, to, p.off + at, len) && (c->hook || give(s, p, to, p.off + at, len));
    }
    if (ok && c->hook) {
        ok = nx_host_call_hook(s) &&
             give(s, p, (const uint8_t *)s->call->recv + p.off * elem(s), p.off, p.len);
    }
    return ok;
}

/* Reads the part of |owner|, which has reduced it. */
static bool pull_part(nx_host_call *s, uint32_t owner)
{
    const nx_part p = nx_host_call_part(s, s->call->coll.count, owner);
    const size_t skip = p.off * elem(s);

    if (s->bucket != NULL) {
        return nx_bucket_pull(s, owner);
    }
    return nx_host_call_pull(s, owner, nx_host_call_lent(s, owner).out + skip,
                             (uint8_t *)s->call->recv + skip, p.len * elem(s));
}

/* Fetches the parts of the other ranks. Waits until each rank has reduced its own, which also means
 * that it reads no input any more, and reads the parts that are not pushed. */
static bool get_parts(nx_host_call *s, nx_episode_end *end)
{
    const nx_episode *t = &s->turn;

    for (uint32_t i = 1; i < t->size; i++) {
        const uint32_t owner = (t->rank + i) % t->size;
        const nx_part p = nx_host_call_part(s, s->call->coll.count, owner);

        *end = nx_episode_wait_for(t, owner, 1);
        if (*end != NX_EPISODE_ON) {
            return false;
        }
        if (gets_parts(s, t->rank) && (p.len != 0) && !pushes_part(s, owner, t->rank, p) &&
            !pull_part(s, owner)) {
            return false;
        }
    }
    return true;
}

/* The complete allreduce or reduce. */
static nx_episode_end reduce_all(nx_host_call *s)
{
    const nx_episode *t = &s->turn;
    const nx_part own = nx_host_call_part(s, s->call->coll.count, t->rank);
    nx_episode_end end = NX_EPISODE_ON;

    if (!((s->bucket != NULL) ? nx_bucket_part(s) : reduce_part(s))) {
        return NX_EPISODE_ON;
    }
    nx_episode_report(t, 1);
    if (!get_parts(s, &end)) {
        return end;
    }
    nx_episode_report(t, NX_EPISODE_DONE);
    for (uint32_t i = 1; (own.len != 0) && (end == NX_EPISODE_ON) && (i < t->size); i++) {
        const uint32_t other = (t->rank + i) % t->size;

        if (gets_parts(s, other) && !pushes_part(s, t->rank, other, own)) {
            end = nx_episode_wait_for(t, other, NX_EPISODE_DONE);
        }
    }
    return end;
}

/* In place the result is built where the input is, and moved when no rank reads any more. */
static uint8_t *scattered(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    return (uint8_t *)s->call->recv + (c->in_place ? s->turn.rank * c->count * elem(s) : 0);
}

static bool reduce_own_block(nx_host_call *s)
{
    const size_t block = NX_HOST_CALL_BLOCK / elem(s), count = s->call->coll.count;
    uint8_t *to = scattered(s);
    bool ok = true;

    for (size_t at = 0; ok && (at < count); at += block) {
        const size_t len = (count - at < block) ? count - at : block;

        ok = reduce_block(s, to + at * elem(s), s->turn.rank * count + at, len);
    }
    return ok;
}

/* ---- copying blocks ------------------------------------------------------------------ */

/* The part that the other rank copies, of |len| bytes that it receives, or that the root receives
 * from it: everything that |from| does not push to |at| of |to|. */
static nx_part to_copy(const nx_host_call *s, uint32_t from, uint32_t to, uint64_t at, size_t len)
{
    return nx_host_call_pushes(s, from, to, at, len) ? nx_host_call_stretch(s, len)
                                                     : (nx_part){.len = len};
}

static bool from_root(nx_host_call *s, bool blocks)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);
    const nx_part roots = nx_host_call_stretch(s, len);
    const uint8_t *own = nx_host_call_input(s);

    if (s->turn.rank != c->root) {
        const uint64_t at = nx_host_call_lent(s, c->root).in + (blocks ? s->turn.rank * len : 0);
        const nx_part p = to_copy(s, c->root, s->turn.rank, s->own.out, len);

        return nx_host_call_pull(s, c->root, at + p.off, (uint8_t *)s->call->recv + p.off, p.len);
    }
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (c->root + i) % s->turn.size;
        const uint64_t to = nx_host_call_lent(s, other).out;

        if (nx_host_call_pushes(s, c->root, other, to, len) &&
            !nx_host_call_push(s, other, to + roots.off,
                               own + (blocks ? other * len : 0) + roots.off, roots.len)) {
            return false;
        }
    }
    if (blocks) {
        nx_nontemporal_copy(s->call->recv, own + c->root * len, len);
    }
    return true;
}

static bool to_root(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s), mine = s->turn.rank * len;
    const uint64_t out = nx_host_call_lent(s, c->root).out;
    uint8_t *to = s->call->recv;

    if (s->turn.rank != c->root) {
        const nx_part p = nx_host_call_stretch(s, len);

        return !nx_host_call_pushes(s, s->turn.rank, c->root, out + mine, len) ||
               nx_host_call_push(s, c->root, out + mine + p.off,
                                 (const uint8_t *)nx_host_call_input(s) + p.off, p.len);
    }
    if (!c->in_place) {
        nx_nontemporal_copy(to + mine, s->call->send, len);
    }
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (c->root + i) % s->turn.size;
        const nx_part p = to_copy(s, other, c->root, out + other * len, len);

        if (!nx_host_call_pull(s, other, nx_host_call_lent(s, other).in + p.off,
                               to + other * len + p.off, p.len)) {
            return false;
        }
    }
    return true;
}

/* Collects the block of each rank, |skip| bytes into its memory. */
static bool collect(nx_host_call *s, size_t skip)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);
    uint8_t *to = s->call->recv;

    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t other = (s->turn.rank + i) % s->turn.size;

        if (!nx_host_call_pull(s, other, nx_host_call_lent(s, other).in + skip, to + other * len,
                               len)) {
            return false;
        }
    }
    return true;
}

static bool allgather(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s);

    if (!c->in_place) {
        nx_nontemporal_copy((uint8_t *)s->call->recv + s->turn.rank * len, s->call->send, len);
    }
    return collect(s, 0);
}

static bool alltoall(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const size_t len = c->count * elem(s), mine = s->turn.rank * len;

    if (!c->in_place) {
        nx_nontemporal_copy((uint8_t *)s->call->recv + mine, (const uint8_t *)s->call->send + mine,
                            len);
    }
    return collect(s, mine);
}

/* ---- scan, as a chain ---------------------------------------------------------------- */

enum { STRETCHES = 16 }; /* of a vector: how often a rank publishes its progress */

/* Elements of a stretch: complete blocks. */
static size_t stretch_len(const nx_host_call *s)
{
    const size_t block = NX_HOST_CALL_BLOCK / elem(s);
    const size_t blocks = (s->call->coll.count + block - 1) / block;

    return (blocks + STRETCHES - 1) / STRETCHES * block;
}

/* A block: the result of the previous rank, and the own input. The first rank's result is its
 * input. */
static bool add_own(nx_host_call *s, size_t off, size_t len)
{
    const uint32_t before = s->turn.rank - 1;
    const nx_lent lent = nx_host_call_lent(s, before);
    const size_t skip = off * elem(s);
    const void *its =
        nx_host_call_see(s, before, ((before == 0) ? lent.in : lent.out) + skip, len * elem(s));

    if (its == NULL) {
        return false;
    }
    nx_reduce((uint8_t *)s->call->recv + skip, its, (const uint8_t *)nx_host_call_input(s) + skip,
              len, s->call->dtype, s->call->op);
    return true;
}

/* The same of an exscan: the result of the previous rank, and that rank's input. The first rank has
 * no result. */
static bool add_before(nx_host_call *s, size_t off, size_t len)
{
    const uint32_t before = s->turn.rank - 1;
    const nx_lent lent = nx_host_call_lent(s, before);
    const size_t skip = off * elem(s), bytes = len * elem(s);
    uint8_t *out = (uint8_t *)s->call->recv + skip;
    const void *its;

    if (before == 0) {
        return nx_host_call_pull(s, before, lent.in + skip, out, bytes);
    }
    if (!nx_host_call_pull(s, before, lent.out + skip, out, bytes)) {
        return false;
    }
    its = nx_host_call_see(s, before, lent.in + skip, bytes);
    if (its == NULL) {
        return false;
    }
    nx_reduce(out, out, its, len, s->call->dtype, s->call->op);
    return true;
}

/* |len| elements from |off| on. */
static bool chain_stretch(nx_host_call *s, size_t off, size_t len)
{
    const size_t block = NX_HOST_CALL_BLOCK / elem(s), end = off + len;
    bool ok = true;

    for (size_t at = off; ok && (at < end); at += block) {
        const size_t n = (end - at < block) ? end - at : block;

        ok = (s->call->coll.kind == NX_SCAN) ? add_own(s, at, n) : add_before(s, at, n);
    }
    return ok;
}

/* Starts the chain at the first rank, which waits for no rank. */
static void begin_chain(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    if (c->kind == NX_EXSCAN) {
        nx_reduce_identity(s->call->recv, c->count, s->call->dtype, s->call->op);
    } else if (!c->in_place) {
        nx_nontemporal_copy(s->call->recv, s->call->send, c->count * elem(s));
    }
}

/* |*end| is not NX_EPISODE_ON: the previous rank does not arrive. */
static bool chain(nx_host_call *s, nx_episode_end *end)
{
    const nx_coll *c = &s->call->coll;
    const size_t each = stretch_len(s);
    uint32_t step = 1;

    if (s->turn.rank == 0) {
        begin_chain(s);
        return true;
    }
    for (size_t off = 0; off < c->count; off += each, step++) {
        *end = (s->turn.rank == 1) ? NX_EPISODE_ON
                                   : nx_episode_wait_for(&s->turn, s->turn.rank - 1, step);
        if ((*end != NX_EPISODE_ON) ||
            !chain_stretch(s, off, (c->count - off < each) ? c->count - off : each)) {
            return false;
        }
        nx_episode_report(&s->turn, step);
    }
    return true;
}

/* ---- all kinds ----------------------------------------------------------------------- */

static bool do_work(nx_host_call *s, nx_episode_end *end)
{
    switch ((int)s->call->coll.kind) {
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
        return chain(s, end);
    case NX_ALLGATHER:
        return allgather(s);
    default:
        return alltoall(s);
    }
}

nx_episode_end nx_reads_run(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    nx_episode_end end = NX_EPISODE_ON;

    nx_host_call_arenas(s);
    if ((c->kind == NX_ALLREDUCE) || (c->kind == NX_REDUCE)) {
        return reduce_all(s);
    }
    if (!do_work(s, &end)) {
        return end;
    }
    end = nx_episode_all_at(&s->turn, NX_EPISODE_DONE);
    if ((end == NX_EPISODE_ON) && (c->kind == NX_REDUCE_SCATTER) && c->in_place &&
        (s->turn.rank != 0)) {
        memmove(s->call->recv, scattered(s), c->count * elem(s));
    }
    return end;
}
