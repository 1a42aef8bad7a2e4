/*
 * blocks.c - the v forms: blocks whose lengths not all ranks know.
 *
 * A rank's input begins with a head: the offset and length of the block for each rank. The blocks
 * follow the head, contiguous, if they fit; otherwise they stay in the rank's memory. The receiver
 * of a block copies it from there. Between the root and another rank, if the sender pushes
 * (host_call.h), the root copies one n-th of a long block and the other rank the rest.
 *
 * Lengths. The head also has the expected length of each rank's block, and one checksum of all
 * these numbers. The checksum is each length sent times a weight of its pair of ranks, minus the
 * same for each length expected. The sum of these checksums is zero if all lengths fit. Weights are
 * odd: one mismatching length is always detected, and several mismatches compensate each other once
 * in 2^64. All ranks add up the same checksums, and so detect a mismatch alike, before any rank has
 * changed anything. Only then do they search for the pair. This costs no wait, and n checksums
 * instead of n^2.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/memory/copy.h"
#include "base/memory/nontemporal_copy.h"
#include "host_call.h"
#include "reduce/reduce.h"

/* The blocks between the owner of a head and another rank. */
typedef struct pair {
    size_t off;  /* bytes from the first block of the other rank's output; in a gatherv at the root:
                    from the place where the root receives the other rank's block */
    size_t len;  /* elements of the block */
    size_t want; /* elements that this rank expects from the other */
} pair;

typedef struct head {
    nx_lent lent;
    uint64_t balance;
    pair with[NX_BOARD_RANKS];
} head;

enum { ROOM = NX_BOARD_ROOM - sizeof(head) };

static size_t elem(const nx_host_call *s)
{
    return nexar_dtype_size(s->call->dtype);
}

static bool is_root(const nx_host_call *s)
{
    return s->turn.rank == s->call->coll.root;
}

static const head *head_of(const nx_host_call *s, uint32_t rank)
{
    return (const head *)(const void *)nx_episode_slot(&s->turn, rank)->data;
}

static bool lends(const nx_host_call *s, uint32_t rank)
{
    return nx_episode_slot(&s->turn, rank)->lends != 0;
}

/* ---- publishing blocks --------------------------------------------------------------- */

/* The block of this rank's input for |rank|, in elements of |input|. */
static nx_span block_for(const nx_host_call *s, uint32_t rank)
{
    const nx_coll *c = &s->call->coll;

    switch ((int)c->kind) {
    case NX_ALLGATHERV:
        return (nx_span){.len = c->count};
    case NX_GATHERV:
        return (nx_span){.len = ((rank == c->root) && !is_root(s)) ? c->count : 0};
    case NX_SCATTERV:
        return is_root(s) ? nx_split_at(&c->parts, rank) : (nx_span){0};
    case NX_ALLTOALLV:
        return nx_split_at(c->in_place ? &c->parts : &c->send_parts, rank);
    default:
        return nx_split_at(&c->parts, rank);
    }
}

static const uint8_t *input(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    if (!c->in_place) {
        return s->call->send;
    }
    if ((c->kind == NX_ALLGATHERV) || (c->kind == NX_GATHERV)) {
        return (const uint8_t *)s->call->recv + nx_split_at(&c->parts, s->turn.rank).off * elem(s);
    }
    return s->call->recv;
}

/* Whether all ranks receive the same block. */
static bool same_for_all(const nx_host_call *s)
{
    return s->call->coll.kind == NX_ALLGATHERV;
}

/* Bytes of all blocks for other ranks, contiguous. */
static size_t packed(const nx_host_call *s)
{
    size_t sum = 0;

    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        if (rank != s->turn.rank) {
            const size_t len = block_for(s, rank).len * elem(s);

            if (same_for_all(s)) {
                return len;
            }
            sum += len;
        }
    }
    return sum;
}

