/*
 * fake_cuda.c - a stand-in for libcuda.so.1: the calls that nexar-cuda makes, on memory
 * that faults when the CPU touches it.
 *
 * It is as strict as the real library may be. A call without a current context is rejected.
 * Copies and kernels wait on their stream until it is synchronized, or until another stream waits
 * for an event after them. Kernels are the loaded PTX, interpreted.
 */
#include "fake_cuda.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/containers/list.h"
#include "driver.h" /* the types, which the calls must match */
#include "ptx_run.h"
#include "sim_memory.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    INVALID_DEVICE = 101,
    INVALID_PTX = 218,
    INVALID_CONTEXT = 201,
    NOT_FOUND = 500,
    ILLEGAL_ADDRESS = 700,
    MEMORY = 64 << 20,
    HOST_BLOCKS = 64,
    STACK = 8,
    POISON = 0xdb,
};

struct CUctx_st {
    int id;
};
struct CUmod_st {
    char *text;
};
struct CUfunc_st {
    nx_list link;
    nxt_ptx_entry *entry;
};
struct CUevent_st {
    nx_cu_stream stream;
    bool recorded;
};

typedef struct work {
    nx_list link;
    nx_cu_stream stream;
    char *real, *host; /* a copy; |to_host| is the direction */
    size_t bytes;
    bool to_host;
    const nxt_ptx_entry *entry; /* a kernel */
    nxt_ptx_launch launch;
} work;

static struct {
    pthread_mutex_t lock;
    bool initialised;
    struct CUctx_st primary;
    nxt_sim_memory memory;
    nx_list works, functions;
    struct {
        char *ptr;
        size_t bytes;
    } host[HOST_BLOCKS];
    nxt_fake_cuda_counts counts;
    int64_t fail_after;
    char why[128];
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .fail_after = -1};

static _Thread_local struct {
    nx_cu_context stack[STACK];
    int depth;
} current;

static void *address(nx_cu_ptr ptr)
{
    return (void *)(uintptr_t)ptr; // NOLINT(performance-no-int-to-ptr)
}

/* ---- entering and leaving a call ---------------------------------------------------------- */

static nx_cu_result enter(bool with_context)
{
    nx_cu_result code = 0;

    (void)pthread_mutex_lock(&fake.lock);
    fake.counts.calls++;
    if (fake.fail_after == 0) {
        code = ILLEGAL_ADDRESS;
    } else if (with_context && (current.depth == 0)) {
        code = INVALID_CONTEXT;
    }
    fake.fail_after -= (fake.fail_after >= 0);
    return code;
}

static nx_cu_result leave(nx_cu_result code)
{
    (void)pthread_mutex_unlock(&fake.lock);
    return code;
}

/* ---- devices and contexts ------------------------------------------------------------------- */

EXPORT nx_cu_result cuInit(unsigned flags);
EXPORT nx_cu_result cuInit(unsigned flags)
{
    nx_cu_result code = enter(false);

    if ((code == 0) && !fake.initialised) {
        nx_list_init(&fake.works);
        nx_list_init(&fake.functions);
        fake.initialised = nxt_sim_memory_init(&fake.memory, MEMORY);
        code = fake.initialised ? 0 : OUT_OF_MEMORY;
    }
    return leave((flags != 0) ? INVALID_VALUE : code);
}

EXPORT nx_cu_result cuGetErrorName(nx_cu_result code, const char **name);
EXPORT nx_cu_result cuGetErrorName(nx_cu_result code, const char **name)
{
    *name = (code == ILLEGAL_ADDRESS) ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return (*name == NULL) ? INVALID_VALUE : 0;
}

EXPORT nx_cu_result cuDeviceGetCount(int *count);
EXPORT nx_cu_result cuDeviceGetCount(int *count)
{
    *count = 1;
    return leave(enter(false));
}

EXPORT nx_cu_result cuDeviceGet(nx_cu_device *device, int ordinal);
EXPORT nx_cu_result cuDeviceGet(nx_cu_device *device, int ordinal)
{
    nx_cu_result code = enter(false);

    *device = ordinal;
    return leave((ordinal != 0) ? INVALID_DEVICE : code);
}

EXPORT nx_cu_result cuDeviceGetName(char *name, int len, nx_cu_device device);
EXPORT nx_cu_result cuDeviceGetName(char *name, int len, nx_cu_device device)
{
    (void)device;
    (void)snprintf(name, (size_t)len, "stand-in");
    return 0;
}

