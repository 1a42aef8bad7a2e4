/*
 * reduce.c - reductions as kernels.
 *
 * The host's operand is written to one of a few buffers on the device, in pieces, and a kernel
 * combines it with the device's own. A buffer is reused when the kernel that reads it has
 * completed. The wait list of the next write contains its event, so no thread waits.
 */
#include <stdio.h>

#include "inner.h"

/* ---- the program --------------------------------------------------------------------- */

static nexar_err build_failed(nexar_opencl *cl, cl_int code)
{
    char log[400] = "";

    (void)clGetProgramBuildInfo(cl->program, cl->device, CL_PROGRAM_BUILD_LOG, sizeof(log) - 1, log,
                                NULL);
    return nx_cl_refuse(NEXAR_EDEVICE, "clBuildProgram returned %d: %s", (int)code, log);
}

/* Requires rounding to nearest, infinities and subnormals: without them the bits differ. */
static bool is_exact(cl_device_id device, cl_device_info what)
{
    const cl_device_fp_config need = CL_FP_ROUND_TO_NEAREST | CL_FP_INF_NAN | CL_FP_DENORM;
    cl_device_fp_config has = 0;

    return (clGetDeviceInfo(device, what, sizeof(has), &has, NULL) == CL_SUCCESS) &&
           ((has & need) == need);
}

nexar_err nx_cl_reduce_init(nexar_opencl *cl)
{
    cl_bool compiler = CL_FALSE;
    cl_int code;

    (void)clGetDeviceInfo(cl->device, CL_DEVICE_COMPILER_AVAILABLE, sizeof(compiler), &compiler,
                          NULL);
    if (compiler == CL_FALSE) {
        return NEXAR_OK;
    }
    cl->f32 = is_exact(cl->device, CL_DEVICE_SINGLE_FP_CONFIG);
    cl->f64 = is_exact(cl->device, CL_DEVICE_DOUBLE_FP_CONFIG);
    cl->program = clCreateProgramWithSource(cl->context, nx_cl_source_lines,
                                            (const char **)nx_cl_source, NULL, &code);
    if (cl->program == NULL) {
        return nx_cl_failed("clCreateProgramWithSource", code);
    }
    code = clBuildProgram(cl->program, 1, &cl->device,
                          cl->f64 ? "-cl-std=CL1.2 -DHAVE_F64" : "-cl-std=CL1.2", NULL, NULL);
    return (code == CL_SUCCESS) ? NEXAR_OK : build_failed(cl, code);
}

void nx_cl_reduce_fini(nexar_opencl *cl)
{
    for (unsigned i = 0; i < NX_CL_TEMPS; i++) {
        if (cl->temps[i].busy != NULL) {
            (void)clReleaseEvent(cl->temps[i].busy);
        }
        if (cl->temps[i].mem != NULL) {
            (void)clReleaseMemObject(cl->temps[i].mem);
        }
    }
    for (unsigned d = 0; d < NX_CL_DTYPES; d++) {
        for (unsigned o = 0; o < NX_CL_OPS; o++) {
            if (cl->kernels[d][o] != NULL) {
                (void)clReleaseKernel(cl->kernels[d][o]);
            }
        }
    }
    if (cl->program != NULL) {
        (void)clReleaseProgram(cl->program);
    }
}

static bool is_bitwise(nexar_op op)
{
    return (op == NEXAR_BAND) || (op == NEXAR_BOR) || (op == NEXAR_BXOR);
}

/* Whether there is a kernel with the right bits. */
static bool can_reduce(const nexar_opencl *cl, nexar_dtype dtype, nexar_op op)
{
    if ((unsigned)dtype >= NX_CL_DTYPES || (unsigned)op >= NX_CL_OPS || (op == NEXAR_AVG)) {
        return false;
    }
    if (dtype == NEXAR_F64) {
        return cl->f64 && !is_bitwise(op);
    }
    if ((dtype == NEXAR_F32) || (dtype == NEXAR_F16) || (dtype == NEXAR_BF16)) {
        return cl->f32 && !is_bitwise(op);
    }
    return true;
}

/* ---- one piece, with the lock held --------------------------------------------------------- */

static nexar_err kernel_of(nexar_opencl *cl, nexar_dtype dtype, nexar_op op, cl_kernel *out)
{
    cl_kernel *slot = &cl->kernels[dtype][op];
    char name[32];
    cl_int code;

    if (*slot == NULL) {
        (void)snprintf(name, sizeof(name), "%s_%s", nexar_op_name(op), nexar_dtype_name(dtype));
        *slot = clCreateKernel(cl->program, name, &code);
        if (*slot == NULL) {
            return nx_cl_failed("clCreateKernel", code);
        }
    }
    *out = *slot;
    return NEXAR_OK;
}