/* The length that this rank expects of |rank|, in elements. */
static size_t wanted_of(const nx_host_call *s, uint32_t rank)
{
    const nx_coll *c = &s->call->coll;

    switch ((int)c->kind) {
    case NX_GATHERV:
        return is_root(s) ? nx_split_at(&c->parts, rank).len : 0;
    case NX_SCATTERV:
        return ((rank == c->root) && !is_root(s)) ? c->count : 0;
    case NX_REDUCE_SCATTERV:
        return c->count;
    default:
        return nx_split_at(&c->parts, rank).len;
    }
}

/* Packs the blocks for other ranks contiguously at |to|, and records them in the head. */
static void pack(const nx_host_call *s, head *h, uint8_t *to)
{
    const uint8_t *from = input(s);
    size_t off = 0;

    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        const bool first = (off == 0) || !same_for_all(s);
        nx_span block = block_for(s, rank);

        block.len = (rank == s->turn.rank) ? 0 : block.len;
        h->with[rank] = (pair){.off = first ? off : 0, .len = block.len};
        if ((block.len != 0) && first) {
            nx_memcpy(to + off, from + block.off * elem(s), block.len * elem(s));
            off += block.len * elem(s);
        }
    }
}

/* Publishes blocks that stay in the rank's memory. */
static void point(const nx_host_call *s, head *h)
{
    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        const nx_span block = block_for(s, rank);

        h->with[rank] = (pair){.off = block.off * elem(s), .len = block.len};
    }
}

/* An alltoallv in place would overwrite blocks that other ranks have not read yet. */
static bool lend(nx_host_call *s, head *h, size_t bytes)
{
    const nx_coll *c = &s->call->coll;

    if (!s->reads) {
        return false;
    }
    nx_episode_slot(&s->turn, s->turn.rank)->lends = 1;
    if ((c->kind != NX_ALLTOALLV) || !c->in_place) {
        s->own.in = (uint64_t)(uintptr_t)input(s);
        point(s, h);
        return true;
    }
    s->aside = nx_alloc_aligned(NX_BOARD_LINE, bytes);
    if (s->aside == NULL) {
        return false;
    }
    pack(s, h, s->aside);
    s->own.in = (uint64_t)(uintptr_t)s->aside;
    return true;
}

/* gatherv, the root: records where it receives the blocks of the other ranks. */
static void show_places(const nx_host_call *s, head *h)
{
    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        h->with[rank].off = nx_split_at(&s->call->coll.parts, rank).off * elem(s);
    }
}

static uint64_t weight(uint32_t from, uint32_t to)
{
    return nx_mark_mix(UINT64_C(0x9ddfea08eb382d69), (uint64_t)from * NX_BOARD_RANKS + to) | 1;
}

/* Publishes the expected lengths, and the checksum of all lengths. */
static void show_lengths(const nx_host_call *s, head *h)
{
    const uint32_t self = s->turn.rank;

    h->balance = 0;
    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        if (rank != self) {
            h->with[rank].want = wanted_of(s, rank);
            h->balance += weight(self, rank) * h->with[rank].len;
            h->balance -= weight(rank, self) * h->with[rank].want;
        }
    }
}

bool nx_blocks_bring(nx_host_call *s, uint8_t *to)
{
    const nx_coll *c = &s->call->coll;
    const size_t bytes = packed(s);
    head *h = (head *)(void *)to;
    bool ok = true;

    nx_episode_slot(&s->turn, s->turn.rank)->lends = 0;
    if (bytes <= ROOM) {
        pack(s, h, to + sizeof(*h));
    } else {
        ok = lend(s, h, bytes);
    }
    if ((c->kind == NX_GATHERV) && is_root(s)) {
        show_places(s, h);
    }
    show_lengths(s, h);
    s->own.out = (uint64_t)(uintptr_t)s->call->recv;
    h->lent = s->own;
    return ok;
}

/* ---- copying blocks ------------------------------------------------------------------ */