EXPORT nx_cu_result cuDeviceGetAttribute(int *value, int attribute, nx_cu_device device);
EXPORT nx_cu_result cuDeviceGetAttribute(int *value, int attribute, nx_cu_device device)
{
    *value = (attribute == NX_CU_ATTRIBUTE_UNIFIED);
    return (device != 0) ? INVALID_DEVICE : 0;
}

EXPORT nx_cu_result cuDevicePrimaryCtxRetain(nx_cu_context *context, nx_cu_device device);
EXPORT nx_cu_result cuDevicePrimaryCtxRetain(nx_cu_context *context, nx_cu_device device)
{
    nx_cu_result code = enter(false);

    if (code == 0) {
        fake.counts.contexts++;
        *context = &fake.primary;
    }
    return leave((device != 0) ? INVALID_DEVICE : code);
}

EXPORT nx_cu_result cuDevicePrimaryCtxRelease_v2(nx_cu_device device);
EXPORT nx_cu_result cuDevicePrimaryCtxRelease_v2(nx_cu_device device)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.counts.contexts--;
    return leave((device != 0) ? INVALID_DEVICE : 0);
}

EXPORT nx_cu_result cuCtxPushCurrent_v2(nx_cu_context context);
EXPORT nx_cu_result cuCtxPushCurrent_v2(nx_cu_context context)
{
    nx_cu_result code = enter(false);

    if ((context != &fake.primary) || (current.depth == STACK)) {
        code = INVALID_CONTEXT;
    }
    if (code == 0) {
        current.stack[current.depth++] = context;
    }
    return leave(code);
}

EXPORT nx_cu_result cuCtxPopCurrent_v2(nx_cu_context *context);
EXPORT nx_cu_result cuCtxPopCurrent_v2(nx_cu_context *context)
{
    if (current.depth == 0) {
        return INVALID_CONTEXT;
    }
    *context = current.stack[--current.depth];
    return 0;
}

/* ---- memory ------------------------------------------------------------------------------------
 */

EXPORT nx_cu_result cuMemAlloc_v2(nx_cu_ptr *ptr, size_t bytes);
EXPORT nx_cu_result cuMemAlloc_v2(nx_cu_ptr *ptr, size_t bytes)
{
    nx_cu_result code = enter(true);
    void *made = (code == 0) ? nxt_sim_memory_alloc(&fake.memory, bytes) : NULL;

    if ((code == 0) && (made == NULL)) {
        code = OUT_OF_MEMORY;
    }
    if (code == 0) {
        *ptr = (nx_cu_ptr)(uintptr_t)made;
        fake.counts.device_blocks++;
    }
    return leave((bytes == 0) ? INVALID_VALUE : code);
}

EXPORT nx_cu_result cuMemFree_v2(nx_cu_ptr ptr);
EXPORT nx_cu_result cuMemFree_v2(nx_cu_ptr ptr)
{
    (void)pthread_mutex_lock(&fake.lock);
    if (nxt_sim_memory_real(&fake.memory, address(ptr), 1) == NULL) {
        return leave(INVALID_VALUE);
    }
    if (--fake.counts.device_blocks == 0) {
        nxt_sim_memory_reset(&fake.memory);
    }
    return leave(0);
}

EXPORT nx_cu_result cuMemHostAlloc(void **host, size_t bytes, unsigned flags);
EXPORT nx_cu_result cuMemHostAlloc(void **host, size_t bytes, unsigned flags)
{
    nx_cu_result code = enter(true);
    size_t i = 0;

    while ((i < HOST_BLOCKS) && (fake.host[i].ptr != NULL)) {
        i++;
    }
    if ((code == 0) && ((i == HOST_BLOCKS) || (flags != NX_CU_HOST_PORTABLE))) {
        code = (i == HOST_BLOCKS) ? OUT_OF_MEMORY : INVALID_VALUE;
    }
    if (code == 0) {
        fake.host[i].ptr = malloc(bytes);
        fake.host[i].bytes = bytes;
        fake.counts.host_blocks++;
        *host = fake.host[i].ptr;
    }
    return leave(code);
}

EXPORT nx_cu_result cuMemFreeHost(void *host);
EXPORT nx_cu_result cuMemFreeHost(void *host)
{
    nx_cu_result code = INVALID_VALUE;

    (void)pthread_mutex_lock(&fake.lock);
    for (size_t i = 0; i < HOST_BLOCKS; i++) {
        if ((host != NULL) && (fake.host[i].ptr == host)) {
            fake.host[i].ptr = NULL;
            fake.counts.host_blocks--;
            code = 0;
            free(host);
            break;
        }
    }
    return leave(code);
}

