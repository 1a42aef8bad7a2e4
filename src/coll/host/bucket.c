/*
 * bucket.c - the tensors of a bucket as one vector: on this rank, and in the memory of other ranks.
 *
 * Each rank owns a part of the vector, as in any allreduce. A rank reads the lines of the other
 * ranks' lists that concern its part, and checks their counts against its own: it writes only to
 * tensors of the expected length. The same holds for the owner's lines where this rank reads the
 * part of another. A rank works in blocks of several pieces, each of which is in one tensor.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/memory/copy.h"
#include "host_call.h"
#include "reduce/reduce.h"

struct nx_bucket {
    nx_binding vector; /* the own tensors, one region each */
    size_t first, n;   /* tensors that overlap the own part */
    struct iovec own[NX_REMOTE_MEMORY_PIECES], its[NX_REMOTE_MEMORY_PIECES];
    size_t piece[NX_REMOTE_MEMORY_PIECES]; /* the tensor, from |first| on, and ... */
    size_t skip[NX_REMOTE_MEMORY_PIECES];  /* ... bytes of that tensor before the piece */
    size_t pieces;
    nexar_tensor *lines;  /* those of the own part, of rank r: from r n on */
    nexar_tensor *theirs; /* those of another part, of its owner */
    nx_region regions[];
};

static size_t elem(const nx_host_call *s)
{
    return nexar_dtype_size(s->call->dtype);
}

static nx_cursor walk(const nx_host_call *s, size_t off, size_t len)
{
    return nx_cursor_start(&s->bucket->vector, nx_at(NX_SPACE_RECV, off), len);
}

/* Finds the tensors that overlap |p|, from |*first| on; returns their number. */
static size_t find_part(const nx_bucket *b, size_t ntensors, nx_part p, size_t *first)
{
    size_t at = 0, last;

    while ((at < ntensors) && (b->regions[at].off + b->regions[at].len <= p.off)) {
        at++;
    }
    last = at;
    while ((last < ntensors) && (b->regions[last].off < p.off + p.len)) {
        last++;
    }
    *first = at;
    return last - at;
}

bool nx_bucket_open(nx_host_call *s)
{
    const nx_coll_call *call = s->call;
    nx_bucket *b = nx_alloc_aligned(64, sizeof(*b) + call->ntensors * sizeof(b->regions[0]));
    size_t off = 0;

    if (b == NULL) {
        return false;
    }
    memset(b, 0, sizeof(*b));
    for (size_t i = 0; i < call->ntensors; i++) {
        b->regions[i] =
            (nx_region){.ptr = call->tensors[i].ptr, .off = off, .len = call->tensors[i].count};
        off += call->tensors[i].count;
    }
    b->vector.elem_size = elem(s);
    b->vector.areas[NX_SPACE_RECV] = (nx_area){.regions = b->regions, .n = call->ntensors};
    s->bucket = b;
    if (s->way == NX_METHOD_SLOTS) {
        return true;
    }
    b->n = find_part(b, call->ntensors, nx_host_call_part(s, call->coll.count, s->turn.rank),
                     &b->first);
    b->lines = nx_calloc(b->n * s->turn.size + call->ntensors + 1, sizeof(*b->lines));
    b->theirs = (b->lines == NULL) ? NULL : b->lines + b->n * s->turn.size;
    return b->lines != NULL;
}

void nx_bucket_close(nx_host_call *s)
{
    if (s->bucket != NULL) {
        nx_free(s->bucket->lines);
        nx_free(s->bucket);
        s->bucket = NULL;
    }
}

/* ---- here ---------------------------------------------------------------------------- */

void nx_bucket_get(const nx_host_call *s, size_t off, size_t len, void *to)
{
    nx_area_read(&s->bucket->vector.areas[NX_SPACE_RECV], elem(s), off, len, to);
}

void nx_bucket_put(const nx_host_call *s, size_t off, size_t len, const void *from)
{
    nx_area_write(&s->bucket->vector.areas[NX_SPACE_RECV], elem(s), off, len, from);
}

/* ---- memory of other ranks ----------------------------------------------------------- */

