/*
 * memory.c - the primitives on device memory.
 *
 * An adapter may enqueue the work on its stream and return. So host memory passed to it is reused
 * only after a synchronize, also after an error. Otherwise work still on the stream could write
 * to staging memory that another operation uses by then.
 */
#include "device/device.h"

#include <string.h>

#include "device_inner.h"
#include "reduce/reduce.h"

/* ---- calls of the adapter ------------------------------------------------------------ */

static nexar_err to_host(nx_devmem m, void *host, const void *dev, size_t bytes)
{
    const nexar_device *t = &m.device->table;
    nexar_err err = t->to_host(t->ctx, host, dev, bytes, m.stream);

    atomic_fetch_add(&m.device->to_host, bytes);
    return (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "to_host", err);
}

static nexar_err to_device(nx_devmem m, void *dev, const void *host, size_t bytes)
{
    const nexar_device *t = &m.device->table;
    nexar_err err = t->to_device(t->ctx, dev, host, bytes, m.stream);

    atomic_fetch_add(&m.device->to_device, bytes);
    return (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "to_device", err);
}

static nexar_err wait_for(nx_devmem m)
{
    const nexar_device *t = &m.device->table;
    nexar_err err;

    atomic_fetch_add(&m.device->busy, 1);
    err = t->synchronize(t->ctx, m.stream);
    atomic_fetch_sub(&m.device->busy, 1);
    return err;
}

nexar_err nx_device_synchronize(nx_devmem m)
{
    nexar_err err = wait_for(m);

    return (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "synchronize", err);
}

/* Ends a primitive whose calls returned |err|: waits for the stream also after an error. */
static nexar_err settle(nx_devmem m, nexar_err err)
{
    if (err == NEXAR_OK) {
        return nx_device_synchronize(m);
    }
    (void)wait_for(m); /* the first error counts */
    return err;
}

/* ---- copies -------------------------------------------------------------------------- */

nexar_err nx_device_read(nx_devmem m, void *host, const void *dev, size_t bytes)
{
    return (bytes == 0) ? NEXAR_OK : settle(m, to_host(m, host, dev, bytes));
}

nexar_err nx_device_write(nx_devmem m, void *dev, const void *host, size_t bytes)
{
    return (bytes == 0) ? NEXAR_OK : settle(m, to_device(m, dev, host, bytes));
}

static size_t sum_of(const nexar_iov *regions, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += regions[i].bytes;
    }
    return sum;
}

static nexar_err gather_each(nx_devmem m, char *host, const nexar_iov *regions, size_t n)
{
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_host(m, host, regions[i].ptr, regions[i].bytes);
        }
        host += regions[i].bytes;
    }
    return err;
}

static nexar_err scatter_each(nx_devmem m, const nexar_iov *regions, size_t n, const char *host)
{
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_device(m, regions[i].ptr, host, regions[i].bytes);
        }
        host += regions[i].bytes;
    }
    return err;
}

nexar_err nx_device_gather(nx_devmem m, void *host, const nexar_iov *regions, size_t n)
{
    const nexar_device *t = &m.device->table;
    const size_t bytes = sum_of(regions, n);
    nexar_err err;

    if (bytes == 0) {
        return NEXAR_OK;
    }
    if ((n == 1) || (t->gather == NULL)) {
        return settle(m, gather_each(m, host, regions, n));
    }
    err = t->gather(t->ctx, host, regions, n, m.stream);
    atomic_fetch_add(&m.device->to_host, bytes);
    return settle(m, (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "gather", err));
}

nexar_err nx_device_scatter(nx_devmem m, const nexar_iov *regions, size_t n, const void *host)
{
    const nexar_device *t = &m.device->table;
    const size_t bytes = sum_of(regions, n);
    nexar_err err;

    if (bytes == 0) {
        return NEXAR_OK;
    }
    if ((n == 1) || (t->scatter == NULL)) {
        return settle(m, scatter_each(m, regions, n, host));
    }
    err = t->scatter(t->ctx, regions, n, host, m.stream);
    atomic_fetch_add(&m.device->to_device, bytes);
    return settle(m, (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "scatter", err));
}

/* ---- through a chunk ----------------------------------------------------------------- */

/* A range of device memory that is processed in host memory. */
typedef struct bounce {
    void *dst;       /* where the result goes */
    const void *src; /* what is read first; NULL: no read */
    size_t bytes;
    /* Computes |bytes| at |chunk|, which is offset |off| of the range; NULL: a copy. */
    void (*compute)(const struct bounce *b, char *chunk, size_t off, size_t bytes);
    const char *operand;
    nexar_dtype dtype;
    nexar_op op;
    uint32_t divisor;
} bounce;