static bool is_pinned(const char *ptr, size_t bytes)
{
    for (size_t i = 0; i < HOST_BLOCKS; i++) {
        if ((fake.host[i].ptr != NULL) && (ptr >= fake.host[i].ptr) &&
            (ptr + bytes <= fake.host[i].ptr + fake.host[i].bytes)) {
            return true;
        }
    }
    return false;
}

/* ---- streams
 * ------------------------------------------------------------------------------------- */

static nx_cu_result push(const work *what)
{
    work *w = malloc(sizeof(*w));

    if (w == NULL) {
        return OUT_OF_MEMORY;
    }
    *w = *what;
    nx_list_push_back(&fake.works, &w->link);
    return 0;
}

static nx_cu_result push_copy(char *host, nx_cu_ptr dev, size_t bytes, nx_cu_stream stream,
                              bool to_host)
{
    work w = {.stream = stream, .host = host, .bytes = bytes, .to_host = to_host};
    nx_cu_result code = enter(true);

    if (code != 0) {
        return leave(code);
    }
    w.real = nxt_sim_memory_real(&fake.memory, address(dev), bytes);
    if ((w.real == NULL) || nxt_sim_memory_touches(&fake.memory, host, bytes)) {
        return leave(INVALID_VALUE);
    }
    fake.counts.from_pinned += is_pinned(host, bytes) ? bytes : 0;
    fake.counts.to_host += to_host ? bytes : 0;
    fake.counts.to_device += to_host ? 0 : bytes;
    if (to_host) {
        memset(host, POISON, bytes);
    }
    return leave(push(&w));
}

EXPORT nx_cu_result cuMemcpyHtoDAsync_v2(nx_cu_ptr dev, const void *host, size_t bytes,
                                         nx_cu_stream stream);
EXPORT nx_cu_result cuMemcpyHtoDAsync_v2(nx_cu_ptr dev, const void *host, size_t bytes,
                                         nx_cu_stream stream)
{
    return push_copy((char *)host, dev, bytes, stream, false);
}

EXPORT nx_cu_result cuMemcpyDtoHAsync_v2(void *host, nx_cu_ptr dev, size_t bytes,
                                         nx_cu_stream stream);
EXPORT nx_cu_result cuMemcpyDtoHAsync_v2(void *host, nx_cu_ptr dev, size_t bytes,
                                         nx_cu_stream stream)
{
    return push_copy(host, dev, bytes, stream, true);
}

static nx_cu_result run_one(const work *w)
{
    if (w->entry != NULL) {
        return nxt_ptx_run(w->entry, &w->launch) ? 0 : ILLEGAL_ADDRESS;
    }
    if (w->to_host) {
        memcpy(w->host, w->real, w->bytes);
    } else {
        memcpy(w->real, w->host, w->bytes);
    }
    return 0;
}

/* Executes all work on |stream|, in order. */
static nx_cu_result drain(nx_cu_stream stream)
{
    nx_cu_result code = 0;

    nx_list_for_each (at, &fake.works) {
        work *w = nx_list_entry(at, work, link);

        if (w->stream == stream) {
            nx_list_remove(at);
            code = (code == 0) ? run_one(w) : code;
            free(w);
        }
    }
    return code;
}

EXPORT nx_cu_result cuStreamSynchronize(nx_cu_stream stream);
EXPORT nx_cu_result cuStreamSynchronize(nx_cu_stream stream)
{
    nx_cu_result code = enter(true), ran = drain(stream);

    return leave((code == 0) ? ran : code);
}

EXPORT nx_cu_result cuEventCreate(nx_cu_event *event, unsigned flags);
EXPORT nx_cu_result cuEventCreate(nx_cu_event *event, unsigned flags)
{
    nx_cu_result code = enter(true);

    if ((code == 0) && (flags == NX_CU_EVENT_NO_TIMING)) {
        *event = calloc(1, sizeof(**event));
        fake.counts.events++;
    }
    return leave(code);
}

EXPORT nx_cu_result cuEventRecord(nx_cu_event event, nx_cu_stream stream);
EXPORT nx_cu_result cuEventRecord(nx_cu_event event, nx_cu_stream stream)
{
    nx_cu_result code = enter(true);

    if (code == 0) {
        event->stream = stream;
        event->recorded = true;
    }
    return leave(code);
}