/* Reads the |n| lines of |rank| from |first| on; checks that their tensors are as long as this
 * rank's. */
static bool read_lines_of(nx_host_call *s, uint32_t rank, size_t first, size_t n,
                          nexar_tensor *lines)
{
    const nx_bucket *b = s->bucket;
    const uint64_t at = nx_host_call_lent(s, rank).in + first * sizeof(*lines);

    if (!nx_host_call_pull(s, rank, at, lines, n * sizeof(*lines))) {
        return false;
    }
    for (size_t k = 0; k < n; k++) {
        if (lines[k].count != b->regions[first + k].len) {
            s->uneven = true;
            s->who = rank;
            s->theirs = lines[k].count;
            s->ours = b->regions[first + k].len;
            return false;
        }
    }
    return true;
}

static bool read_lines(nx_host_call *s)
{
    nx_bucket *b = s->bucket;

    for (uint32_t i = 1; (b->n != 0) && (i < s->turn.size); i++) {
        const uint32_t rank = (s->turn.rank + i) % s->turn.size;

        if (!read_lines_of(s, rank, b->first, b->n, b->lines + rank * b->n)) {
            return false;
        }
    }
    return true;
}

bool nx_bucket_pushes(nx_host_call *s, uint32_t from, uint32_t to)
{
    const nx_bucket *b = s->bucket;
    const nexar_tensor *lines = b->lines + to * b->n;
    size_t first = b->first, n = b->n;
    bool all = true;

    if (to == s->turn.rank) {
        n = find_part(b, s->call->ntensors, nx_host_call_part(s, s->call->coll.count, from),
                      &first);
        lines = s->call->tensors + first;
    }
    for (size_t k = 0; all && (k < n); k++) {
        all = (lines[k].count == 0) ||
              nx_host_call_pushes(s, from, to, (uint64_t)(uintptr_t)lines[k].ptr,
                                  lines[k].count * elem(s));
    }
    return all;
}

/* The next pieces of a part, a block at most; their elements.  |first| is its first tensor. */
static size_t next_block(const nx_host_call *s, nx_cursor *c, size_t first)
{
    nx_bucket *b = s->bucket;
    size_t room = NX_HOST_CALL_BLOCK / elem(s), len = 0;
    nx_piece piece;

    for (b->pieces = 0; (b->pieces < NX_REMOTE_MEMORY_PIECES) && (len < room); b->pieces++) {
        if (!nx_cursor_next(c, room - len, &piece)) {
            break;
        }
        b->own[b->pieces] = (struct iovec){.iov_base = piece.ptr, .iov_len = piece.len * elem(s)};
        b->piece[b->pieces] = (size_t)(c->region - b->regions) - first;
        b->skip[b->pieces] = (size_t)(piece.ptr - c->region->ptr);
        len += piece.len;
    }
    return len;
}

/* Computes the addresses of the pieces at |rank|, from its |lines|. Returns whether all of them are
 * mapped here; then |its| addresses are valid. */
static bool locate(nx_host_call *s, uint32_t rank, const nexar_tensor *lines)
{
    nx_bucket *b = s->bucket;
    bool seen = true;

    for (size_t i = 0; i < b->pieces; i++) {
        /* An address in the other process, not valid in this one. */
        const uint64_t at = (uint64_t)(uintptr_t)lines[b->piece[i]].ptr + b->skip[i];

        b->its[i].iov_len = b->own[i].iov_len;
        b->its[i].iov_base = (void *)(uintptr_t)at; // NOLINT(performance-no-int-to-ptr)
        seen = seen && (nx_remote_memory_see(&s->far[rank], at, b->own[i].iov_len) != NULL);
    }
    for (size_t i = 0; seen && (i < b->pieces); i++) {
        b->its[i].iov_base = nx_remote_memory_see(
            &s->far[rank], (uint64_t)(uintptr_t)b->its[i].iov_base, b->its[i].iov_len);
    }
    return seen;
}

static size_t bytes_of(const nx_bucket *b)
{
    size_t sum = 0;

    for (size_t i = 0; i < b->pieces; i++) {
        sum += b->own[i].iov_len;
    }
    return sum;
}

