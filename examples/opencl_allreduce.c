/*
 * opencl_allreduce.c - sums vectors over all ranks on their OpenCL devices. A kernel fills each
 * vector on the device; no byte of it passes through memory of this program.
 *
 *     cc opencl_allreduce.c $(pkg-config --cflags --libs nexar-opencl) -lOpenCL
 *     nexar run -n 4 ./a.out
 */
#include <stdio.h>
#include <stdlib.h>

#include <nexar_opencl.h>

enum { COUNT = 1000000 };

static const char source[] = "kernel void fill(global float *v, float rank)"
                             "{ size_t i = get_global_id(0); v[i] = (i % 100) + rank; }";

static void check(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "opencl_allreduce: %s: %s; %s\n", what, nexar_last_error(),
                      nexar_opencl_last_error());
        exit(1); // NOLINT(concurrency-mt-unsafe)
    }
}

static void check_cl(cl_int code, const char *what)
{
    if (code != CL_SUCCESS) {
        (void)fprintf(stderr, "opencl_allreduce: %s returned %d\n", what, (int)code);
        exit(1); // NOLINT(concurrency-mt-unsafe)
    }
}

/* Runs the kernel on |buffer|; it need not have finished when this returns. */
static void fill(const nexar_opencl *cl, cl_mem buffer, float rank)
{
    const char *text = source;
    const size_t items = COUNT;
    cl_int code;
    cl_program program = clCreateProgramWithSource(nexar_opencl_context(cl), 1, &text, NULL, &code);
    cl_kernel kernel;

    check_cl(code, "clCreateProgramWithSource");
    check_cl(clBuildProgram(program, 0, NULL, NULL, NULL, NULL), "clBuildProgram");
    kernel = clCreateKernel(program, "fill", &code);
    check_cl(code, "clCreateKernel");
    check_cl(clSetKernelArg(kernel, 0, sizeof(cl_mem), &buffer), "clSetKernelArg");
    check_cl(clSetKernelArg(kernel, 1, sizeof(rank), &rank), "clSetKernelArg");
    check_cl(clEnqueueNDRangeKernel(nexar_opencl_queue(cl), kernel, 1, NULL, &items, NULL, 0, NULL,
                                    NULL),
             "clEnqueueNDRangeKernel");
    (void)clReleaseKernel(kernel);
    (void)clReleaseProgram(program);
}

int main(void)
{
    nexar_opencl *cl;
    nexar_comm *world;
    cl_mem buffer;
    size_t offset;
    void *vector;
    float some[3];
    int rank;

    check(nexar_opencl_create(NULL, &cl), "create");
    check(nexar_init(NULL, &world), "init");
    rank = nexar_rank(world);
    check(nexar_comm_set_device(world, nexar_opencl_device(cl)), "set_device");
    check(nexar_comm_set_stream(world, nexar_opencl_queue(cl)), "set_stream");

    check(nexar_opencl_alloc(cl, COUNT * sizeof(float), &vector), "alloc");
    check(nexar_opencl_buffer(cl, vector, &buffer, &offset), "buffer");
    fill(cl, buffer, (float)rank);
    check(nexar_allreduce(world, NEXAR_IN_PLACE, vector, COUNT, NEXAR_F32, NEXAR_SUM), "allreduce");

    check_cl(clEnqueueReadBuffer(nexar_opencl_queue(cl), buffer, CL_TRUE, 97 * sizeof(float),
                                 sizeof(some), some, 0, NULL, NULL),
             "clEnqueueReadBuffer");
    (void)printf("rank %d of %d: elements 97 to 99 are %g %g %g\n", rank, nexar_size(world),
                 (double)some[0], (double)some[1], (double)some[2]);
    (void)fflush(stdout);
    check(nexar_finalize(world), "finalize");
    nexar_opencl_free(cl, vector);
    nexar_opencl_destroy(cl);
    return 0;
}
