/* inner.h - shared by the files of the OpenCL adapter. */
#ifndef NEXAR_OPENCL_INNER_H
#define NEXAR_OPENCL_INNER_H

#include <pthread.h>
#include <stdbool.h>

#include "nexar_opencl.h"

enum {
    NX_CL_DTYPES = NEXAR_U16 + 1,
    NX_CL_OPS = NEXAR_BXOR + 1,
    NX_CL_TEMPS = 4, /* two nexar threads, each with one buffer being filled and one in use */
};
#define NX_CL_TEMP_BYTES ((size_t)1 << 20) /* at least a chunk of nexar's staging */

/* A range of addresses and the buffer that it represents. */
typedef struct nx_cl_range {
    char *base;
    size_t bytes;
    cl_mem mem;
} nx_cl_range;

/* Pinned host memory: a buffer that stays mapped. */
typedef struct nx_cl_pinned {
    void *host;
    cl_mem mem;
} nx_cl_pinned;

/* A device buffer for the host's operand of a reduction. */
typedef struct nx_cl_temp {
    cl_mem mem;
    cl_event busy; /* the kernel that reads it; NULL: none has */
} nx_cl_temp;

/* |lock| guards everything below it, and the arguments of kernels. */
struct nexar_opencl {
    nexar_device table;
    char name[128];
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    cl_program program; /* NULL: the device has no compiler */
    bool f32, f64;      /* whether its arithmetic gives the bits of the library */

    pthread_mutex_t lock;
    nx_cl_range *ranges; /* by base, ascending */
    size_t nranges, ranges_room;
    nx_cl_pinned *pinned;
    size_t npinned, pinned_room;
    cl_kernel kernels[NX_CL_DTYPES][NX_CL_OPS];
    nx_cl_temp temps[NX_CL_TEMPS];
    unsigned next_temp;
};

/* Sets the error message for |code|, returned by |call|; NEXAR_ENOMEM or NEXAR_EDEVICE. */
nexar_err nx_cl_failed(const char *call, cl_int code);
/* Sets an error message of the adapter. */
nexar_err nx_cl_refuse(nexar_err err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline cl_command_queue nx_cl_queue_of(const nexar_opencl *cl, void *stream)
{
    return (stream == NULL) ? cl->queue : (cl_command_queue)stream;
}

/* memory.c: the buffer that holds |bytes| at |ptr|.  NEXAR_EINVAL */
nexar_err nx_cl_find(nexar_opencl *cl, const void *ptr, size_t bytes, cl_mem *mem, size_t *offset);
void *nx_cl_alloc_host(void *ctx, size_t bytes);
void nx_cl_free_host(void *ctx, void *host);
void nx_cl_memory_fini(nexar_opencl *cl);

/* reduce.c */
nexar_err nx_cl_reduce_init(nexar_opencl *cl);
void nx_cl_reduce_fini(nexar_opencl *cl);
nexar_err nx_cl_reduce(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                       nexar_op op, void *stream);

/* The build generates it from kernels.cl. */
extern const char *const nx_cl_source[];
extern const unsigned nx_cl_source_lines;

#endif /* NEXAR_OPENCL_INNER_H */
