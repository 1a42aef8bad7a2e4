/*
 * nexar_opencl.h - nexar on OpenCL buffers: the component nexar-opencl.
 *
 *     nexar_opencl *cl;
 *     void *ptr;
 *
 *     nexar_opencl_create(queue, &cl);
 *     nexar_comm_set_device(world, nexar_opencl_device(cl));
 *     nexar_opencl_attach(cl, buffer, &ptr);
 *     nexar_allreduce(world, NEXAR_IN_PLACE, ptr, n, NEXAR_F32, NEXAR_SUM);
 *
 * OpenCL has no device pointers before 2.0, and a buffer is a handle. So the adapter assigns each
 * buffer its own range of addresses. A CPU access to them faults; pointer arithmetic on them
 * works. Shared virtual memory would provide pointers, too, but not on every device, and not for
 * existing buffers of a program.
 *
 * The stream of nexar_comm_set_stream is a cl_command_queue, in order, of the same context;
 * without one, the queue passed to nexar_opencl_create.
 *
 * Every function may be called from any thread, and returns NEXAR_OK, NEXAR_EINVAL, NEXAR_ENOMEM
 * or NEXAR_EDEVICE; nexar_opencl_last_error() gives the message.
 */
#ifndef NEXAR_OPENCL_H
#define NEXAR_OPENCL_H

#include <stddef.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

#include <nexar.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct nexar_opencl nexar_opencl;

/*
 * Creates an adapter for the device and context of |queue|, an in-order queue, which is retained
 * until nexar_opencl_destroy(). NULL: a new queue on the first GPU or, without a GPU, on the
 * first device.
 */
NEXAR_API nexar_err nexar_opencl_create(cl_command_queue queue, nexar_opencl **out);
/* Call it after freeing the communicators that use the adapter. Frees memory that is still
 * allocated or attached. */
NEXAR_API void nexar_opencl_destroy(nexar_opencl *cl);

/* For nexar_comm_set_device(); valid until nexar_opencl_destroy(). */
NEXAR_API const nexar_device *nexar_opencl_device(const nexar_opencl *cl);
/* The queue and its context; borrowed. */
NEXAR_API cl_command_queue nexar_opencl_queue(const nexar_opencl *cl);
NEXAR_API cl_context nexar_opencl_context(const nexar_opencl *cl);

/* Allocates a buffer of |bytes| > 0 and an address for it. */
NEXAR_API nexar_err nexar_opencl_alloc(nexar_opencl *cl, size_t bytes, void **ptr);
/* Assigns an address to a buffer of the program, which is retained. */
NEXAR_API nexar_err nexar_opencl_attach(nexar_opencl *cl, cl_mem buffer, void **ptr);
/* Frees an address of either kind and releases its buffer. NULL is allowed. */
NEXAR_API void nexar_opencl_free(nexar_opencl *cl, void *ptr);

/* The buffer at |ptr|, borrowed, and the offset of |ptr| in it, for clSetKernelArg and similar
 * calls. NEXAR_EINVAL: |ptr| is no address of |cl|. */
NEXAR_API nexar_err nexar_opencl_buffer(nexar_opencl *cl, const void *ptr, cl_mem *buffer,
                                        size_t *offset);

/* The message of the last failed OpenCL call on any thread, since nexar calls the adapter from
 * its own threads. "" before the first failure; valid until this thread's next call. */
NEXAR_API const char *nexar_opencl_last_error(void);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_OPENCL_H */