static nexar_err bounce_piece(nx_devmem m, const bounce *b, char *chunk, size_t off, size_t bytes)
{
    nexar_err err = NEXAR_OK;

    if (b->src != NULL) {
        err = nx_device_read(m, chunk, (const char *)b->src + off, bytes);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if (b->compute != NULL) {
        b->compute(b, chunk, off, bytes);
    }
    return nx_device_write(m, (char *)b->dst + off, chunk, bytes);
}

/* Works piece by piece. If the target lies after its source, it starts at the end, so that no
 * byte is overwritten before it is read. */
static nexar_err bounce_run(nx_devmem m, const bounce *b)
{
    const bool backwards = (b->src != NULL) && ((uintptr_t)b->dst > (uintptr_t)b->src);
    nx_chunk *chunk;
    nexar_err err;

    if (b->bytes == 0) {
        return NEXAR_OK;
    }
    err = nx_staging_take(m.device, NX_STAGE_BOUNCE, &chunk);
    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t done = 0; (err == NEXAR_OK) && (done < b->bytes);) {
        const size_t left = b->bytes - done;
        const size_t n = (left < NX_CHUNK) ? left : NX_CHUNK;

        err = bounce_piece(m, b, chunk->ptr, backwards ? left - n : done, n);
        done += n;
    }
    nx_staging_give(m.device, chunk);
    return err;
}

nexar_err nx_device_copy(nx_devmem m, void *dst, const void *src, size_t bytes)
{
    const bounce b = {.dst = dst, .src = src, .bytes = (dst == src) ? 0 : bytes};

    return bounce_run(m, &b);
}

static void compute_fill(const bounce *b, char *chunk, size_t off, size_t bytes)
{
    (void)off;
    nx_reduce_identity(chunk, bytes / nexar_dtype_size(b->dtype), b->dtype, b->op);
}

nexar_err nx_device_fill(nx_devmem m, void *dev, size_t count, nexar_dtype dtype, nexar_op op)
{
    const bounce b = {.dst = dev,
                      .bytes = count * nexar_dtype_size(dtype),
                      .compute = compute_fill,
                      .dtype = dtype,
                      .op = op};

    return bounce_run(m, &b);
}

static void compute_divide(const bounce *b, char *chunk, size_t off, size_t bytes)
{
    (void)off;
    nx_reduce_divide(chunk, bytes / nexar_dtype_size(b->dtype), b->dtype, b->divisor);
}

nexar_err nx_device_divide(nx_devmem m, void *dev, size_t count, nexar_dtype dtype,
                           uint32_t divisor)
{
    const bounce b = {.dst = dev,
                      .src = dev,
                      .bytes = count * nexar_dtype_size(dtype),
                      .compute = compute_divide,
                      .dtype = dtype,
                      .divisor = divisor};

    return bounce_run(m, &b);
}

/* ---- reduction ----------------------------------------------------------------------- */

static void compute_reduce(const bounce *b, char *chunk, size_t off, size_t bytes)
{
    nx_reduce(chunk, chunk, b->operand + off, bytes / nexar_dtype_size(b->dtype), b->dtype, b->op);
}

static nexar_err reduce_here(nx_devmem m, void *dev, const void *host, size_t count,
                             nexar_dtype dtype, nexar_op op)
{
    const bounce b = {.dst = dev,
                      .src = dev,
                      .bytes = count * nexar_dtype_size(dtype),
                      .compute = compute_reduce,
                      .operand = host,
                      .dtype = dtype,
                      .op = op};

    atomic_fetch_add(&m.device->reduced, count);
    return bounce_run(m, &b);
}

nexar_err nx_device_reduce(nx_devmem m, void *dev, const void *host, size_t count,
                           nexar_dtype dtype, nexar_op op)
{
    const nexar_device *t = &m.device->table;
    nexar_err err;

    if (count == 0) {
        return NEXAR_OK;
    }
    if (t->reduce == NULL) {
        return reduce_here(m, dev, host, count, dtype, op);
    }
    /* An average is a sum until the final division. */
    err = t->reduce(t->ctx, dev, host, count, dtype, (op == NEXAR_AVG) ? NEXAR_SUM : op, m.stream);
    if (err == NEXAR_ENOTSUP) {
        return reduce_here(m, dev, host, count, dtype, op);
    }
    if (err == NEXAR_OK) {
        atomic_fetch_add(&m.device->reduced_there, count);
    }
    return settle(m, (err == NEXAR_OK) ? NEXAR_OK : nx_device_failed(m.device, "reduce", err));
}
