/* cuda.c - the adapter: the driver, its context, its table, its copies. */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* ---- errors -------------------------------------------------------------------------- */

enum { ROOM = 512 };

static pthread_mutex_t last_lock = PTHREAD_MUTEX_INITIALIZER;
static char last[ROOM];

nexar_err nx_cu_refuse(nexar_err err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)pthread_mutex_lock(&last_lock);
    (void)vsnprintf(last, sizeof(last), format, args);
    (void)pthread_mutex_unlock(&last_lock);
    va_end(args);
    return err;
}

nexar_err nx_cu_result_of(const nexar_cuda *cuda, const char *call, nx_cu_result code)
{
    const char *name = NULL;

    if (code == 0) {
        return NEXAR_OK;
    }
    if ((cuda->driver.error_name(code, &name) != 0) || (name == NULL)) {
        name = "an unknown error";
    }
    return nx_cu_refuse((code == NX_CU_OUT_OF_MEMORY) ? NEXAR_ENOMEM : NEXAR_EDEVICE,
                        "%s returned %s (%d)", call, name, code);
}

const char *nexar_cuda_last_error(void)
{
    static _Thread_local char mine[ROOM];

    (void)pthread_mutex_lock(&last_lock);
    memcpy(mine, last, sizeof(mine));
    (void)pthread_mutex_unlock(&last_lock);
    return mine;
}

/* ---- the driver ------------------------------------------------------------------------ */

static nexar_err load(nx_cu_driver *driver)
{
    static const struct symbol {
        const char *name;
        size_t at;
    } symbols[] = {
#define X(SYMBOL, NAME, PARAMS) {#SYMBOL, offsetof(nx_cu_driver, NAME)},
        NX_CU_LIST(X)
#undef X
    };

    driver->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL) {
        // NOLINTNEXTLINE(concurrency-mt-unsafe): of this thread, in glibc
        return nx_cu_refuse(NEXAR_ENOTSUP, "no CUDA driver: %s", dlerror());
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(driver->library, symbols[i].name);

        if (found == NULL) {
            return nx_cu_refuse(NEXAR_ENOTSUP, "the CUDA driver has no %s; 11.0 or newer is needed",
                                symbols[i].name);
        }
        /* memcpy avoids a cast from an object pointer to a function pointer (POSIX, dlsym). */
        memcpy((char *)driver + symbols[i].at, &found, sizeof(found));
    }
    return NEXAR_OK;
}

nexar_err nx_cu_enter(const nexar_cuda *cuda)
{
    return nx_cu_result_of(cuda, "cuCtxPushCurrent", cuda->driver.ctx_push(cuda->context));
}

nexar_err nx_cu_leave(const nexar_cuda *cuda, nexar_err err)
{
    nx_cu_context popped;

    (void)cuda->driver.ctx_pop(&popped);
    return err;
}

/* ---- copies ------------------------------------------------------------------------------ */

static nx_cu_ptr ptr_of(const void *dev)
{
    return (nx_cu_ptr)(uintptr_t)dev;
}

static nexar_err to_host_inside(const nexar_cuda *cuda, void *host, const void *dev, size_t bytes,
                                void *stream)
{
    return nx_cu_result_of(cuda, "cuMemcpyDtoHAsync",
                           cuda->driver.to_host(host, ptr_of(dev), bytes, stream));
}

static nexar_err to_device_inside(const nexar_cuda *cuda, void *dev, const void *host, size_t bytes,
                                  void *stream)
{
    return nx_cu_result_of(cuda, "cuMemcpyHtoDAsync",
                           cuda->driver.to_device(ptr_of(dev), host, bytes, stream));
}

static nexar_err to_host(void *ctx, void *host, const void *dev, size_t bytes, void *stream)
{
    nexar_err err = nx_cu_enter(ctx);

    return (err != NEXAR_OK) ? err
                             : nx_cu_leave(ctx, to_host_inside(ctx, host, dev, bytes, stream));
}

static nexar_err to_device(void *ctx, void *dev, const void *host, size_t bytes, void *stream)
{
    nexar_err err = nx_cu_enter(ctx);

    return (err != NEXAR_OK) ? err
                             : nx_cu_leave(ctx, to_device_inside(ctx, dev, host, bytes, stream));
}

static nexar_err synchronize(void *ctx, void *stream)
{
    const nexar_cuda *cuda = ctx;
    nexar_err err = nx_cu_enter(cuda);

    if (err != NEXAR_OK) {
        return err;
    }
    return nx_cu_leave(
        cuda, nx_cu_result_of(cuda, "cuStreamSynchronize", cuda->driver.stream_sync(stream)));
}

static nexar_err gather(void *ctx, void *host, const nexar_iov *regions, size_t n, void *stream)
{
    char *at = host;
    nexar_err err = nx_cu_enter(ctx);

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_host_inside(ctx, at, regions[i].ptr, regions[i].bytes, stream);
        }
        at += regions[i].bytes;
    }
    return nx_cu_leave(ctx, err);
}

static nexar_err scatter(void *ctx, const nexar_iov *regions, size_t n, const void *host,
                         void *stream)
{
    const char *at = host;
    nexar_err err = nx_cu_enter(ctx);

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_device_inside(ctx, regions[i].ptr, at, regions[i].bytes, stream);
        }
        at += regions[i].bytes;
    }
    return nx_cu_leave(ctx, err);
}