/* Combines the pieces of |rank| into this rank's pieces. */
static bool add(nx_host_call *s, uint32_t rank)
{
    nx_bucket *b = s->bucket;
    const bool seen = locate(s, rank, b->lines + rank * b->n);
    const struct iovec to = {.iov_base = s->bounce, .iov_len = bytes_of(b)};
    const uint8_t *from = s->bounce;

    if (!seen && !nx_host_call_note(
                     s, rank, nx_remote_memory_gather(&s->far[rank], b->its, b->pieces, &to, 1))) {
        return false;
    }
    for (size_t i = 0; i < b->pieces; i++) {
        nx_reduce(b->own[i].iov_base, b->own[i].iov_base, seen ? b->its[i].iov_base : from,
                  b->own[i].iov_len / elem(s), s->call->dtype, s->call->op);
        from += b->own[i].iov_len;
    }
    return true;
}

/* Pushes the pieces to |rank|. */
static bool give(nx_host_call *s, uint32_t rank)
{
    nx_bucket *b = s->bucket;

    if (!nx_host_call_note(s, rank, locate(s, rank, b->lines + rank * b->n) ? 0 : EFAULT)) {
        return false;
    }
    for (size_t i = 0; i < b->pieces; i++) {
        nx_memcpy(b->its[i].iov_base, b->own[i].iov_base, b->own[i].iov_len);
    }
    return true;
}

/* Reduces the current pieces over all ranks; the ranks |pushed| receive the result. */
static bool reduce_pieces(nx_host_call *s, uint64_t pushed)
{
    const nx_bucket *b = s->bucket;
    const uint32_t size = s->turn.size;

    for (uint32_t i = 1; i < size; i++) {
        if (!add(s, (s->turn.rank + i) % size)) {
            return false;
        }
    }
    for (size_t i = 0; s->call->coll.average && (i < b->pieces); i++) {
        nx_reduce_divide(b->own[i].iov_base, b->own[i].iov_len / elem(s), s->call->dtype, size);
    }
    for (uint32_t i = 1; i < size; i++) {
        const uint32_t rank = (s->turn.rank + i) % size;

        if (((pushed >> rank & 1) != 0) && !give(s, rank)) {
            return false;
        }
    }
    return true;
}

bool nx_bucket_part(nx_host_call *s)
{
    const nx_part p = nx_host_call_part(s, s->call->coll.count, s->turn.rank);
    nx_cursor c = walk(s, p.off, p.len);
    uint64_t pushed = 0;

    if (!read_lines(s)) {
        return false;
    }
    for (uint32_t i = 1; i < s->turn.size; i++) {
        const uint32_t rank = (s->turn.rank + i) % s->turn.size;

        pushed |= (uint64_t)nx_bucket_pushes(s, s->turn.rank, rank) << rank;
    }
    while (next_block(s, &c, s->bucket->first) != 0) {
        if (!reduce_pieces(s, pushed)) {
            return false;
        }
    }
    return true;
}

/* Reads the current pieces from |owner| into this rank's pieces. */
static bool take(nx_host_call *s, uint32_t owner)
{
    nx_bucket *b = s->bucket;

    if (!locate(s, owner, b->theirs)) {
        return nx_host_call_note(
            s, owner,
            nx_remote_memory_gather(&s->far[owner], b->its, b->pieces, b->own, b->pieces));
    }
    for (size_t i = 0; i < b->pieces; i++) {
        nx_memcpy(b->own[i].iov_base, b->its[i].iov_base, b->own[i].iov_len);
    }
    return nx_host_call_note(s, owner, 0);
}

bool nx_bucket_pull(nx_host_call *s, uint32_t owner)
{
    const nx_part p = nx_host_call_part(s, s->call->coll.count, owner);
    nx_cursor c = walk(s, p.off, p.len);
    nx_bucket *b = s->bucket;
    size_t first;
    const size_t n = find_part(b, s->call->ntensors, p, &first);

    if (!read_lines_of(s, owner, first, n, b->theirs)) {
        return false;
    }
    while (next_block(s, &c, first) != 0) {
        if (!take(s, owner)) {
            return false;
        }
    }
    return true;
}