/* Whether the block of |from| for |to| differs from the length that |to| expects; then |*out|
 * describes it. */
static bool differ(const nx_host_call *s, uint32_t from, uint32_t to, nx_uneven *out)
{
    const size_t sent = head_of(s, from)->with[to].len, expected = head_of(s, to)->with[from].want;

    if ((from == to) || (sent == expected)) {
        return false;
    }
    *out = (nx_uneven){.from = from, .to = to, .sent = sent, .expected = expected};
    return true;
}

bool nx_blocks_fit(nx_host_call *s)
{
    const uint32_t size = s->turn.size;
    uint64_t sum = 0;

    for (uint32_t rank = 0; rank < size; rank++) {
        sum += head_of(s, rank)->balance;
    }
    for (uint32_t i = 0; (sum != 0) && !s->apart && (i < size * size); i++) {
        s->apart = differ(s, i / size, i % size, &s->lengths);
    }
    return !s->apart;
}

/* The block of |len| bytes from |rank|; NULL: it is not on the board. */
static const uint8_t *on_board(const nx_host_call *s, uint32_t rank, size_t len)
{
    const head *h = head_of(s, rank);
    const size_t off = h->with[s->turn.rank].off;

    if (lends(s, rank) || (off > ROOM) || (len > ROOM - off)) {
        return NULL;
    }
    return (const uint8_t *)h + sizeof(*h) + off;
}

/* The part that this rank copies of the |len| bytes it receives from |rank| at |to|. */
static nx_part to_take(const nx_host_call *s, uint32_t rank, size_t len, const uint8_t *to)
{
    return (nx_coll_rooted(s->call->coll.kind) &&
            nx_host_call_pushes(s, rank, s->turn.rank, (uint64_t)(uintptr_t)to, len))
               ? nx_host_call_stretch(s, len)
               : (nx_part){.len = len};
}

/* The block of |rank|, |len| elements, to |to|. */
static bool take(nx_host_call *s, uint32_t rank, size_t len, uint8_t *to)
{
    const head *h = head_of(s, rank);
    nx_part p = {.len = len * elem(s)};
    const uint8_t *here = on_board(s, rank, p.len);

    if (len == 0) {
        return true;
    }
    if (here != NULL) {
        nx_memcpy(to, here, p.len);
        return true;
    }
    p = to_take(s, rank, p.len, to);
    return nx_host_call_pull(s, rank, h->lent.in + h->with[s->turn.rank].off + p.off, to + p.off,
                             p.len);
}

/* Copies this rank's own block |from| to |to|. */
static void keep(const nx_host_call *s, uint8_t *to, nx_span from)
{
    if (!s->call->coll.in_place && (from.len != 0)) {
        nx_nontemporal_copy(to, (const uint8_t *)s->call->send + from.off * elem(s),
                            from.len * elem(s));
    }
}

/* Copies the block from each rank to its place. */
static bool collect(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const uint32_t size = s->turn.size, self = s->turn.rank;
    const nx_span own = (c->kind == NX_ALLTOALLV) ? block_for(s, self) : (nx_span){.len = c->count};

    keep(s, (uint8_t *)s->call->recv + nx_split_at(&c->parts, self).off * elem(s), own);
    for (uint32_t i = 1; i < size; i++) {
        const uint32_t other = (self + i) % size;
        const nx_span place = nx_split_at(&c->parts, other);

        if (!take(s, other, place.len, (uint8_t *)s->call->recv + place.off * elem(s))) {
            return false;
        }
    }
    return true;
}

/* gatherv, not the root: pushes its division of the lent block. */
static bool hand_over(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const head *h = head_of(s, c->root);
    const size_t len = c->count * elem(s);
    const nx_part p = nx_host_call_stretch(s, len);
    const uint64_t to = h->lent.out + h->with[s->turn.rank].off;

    return !lends(s, s->turn.rank) || !nx_host_call_pushes(s, s->turn.rank, c->root, to, len) ||
           nx_host_call_push(s, c->root, to + p.off, input(s) + p.off, p.len);
}

