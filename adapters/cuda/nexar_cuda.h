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
 * Pointers are those of cudaMalloc or cuMemAlloc; the stream is a cudaStream_t or
 * CUstream, and none is the default stream.  The driver, libcuda.so.1, is loaded when
 * an adapter is made: nothing of CUDA is needed to build, or to run without one.
 *
 * Tested with: a stand-in driver that runs the same calls and interprets the same PTX,
 * and NVIDIA's assembler.  It has not yet run on a GPU.
 *
 * Every function may be called from any thread, whatever context is current in it, and
 * returns NEXAR_OK, NEXAR_EINVAL, NEXAR_ENOMEM, NEXAR_ENOTSUP (no driver) or
 * NEXAR_EDEVICE; nexar_cuda_last_error() says more.
 */
#ifndef NEXAR_CUDA_H
#define NEXAR_CUDA_H

#include <stddef.h>

#include <nexar.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nexar_cuda nexar_cuda;

/* Makes an adapter for device |ordinal|, in its primary context, which is what the
 * CUDA runtime uses. */
NEXAR_API nexar_err nexar_cuda_create(int ordinal, nexar_cuda **out);
/* After the communicators that use it. */
NEXAR_API void nexar_cuda_destroy(nexar_cuda *cuda);

/* For nexar_comm_set_device(); valid until nexar_cuda_destroy(). */
NEXAR_API const nexar_device *nexar_cuda_device(const nexar_cuda *cuda);

/* For programs that have no other use for CUDA: device memory of |bytes| > 0. */
NEXAR_API nexar_err nexar_cuda_alloc(nexar_cuda *cuda, size_t bytes, void **ptr);
NEXAR_API void nexar_cuda_free(nexar_cuda *cuda, void *ptr); /* NULL is allowed */

/* One sentence on the last call of the driver that failed, on any thread: nexar calls
 * the adapter from threads of its own.  "" before the first; valid until this thread
 * asks again. */
NEXAR_API const char *nexar_cuda_last_error(void);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_CUDA_H */
