/*
 * driver.h - the functions of the CUDA driver that the adapter uses, as in the driver's
 * documentation. The adapter finds them by dlsym, so building needs no part of CUDA.
 */
#ifndef NEXAR_CUDA_DRIVER_H
#define NEXAR_CUDA_DRIVER_H

#include <stddef.h>

typedef int nx_cu_result; /* CUresult: 0 is success */
typedef int nx_cu_device; /* CUdevice */
typedef unsigned long long nx_cu_ptr;
typedef struct CUctx_st *nx_cu_context;
typedef struct CUmod_st *nx_cu_module;
typedef struct CUfunc_st *nx_cu_function;
typedef struct CUstream_st *nx_cu_stream;
typedef struct CUevent_st *nx_cu_event;

enum {
    NX_CU_OUT_OF_MEMORY = 2,      /* CUDA_ERROR_OUT_OF_MEMORY */
    NX_CU_HOST_PORTABLE = 1,      /* CU_MEMHOSTALLOC_PORTABLE */
    NX_CU_EVENT_NO_TIMING = 2,    /* CU_EVENT_DISABLE_TIMING */
    NX_CU_ATTRIBUTE_UNIFIED = 41, /* CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING */
};

/* X(symbol in the library, name here, parameters) */
#define NX_CU_LIST(X)                                                                              \
    X(cuInit, init, (unsigned flags))                                                              \
    X(cuGetErrorName, error_name, (nx_cu_result code, const char **name))                          \
    X(cuDeviceGetCount, device_count, (int *count))                                                \
    X(cuDeviceGet, device_get, (nx_cu_device * device, int ordinal))                               \
    X(cuDeviceGetName, device_name, (char *name, int len, nx_cu_device device))                    \
    X(cuDeviceGetAttribute, device_attribute, (int *value, int attribute, nx_cu_device device))    \
    X(cuDevicePrimaryCtxRetain, primary_retain, (nx_cu_context * context, nx_cu_device device))    \
    X(cuDevicePrimaryCtxRelease_v2, primary_release, (nx_cu_device device))                        \
    X(cuCtxPushCurrent_v2, ctx_push, (nx_cu_context context))                                      \
    X(cuCtxPopCurrent_v2, ctx_pop, (nx_cu_context * context))                                      \
    X(cuMemAlloc_v2, mem_alloc, (nx_cu_ptr * ptr, size_t bytes))                                   \
    X(cuMemFree_v2, mem_free, (nx_cu_ptr ptr))                                                     \
    X(cuMemHostAlloc, host_alloc, (void **host, size_t bytes, unsigned flags))                     \
    X(cuMemFreeHost, host_free, (void *host))                                                      \
    X(cuMemcpyHtoDAsync_v2, to_device,                                                             \
      (nx_cu_ptr dev, const void *host, size_t bytes, nx_cu_stream stream))                        \
    X(cuMemcpyDtoHAsync_v2, to_host,                                                               \
      (void *host, nx_cu_ptr dev, size_t bytes, nx_cu_stream stream))                              \
    X(cuStreamSynchronize, stream_sync, (nx_cu_stream stream))                                     \
    X(cuStreamWaitEvent, stream_wait, (nx_cu_stream stream, nx_cu_event event, unsigned flags))    \
    X(cuEventCreate, event_create, (nx_cu_event * event, unsigned flags))                          \
    X(cuEventRecord, event_record, (nx_cu_event event, nx_cu_stream stream))                       \
    X(cuEventDestroy_v2, event_destroy, (nx_cu_event event))                                       \
    X(cuModuleLoadData, module_load, (nx_cu_module * module, const void *image))                   \
    X(cuModuleUnload, module_unload, (nx_cu_module module))                                        \
    X(cuModuleGetFunction, module_function,                                                        \
      (nx_cu_function * function, nx_cu_module module, const char *name))                          \
    X(cuLaunchKernel, launch,                                                                      \
      (nx_cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,                 \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, nx_cu_stream stream, \
       void **params, void **extra))

typedef struct nx_cu_driver {
    void *library;
#define X(SYMBOL, NAME, PARAMS) nx_cu_result(*NAME) PARAMS;
    NX_CU_LIST(X)
#undef X
} nx_cu_driver;

#endif /* NEXAR_CUDA_DRIVER_H */
