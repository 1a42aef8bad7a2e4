/* binding.c - resolves references to memory, and runs local steps on it. */
#include "coll/run/binding.h"

#include <assert.h>
#include <string.h>

#include "base/memory/copy.h"
#include "base/memory/prefetch_hint.h"
#include "reduce/reduce.h"

/* The region that holds element |off|. */
static const nx_region *find_region(const nx_area *area, size_t off)
{
    size_t lo = 0, hi = area->n;

    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;

        if (area->regions[mid].off <= off) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return &area->regions[lo];
}

nx_cursor nx_cursor_start(const nx_binding *binding, nx_ref ref, size_t len)
{
    nx_cursor c = {.left = len, .elem_size = binding->elem_size};

    if (len != 0) {
        const nx_area *area = &binding->areas[ref.space];

        assert(area->n != 0);
        c.region = find_region(area, ref.off);
        c.off = ref.off - c.region->off;
    }
    return c;
}

size_t nx_cursor_room(nx_cursor *c)
{
    if (c->left == 0) {
        return 0;
    }
    while (c->off >= c->region->len) {
        c->off -= c->region->len;
        c->region++;
    }

    size_t room = c->region->len - c->off;

    return (room < c->left) ? room : c->left;
}

bool nx_cursor_next(nx_cursor *c, size_t most, nx_piece *piece)
{
    size_t room = nx_cursor_room(c);

    if (room == 0) {
        return false;
    }
    room = (most < room) ? most : room;
    *piece = (nx_piece){.ptr = c->region->ptr + c->off * c->elem_size, .len = room};
    c->off += room;
    c->left -= room;
    return true;
}

/* Copies |len| bytes, from |half| to twice |half|: two moves that may overlap. */
static inline void copy_two(char *to, const char *from, size_t len, size_t half)
{
    char head[16], tail[16];

    memcpy(head, from, half);
    memcpy(tail, from + len - half, half);
    memcpy(to, head, half);
    memcpy(to + len - half, tail, half);
}

/* memcpy, without the call for few bytes. */
static inline void copy_bytes(char *to, const char *from, size_t len)
{
    if ((len > 32) || (len < 8)) {
        nx_memcpy(to, from, len);
    } else if (len > 16) {
        copy_two(to, from, len, 16);
    } else {
        copy_two(to, from, len, 8);
    }
}

void nx_area_read(const nx_area *area, size_t size, size_t off, size_t len, void *to)
{
    const nx_region *r = (len != 0) ? find_region(area, off) : NULL;
    size_t skip = (len != 0) ? off - r->off : 0;
    char *at = to;

    for (; len != 0; r++, skip = 0) {
        const size_t n = (r->len - skip < len) ? r->len - skip : len;

        if (n != 0) {
            copy_bytes(at, r->ptr + skip * size, n * size);
            at += n * size;
            len -= n;
        }
    }
}

void nx_area_write(const nx_area *area, size_t size, size_t off, size_t len, const void *from)
{
    const nx_region *r = (len != 0) ? find_region(area, off) : NULL;
    size_t skip = (len != 0) ? off - r->off : 0;
    const char *at = from;

    for (; len != 0; r++, skip = 0) {
        const size_t n = (r->len - skip < len) ? r->len - skip : len;

        if (n != 0) {
            copy_bytes(r->ptr + skip * size, at, n * size);
            at += n * size;
            len -= n;
        }
    }
}

static size_t smaller(size_t a, size_t b)
{
    return (a < b) ? a : b;
}

static void copy(const nx_step *step, const nx_binding *binding)
{
    nx_cursor to = nx_cursor_start(binding, step->dst, step->len);
    nx_cursor from = nx_cursor_start(binding, step->a, step->len);
    nx_piece dst, src;
    size_t n;

    while (((n = smaller(nx_cursor_room(&to), nx_cursor_room(&from))) != 0) &&
           nx_cursor_next(&to, n, &dst) && nx_cursor_next(&from, n, &src)) {
        /* In-place reduce-scatter moves its block to the start: they may overlap. */
        memmove(dst.ptr, src.ptr, n * binding->elem_size);
    }
}

static void reduce(const nx_step *step, const nx_binding *binding, nexar_dtype dtype, nexar_op op)
{
    nx_cursor to = nx_cursor_start(binding, step->dst, step->len);
    nx_cursor left = nx_cursor_start(binding, step->a, step->len);
    nx_cursor right = nx_cursor_start(binding, step->b, step->len);
    nx_piece dst, a, b;
    size_t n;

    while (((n = smaller(nx_cursor_room(&to),
                         smaller(nx_cursor_room(&left), nx_cursor_room(&right)))) != 0) &&
           nx_cursor_next(&to, n, &dst) && nx_cursor_next(&left, n, &a) &&
           nx_cursor_next(&right, n, &b)) {
        nx_reduce(dst.ptr, a.ptr, b.ptr, n, dtype, op);
    }
}

void nx_step_run_local(const nx_step *step, const nx_binding *binding, nexar_dtype dtype,
                       nexar_op op, uint32_t size)
{
    nx_cursor c = nx_cursor_start(binding, step->dst, step->len);
    nx_piece piece;

    if (step->kind == NX_STEP_COPY) {
        copy(step, binding);
    } else if (step->kind == NX_STEP_REDUCE) {
        reduce(step, binding, dtype, op);
    } else if (step->kind == NX_STEP_FILL) {
        while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
            nx_reduce_identity(piece.ptr, piece.len, dtype, op);
        }
    } else {
        assert(step->kind == NX_STEP_DIVIDE);
        while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
            nx_reduce_divide(piece.ptr, piece.len, dtype, size);
        }
    }
}

void nx_step_deliver(const nx_step *step, const nx_binding *binding, nexar_dtype dtype, nexar_op op,
                     size_t off, const void *data, size_t len)
{
    nx_cursor to = nx_cursor_start(binding, nx_ref_plus(step->dst, off), len);
    nx_cursor own = nx_cursor_start(binding, nx_ref_plus(step->a, off),
                                    (step->kind == NX_STEP_RECV_REDUCE) ? len : 0);
    const char *from = data;
    nx_piece dst, a;

    if (step->kind == NX_STEP_RECV) {
        while (nx_cursor_next(&to, SIZE_MAX, &dst)) {
            memcpy(dst.ptr, from, dst.len * binding->elem_size);
            from += dst.len * binding->elem_size;
        }
        return;
    }

    size_t n;

    assert(step->kind == NX_STEP_RECV_REDUCE);
    while (((n = smaller(nx_cursor_room(&to), nx_cursor_room(&own))) != 0) &&
           nx_cursor_next(&to, n, &dst) && nx_cursor_next(&own, n, &a)) {
        nx_reduce(dst.ptr, a.ptr, from, n, dtype, op);
        nx_prefetch_wrote(dst.ptr, n * binding->elem_size);
        from += n * binding->elem_size;
    }
}
