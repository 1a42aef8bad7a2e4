/*
 * nexar_cuda.h - nexar on CUDA memory: the component nexar-cuda.
 *
 *     nexar_cuda *cuda;
 *
 *     nexar_cuda_create(0, &cuda);
 *     nexar_comm_set_device(world, nexar_cuda_device(cuda));
 *     nexar_comm_set_stream(world, stream);
 *     nexar_allreduce(world, NEXAR_IN_PLACE, gradients, n, NEXAR_BF16, NEXAR_AVG);
 *
 * Pointers are those of cudaMalloc or cuMemAlloc; the stream is a cudaStream_t or CUstream, and
 * NULL is the default stream. The driver, libcuda.so.1, is loaded when an adapter is created.
 * Building needs no part of CUDA, and programs without an adapter need none to run.
 *
 * Tested with: a fake driver that executes the same calls and interprets the same PTX, and
 * NVIDIA's assembler. It has not yet run on a GPU.
 *
 * Every function may be called from any thread, with any current context, and returns NEXAR_OK,
 * NEXAR_EINVAL, NEXAR_ENOMEM, NEXAR_ENOTSUP (no driver) or NEXAR_EDEVICE; nexar_cuda_last_error()
 * gives the message.
 */
#ifndef NEXAR_CUDA_H
#define NEXAR_CUDA_H

#include <stddef.h>

#include <nexar.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nexar_cuda nexar_cuda;

/* Creates an adapter for device |ordinal| in its primary context, which the CUDA runtime uses. */
NEXAR_API nexar_err nexar_cuda_create(int ordinal, nexar_cuda **out);
/* Call it after freeing the communicators that use the adapter. */
NEXAR_API void nexar_cuda_destroy(nexar_cuda *cuda);

/* For nexar_comm_set_device(); valid until nexar_cuda_destroy(). */
NEXAR_API const nexar_device *nexar_cuda_device(const nexar_cuda *cuda);

/* Allocates device memory of |bytes| > 0, for programs that do not use CUDA otherwise. */
NEXAR_API nexar_err nexar_cuda_alloc(nexar_cuda *cuda, size_t bytes, void **ptr);
NEXAR_API void nexar_cuda_free(nexar_cuda *cuda, void *ptr); /* NULL is allowed */

/* The message of the last failed driver call on any thread, since nexar calls the adapter from
 * its own threads. "" before the first failure; valid until this thread's next call. */
NEXAR_API const char *nexar_cuda_last_error(void);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_CUDA_H */
