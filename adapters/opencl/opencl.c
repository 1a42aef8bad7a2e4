/* opencl.c - the adapter: creation, function table, copies. */
#include <stdio.h>
#include <stdlib.h>

#include "inner.h"

/* ---- copies ------------------------------------------------------------------------ */

static nexar_err to_host(void *ctx, void *host, const void *dev, size_t bytes, void *stream)
{
    nexar_opencl *cl = ctx;
    size_t off;
    cl_mem mem;
    cl_int code;
    nexar_err err = nx_cl_find(cl, dev, bytes, &mem, &off);

    if (err != NEXAR_OK) {
        return err;
    }
    code = clEnqueueReadBuffer(nx_cl_queue_of(cl, stream), mem, CL_FALSE, off, bytes, host, 0, NULL,
                               NULL);
    return (code == CL_SUCCESS) ? NEXAR_OK : nx_cl_failed("clEnqueueReadBuffer", code);
}

static nexar_err to_device(void *ctx, void *dev, const void *host, size_t bytes, void *stream)
{
    nexar_opencl *cl = ctx;
    size_t off;
    cl_mem mem;
    cl_int code;
    nexar_err err = nx_cl_find(cl, dev, bytes, &mem, &off);

    if (err != NEXAR_OK) {
        return err;
    }
    code = clEnqueueWriteBuffer(nx_cl_queue_of(cl, stream), mem, CL_FALSE, off, bytes, host, 0,
                                NULL, NULL);
    return (code == CL_SUCCESS) ? NEXAR_OK : nx_cl_failed("clEnqueueWriteBuffer", code);
}

static nexar_err synchronize(void *ctx, void *stream)
{
    cl_int code = clFinish(nx_cl_queue_of(ctx, stream));

    return (code == CL_SUCCESS) ? NEXAR_OK : nx_cl_failed("clFinish", code);
}

static nexar_err gather(void *ctx, void *host, const nexar_iov *regions, size_t n, void *stream)
{
    char *at = host;
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_host(ctx, at, regions[i].ptr, regions[i].bytes, stream);
        }
        at += regions[i].bytes;
    }
    return err;
}

static nexar_err scatter(void *ctx, const nexar_iov *regions, size_t n, const void *host,
                         void *stream)
{
    const char *at = host;
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        if (regions[i].bytes != 0) {
            err = to_device(ctx, regions[i].ptr, at, regions[i].bytes, stream);
        }
        at += regions[i].bytes;
    }
    return err;
}

/* ---- devices and queues ---------------------------------------------------------------- */

/* The first device of |type| on any platform; NULL: there is none. */
static cl_device_id first_device(cl_device_type type)
{
    cl_platform_id platforms[16];
    cl_uint n = 0;
    cl_device_id device = NULL;

    if (clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS) {
        return NULL;
    }
    n = (n < 16) ? n : 16;
    for (cl_uint i = 0; (device == NULL) && (i < n); i++) {
        if (clGetDeviceIDs(platforms[i], type, 1, &device, NULL) != CL_SUCCESS) {
            device = NULL;
        }
    }
    return device;
}

static nexar_err own_queue(nexar_opencl *cl)
{
    cl_int code;

    cl->device = first_device(CL_DEVICE_TYPE_GPU);
    if (cl->device == NULL) {
        cl->device = first_device(CL_DEVICE_TYPE_ALL);
    }
    if (cl->device == NULL) {
        return nx_cl_refuse(NEXAR_EDEVICE, "there is no OpenCL device; is a driver installed "
                                           "(clinfo lists them)?");
    }
    cl->context = clCreateContext(NULL, 1, &cl->device, NULL, NULL, &code);
    if (cl->context == NULL) {
        return nx_cl_failed("clCreateContext", code);
    }
    cl->queue = clCreateCommandQueue(cl->context, cl->device, 0, &code);
    return (cl->queue == NULL) ? nx_cl_failed("clCreateCommandQueue", code) : NEXAR_OK;
}

static nexar_err given_queue(nexar_opencl *cl, cl_command_queue queue)
{
    cl_command_queue_properties properties = 0;
    cl_int code = clRetainCommandQueue(queue);

    if (code != CL_SUCCESS) {
        return nx_cl_failed("clRetainCommandQueue", code);
    }
    cl->queue = queue;
    code = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &cl->device, NULL);
    if (code == CL_SUCCESS) {
        code = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof(properties), &properties,
                                     NULL);
    }
    if (code == CL_SUCCESS) {
        code =
            clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof(cl_context), &cl->context, NULL);
    }
    if (code == CL_SUCCESS) {
        code = clRetainContext(cl->context);
    }
    if (code != CL_SUCCESS) {
        cl->context = NULL;
        return nx_cl_failed("clGetCommandQueueInfo", code);
    }
    return ((properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0)
               ? NEXAR_OK
               : nx_cl_refuse(NEXAR_EINVAL, "create: the queue is out of order; give one in order");
}

/* ---- life -------------------------------------------------------------------------------- */

static void fill_table(nexar_opencl *cl)
{
    char device[96] = "?";

    (void)clGetDeviceInfo(cl->device, CL_DEVICE_NAME, sizeof(device) - 1, device, NULL);
    (void)snprintf(cl->name, sizeof(cl->name), "opencl (%s)", device);
    cl->table = (nexar_device){.name = cl->name,
                               .to_host = to_host,
                               .to_device = to_device,
                               .synchronize = synchronize,
                               .reduce = (cl->program != NULL) ? nx_cl_reduce : NULL,
                               .gather = gather,
                               .scatter = scatter,
                               .alloc_host = nx_cl_alloc_host,
                               .free_host = nx_cl_free_host,
                               .ctx = cl};
}

nexar_err nexar_opencl_create(cl_command_queue queue, nexar_opencl **out)
{
    nexar_opencl *cl = calloc(1, sizeof(*cl));
    nexar_err err;

    if ((cl == NULL) || (out == NULL)) {
        free(cl);
        return nx_cl_refuse((out == NULL) ? NEXAR_EINVAL : NEXAR_ENOMEM,
                            (out == NULL) ? "create: out is NULL" : "out of memory");
    }
    (void)pthread_mutex_init(&cl->lock, NULL);
    err = (queue == NULL) ? own_queue(cl) : given_queue(cl, queue);
    if (err == NEXAR_OK) {
        err = nx_cl_reduce_init(cl);
    }
    if (err != NEXAR_OK) {
        nexar_opencl_destroy(cl);
        return err;
    }
    fill_table(cl);
    *out = cl;
    return NEXAR_OK;
}

void nexar_opencl_destroy(nexar_opencl *cl)
{
    if (cl == NULL) {
        return;
    }
    nx_cl_memory_fini(cl);
    if (cl->queue != NULL) {
        (void)clFinish(cl->queue);
    }
    nx_cl_reduce_fini(cl);
    if (cl->queue != NULL) {
        (void)clReleaseCommandQueue(cl->queue);
    }
    if (cl->context != NULL) {
        (void)clReleaseContext(cl->context);
    }
    (void)pthread_mutex_destroy(&cl->lock);
    free(cl);
}

const nexar_device *nexar_opencl_device(const nexar_opencl *cl)
{
    return (cl == NULL) ? NULL : &cl->table;
}

cl_command_queue nexar_opencl_queue(const nexar_opencl *cl)
{
    return (cl == NULL) ? NULL : cl->queue;
}

cl_context nexar_opencl_context(const nexar_opencl *cl)
{
    return (cl == NULL) ? NULL : cl->context;
}
