/*
 * dev_step.c - steps on device memory.
 *
 * Pieces of both operands are processed together. Data that moves between two device buffers, or is
 * computed from two of them, passes through host memory.
 */
#include "coll/run/dev_step.h"

#include <assert.h>
#include <string.h>

#include "device/staging.h"
#include "reduce/reduce.h"

enum {
    REGIONS = 64,            /* passed to the adapter in one call */
    SHORT_BYTES = 32 * 1024, /* a call of a device costs as much as copying this */
};

static bool is_device(nx_ref ref)
{
    return ref.space != NX_SPACE_SCRATCH;
}

bool nx_dev_step_touches(const nx_step *step)
{
    if (step->len == 0) {
        return false;
    }
    switch ((nx_step_kind)step->kind) {
    case NX_STEP_SEND:
        return is_device(step->a);
    case NX_STEP_RECV:
    case NX_STEP_FILL:
    case NX_STEP_DIVIDE:
    case NX_STEP_CALL:
        return is_device(step->dst);
    case NX_STEP_RECV_REDUCE:
    case NX_STEP_COPY:
        return is_device(step->dst) || is_device(step->a);
    case NX_STEP_REDUCE:
        return is_device(step->dst) || is_device(step->a) || is_device(step->b);
    case NX_STEP_KINDS:
    default:
        return false;
    }
}

/* ---- whole references ---------------------------------------------------------------- */

/* |len| elements of device memory at |ref|, to or from |host|, many pieces per call. */
static nexar_err transfer(const nx_dev_site *s, nx_ref ref, size_t len, char *host, bool to_host)
{
    const size_t size = s->binding->elem_size;
    nx_cursor c = nx_cursor_start(s->binding, ref, len);
    nexar_err err = NEXAR_OK;
    nx_piece piece;

    while ((err == NEXAR_OK) && (nx_cursor_room(&c) != 0)) {
        nexar_iov regions[REGIONS];
        size_t n = 0, bytes = 0;

        while ((n < REGIONS) && nx_cursor_next(&c, SIZE_MAX, &piece)) {
            regions[n++] = (nexar_iov){.ptr = piece.ptr, .bytes = piece.len * size};
            bytes += piece.len * size;
        }
        err = to_host ? nx_device_gather(s->mem, host, regions, n)
                      : nx_device_scatter(s->mem, regions, n, host);
        host += bytes;
    }
    return err;
}

nexar_err nx_dev_read(nx_devmem mem, const nx_area *area, size_t size, size_t len, void *host)
{
    const nx_binding binding = {.areas[NX_SPACE_RECV] = *area, .elem_size = size};
    const nx_dev_site site = {.mem = mem, .binding = &binding};

    return transfer(&site, nx_at(NX_SPACE_RECV, 0), len, host, true);
}

nexar_err nx_dev_write(nx_devmem mem, const nx_area *area, size_t size, size_t len, void *host)
{
    const nx_binding binding = {.areas[NX_SPACE_RECV] = *area, .elem_size = size};
    const nx_dev_site site = {.mem = mem, .binding = &binding};

    return transfer(&site, nx_at(NX_SPACE_RECV, 0), len, host, false);
}

nexar_err nx_dev_step_stage(const nx_dev_site *site, const nx_step *step, size_t off, void *host,
                            size_t len)
{
    return transfer(site, nx_at((nx_space)step->a.space, step->a.off + off), len, host, true);
}

static nexar_err read_ref(const nx_dev_site *s, nx_ref ref, size_t len, void *host)
{
    nx_cursor c = nx_cursor_start(s->binding, ref, len);
    char *at = host;
    nx_piece piece;

    if (is_device(ref)) {
        return transfer(s, ref, len, host, true);
    }
    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        memcpy(at, piece.ptr, piece.len * s->binding->elem_size);
        at += piece.len * s->binding->elem_size;
    }
    return NEXAR_OK;
}

static nexar_err write_ref(const nx_dev_site *s, nx_ref ref, size_t len, void *host)
{
    nx_cursor c = nx_cursor_start(s->binding, ref, len);
    const char *at = host;
    nx_piece piece;

    if (is_device(ref)) {
        return transfer(s, ref, len, host, false);
    }
    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        memcpy(piece.ptr, at, piece.len * s->binding->elem_size);
        at += piece.len * s->binding->elem_size;
    }
    return NEXAR_OK;
}

/* dst = op(dst, data) in place, on the device. */
static nexar_err reduce_into(const nx_dev_site *s, nx_ref dst, const char *data, size_t len)
{
    nx_cursor c = nx_cursor_start(s->binding, dst, len);
    nexar_err err = NEXAR_OK;
    nx_piece piece;

    while ((err == NEXAR_OK) && nx_cursor_next(&c, SIZE_MAX, &piece)) {
        err = nx_device_reduce(s->mem, piece.ptr, data, piece.len, s->dtype, s->op);
        data += piece.len * s->binding->elem_size;
    }
    return err;
}

/* Whether |len| elements at |ref| are in pieces so short that combining them here costs less
 * than a call of the adapter for each. */
static bool is_scattered(const nx_dev_site *s, nx_ref ref, size_t len)
{
    nx_cursor c = nx_cursor_start(s->binding, ref, len);
    nx_piece piece;
    size_t n = 0;

    while (nx_cursor_next(&c, SIZE_MAX, &piece)) {
        n++;
    }
    return (n > 1) && (len / n * s->binding->elem_size < SHORT_BYTES);
}

