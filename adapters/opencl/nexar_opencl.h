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
 * OpenCL has no device pointers before 2.0, and a buffer is a handle.  So each
 * buffer gets a range of addresses that nothing else has: they fault when the CPU
 * touches them, and arithmetic on them is that of pointers.  Shared virtual memory
 * would give pointers too, but not on every device, and not to the buffers that a
 * program already has.
 *
 * The stream of nexar_comm_set_stream is a cl_command_queue, in order, of the same
 * context; without one, the queue that nexar_opencl_create was given.
 *
 * Every function may be called from any thread, and returns NEXAR_OK, NEXAR_EINVAL,
 * NEXAR_ENOMEM or NEXAR_EDEVICE; nexar_opencl_last_error() says more.
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
 * Makes an adapter for the device and context of |queue|, which is in order and is
 * retained until nexar_opencl_destroy().  NULL: a queue of its own, on the first GPU
 * or, where there is none, on the first device.
 */
NEXAR_API nexar_err nexar_opencl_create(cl_command_queue queue, nexar_opencl **out);
/* After the communicators that use it; frees what is still allocated or attached. */
NEXAR_API void nexar_opencl_destroy(nexar_opencl *cl);

/* For nexar_comm_set_device(); valid until nexar_opencl_destroy(). */
NEXAR_API const nexar_device *nexar_opencl_device(const nexar_opencl *cl);
/* The queue and its context; borrowed. */
NEXAR_API cl_command_queue nexar_opencl_queue(const nexar_opencl *cl);
NEXAR_API cl_context nexar_opencl_context(const nexar_opencl *cl);

/* A new buffer of |bytes| > 0, and an address for it. */
NEXAR_API nexar_err nexar_opencl_alloc(nexar_opencl *cl, size_t bytes, void **ptr);
/* An address for a buffer of the program's, which is retained. */
NEXAR_API nexar_err nexar_opencl_attach(nexar_opencl *cl, cl_mem buffer, void **ptr);
/* Gives back an address of either kind, and with it the buffer.  NULL is allowed. */
NEXAR_API void nexar_opencl_free(nexar_opencl *cl, void *ptr);

/* The buffer behind |ptr|, borrowed, and how far into it |ptr| points: for
 * clSetKernelArg and the like.  NEXAR_EINVAL: |ptr| is no address of |cl|. */
NEXAR_API nexar_err nexar_opencl_buffer(nexar_opencl *cl, const void *ptr, cl_mem *buffer,
                                        size_t *offset);

/* One sentence on the last call of OpenCL that failed, on any thread: nexar calls the
 * adapter from threads of its own.  "" before the first; valid until this thread asks
 * again. */
NEXAR_API const char *nexar_opencl_last_error(void);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_OPENCL_H */
