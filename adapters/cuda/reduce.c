/*
 * reduce.c - reductions as kernels.
 *
 * The host's operand is copied to one of a few buffers on the device, in pieces, and a kernel
 * combines it with the device's own. A buffer is reused when the kernel that reads it has
 * completed. The stream of the next copy waits for an event of that kernel, so no thread waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* ---- the module ------------------------------------------------------------------------ */

/* Concatenates the parts; NULL: out of memory. */
static char *join_parts(void)
{
    size_t bytes = 1, at = 0;
    char *text;

    for (size_t i = 0; i < nx_cu_ptx_parts; i++) {
        bytes += strlen(nx_cu_ptx[i]);
    }
    text = malloc(bytes);
    if (text == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < nx_cu_ptx_parts; i++) {
        size_t len = strlen(nx_cu_ptx[i]);

        memcpy(text + at, nx_cu_ptx[i], len);
        at += len;
    }
    text[at] = '\0';
    return text;
}

nexar_err nx_cu_reduce_init(nexar_cuda *cuda)
{
    char *text = join_parts();
    nexar_err err;

    if (text == NULL) {
        return nx_cu_refuse(NEXAR_ENOMEM, "out of memory for the kernels");
    }
    err = nx_cu_result_of(cuda, "cuModuleLoadData", cuda->driver.module_load(&cuda->module, text));
    free(text);
    return err;
}

void nx_cu_reduce_fini(nexar_cuda *cuda)
{
    for (unsigned i = 0; i < NX_CU_TEMPS; i++) {
        if (cuda->temps[i].free != NULL) {
            (void)cuda->driver.event_destroy(cuda->temps[i].free);
        }
        if (cuda->temps[i].mem != 0) {
            (void)cuda->driver.mem_free(cuda->temps[i].mem);
        }
    }
    if (cuda->module != NULL) {
        (void)cuda->driver.module_unload(cuda->module);
    }
}

static bool can_reduce(nexar_dtype dtype, nexar_op op)
{
    const bool is_float = (dtype == NEXAR_F32) || (dtype == NEXAR_F64) || (dtype == NEXAR_F16) ||
                          (dtype == NEXAR_BF16);
    const bool bitwise = (op == NEXAR_BAND) || (op == NEXAR_BOR) || (op == NEXAR_BXOR);

    return ((unsigned)dtype < NX_CU_DTYPES) && ((unsigned)op < NX_CU_OPS) && (op != NEXAR_AVG) &&
           !(is_float && bitwise);
}

/* ---- one piece, with lock and context ------------------------------------------------------ */

static nexar_err function_of(nexar_cuda *cuda, nexar_dtype dtype, nexar_op op)
{
    char name[32];

    if (cuda->functions[dtype][op] != NULL) {
        return NEXAR_OK;
    }
    (void)snprintf(name, sizeof(name), "%s_%s", nexar_op_name(op), nexar_dtype_name(dtype));
    return nx_cu_result_of(
        cuda, "cuModuleGetFunction",
        cuda->driver.module_function(&cuda->functions[dtype][op], cuda->module, name));
}

/* Creates |temp| if needed, then makes |stream| wait until |temp| is free. */
static nexar_err temp_ready(nexar_cuda *cuda, nx_cu_temp *temp, nx_cu_stream stream)
{
    nexar_err err = NEXAR_OK;

    if (temp->free == NULL) {
        err = nx_cu_result_of(cuda, "cuEventCreate",
                              cuda->driver.event_create(&temp->free, NX_CU_EVENT_NO_TIMING));
    }
    if ((err == NEXAR_OK) && (temp->mem == 0)) {
        return nx_cu_result_of(cuda, "cuMemAlloc",
                               cuda->driver.mem_alloc(&temp->mem, NX_CU_TEMP_BYTES));
    }
    return (err == NEXAR_OK) ? nx_cu_result_of(cuda, "cuStreamWaitEvent",
                                               cuda->driver.stream_wait(stream, temp->free, 0))
                             : err;
}

typedef struct piece {
    nx_cu_function function;
    nx_cu_ptr dst;
    const void *host;
    unsigned long long count;
    size_t bytes;
} piece;

static nexar_err run_piece(nexar_cuda *cuda, piece *p, nx_cu_stream stream)
{
    nx_cu_temp *temp = &cuda->temps[cuda->next_temp];
    const unsigned grid = (unsigned)((p->count + NX_CU_BLOCK - 1) / NX_CU_BLOCK);
    void *params[] = {&p->dst, &temp->mem, &p->count};
    nexar_err err = temp_ready(cuda, temp, stream);

    cuda->next_temp = (cuda->next_temp + 1) % NX_CU_TEMPS;
    if (err == NEXAR_OK) {
        err = nx_cu_result_of(cuda, "cuMemcpyHtoDAsync",
                              cuda->driver.to_device(temp->mem, p->host, p->bytes, stream));
    }
    if (err == NEXAR_OK) {
        err = nx_cu_result_of(cuda, "cuLaunchKernel",
                              cuda->driver.launch(p->function, grid, 1, 1, NX_CU_BLOCK, 1, 1, 0,
                                                  stream, params, NULL));
    }
    if (err == NEXAR_OK) {
        err = nx_cu_result_of(cuda, "cuEventRecord", cuda->driver.event_record(temp->free, stream));
    }
    return err;
}

static nexar_err run_pieces(nexar_cuda *cuda, piece whole, size_t size, nx_cu_stream stream)
{
    const size_t most = NX_CU_TEMP_BYTES / size;
    const size_t count = whole.count;
    nexar_err err = NEXAR_OK;

    for (size_t done = 0; (err == NEXAR_OK) && (done < count);) {
        const size_t n = (count - done < most) ? count - done : most;
        piece p = {.function = whole.function,
                   .dst = whole.dst + done * size,
                   .host = (const char *)whole.host + done * size,
                   .count = n,
                   .bytes = n * size};

        err = run_piece(cuda, &p, stream);
        done += n;
    }
    return err;
}

nexar_err nx_cu_reduce(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                       nexar_op op, void *stream)
{
    nexar_cuda *cuda = ctx;
    const size_t size = nexar_dtype_size(dtype);
    nexar_err err;

    if (!can_reduce(dtype, op) || ((uintptr_t)dev % size != 0)) {
        return NEXAR_ENOTSUP;
    }
    err = nx_cu_enter(cuda);
    if (err != NEXAR_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&cuda->lock);
    err = function_of(cuda, dtype, op);
    if (err == NEXAR_OK) {
        const piece whole = {.function = cuda->functions[dtype][op],
                             .dst = (nx_cu_ptr)(uintptr_t)dev,
                             .host = host,
                             .count = count};

        err = run_pieces(cuda, whole, size, stream);
    }
    (void)pthread_mutex_unlock(&cuda->lock);
    return nx_cu_leave(cuda, err);
}