static nexar_err temp_of(nexar_opencl *cl, nx_cl_temp **out)
{
    nx_cl_temp *temp = &cl->temps[cl->next_temp];
    cl_int code;

    if (temp->mem == NULL) {
        temp->mem = clCreateBuffer(cl->context, CL_MEM_READ_ONLY, NX_CL_TEMP_BYTES, NULL, &code);
        if (temp->mem == NULL) {
            return nx_cl_failed("clCreateBuffer", code);
        }
    }
    cl->next_temp = (cl->next_temp + 1) % NX_CL_TEMPS;
    *out = temp;
    return NEXAR_OK;
}

typedef struct piece {
    cl_mem dst;
    cl_ulong off; /* elements */
    cl_ulong count;
    const void *host;
    size_t bytes;
    nexar_dtype dtype;
    nexar_op op;
} piece;

static cl_int set_arguments(cl_kernel kernel, const piece *p, const nx_cl_temp *temp)
{
    cl_int code = clSetKernelArg(kernel, 0, sizeof(cl_mem), &p->dst);

    if (code == CL_SUCCESS) {
        code = clSetKernelArg(kernel, 1, sizeof(p->off), &p->off);
    }
    if (code == CL_SUCCESS) {
        code = clSetKernelArg(kernel, 2, sizeof(cl_mem), &temp->mem);
    }
    if (code == CL_SUCCESS) {
        code = clSetKernelArg(kernel, 3, sizeof(p->count), &p->count);
    }
    return code;
}

/* Enqueues the write of the operand and the kernel on |queue|. */
static nexar_err enqueue(cl_command_queue queue, cl_kernel kernel, nx_cl_temp *temp, const piece *p)
{
    const size_t items = p->count;
    cl_event done = NULL;
    cl_int code = clEnqueueWriteBuffer(queue, temp->mem, CL_FALSE, 0, p->bytes, p->host,
                                       (temp->busy != NULL) ? 1 : 0,
                                       (temp->busy != NULL) ? &temp->busy : NULL, NULL);

    if (code != CL_SUCCESS) {
        return nx_cl_failed("clEnqueueWriteBuffer", code);
    }
    code = set_arguments(kernel, p, temp);
    if (code != CL_SUCCESS) {
        return nx_cl_failed("clSetKernelArg", code);
    }
    code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, &done);
    if (code != CL_SUCCESS) {
        return nx_cl_failed("clEnqueueNDRangeKernel", code);
    }
    if (temp->busy != NULL) {
        (void)clReleaseEvent(temp->busy);
    }
    temp->busy = done;
    /* Another queue may wait for it. */
    code = clFlush(queue);
    return (code == CL_SUCCESS) ? NEXAR_OK : nx_cl_failed("clFlush", code);
}

static nexar_err reduce_piece(nexar_opencl *cl, const piece *p, cl_command_queue queue)
{
    cl_kernel kernel = NULL;
    nx_cl_temp *temp = NULL;
    nexar_err err;

    (void)pthread_mutex_lock(&cl->lock);
    err = kernel_of(cl, p->dtype, p->op, &kernel);
    if (err == NEXAR_OK) {
        err = temp_of(cl, &temp);
    }
    if ((err == NEXAR_OK) && (temp != NULL)) {
        err = enqueue(queue, kernel, temp, p);
    }
    (void)pthread_mutex_unlock(&cl->lock);
    return err;
}

nexar_err nx_cl_reduce(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                       nexar_op op, void *stream)
{
    nexar_opencl *cl = ctx;
    const size_t size = nexar_dtype_size(dtype);
    const size_t most = NX_CL_TEMP_BYTES / ((size == 0) ? 1 : size);
    cl_command_queue queue = nx_cl_queue_of(cl, stream);
    size_t off;
    cl_mem mem;
    nexar_err err;

    if ((size == 0) || !can_reduce(cl, dtype, op)) {
        return NEXAR_ENOTSUP;
    }
    err = nx_cl_find(cl, dev, count * size, &mem, &off);
    if ((err == NEXAR_OK) && (off % size != 0)) {
        return NEXAR_ENOTSUP; /* kernels count in elements */
    }
    for (size_t done = 0; (err == NEXAR_OK) && (done < count);) {
        const size_t n = (count - done < most) ? count - done : most;
        const piece p = {.dst = mem,
                         .off = off / size + done,
                         .count = n,
                         .host = (const char *)host + done * size,
                         .bytes = n * size,
                         .dtype = dtype,
                         .op = op};

        err = reduce_piece(cl, &p, queue);
        done += n;
    }
    return err;
}