static void *alloc_host(void *ctx, size_t bytes)
{
    const nexar_cuda *cuda = ctx;
    void *host = NULL;

    if (nx_cu_enter(cuda) != NEXAR_OK) {
        return NULL;
    }
    if (nx_cu_result_of(cuda, "cuMemHostAlloc",
                        cuda->driver.host_alloc(&host, bytes, NX_CU_HOST_PORTABLE)) != NEXAR_OK) {
        host = NULL;
    }
    (void)nx_cu_leave(cuda, NEXAR_OK);
    return host;
}

static void free_host(void *ctx, void *host)
{
    const nexar_cuda *cuda = ctx;

    if (nx_cu_enter(cuda) == NEXAR_OK) {
        (void)cuda->driver.host_free(host);
        (void)nx_cu_leave(cuda, NEXAR_OK);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static nexar_err find_device(nexar_cuda *cuda, int ordinal)
{
    const nx_cu_driver *d = &cuda->driver;
    int count = 0, unified = 0;
    char name[96] = "?";
    nexar_err err = nx_cu_result_of(cuda, "cuInit", d->init(0));

    if (err == NEXAR_OK) {
        err = nx_cu_result_of(cuda, "cuDeviceGetCount", d->device_count(&count));
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if ((ordinal < 0) || (ordinal >= count)) {
        return nx_cu_refuse(NEXAR_EINVAL, "create: there is no device %d; there are %d, from 0",
                            ordinal, count);
    }
    err = nx_cu_result_of(cuda, "cuDeviceGet", d->device_get(&cuda->device, ordinal));
    if (err != NEXAR_OK) {
        return err;
    }
    if ((d->device_attribute(&unified, NX_CU_ATTRIBUTE_UNIFIED, cuda->device) != 0) ||
        (unified == 0)) {
        return nx_cu_refuse(NEXAR_ENOTSUP, "create: device %d has no unified addressing", ordinal);
    }
    (void)d->device_name(name, sizeof(name) - 1, cuda->device);
    (void)snprintf(cuda->name, sizeof(cuda->name), "cuda %d (%s)", ordinal, name);
    return nx_cu_result_of(cuda, "cuDevicePrimaryCtxRetain",
                           d->primary_retain(&cuda->context, cuda->device));
}

static nexar_err open_device(nexar_cuda *cuda, int ordinal)
{
    nexar_err err = load(&cuda->driver);

    if (err == NEXAR_OK) {
        err = find_device(cuda, ordinal);
    }
    if (err == NEXAR_OK) {
        err = nx_cu_enter(cuda);
    }
    return (err == NEXAR_OK) ? nx_cu_leave(cuda, nx_cu_reduce_init(cuda)) : err;
}

nexar_err nexar_cuda_create(int ordinal, nexar_cuda **out)
{
    nexar_cuda *cuda;
    nexar_err err;

    if (out == NULL) {
        return nx_cu_refuse(NEXAR_EINVAL, "create: out is NULL");
    }
    cuda = calloc(1, sizeof(*cuda));
    if (cuda == NULL) {
        return nx_cu_refuse(NEXAR_ENOMEM, "out of memory");
    }
    (void)pthread_mutex_init(&cuda->lock, NULL);
    err = open_device(cuda, ordinal);
    if (err != NEXAR_OK) {
        nexar_cuda_destroy(cuda);
        return err;
    }
    cuda->table = (nexar_device){.name = cuda->name,
                                 .to_host = to_host,
                                 .to_device = to_device,
                                 .synchronize = synchronize,
                                 .reduce = nx_cu_reduce,
                                 .gather = gather,
                                 .scatter = scatter,
                                 .alloc_host = alloc_host,
                                 .free_host = free_host,
                                 .ctx = cuda};
    *out = cuda;
    return NEXAR_OK;
}

void nexar_cuda_destroy(nexar_cuda *cuda)
{
    if (cuda == NULL) {
        return;
    }
    if (cuda->context != NULL) {
        if (nx_cu_enter(cuda) == NEXAR_OK) {
            nx_cu_reduce_fini(cuda);
            (void)nx_cu_leave(cuda, NEXAR_OK);
        }
        (void)cuda->driver.primary_release(cuda->device);
    }
    if (cuda->driver.library != NULL) {
        (void)dlclose(cuda->driver.library);
    }
    (void)pthread_mutex_destroy(&cuda->lock);
    free(cuda);
}

const nexar_device *nexar_cuda_device(const nexar_cuda *cuda)
{
    return (cuda == NULL) ? NULL : &cuda->table;
}

nexar_err nexar_cuda_alloc(nexar_cuda *cuda, size_t bytes, void **ptr)
{
    nx_cu_ptr made = 0;
    nexar_err err;

    if ((cuda == NULL) || (ptr == NULL) || (bytes == 0)) {
        return nx_cu_refuse(NEXAR_EINVAL, "alloc: cuda and ptr must not be NULL, nor bytes 0");
    }
    err = nx_cu_enter(cuda);
    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_cu_leave(cuda,
                      nx_cu_result_of(cuda, "cuMemAlloc", cuda->driver.mem_alloc(&made, bytes)));
    if (err == NEXAR_OK) {
        *ptr = (void *)(uintptr_t)made; // NOLINT(performance-no-int-to-ptr)
    }
    return err;
}

void nexar_cuda_free(nexar_cuda *cuda, void *ptr)
{
    if ((cuda != NULL) && (ptr != NULL) && (nx_cu_enter(cuda) == NEXAR_OK)) {
        (void)cuda->driver.mem_free(ptr_of(ptr));
        (void)nx_cu_leave(cuda, NEXAR_OK);
    }
}
