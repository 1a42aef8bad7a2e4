/* inner.h - shared by the files of the CUDA adapter. */
#ifndef NEXAR_CUDA_INNER_H
#define NEXAR_CUDA_INNER_H

#include <pthread.h>
#include <stdbool.h>

#include "driver.h"
#include "nexar_cuda.h"

enum {
    NX_CU_DTYPES = NEXAR_U16 + 1,
    NX_CU_OPS = NEXAR_BXOR + 1,
    NX_CU_TEMPS = 4,   /* two nexar threads, each with one buffer being filled and one in use */
    NX_CU_BLOCK = 256, /* threads */
};
#define NX_CU_TEMP_BYTES ((size_t)1 << 20) /* at least a chunk of nexar's staging */

/* A device buffer for the host's operand of a reduction. */
typedef struct nx_cu_temp {
    nx_cu_ptr mem;    /* 0: not made yet */
    nx_cu_event free; /* recorded after the kernel that reads it */
} nx_cu_temp;

/* |lock| guards everything below it. */
struct nexar_cuda {
    nexar_device table;
    char name[128];
    nx_cu_driver driver;
    nx_cu_device device;
    nx_cu_context context;
    nx_cu_module module;

    pthread_mutex_t lock;
    nx_cu_function functions[NX_CU_DTYPES][NX_CU_OPS];
    nx_cu_temp temps[NX_CU_TEMPS];
    unsigned next_temp;
};

/* Sets an error message of the adapter. */
nexar_err nx_cu_refuse(nexar_err err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets the error message for |code|, returned by |call|; NEXAR_OK for 0. */
nexar_err nx_cu_result_of(const nexar_cuda *cuda, const char *call, nx_cu_result code);

/* Between these two calls the adapter's context is current in this thread. */
nexar_err nx_cu_enter(const nexar_cuda *cuda);
/* Returns |err|. */
nexar_err nx_cu_leave(const nexar_cuda *cuda, nexar_err err);

/* reduce.c; with the context current. */
nexar_err nx_cu_reduce_init(nexar_cuda *cuda);
void nx_cu_reduce_fini(nexar_cuda *cuda);
/* The adapter's function. */
nexar_err nx_cu_reduce(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                       nexar_op op, void *stream);

/* ptx.c: the module, in parts that reduce.c concatenates. */
extern const char *const nx_cu_ptx[];
extern const size_t nx_cu_ptx_parts;

#endif /* NEXAR_CUDA_INNER_H */