static bool same_place(nx_ref a, nx_ref b)
{
    return (a.space == b.space) && (a.off == b.off);
}

/* ---- through a chunk ----------------------------------------------------------------- */

/* dst = op(a, b), or dst = a, or dst = op(a, data), in host memory. */
typedef struct combine {
    nx_ref dst, a, b;
    bool has_b;
    const char *data; /* instead of |b| */
} combine;

/* |len| elements at |off|; |half| elements of |chunk| are for each operand. */
static nexar_err combine_piece(const nx_dev_site *s, const combine *k, char *chunk, size_t half,
                               size_t off, size_t len)
{
    const size_t size = s->binding->elem_size;
    char *second = chunk + half * size;
    nexar_err err = read_ref(s, nx_ref_plus(k->a, off), len, chunk);

    if ((err == NEXAR_OK) && k->has_b) {
        err = read_ref(s, nx_ref_plus(k->b, off), len, second);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if (k->has_b) {
        nx_reduce(chunk, chunk, second, len, s->dtype, s->op);
    } else if (k->data != NULL) {
        nx_reduce(chunk, chunk, k->data + off * size, len, s->dtype, s->op);
    }
    return write_ref(s, nx_ref_plus(k->dst, off), len, chunk);
}

/* A copy may overlap its source: it runs backwards where the source precedes the target. */
static nexar_err combine_run(const nx_dev_site *s, const combine *k, size_t len)
{
    const size_t half = NX_CHUNK / 2 / s->binding->elem_size;
    const bool backwards = (k->dst.space == k->a.space) && (k->dst.off > k->a.off);
    nx_chunk *chunk;
    nexar_err err = nx_staging_take(s->mem.device, NX_STAGE_BOUNCE, &chunk);

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t done = 0; (err == NEXAR_OK) && (done < len);) {
        const size_t left = len - done;
        const size_t n = (left < half) ? left : half;

        err = combine_piece(s, k, chunk->ptr, half, backwards ? left - n : done, n);
        done += n;
    }
    nx_staging_give(s->mem.device, chunk);
    return err;
}

/* ---- steps --------------------------------------------------------------------------- */

/* Copies from or to host memory in one piece; scratch is one. */
static nexar_err copy(const nx_dev_site *s, const nx_step *step)
{
    const combine k = {.dst = step->dst, .a = step->a};
    const nx_ref host = is_device(step->dst) ? step->a : step->dst;
    nx_cursor c = nx_cursor_start(s->binding, host, step->len);
    nx_piece piece;

    if (is_device(host)) {
        return combine_run(s, &k, step->len);
    }
    (void)nx_cursor_next(&c, SIZE_MAX, &piece);
    assert(piece.len == step->len);
    return is_device(step->dst) ? transfer(s, step->dst, step->len, piece.ptr, false)
                                : transfer(s, step->a, step->len, piece.ptr, true);
}

/* In place with an operand in host memory, the device may combine; all ops commute. */
static nexar_err reduce(const nx_dev_site *s, const nx_step *step)
{
    const combine k = {.dst = step->dst, .a = step->a, .b = step->b, .has_b = true};
    const bool on_a = same_place(step->dst, step->a), on_b = same_place(step->dst, step->b);
    const nx_ref other = on_a ? step->b : step->a;
    nx_cursor c = nx_cursor_start(s->binding, other, step->len);
    nx_piece piece;

    if (!is_device(step->dst) || !(on_a || on_b) || is_device(other) ||
        is_scattered(s, step->dst, step->len)) {
        return combine_run(s, &k, step->len);
    }
    (void)nx_cursor_next(&c, SIZE_MAX, &piece);
    assert(piece.len == step->len);
    return reduce_into(s, step->dst, piece.ptr, step->len);
}

nexar_err nx_dev_step_local(const nx_dev_site *site, const nx_step *step)
{
    nx_cursor c = nx_cursor_start(site->binding, step->dst, step->len);
    nexar_err err = NEXAR_OK;
    nx_piece piece;

    if (step->kind == NX_STEP_COPY) {
        return copy(site, step);
    }
    if (step->kind == NX_STEP_REDUCE) {
        return reduce(site, step);
    }
    assert((step->kind == NX_STEP_FILL) || (step->kind == NX_STEP_DIVIDE));
    while ((err == NEXAR_OK) && nx_cursor_next(&c, SIZE_MAX, &piece)) {
        err = (step->kind == NX_STEP_FILL)
                  ? nx_device_fill(site->mem, piece.ptr, piece.len, site->dtype, site->op)
                  : nx_device_divide(site->mem, piece.ptr, piece.len, site->dtype, site->size);
    }
    return err;
}

nexar_err nx_dev_step_deliver(const nx_dev_site *site, const nx_step *step, size_t off,
                              const void *data, size_t len)
{
    const nx_ref dst = nx_ref_plus(step->dst, off);
    const combine k = {.dst = dst, .a = nx_ref_plus(step->a, off), .data = data};

    if (step->kind == NX_STEP_RECV) {
        return transfer(site, dst, len, (char *)data, false);
    }
    assert(step->kind == NX_STEP_RECV_REDUCE);
    return (is_device(dst) && same_place(dst, k.a) && !is_scattered(site, dst, len))
               ? reduce_into(site, dst, data, len)
               : combine_run(site, &k, len);
}