/* Executes the work before the event now, so that no stream has to wait. */
EXPORT nx_cu_result cuStreamWaitEvent(nx_cu_stream stream, nx_cu_event event, unsigned flags);
EXPORT nx_cu_result cuStreamWaitEvent(nx_cu_stream stream, nx_cu_event event, unsigned flags)
{
    nx_cu_result code = enter(true);

    if ((code == 0) && event->recorded && (event->stream != stream)) {
        code = drain(event->stream);
    }
    return leave((flags != 0) ? INVALID_VALUE : code);
}

EXPORT nx_cu_result cuEventDestroy_v2(nx_cu_event event);
EXPORT nx_cu_result cuEventDestroy_v2(nx_cu_event event)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.counts.events--;
    free(event);
    return leave(0);
}

/* ---- kernels
 * --------------------------------------------------------------------------------------- */

EXPORT nx_cu_result cuModuleLoadData(nx_cu_module *module, const void *image);
EXPORT nx_cu_result cuModuleLoadData(nx_cu_module *module, const void *image)
{
    nx_cu_result code = enter(true);

    if ((code == 0) && (strncmp(image, ".version ", 9) != 0)) {
        code = INVALID_PTX;
    }
    if (code == 0) {
        *module = malloc(sizeof(**module));
        (*module)->text = strdup(image);
        fake.counts.modules++;
    }
    return leave(code);
}

EXPORT nx_cu_result cuModuleUnload(nx_cu_module module);
EXPORT nx_cu_result cuModuleUnload(nx_cu_module module)
{
    nx_list *at;

    (void)pthread_mutex_lock(&fake.lock);
    while ((at = nx_list_pop(&fake.functions)) != NULL) {
        struct CUfunc_st *f = nx_list_entry(at, struct CUfunc_st, link);

        nxt_ptx_free(f->entry);
        free(f);
    }
    free(module->text);
    free(module);
    fake.counts.modules--;
    return leave(0);
}

EXPORT nx_cu_result cuModuleGetFunction(nx_cu_function *function, nx_cu_module module,
                                        const char *name);
EXPORT nx_cu_result cuModuleGetFunction(nx_cu_function *function, nx_cu_module module,
                                        const char *name)
{
    nx_cu_result code = enter(true);
    struct CUfunc_st *f;

    if (code != 0) {
        return leave(code);
    }
    f = calloc(1, sizeof(*f));
    f->entry = nxt_ptx_read(module->text, name, fake.why);
    if (f->entry == NULL) {
        free(f);
        return leave(NOT_FOUND);
    }
    nx_list_push_back(&fake.functions, &f->link);
    *function = f;
    return leave(0);
}

static void *device_memory(void *ctx, uint64_t at, size_t bytes)
{
    (void)ctx;
    return nxt_sim_memory_real(&fake.memory, address(at), bytes);
}

EXPORT nx_cu_result cuLaunchKernel(nx_cu_function function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, nx_cu_stream stream,
                                   void **params, void **extra);
// NOLINTNEXTLINE(readability-function-size): the driver's signature
EXPORT nx_cu_result cuLaunchKernel(nx_cu_function function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared, nx_cu_stream stream,
                                   void **params, void **extra)
{
    work w = {.stream = stream,
              .entry = function->entry,
              .launch = {.grid = grid_x, .block = block_x, .memory = device_memory}};
    nx_cu_result code = enter(true);

    if ((grid_x == 0) || (grid_y != 1) || (grid_z != 1) || (block_x == 0) || (block_x > 1024) ||
        (block_y != 1) || (block_z != 1) || (shared != 0) || (extra != NULL)) {
        code = INVALID_VALUE;
    }
    if (code != 0) {
        return leave(code);
    }
    for (size_t i = 0; i < nxt_ptx_nparams(function->entry); i++) {
        memcpy(&w.launch.params[i], params[i], sizeof(uint64_t));
    }
    fake.counts.launches++;
    return leave(push(&w));
}

/* ---- for tests
 * -------------------------------------------------------------------------------------- */

EXPORT void nxt_fake_cuda_get(nxt_fake_cuda_counts *out)
{
    (void)pthread_mutex_lock(&fake.lock);
    *out = fake.counts;
    (void)leave(0);
}

EXPORT void nxt_fake_cuda_fail(int64_t n)
{
    (void)pthread_mutex_lock(&fake.lock);
    fake.fail_after = n;
    (void)leave(0);
}

EXPORT const char *nxt_fake_cuda_why(void)
{
    return fake.why;
}