/* scatterv, the root: copies its own block, and its division of the lent blocks. */
static bool deal(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    const bool long_ones = lends(s, s->turn.rank);
    bool ok = true;

    keep(s, s->call->recv, nx_split_at(&c->parts, c->root));
    for (uint32_t i = 1; ok && long_ones && (i < s->turn.size); i++) {
        const uint32_t other = (c->root + i) % s->turn.size;
        const nx_span block = nx_split_at(&c->parts, other);
        const size_t len = block.len * elem(s);
        const nx_part p = nx_host_call_stretch(s, len);
        const uint64_t to = head_of(s, other)->lent.out;

        ok = !nx_host_call_pushes(s, c->root, other, to, len) ||
             nx_host_call_push(s, other, to + p.off, input(s) + block.off * elem(s) + p.off, p.len);
    }
    return ok;
}

/* ---- reducing ------------------------------------------------------------------------ */

/* In place the result is built where the input is, and moved when no rank reads any more. */
static uint8_t *scattered(const nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    return (uint8_t *)s->call->recv +
           (c->in_place ? nx_split_at(&c->parts, s->turn.rank).off * elem(s) : 0);
}

/* |len| elements from |at| on of this rank's block, of |rank|. */
static const void *its_piece(nx_host_call *s, uint32_t rank, size_t at, size_t len)
{
    const head *h = head_of(s, rank);
    const uint8_t *here = on_board(s, rank, s->call->coll.count * elem(s));

    if (here != NULL) {
        return here + at * elem(s);
    }
    return nx_host_call_see(s, rank, h->lent.in + h->with[s->turn.rank].off + at * elem(s),
                            len * elem(s));
}

static bool reduce_piece(nx_host_call *s, uint8_t *to, size_t at, size_t len)
{
    const uint32_t size = s->turn.size, self = s->turn.rank;
    const uint8_t *own = input(s) + (nx_split_at(&s->call->coll.parts, self).off + at) * elem(s);

    for (uint32_t i = 1; i < size; i++) {
        const void *its = its_piece(s, (self + i) % size, at, len);

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

static bool reduce_own(nx_host_call *s)
{
    const size_t block = NX_HOST_CALL_BLOCK / elem(s), count = s->call->coll.count;
    bool ok = true;

    for (size_t at = 0; ok && (at < count); at += block) {
        const size_t len = (count - at < block) ? count - at : block;

        ok = reduce_piece(s, scattered(s) + at * elem(s), at, len);
    }
    return ok;
}

/* ---- all kinds ----------------------------------------------------------------------- */

static bool do_work(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;

    switch ((int)c->kind) {
    case NX_GATHERV:
        return is_root(s) ? collect(s) : hand_over(s);
    case NX_SCATTERV:
        return is_root(s) ? deal(s) : take(s, c->root, c->count, s->call->recv);
    case NX_REDUCE_SCATTERV:
        return reduce_own(s);
    default:
        return collect(s);
    }
}

bool nx_blocks_lent(const nx_host_call *s)
{
    for (uint32_t rank = 0; rank < s->turn.size; rank++) {
        if (lends(s, rank)) {
            return true;
        }
    }
    return false;
}

nx_episode_end nx_blocks_run(nx_host_call *s)
{
    const nx_coll *c = &s->call->coll;
    nx_episode_end end = NX_EPISODE_ON;

    nx_host_call_arenas(s);
    if (!do_work(s)) {
        return NX_EPISODE_ON;
    }
    if (s->working) {
        end = nx_episode_all_at(&s->turn, NX_EPISODE_DONE);
    }
    if ((end == NX_EPISODE_ON) && (c->kind == NX_REDUCE_SCATTERV) && c->in_place &&
        (c->count != 0)) {
        memmove(s->call->recv, scattered(s), c->count * elem(s));
    }
    return end;
}
